"""Several operations that compute alike, as one on operands that follow one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from tcpx.payload.contexts import are_equal_at, context_at
from tcpx.payload.indexing_maps import IndexingMap, map_dim, map_symbols, map_text
from tcpx.payload.interfaces import Box, IteratorKind, Structured
from tcpx.payload.ir import DIM_NAMES, Operation, Value
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Dim
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.ragged import is_irregular
from tcpx.payload.traits.scan import Scan
from tcpx.payload.types import TensorType, dtype_of, shape_of
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.convex import gathered
from tcpx.transform.editing import erase_dead, source_name
from tcpx.transform.elementwise import fills, is_pointwise, repeats
from tcpx.transform.matching import difference


def merge(ctx: TransformContext, targets: Sequence[Operation], along: str, readers: bool = False) -> Operation:
    """One operation that computes the results of `targets` one behind another along the dim `along` of the first. With
    `readers`, so does one for the elementwise operations that alone read them, as long as these compute alike; that is
    returned. Raises ScheduleError where the targets do not compute alike, or one needs another."""
    ops = [_checked(ctx, op) for op in dict.fromkeys(targets)]
    first = ops[0]
    if len(ops) < 2:
        raise ctx.fail("there is nothing to merge", op=first, required="two operations or more", found=f"%{first.name}")
    names = [map_dim(entry) for entry in first.result_map()]
    if along not in names or first.iterator(along).kind is not IteratorKind.PARALLEL:
        raise ctx.fail(
            f"the results of %{first.name} cannot follow one another along `{along}`",
            op=first,
            required="a dim of its result: " + (", ".join(name for name in names if name) or "it has none"),
            found=along,
        )
    place = names.index(along)
    for op in ops[1:]:
        reason = _different(first, op, place) if op.parent is first.parent else f"%{op.name} in another block"
        if reason is not None:
            raise ctx.fail(
                f"%{op.name} and %{first.name} cannot be one operation",
                op=op,
                required=f"the same computation, of operands that are the same or follow one another along `{along}`",
                found=reason,
            )
    between = gathered(ctx, ops)
    other = next((op for op in between if op not in ops), _needing(ops))
    if other is not None:
        leads = "needs another of the operations" if other in ops else "leads from one of the operations to another"
        raise ctx.fail(
            f"%{other.name} {leads}",
            op=other,
            required="operations that do not need one another",
            found=", ".join(f"%{op.name}" for op in ops),
        )
    made, parts = _Merger(ctx, between[0]).merged(ops, place)
    while readers and (ops := _readers(parts, place)):
        between = gathered(ctx, ops)
        if len(between) > len(ops) or _needing(ops) is not None:
            break
        made, parts = _Merger(ctx, between[0]).merged(ops, place)
    return made


def _needing(ops: Sequence[Operation]) -> Operation | None:
    """One of the operations that reads another of them."""
    return next((op for op in ops if any(value.defining_op in ops for value in op.operands)), None)


def _readers(parts: Sequence[Operation], place: int) -> list[Structured]:
    """The elementwise operations that alone read results that were merged, where they compute alike."""
    users = [list(dict.fromkeys(part.result.users)) for part in parts]
    found = [mine[0] for mine in users if len(mine) == 1 and is_pointwise(mine[0]) and _mergeable(mine[0])]
    if len({op.parent for op in found}) != 1 or len({*found}) != len(parts):
        return []
    if any(_different(found[0], op, place) is not None for op in found[1:]):
        return []
    return found if all(map_dim(op.result_map()[place]) is not None for op in found) else []


def _mergeable(op: Operation) -> TypeGuard[Structured]:
    """Whether an operation may become a part of another."""
    return (
        isinstance(op, Structured)
        and len(op.results) == 1
        and isinstance(op.result.type, TensorType)
        and not (
            is_irregular(op)
            or Scan.of(op) is not None
            or Masked(op).valid
            or positions_read(op)
            or Indices(op).operands
        )
    )


def _checked(ctx: TransformContext, op: Operation) -> Structured:
    if not _mergeable(op):
        raise ctx.fail(
            f"%{op.name} cannot be a part of another operation",
            op=op,
            required="a structured operation on tensors with one result, whose body asks for no positions",
            found=op.opcode,
        )
    return op


def _maps(op: Structured) -> list[IndexingMap]:
    """How each operand is indexed."""
    return [*op.maps(), *(op.result_map() for _ in op.inits)]


def _different(first: Structured, op: Structured, place: int) -> str | None:
    """Why an operation does not compute what the first does, but for its extent along a dim of the result; None if it
    does."""
    reason = difference(op, first)
    if reason is not None:
        return reason
    name = map_dim(first.result_map()[place]) or ""
    pairs = [(*pair, _maps(first)[k]) for k, pair in enumerate(zip(first.operands, op.operands, strict=True))]
    for a, b, indexing_map in [*pairs, (first.result, op.result, first.result_map())]:
        lies = [map_dim(entry) == name for entry in indexing_map]
        if sum(name in map_symbols(entry) for entry in indexing_map) != sum(lies) or sum(lies) > 1:
            return f"%{a.name} by {map_text(indexing_map)}"
        if dtype_of(a.type) != dtype_of(b.type):
            return f"%{b.name}: {b.type}"
        for here, there, is_along in zip(shape_of(a.type), shape_of(b.type), lies, strict=True):
            if not is_along and not are_equal_at(op, here, there):
                return f"%{b.name}: {b.type}"
        if not any(lies) and a is not b:
            return f"%{a.name} and %{b.name}, which do not lie along `{name}`"
    return None


class _Merger:
    """Builds what is to follow one another, before an operation."""

    def __init__(self, ctx: TransformContext, before: Operation) -> None:
        self.ctx, self.rewriter, self.before = ctx, ctx.rewriter, before

    def merged(self, ops: Sequence[Structured], place: int) -> tuple[Operation, list[Operation]]:
        """The operation, and the parts of its result that those of `ops` are."""
        first = ops[0]
        made = self._insert(self._one(ops, place), first, source_name(first))
        offset: Dim = 0
        parts: list[Operation] = []
        for op in ops:
            shape = shape_of(op.result.type)
            part = new.slice_(made.result, [offset if k == place else 0 for k in range(len(shape))], shape)
            parts.append(self._insert(part, op, f"{source_name(op)}.part"))
            self.rewriter.replace_uses(op.result, part.result)
            offset = offset + shape[place]
        origins = tuple(dict.fromkeys(origin for op in ops for origin in op.origins))
        self.rewriter.set_origins(made, origins, first.copy_path)
        read = list(dict.fromkeys(value for op in ops for value in op.operands))
        name = first.name
        for op in ops:
            self.rewriter.set_origins(op, ())
            self.rewriter.erase(op)
        self.rewriter.rename(made, name)
        erase_dead(self.rewriter, read)
        return made, parts

    def _insert(self, op: Operation, old: Operation, base: str) -> Operation:
        op.stand_for(old)
        return self.rewriter.insert(op, InsertPoint.before(self.before), base)

    def _one(self, ops: Sequence[Structured], place: int) -> Operation:
        """What computes the results of all, detached."""
        first = ops[0]
        name = map_dim(first.result_map()[place])
        operands: list[Value] = []
        for k, indexing_map in enumerate(_maps(first)):
            at = [map_dim(entry) for entry in indexing_map]
            values = [op.operands[k] for op in ops]
            operands.append(self._joined(values, at.index(name), first) if name in at else values[0])
        sizes = [it.name == name for it in first.iterators()]
        whole = sum((shape_of(op.result.type)[place] for op in ops[1:]), start=shape_of(first.result.type)[place])
        extents = [whole if found else extent for found, extent in zip(sizes, first.domain(), strict=True)]
        made = first.on_box(operands, Box.at_origin(extents))
        names = first.attributes.get(DIM_NAMES)
        if names is not None:
            made.attributes[DIM_NAMES] = names
        return made

    def _joined(self, values: Sequence[Value], dim: int, old: Structured) -> Value:
        """The values one behind another along a dim: what they are parts of, an operation that repeats them or fills
        with them all, or a concat."""
        whole = _whole_of(values, dim)
        if whole is not None:
            return whole
        made = [value.defining_op for value in values]
        moved = [op for op in made if isinstance(op, Structured) and (repeats(op) or fills(op))]
        if len(moved) == len(values) and all(_different(moved[0], op, dim) is None for op in moved[1:]):
            return self._insert(self._one(moved, dim), moved[0], source_name(moved[0])).results[0]
        shape = list(shape_of(values[0].type))
        shape[dim] = sum((shape_of(value.type)[dim] for value in values[1:]), start=shape[dim])
        place = old.operands.index(values[0]) if values[0] in old.operands else 0
        role = (*old.operand_roles, "init")[place]
        return self._insert(new.concat(values, dim, shape), old, f"{source_name(old)}.{role}").results[0]


def _whole_of(values: Sequence[Value], dim: int) -> Value | None:
    """What the values are all parts of, one behind another; None if there is no such value."""
    source, end = None, 0
    for value in values:
        shape, pieces = shape_of(value.type), new.pieces_of_all(value.defining_op)
        if value.defining_op is None or pieces is None or len(pieces) != 1:
            return None
        piece = pieces[0]
        read = value.defining_op.operands[piece.operand]
        source = source or read
        wanted = Tile(tuple(end if k == dim else 0 for k in range(len(shape))), shape)
        if (
            source is not read
            or piece.tile != wanted
            or piece.permutes
            or not piece.fills(shape, context_at(value.defining_op).names)
        ):
            return None
        end = end + shape[dim]
    at = values[0].defining_op
    is_all = source is not None and at is not None and are_equal_at(at, end, shape_of(source.type)[dim])
    return source if is_all else None
