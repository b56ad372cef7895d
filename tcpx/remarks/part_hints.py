"""Fixes of what computes elements that no result needs: the part that is read, computed of parts of the operands."""

from collections.abc import Iterator

from tcpx.payload.indexing_maps import map_dims
from tcpx.payload.interfaces import IteratorKind, Structured
from tcpx.payload.ir import Operation, Value, written_at
from tcpx.payload.ops.composite import Composite
from tcpx.payload.ops.indexing import Gather
from tcpx.payload.ops.movement import Broadcast, Fill, Transpose
from tcpx.payload.ops.views import Slice
from tcpx.payload.sizes import Dim, is_equal
from tcpx.payload.traits.dims import by_dims
from tcpx.payload.types import Type, dtype_of, like, shape_of
from tcpx.records import frozen
from tcpx.remarks.hints import ROUNDS, Hint, PayloadEdit, lines_named, lines_of, operand_texts, statement
from tcpx.remarks.request import PayloadWork
from tcpx.transform.vectors.probes import discard


@frozen
class Choice:
    """Some elements along a dim: `size` from `first` on, each `step`-th, or those that a gather selects."""

    size: Dim
    first: Dim = 0
    step: int = 1
    gather: Gather | None = None


Chosen = tuple[Choice | None, ...]
"""What is chosen along each dim of a value; None where that is all."""


def of_parts(op: Operation, payload: PayloadWork) -> Iterator[Hint]:
    """What reads parts of what an operation computes, or of what is computed of that, as operations on parts."""
    seen, pending = {op}, [op]
    for each in pending:
        for reader in (user for value in each.results for user in value.users if user not in seen):
            seen.add(reader)
            if _is_read_in_parts(reader, payload):
                pending.append(reader)
            elif (chosen := _chosen_by(reader)) is not None:
                hint = _in_parts(reader, chosen, payload)
                yield from (hint,) if hint is not None else ()


def _is_read_in_parts(op: Operation, payload: PayloadWork) -> bool:
    """Whether a part of what an operation gives may be all that is needed: a transpose computes nothing, and counts for
    nothing."""
    return written_at(op) in payload.unread or isinstance(op, Transpose)


def _chosen_by(reader: Operation) -> Chosen | None:
    """What an operation reads of its first operand, in the order in which it is there; None if that is not known."""
    if isinstance(reader, Gather) and reader.is_movement and len(shape_of(reader.indices.type)) == 1:
        rank, (count,) = len(shape_of(reader.table.type)), shape_of(reader.indices.type)
        return tuple(Choice(count, gather=reader) if k == reader.dim else None for k in range(rank))
    if not isinstance(reader, Slice):
        return None
    shown, shape = reader.shown, shape_of(reader.operand.type)
    parts = zip(shape, shown.sizes, shown.offsets, reader.strides or (1,) * len(shape), strict=True)
    return tuple(None if is_equal(n, size) is True else Choice(size, first, step) for n, size, first, step in parts)


def _in_parts(reader: Operation, chosen: Chosen, payload: PayloadWork) -> Hint | None:
    """The statements of a reader and of what only it needs, on parts; None where that is nothing."""
    gone, result = list(_only_for(reader, payload)), reader.results[0]
    if not gone:
        return None
    parts = _Parts(payload, result.name)
    parts.of(reader.operands[0], chosen, result.name)
    lines = {line for each in gone for line in lines_of(each.location)}
    without = f", without {lines_named(lines)}" if lines else ""
    text = "\n".join((f"in place of this statement of the payload write{without}:", *parts.lines))
    edit = PayloadEdit((reader, *gone), reader, tuple(parts.lines))
    return Hint(text, notes=(ROUNDS,) if dtype_of(result.type).is_float else (), payload=edit)


def _only_for(reader: Operation, payload: PayloadWork) -> Iterator[Operation]:
    """The statements that nothing but one operation needs, of those of which it reads a part."""
    gone = {reader}
    before = reader.parent.ops[: reader.parent.ops.index(reader)] if reader.parent is not None else ()
    for op in reversed(before):
        if _is_read_in_parts(op, payload) and gone.issuperset(u for value in op.results for u in value.users):
            gone.add(op)
            if not isinstance(op, Broadcast | Fill):  # may be written in the statement of its user
                yield op


class _Parts:
    """Statements that compute parts of values."""

    def __init__(self, payload: PayloadWork, name: str) -> None:
        self.payload, self.name, self.lines = payload, name, list[str]()
        self._known: dict[tuple[Value, Chosen], str] = {}

    def of(self, value: Value, chosen: Chosen, name: str = "") -> str:
        """The text of a part of a value, after the statements that compute it."""
        if not any(chosen):
            return f"%{value.name}"
        if (value, chosen) not in self._known:
            op = value.defining_op
            is_partial = op is not None and _is_read_in_parts(op, self.payload)
            operands = self._operands(op, chosen) if op is not None and is_partial else None
            made = name or f"{self.name}.{value.name}"
            self.lines.append(
                _taken(made, value, chosen)
                if op is None or operands is None
                else statement(made, op, operands, _type(value, chosen))
            )
            self._known[value, chosen] = f"%{made}"
        return self._known[value, chosen]

    def _operands(self, op: Operation, chosen: Chosen) -> list[str] | None:
        """The operands of an operation on a part of its iterations; None where it computes no such part, or all of it
        is needed."""
        if not isinstance(op, Structured | Composite) or op.regions or len(op.results) != 1:
            return None
        maps, out = [map_dims(each) for each in op.maps()], map_dims(op.result_map())
        if out is None or None in maps or len(maps) != len(op.operands) or op.attributes.keys() & {*by_dims(op)}:
            return None
        along = {name: choice for name, choice in zip(out, chosen, strict=True) if choice is not None}
        parallel = {it.name for it in op.iterators() if it.kind is IteratorKind.PARALLEL}
        if not parallel.issuperset(along):
            return None
        texts = operand_texts(op)
        for k, (value, dims) in enumerate(zip(op.operands, maps, strict=True)):
            if not isinstance(value.defining_op, Fill):
                texts[k] = self.of(value, tuple(along.get(name) for name in dims or ()))
        return list(texts.values())


def _type(value: Value, chosen: Chosen) -> Type:
    shape = tuple(n if choice is None else choice.size for n, choice in zip(shape_of(value.type), chosen, strict=True))
    return like(value.type, shape, dtype_of(value.type))


def _taken(name: str, value: Value, chosen: Chosen) -> str:
    """The statement that takes a part of a value."""
    type_, along = _type(value, chosen), [choice if choice is not None else Choice(0) for choice in chosen]
    gathers = [(k, choice.gather) for k, choice in enumerate(along) if choice.gather is not None]
    if gathers:
        ((k, gather),) = gathers
        made: Operation = Gather([value, gather.indices], [type_], {**gather.attributes, "dim": k})
    else:
        firsts, steps = [choice.first for choice in along], [choice.step for choice in along]
        made = Slice.of(value, firsts, shape_of(type_), steps if any(step != 1 for step in steps) else ())
    text = statement(name, made, operand_texts(made).values(), type_)
    discard(made)
    return text
