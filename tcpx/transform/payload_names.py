"""What the payload calls the values that messages speak of: nobody wrote the names that transforms give to values."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tcpx.payload.diagnostics import Diagnostic, Direction
from tcpx.payload.ir import Block, Operation, Value, defined_by
from tcpx.payload.lookup import source_name as name_in_source
from tcpx.payload.ops.gml_st import Conditional, Loop, OnSubset
from tcpx.payload.ops.views import View
from tcpx.payload.types import TensorType, VectorType
from tcpx.payload.value_names import VALUE_NAME

_NAME: Final = re.compile(rf"%({VALUE_NAME.pattern}(?<!\.))")


def payload_name(value: Value, written: Collection[str] = ()) -> str:
    """What the payload calls the operation that computes a value, through loops, branches and subsets, or an argument;
    `written` are the names of the payload, at which it ends."""
    value = _followed(value, written)[0]
    if value.name in written:
        return value.name
    op = value.defining_op
    return (name_in_source(op) or op.opcode.split(".")[-1]) if op is not None and len(op.results) == 1 else value.name


def in_names_of_payload(diagnostic: Diagnostic, written: Collection[str], targets: Sequence[Operation]) -> Diagnostic:
    """The same failure, with the names of the payload, which are `written`, for the values that transforms made: `%mm`
    for the destination `%mm.9` of a loop, `a tile of %x` for `%x.t`. Values are looked for in and around `targets`."""
    texts = (diagnostic.message, diagnostic.required, diagnostic.found, diagnostic.fix, *diagnostic.notes)
    named = {name for text in texts if text for name in _NAME.findall(text)}.difference(written)
    if not named:
        return diagnostic
    known = _of_values(named, written, targets)
    message, required, found, fix, *notes = (_with(known, text) for text in texts)
    return replace(
        diagnostic, message=message or "", required=required, found=found, fix=fix, notes=tuple(n or "" for n in notes)
    )


def _of_values(names: Collection[str], written: Collection[str], targets: Sequence[Operation]) -> dict[str, str]:
    """What to say for the values that have these names, nearest first."""
    found: dict[str, str] = {}
    for value in _outward(targets):
        if value.name in names and value.name not in found:
            name, is_tile = payload_name(value, written), _followed(value, written)[1]
            found[value.name] = f"a tile of %{name}" if is_tile else f"%{name}"
            if len(found) == len(names):
                break
    return found


def _outward(targets: Sequence[Operation]) -> Iterator[Value]:
    """The values in operations, beside them, and around them, but not what is inside of others: a step that fails must
    not take longer in a longer payload."""
    passed: set[Block] = set()
    for target in targets:
        for op in target.walk():
            yield from defined_by(op)
            yield from op.operands
        for op in (target, *target.ancestors()):
            yield from defined_by(op)
            if op.parent is not None and op.parent not in passed:
                passed.add(op.parent)
                for beside in op.parent.ops:
                    yield from defined_by(beside)


def _with(known: dict[str, str], text: str | None) -> str | None:
    """A text with other names; as it is where two of its values would have one name."""
    if text is None:
        return None
    said = {name: known.get(name, f"%{name}") for name in _NAME.findall(text)}
    if len(set(said.values())) < len(said):
        return text
    made = _NAME.sub(lambda match: said[match[1]], text).replace("tile of a tile of", "tile of")
    return Direction(made) if isinstance(text, Direction) else made


def _followed(value: Value, written: Collection[str]) -> tuple[Value, bool]:
    """What a value is made of without a computation, and whether it is a part of that."""
    passed: set[Value] = set()
    is_part = False
    while value not in passed and value.name not in written:
        passed.add(value)
        op = value.defining_op
        is_part |= isinstance(op, OnSubset)
        value = op.operands[0] if isinstance(op, View) and len(op.operands) == 1 and written else _computed_as(value)
    return value, is_part


def _computed_as(value: Value) -> Value:
    """The value inside a loop or branch that becomes this one, or what it is a subset of; itself if it is none."""
    op = value.defining_op
    loop = value.owner.parent if isinstance(value.owner, Block) else None
    match op:
        case None:
            return loop.results[loop.destinations.index(value)] if isinstance(loop, Loop) else value
        case Loop():
            ends = op.yields_to(op.results.index(value))
            return ends[-1].value if ends else value
        case Conditional():
            end = op.orelse.terminator
            return end.operands[op.results.index(value)] if end is not None else value
        case OnSubset():
            return op.subset_of
        case _:
            return op.operands[0] if _is_stored_register(op) else value


def _is_stored_register(op: Operation) -> bool:
    """Whether the result is a tensor of what the one operand has in registers."""
    types = [v.type for v in (*op.operands, *op.results)]
    return len(types) == 2 and isinstance(types[0], VectorType) and isinstance(types[1], TensorType)
