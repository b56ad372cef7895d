"""A loop as two, one after the other: what an operation in it needs and computes, and the rest."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import product

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.disjointness import are_apart
from tcpx.payload.distances import distance
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, CloneMap, Operation, Value, is_in
from tcpx.payload.ops.gml_st import Loop, Materialize, StYield, trip_count
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Dim, Size, Var, floordiv, maximum, to_text, variables
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import TensorType, Type, shape_of, with_shape
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.editing import is_pure
from tcpx.transform.invariants import needed


@frozen
class _Slot:
    """A tensor with a slot for the value of each iteration; shorter values leave the end of their slot as it is."""

    type: Type
    step: int

    def tile(self, value: Value, var: Var) -> Tile:
        """The part of the slot of an iteration that its value is."""
        shape = shape_of(value.type)
        index = floordiv(Size.of(var) - var.lower, self.step)
        return Tile((index, *(0 for _ in shape)), (1, *shape), dropped=(0,))


def fission(ctx: TransformContext, loop: Loop, last: Operation) -> tuple[Loop, Loop]:
    """Let a loop compute `last` of the body, with what it needs, and a loop behind it the rest. Returns both.

    What the second reads of the first lies in memory: where it is yielded to, or in a tensor with a slot for each
    iteration.
    """
    rewriter, old = ctx.rewriter, loop.var
    early = _first_part(ctx, loop, last)
    late = [op for op in loop.body.ops if op not in early]
    written, kept = _destinations_of(ctx, loop, early, last)
    handed = [v for op in early for v in op.results if any(is_in(u, each) for u in v.users for each in late)]
    computed = _behind_moves(handed, loop)
    stores = {value: store for value in computed if (store := _store_of(value, loop, early)) is not None}
    slots = {value: _slot(ctx, loop, value) for value in computed if value not in stores}
    buffers = [
        rewriter.insert(new.empty(slot.type), InsertPoint.before(loop), f"{value.name.split('.')[0]}.out").result
        for value, slot in slots.items()
    ]
    stem = re.sub(r"(.*)[1-9][0-9]*", r"\1", old.name.split("~")[0])
    var = Var(rewriter.ordinal_name(loop, stem), old.lower, old.upper, old.step)
    first = _empty_loop(ctx, loop, old, [*(loop.operands[k] for k in written), *buffers])
    # A destination that both write goes through both.
    begun = dict(zip(written, first.results, strict=False))
    second = _empty_loop(ctx, loop, var, [begun.get(k, loop.operands[k]) for k in kept])
    for op in list(loop.body.ops):
        body = first.body if op in early else second.body
        rewriter.move(op, InsertPoint(body, len(body.ops)))
    for k, dest in enumerate(loop.destinations):
        # What a part reads and does not write is there before the first loop, or after it.
        in_first = first.destinations[written.index(k)] if k in written else loop.operands[k]
        in_second = second.destinations[kept.index(k)] if k in kept else begun.get(k, loop.operands[k])
        rewriter.replace_uses(dest, in_first, lambda user: is_in(user, first))
        rewriter.replace_uses(dest, in_second, lambda user: is_in(user, second))
    places = {value: (first.results[first.destinations.index(s.destination)], s.subset) for value, s in stores.items()}
    for (value, slot), k in zip(slots.items(), range(len(written), len(first.results)), strict=True):
        tile = slot.tile(value, old)
        rewriter.insert(StYield.of(value, first.destinations[k], tile), InsertPoint(first.body, len(first.body.ops)))
        places[value] = first.results[k], tile
    rewriter.substitute(list(second.body.ops), {old: Size.of(var)})
    copies = CloneMap(sizes={old: Size.of(var)})
    for value in handed:
        given = _given(ctx, value, first, second, places, copies)
        rewriter.replace_uses(value, given, lambda user: is_in(user, second))
    ends = begun | dict(zip(kept, second.results, strict=True))
    rewriter.continue_as(loop, second)
    rewriter.replace_op(loop, [ends.get(k, start) for k, start in enumerate(loop.operands)])
    return first, second


def _first_part(ctx: TransformContext, loop: Loop, last: Operation) -> Collection[Operation]:
    """What of the body `last` is and needs, and the yields of what that makes."""
    if not is_pure(loop):
        raise ctx.fail(
            f"{loop.name} writes to memory",
            op=loop,
            required="a loop whose results are all that it does",
            found="a loop on buffers",
            fix=Direction("`fission` before `bufferize`"),
        )
    inside = next((op for op in (last, *last.ancestors()) if op.parent is loop.body), None)
    if inside is None:
        raise ctx.fail(
            f"%{last.name} is not in {loop.name}",
            op=last,
            required=f"an operation in {loop.name}",
            found=f"%{last.name}",
        )
    found = dict.fromkeys(needed(inside, loop))
    stores = [op for op in loop.body.ops if isinstance(op, StYield) and op.value.defining_op in found]
    return found | dict.fromkeys(stores)


def _destinations_of(
    ctx: TransformContext, loop: Loop, early: Collection[Operation], last: Operation
) -> tuple[Sequence[int], Sequence[int]]:
    """The destinations that the first part writes, and those of the second. A part that only reads one that the other
    writes has it as a value. No iteration of the first part comes after one of the second that it depends on."""
    first, second = list[int](), list[int]()
    for k, dest in enumerate(loop.destinations):
        stores = loop.yields_to(k)
        in_first, in_second = ([u for u in dest.uses if _is_in_part(u[0], early) is part] for part in (True, False))
        for use, other in product(in_first, in_second):
            if not {use[0], other[0]}.isdisjoint(stores) and _would_overtake(loop, use, other):
                raise ctx.fail(
                    f"%{dest.name} is used before and behind %{last.name}",
                    op=loop,
                    required="destinations that one part of the body alone reads and writes, or of which the first part"
                    " needs nothing that the second wrote in an iteration before",
                    found=f"{counted(len(dest.uses), 'use')} of %{dest.name}",
                )
        first += [k] if any(op in stores for op, _ in in_first) else []
        second += [k] if any(op in stores for op, _ in in_second) or not in_first else []
    if not second:
        raise ctx.fail(
            f"nothing is left of {loop.name} behind %{last.name}",
            op=last,
            required="an operation behind which the loop writes something",
            found="all that it writes is written before",
        )
    return first, second


def _is_in_part(op: Operation, part: Collection[Operation]) -> bool:
    return any(is_in(op, each) for each in part)


def _would_overtake(loop: Loop, use: tuple[Operation, int], other: tuple[Operation, int]) -> bool:
    """Whether a use of a destination may come after another one that accesses the same elements: in a later iteration,
    or behind it in one."""
    tiles = [op.subset if isinstance(op, StYield) else Memory(op).part_read(index) for op, index in (other, use)]
    if tiles[0] is None or tiles[1] is None:
        return True
    places = [next(a for a in (op, *op.ancestors()) if a.parent is loop.body).order for op, _ in (other, use)]
    return distance(loop, tiles[0], tiles[1]).may_be(0 if places[0] < places[1] else 1, None)


def _only_moves(op: Operation, loop: Loop) -> bool:
    """Whether an operation is done again in the second loop, as it computes nothing."""
    if isinstance(op, Materialize):
        return op.source not in loop.destinations
    return Memory(op).leaves_undefined or (isinstance(op, Structured) and op.is_movement and not op.inits)


def _behind_moves(values: Sequence[Value], loop: Loop) -> list[Value]:
    """The values that are computed, of those that these show or are."""
    found: dict[Value, None] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop(0)
        op = value.defining_op
        if op is None or op.parent is not loop.body:
            continue
        if _only_moves(op, loop):
            waiting += op.operands
        else:
            found[value] = None
    return list(found)


def _store_of(value: Value, loop: Loop, early: Collection[Operation]) -> StYield | None:
    """The yield of a tensor that no other iteration overwrites."""
    if not isinstance(value.type, TensorType):
        return None
    stores = [op for op in early if isinstance(op, StYield) and op.value is value]
    alone = [s for s in stores if isinstance(s.destination.type, TensorType) and are_apart(s, s, loop)]
    return next((s for s in alone if len(loop.yields_to(loop.destinations.index(s.destination))) == 1), None)


def _slot(ctx: TransformContext, loop: Loop, value: Value) -> _Slot:
    inside = {each.var for each in loop.walk() if isinstance(each, Loop)}
    if not isinstance(value.type, TensorType) or not isinstance(loop.var.step, int):
        raise ctx.fail(
            f"%{value.name} is not handed from one loop to the other",
            op=value.defining_op,
            required="a tensor, and a loop with a step that is a number now",
            found=f"{value.type}, step {to_text(loop.var.step)}",
            fix=Direction("do this before `vectorize`") if not isinstance(value.type, TensorType) else None,
        )
    shape: list[Dim] = [maximum(0, trip_count(loop))]
    for extent in shape_of(value.type):
        most = extent if inside.isdisjoint(variables(extent)) else context_at(loop).upper_bound(extent)
        if most is None:
            raise ctx.fail(
                f"%{value.name} has no largest size, so there is no tensor for the values of all iterations",
                op=value.defining_op,
                required="sizes with a bound that does not depend on the loop",
                found=to_text(extent),
            )
        shape.append(most)
    return _Slot(with_shape(value.type, tuple(shape)), loop.var.step)


def _empty_loop(ctx: TransformContext, loop: Loop, var: Var, starts: Sequence[Value]) -> Loop:
    """A loop of the same kind before `loop`, with nothing in it."""
    made = type(loop).over(var, starts, Block([("", start.type) for start in starts]))
    made.stand_for(loop)
    return ctx.rewriter.insert(made, InsertPoint.before(loop), loop.results[0].name.split(".")[0])


def _given(
    ctx: TransformContext,
    value: Value,
    first: Loop,
    second: Loop,
    places: Mapping[Value, tuple[Value, Tile]],
    copies: CloneMap,
) -> Value:
    """A value of the first loop in the second, read or shown at the start of its body."""
    op = value.defining_op
    if value in copies.values or op is None or not is_in(op, first):
        return copies.values.get(value, value)
    if value in places:
        source, tile = places[value]
        read = Materialize.of(source, tile.substitute(copies.sizes))
        at = InsertPoint(second.body, len(copies.values))
        copies.values[value] = ctx.rewriter.insert(read, at, f"{value.name.split('.')[0]}.t").result
        return copies.values[value]
    for operand in op.operands:
        _given(ctx, operand, first, second, places, copies)
    ctx.rewriter.clone(op, InsertPoint(second.body, len(copies.values)), copies)
    return copies.values[value]
