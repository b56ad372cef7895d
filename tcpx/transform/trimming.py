"""Loops cut to the iterations in which a condition on positions may hold, or that read more than padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction, ScheduleError
from tcpx.payload.interfaces import Elementwise, Structured, Tileable
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.finite import is_finite
from tcpx.payload.ops.gml_st import Loop, Materialize, StYield
from tcpx.payload.sizes import (
    Dim,
    Size,
    Var,
    to_text,
    variables,
)
from tcpx.payload.traits.algebra import algebra, is_comparison
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.memory import Memory
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.traits.view import ViewLike
from tcpx.records import frozen
from tcpx.transform.algebra import number_of
from tcpx.transform.arguments import TransformContext
from tcpx.transform.bodies import Body
from tcpx.transform.editing import is_pure
from tcpx.transform.known_states import Kept, State, as_number, state_of
from tcpx.transform.padding_ranges import ALL, padding_of, with_elements
from tcpx.transform.peeling import set_range
from tcpx.transform.positions import Place, compared, places
from tcpx.transform.simplification import simplify_in


@frozen
class Condition:
    """A comparison, number `at` in the body of an operation, that is `number` everywhere from iteration `end` on."""

    op: Structured
    at: int
    number: float
    end: Dim
    start: Dim | None = None


@frozen
class Padding:
    """An operand of an operation that is `number` everywhere outside of iterations `start` to `end`: padding."""

    op: Tileable
    number: float
    start: Dim | None
    end: Dim | None


def trim(ctx: TransformContext, op: Structured, loop: Loop) -> None:
    """Let a loop run over the iterations in which a condition on positions in the body of `op` may hold, or in which
    `op` reads more of an operand than its padding.

    Raises ScheduleError where there is neither, or an iteration that is left out changes a destination.
    """
    if Scan.of(op) is not None:  # its body is nothing without what it has computed so far
        raise _asks_nothing(ctx, op, loop, op.opcode)
    reasons: list[Condition | Padding] = list(_paddings(op, loop))
    body = Body.of(op)
    known = places(op, body)
    found = [(k, inner) for k, inner in enumerate(body.ops) if isinstance(inner, Elementwise) and is_comparison(inner)]
    reasons += [made for k, inner in found for made in _conditions(op, k, inner, known, loop.var)]
    if not reasons:
        raise _asks_nothing(ctx, op, loop, ", ".join(inner.opcode for _, inner in found) or "no comparison")
    changed: Operation | None = None
    for reason in reasons:
        changed = _changed(loop, reason)
        if changed is None:
            _cut(ctx, op, loop, reason)
            return
    is_padded = isinstance(reasons[-1], Padding)
    raise ctx.fail(
        f"%{(changed or op).name} may change what {loop.name} has where "
        + (f"%{op.name} reads padding" if is_padded else f"the condition of %{op.name} cannot hold"),
        op=changed or op,
        required="the neutral element for each reduction of the loop, of finite operands, beside it",
        found=(changed or op).opcode,
        fix=Direction("`trim` before what is in the loop is tiled"),
    )


def _asks_nothing(ctx: TransformContext, op: Structured, loop: Loop, found: str) -> ScheduleError:
    return ctx.fail(
        f"%{op.name} asks nothing of positions that ends {loop.name}",
        op=op,
        required=f"a comparison of positions that no longer holds from some iteration of {loop.name} on, or an operand "
        f"that is padding in some of them",
        found=found,
        fix=_with_positions(ctx, op),
    )


def _with_positions(ctx: TransformContext, op: Structured) -> Direction | None:
    """How the comparison of positions gets into the body of an operation that reads its result, or the positions."""
    chain, pending = [op], list(op.inputs)
    while pending:
        maker = pending.pop().defining_op
        if isinstance(maker, Materialize):
            pending.append(maker.source)
        elif isinstance(maker, Structured) and not (
            Reduction.of(maker) is not None or maker in chain or number_of(maker.result) is not None
        ):
            chain.append(maker)
            pending += maker.inputs
    comparing = [each for each in chain if _compares(each)]
    data = [held for held in map(_data_compared, comparing) if held is not None]
    if len(data) == len(comparing) > 0:
        name = data[0].name.split(".")[0]
        return Direction(f"compare positions and sizes alone: what %{name} has is known only when the loop runs")
    if len(chain) == 1 or not comparing:
        return None
    names = ", ".join(ctx.name_of(each) for each in reversed(chain))
    return Direction(
        f"let one operation compute the positions, compare and choose: `let y = fuse_elementwise([{names}])`, before "
        f"what reads it is tiled; then `fuse(y, into: ..)` and `trim(.., y)`"
    )


def _data_compared(op: Structured) -> Value | None:
    """A value that an operation which compares reads, and that does not follow from positions and sizes."""
    body = Body.of(op)
    given = dict(zip(body.elements, op.inputs, strict=True))
    for inner in body.ops:
        if is_comparison(inner):
            reached = _elements_in(inner.operands, body)
            return next((given[e] for e in reached if not _is_counted(given[e])), None)
    return None


def _elements_in(values: Sequence[Value], body: Body) -> list[Value]:
    """The elements of inputs that values of a body follow from."""
    made = {value: inner for inner in body.ops for value in inner.results}
    pending, found = list(values), dict[Value, None]()
    while pending:
        value = pending.pop()
        if value in made:
            pending += made[value].operands
        elif value in body.elements:
            found[value] = None
    return list(found)


def _is_counted(value: Value) -> bool:
    """Whether a value follows from positions, sizes and numbers alone."""
    maker = value.defining_op
    if isinstance(maker, Materialize):
        return _is_counted(maker.source)
    return (
        isinstance(maker, Structured) and Constant(maker).stored_array is None and all(map(_is_counted, maker.inputs))
    )


def _compares(op: Structured) -> bool:
    return Scan.of(op) is None and any(map(is_comparison, op.walk()))


def _cut(ctx: TransformContext, op: Structured, loop: Loop, reason: Condition | Padding) -> None:
    var, known = loop.var, context_at(loop)
    lower, upper = var.lower, var.upper
    if reason.start is not None:
        lower += known.floordiv(known.not_negative(reason.start - lower), var.step) * var.step
    if reason.end is not None:
        upper = known.maximum(lower, known.minimum(upper, reason.end))
    if known.is_equal(lower, var.lower) is True and known.is_equal(upper, var.upper) is True:
        raise ctx.fail(
            f"{loop.name} ends where it may hold last already",
            op=op,
            required=f"iterations of {loop.name} in which the condition cannot hold",
            found=f"{to_text(var.lower)} to {to_text(var.upper)}",
        )
    set_range(ctx.rewriter, loop, Var(var.name, lower, upper, var.step))
    simplify_in(ctx.rewriter, [loop])


def _paddings(op: Structured, loop: Loop) -> Iterator[Padding]:
    """The operands that are nothing but padding in the first or last iterations."""
    for value in op.inputs:
        made, piece = value.defining_op, padding_of(value.defining_op)
        if isinstance(made, Tileable) and (rest := ViewLike(made).rest) is not None and piece is not None:
            found = with_elements(piece, loop.var, context_at(loop).names)
            if found != ALL:
                yield Padding(made, float(rest), found.start, found.end)


def _conditions(op: Structured, at: int, inner: Elementwise, known: Mapping[Value, Place], var: Var) -> list[Condition]:
    """The conditions that a comparison, or its opposite, holds nowhere from some value of a loop variable on."""
    sides = compared(inner, known)
    if sides is None:
        return []
    a, b = sides
    extents = {it.name: op.size_of(it.name) for it in op.iterators()}
    made: list[Condition] = []
    for number, signs in ((0.0, {*algebra(inner).holds_for}), (1.0, {-1, 0, 1} - {*algebra(inner).holds_for})):
        for difference, sign in ((a - b, 1), (b - a, -1)):
            if signs in ({sign}, {sign, 0}):
                _, most = difference.reach(extents)
                end = most - (0 if 0 in signs else 1) + Size.of(var) + 1
                if var not in variables(end):
                    made.append(Condition(op, at, number, end))
    return made


def _changed(loop: Loop, reason: Condition | Padding) -> Operation | None:
    """The operation that lets an iteration change a destination although the condition holds nowhere, or an operand is
    padding; None if there is none."""
    states: dict[Value, State] = {dest: Kept(dest) for dest in loop.destinations}
    for op in loop.body.ops:
        if isinstance(op, StYield):
            kept = states.get(op.value)
            if kept != Kept(op.destination) or not op.is_of_all:
                return op.value.defining_op or op
        elif isinstance(op, Materialize):
            held = states.get(op.source)
            whole = isinstance(held, float) or op.is_of_all
            states[op.result] = held if whole and not op.subset.dropped else None
        elif op is reason.op and isinstance(reason, Padding):
            states[op.results[0]] = reason.number
        elif isinstance(op, Structured) and len(op.results) == 1:
            is_known = isinstance(reason, Condition) or all(
                is_finite(v) or states.get(v) is not None for v in op.inputs
            )
            given = {reason.at: reason.number} if isinstance(reason, Condition) and reason.op is op else {}
            elements = [states[v] if v in states else as_number(v) for v in op.inputs]
            start = states.get(op.inits[0]) if op.inits else None
            states[op.result] = state_of(op, elements, start, given) if is_known else None
        elif not Memory(op).is_hint and not is_pure(op):  # such as a store that runs in the last iteration alone
            stored = (inner.value.defining_op for inner in op.walk() if isinstance(inner, StYield))
            return next(stored, None) or op
    return None
