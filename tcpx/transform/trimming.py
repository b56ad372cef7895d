"""Loops cut to the iterations in which a condition on positions may hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf

from tcpx.payload.indexing_maps import IndexingMap, index_operands
from tcpx.payload.interfaces import Elementwise, Group, Structured
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.gml_st import Loop, Materialize, StYield
from tcpx.payload.sizes import Dim, Size, Symbol, Var, is_equal, maximum, minimum, substitute, to_text, variables
from tcpx.payload.types import dtype_of, shape_of
from tcpx.records import frozen
from tcpx.transform.algebra import number_of
from tcpx.transform.arguments import TransformContext
from tcpx.transform.bodies import Body, applied, combiner_of
from tcpx.transform.peeling import set_range
from tcpx.transform.separation import start_of

WIDEST = 8
"""Bytes of an integer that holds every position."""


@frozen
class Kept:
    """Elements that are those of a destination before an iteration, read by a map where there is one."""

    destination: Value
    read: IndexingMap = ()


State = float | Kept | None
"""What each element is where the condition holds nowhere: a number, what it was; None: some finite number."""


@frozen
class Condition:
    """Where `most` is below 0, a comparison, number `at` in the body of an operation, is `number` everywhere."""

    op: Structured
    at: int
    number: float
    most: Dim


def trim(ctx: TransformContext, op: Structured, loop: Loop) -> None:
    """Let a loop end where a condition on positions in the body of `op` can no longer hold. Raises ScheduleError where
    there is none, or an iteration in which it holds nowhere changes a destination."""
    var, body = loop.var, Body.of(op)
    places = _places(op, body)
    found = [(k, inner) for k, inner in enumerate(body.ops) if isinstance(inner, Elementwise) and inner.holds_for]
    conditions = [made for k, inner in found for made in _conditions(op, k, inner, places)]
    ends = [(held, held.most + Size.of(var) + 1) for held in conditions]
    ends = [(held, end) for held, end in ends if var not in variables(end)]
    if not ends:
        raise ctx.fail(
            f"%{op.name} asks nothing of positions that ends {loop.name}",
            op=op,
            required=f"a comparison of positions that no longer holds from some iteration of {loop.name} on",
            found=", ".join(inner.opcode for _, inner in found) or "no comparison",
        )
    changed: Operation | None = None
    for held, end in ends:
        changed = _changed(loop, held)
        if changed is None:
            _cut(ctx, op, loop, end)
            return
    raise ctx.fail(
        f"%{(changed or op).name} may change what {loop.name} has where the condition of %{op.name} cannot hold",
        op=changed or op,
        required="the neutral element for each reduction of the loop, of finite operands, beside it",
        found=(changed or op).opcode,
        fix="`trim` before what is in the loop is tiled",
    )


def _cut(ctx: TransformContext, op: Structured, loop: Loop, end: Dim) -> None:
    var = loop.var
    upper = maximum(var.lower, minimum(var.upper, end))
    if is_equal(upper, var.upper) is True:
        raise ctx.fail(
            f"{loop.name} ends where it may hold last already",
            op=op,
            required=f"iterations of {loop.name} in which the condition cannot hold",
            found=f"{to_text(var.lower)} to {to_text(var.upper)}",
        )
    set_range(ctx.rewriter, loop, Var(var.name, var.lower, upper, var.step))


def _places(op: Structured, body: Body) -> Mapping[Value, Dim]:
    """The integers of a body that follow from positions and sizes, by the dims of the operation."""
    found: dict[Value, Dim] = {}
    for value, position in zip(body.positions, op.positions(), strict=True):
        found[value] = position.expression + position.origin
    for element, value in zip(body.elements, op.inputs, strict=True):
        size = _size(value)
        if size is not None and not dtype_of(value.type).is_float:
            found[element] = size
    for inner in body.ops:
        dtype, size = dtype_of(inner.result.type), _size(inner.result)
        terms = [found[value] for value in inner.operands if value in found]
        if size is None and isinstance(inner, Elementwise) and 0 < len(terms) == len(inner.operands):
            size = _sum(inner, terms) if dtype.bytes == WIDEST else None
        if size is not None and not dtype.is_float:
            found[inner.result] = size
    return found


def _size(value: Value) -> Dim | None:
    """What every element of a value is, a number or a size."""
    made = value.defining_op
    if not isinstance(made, Structured) or not made.is_movement or len(made.operands) > 1:
        number = number_of(value)
        return number if isinstance(number, int) else None
    held = made.attributes.get("value")
    return _size(made.operands[0]) if made.operands else held if isinstance(held, Size | int) else None


def _sum(op: Elementwise, terms: Sequence[Dim]) -> Dim | None:
    """What an operation makes of integers, where that is a sum or a difference of them, or the one that there is."""
    if len(terms) == 1:
        return terms[0] if op.is_conversion else None
    if op.homomorphism != (Group.SUM, Group.SUM):
        return None
    weights = [int(applied(op, [float(k == j) for j in range(len(terms))])) for k in range(len(terms))]
    total: Dim = 0
    for weight, term in zip(weights, terms, strict=True):
        total = total + weight * term
    return total


def _conditions(op: Structured, at: int, inner: Elementwise, places: Mapping[Value, Dim]) -> list[Condition]:
    """The conditions that a comparison, or its opposite, may hold."""
    sides = [places.get(value) for value in inner.operands]
    a, b = sides if len(sides) == 2 else (None, None)
    if a is None or b is None:
        return []
    made: list[Condition] = []
    for number, signs in ((0.0, {*inner.holds_for}), (1.0, {-1, 0, 1} - {*inner.holds_for})):
        for difference, sign in ((a - b, 1), (b - a, -1)):
            if signs in ({sign}, {sign, 0}):
                most = _most(op, difference)
                if most is not None:
                    made.append(Condition(op, at, number, most - (0 if 0 in signs else 1)))
    return made


def _most(op: Structured, difference: Dim) -> Dim | None:
    """The largest value of a linear expression in the dims of an operation."""
    for it in op.iterators():
        dim = Symbol(it.name)
        at = [substitute(difference, {dim: k}) for k in (0, 1, 2)]
        step, again = at[1] - at[0], at[2] - at[1]
        if not isinstance(step, int) or step != again:
            return None
        difference = substitute(difference, {dim: op.size_of(it.name) - 1 if step > 0 else 0})
    return difference


def _changed(loop: Loop, condition: Condition) -> Operation | None:
    """The operation that lets an iteration change a destination although the condition holds nowhere; None if there is
    none."""
    states: dict[Value, State] = {dest: Kept(dest) for dest in loop.destinations}
    for op in loop.body.ops:
        if isinstance(op, StYield):
            kept = states.get(op.value)
            if kept != Kept(op.destination) or not op.subset.is_full(shape_of(op.destination.type)):
                return op.value.defining_op or op
        elif isinstance(op, Materialize):
            held = states.get(op.source)
            whole = isinstance(held, float) or op.subset.is_full(shape_of(op.source.type))
            states[op.result] = held if whole and not op.subset.dropped else None
        elif isinstance(op, Structured) and len(op.results) == 1:
            states[op.result] = _state(op, states, condition if condition.op is op else None)
    return None


def _state(op: Structured, states: Mapping[Value, State], condition: Condition | None) -> State:
    """What an operation computes of elements in these states."""
    if op.is_sequential or op.is_irregular or op.valid or index_operands(op.maps()):
        return None
    body = Body.of(op)
    known: dict[Value, State] = {}
    for element, value, read in zip(body.elements, op.inputs, op.maps(), strict=True):
        held = states[value] if value in states else _number(value)
        known[element] = Kept(held.destination, read) if isinstance(held, Kept) else held
    for k, inner in enumerate(body.ops):
        if condition is not None and k == condition.at:
            known[inner.result] = condition.number
        else:
            operands = [known[v] if v in known else _number(v) for v in inner.operands]
            number = _number(inner.result)
            known[inner.result] = number if number is not None else _scalar(inner, operands)
    made = known.get(body.results[0])
    if not op.reduces:
        if isinstance(made, Kept):
            return Kept(made.destination) if made.read == op.result_map() else None
        return made
    neutrals = op.neutrals()
    if neutrals is None or combiner_of(op) is None or made != neutrals[0]:
        return None
    return states.get(op.inits[0]) if op.inits else float(neutrals[0])


def _number(value: Value) -> float | None:
    number = number_of(value)
    return None if number is None else float(number)


def _scalar(op: Operation, states: Sequence[State]) -> State:
    """What an operation of a body makes of operands in these states."""
    numbers = [held if isinstance(held, float) else None for held in states]
    if not isinstance(op, Elementwise):
        return None
    if op.chooses and numbers[0] is not None:
        return states[1] if numbers[0] else states[2]
    if op.holds_for and None in numbers:
        sign = _sign(states)
        return None if sign is None else float(sign in op.holds_for)
    for group in Group:
        if op.opcode == group.value and group.identity in numbers:
            return states[1 - numbers.index(group.identity)]
    return start_of(op, numbers)


def _sign(states: Sequence[State]) -> int | None:
    """The sign of the first less the second, where one of them is infinite or both are one number; None if unknown."""
    first, second = states
    if isinstance(first, Kept) and first == second:
        return 0
    if isinstance(first, float) and isinf(first) and not isinstance(second, float):
        return 1 if first > 0 else -1
    if isinstance(second, float) and isinf(second) and not isinstance(first, float):
        return -1 if second > 0 else 1
    return None
