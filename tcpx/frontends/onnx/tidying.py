"""The payload of a model as a person would write it: without what nothing reads, with operands in place."""

from __future__ import annotations

from collections.abc import Collection

from tcpx.payload.builder import Builder
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Block, FuncOp, Operation, Value
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.gml_st import Conditional, Loop
from tcpx.payload.ops.movement import Broadcast, Fill
from tcpx.payload.short_operands import short_name
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.memory import Memory


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
    _without_unread(func.body)
    if func.module is not None:
        read = {Constant(op).stored_array for op in func.module.walk() if isinstance(op, Const)}
        for name in [name for name in func.module.constants if name not in read]:
            func.module.constants.remove(name)


def _without_unread(block: Block) -> None:
    for op in reversed(list(block.ops)):
        if (
            not op.results
            or op.is_terminator
            or Memory(op).has_side_effects
            or any(result.uses for result in op.results)
        ):
            for inner in op.regions if isinstance(op, Loop | Conditional) else ():
                _without_unread(inner)
            continue
        block.remove(op)
        _forget(op)


def discard(block: Block) -> None:
    """Give up what was written to a block that goes nowhere."""
    for op in block.ops:
        _forget(op)


def _forget(op: Operation) -> None:
    for inner in op.walk():
        for index, operand in enumerate(inner.operands):
            operand.uses.remove((inner, index))


def shared_first(func: FuncOp) -> None:
    """Put what several operations read, and is computed of arguments alone, before the others: the first one of layers
    that share a mask is then as the others are."""
    of_arguments, wanted = set[Operation](), set[Operation]()
    for op in func.body.ops:
        made = [value.defining_op for value in op.operands]
        if op.results and not op.regions and not isinstance(op, Const) and of_arguments.issuperset(filter(None, made)):
            of_arguments.add(op)
            if len({user for result in op.results for user in result.users}) > 1:
                wanted.add(op)
    for op in reversed(func.body.ops):
        if op in wanted:
            wanted.update(value.defining_op for value in op.operands if value.defining_op is not None)
    first = sum(1 for op in func.body.ops if not op.results and not op.is_terminator)
    for place, op in enumerate([op for op in func.body.ops if op in wanted], first):
        func.body.remove(op)
        func.body.insert(place, op)
