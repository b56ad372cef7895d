"""The payload of a model as a person would write it: without what nothing reads, with operands in place."""

from __future__ import annotations

from collections.abc import Collection

from tcpx.payload.builder import Builder
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import FuncOp, Operation, Value
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.movement import Broadcast, Fill
from tcpx.payload.short_operands import short_name


def rename(builder: Builder, value: Value, name: str, node: str, made: Collection[Operation]) -> None:
    """Give a result the name of an output, and its operation that of the node."""
    value.name = builder.fresh_name(name)
    op = value.defining_op
    if op is None:
        return
    op.name = node or value.name
    in_place(builder, op, made)


def in_place(builder: Builder, op: Operation, made: Collection[Operation]) -> None:
    """Give what repeats a number or a value for an operation alone the name by which it is printed in place."""
    if not op.results or not isinstance(op, Elementwise):
        return
    for index, operand in enumerate(op.operands):
        known = operand.defining_op
        if isinstance(known, Broadcast | Fill) and known in made and len(operand.uses) == 1:
            operand.name = known.name = builder.fresh_name(short_name(op.results[0].name, type(op), index))


def without_unread(func: FuncOp) -> None:
    """Take operations out whose results nothing reads, and constants that no operation refers to."""
    body = func.body
    for op in reversed(list(body.ops)):
        if not op.results or op.is_terminator or op.has_side_effects or any(result.uses for result in op.results):
            continue
        body.remove(op)
        for inner in op.walk():
            for index, operand in enumerate(inner.operands):
                operand.uses.remove((inner, index))
    if func.module is not None:
        read = {op.stored_array for op in func.module.walk() if isinstance(op, Const)}
        for name in [name for name in func.module.constants if name not in read]:
            func.module.constants.remove(name)
