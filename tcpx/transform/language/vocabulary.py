"""The dims and operands that operations of a class can have, as far as the class says it without a payload."""

import re

from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import Operation, operation_classes
from tcpx.payload.traits.dims import fixed_dims, has_numbered_dims
from tcpx.transform.language.builtins import ALWAYS_ASKED


def may_have(op_class: str, name: str) -> bool:
    """Whether a candidate of a class of the operation tree (empty or `op`: of any) may have this dim or operand."""
    found = _operations(op_class)
    return not found or name in ALWAYS_ASKED or any(_is_free(op, name) or _declares(op, name) for op in found)


def is_declared(name: str) -> bool:
    """Whether some operation there is, in whatever payload, has a dim or operand of this name by its class."""
    return name in ALWAYS_ASKED or any(_declares(op, name) for op in operation_classes().values())


def known_names(op_class: str) -> tuple[str, ...]:
    """The dims and operands that operations of a class have by it; `d0`, `d1` stand for all numbered ones."""
    names: dict[str, None] = {}
    for op in _operations(op_class):
        if issubclass(op, Tileable):
            names.update(dict.fromkeys((*fixed_dims(op), *(("d0", "d1") if has_numbered_dims(op) else ()))))
    for op in _operations(op_class):
        names.update(dict.fromkeys(_operands(op)))
    return tuple(names)


def operands_of(op_class: str) -> tuple[int | None, tuple[str, ...]]:
    """How many operands an operation is written with, and the names of all that one of a class may have; no number
    where it is for each operation to say."""
    found = _operations(op_class)
    numbers = {None if _says_itself(op) else len(op.signature.operand_names) for op in found}
    names = dict.fromkeys(name for op in found for name in _operands(op))
    is_known = len(numbers) == 1 and None not in numbers
    return (next(iter(numbers)) if is_known else None), tuple(names) if None not in numbers else ()


def _says_itself(op: type[Operation]) -> bool:
    return op.signature.variadic or op.operand_roles is not Operation.operand_roles


def _operations(op_class: str) -> list[type[Operation]]:
    known = operation_classes()
    if op_class in ("", "op"):
        return list(known.values())
    return [
        op
        for opcode, op in known.items()
        if opcode.rpartition(".")[2] == op_class or any(c.__dict__.get("class_name") == op_class for c in op.__mro__)
    ]


def _is_free(op: type[Operation], name: str) -> bool:
    """Whether the payload may give a dim this name; a name of operands of others is none where dims have numbers."""
    if not issubclass(op, Tileable) or fixed_dims(op):
        return False
    return not (has_numbered_dims(op) and any(name in _operands(other) for other in operation_classes().values()))


def _declares(op: type[Operation], name: str) -> bool:
    if name in _operands(op):
        return True
    if not issubclass(op, Tileable):
        return False
    return name in fixed_dims(op) or (has_numbered_dims(op) and re.fullmatch("d[0-9]+", name) is not None)


def _operands(op: type[Operation]) -> tuple[str, ...]:
    return (
        *op.signature.operand_names,
        *op.signature.named_operands,
        *((op.signature.optional_operand,) if op.signature.optional_operand else ()),
    )
