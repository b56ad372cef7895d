"""Subsets that a payload writes stay inside of what they are subsets of: what proves it, and the error where nothing
does.

This is asked once, of a payload that is read. What a schedule makes of it is proved by its steps.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from tcpx.payload.contexts import context_at, context_if, variables_around
from tcpx.payload.diagnostics import Direction, VerifyError
from tcpx.payload.ir import Module, Value
from tcpx.payload.ops.assertion import Assert
from tcpx.payload.ops.gml_st import Loop, OnSubset
from tcpx.payload.sizes import (
    Dim,
    Mod,
    Size,
    Substitution,
    Symbol,
    Var,
    is_less_equal,
    last_value,
    minimum,
    substitute,
    to_text,
)
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.subsets import Tile, where_positive
from tcpx.payload.types import TensorType, shape_of

MOST_CASES: Final = 5
"""Maxima and minima of which each argument is looked at by itself, one within another."""


class Places(NamedTuple):
    """Where a subset is along one dim, and the extent of this dim."""

    offset: Dim
    size: Dim
    stride: Dim
    extent: Dim


def check_subsets(module: Module) -> None:
    """All subsets of tensors are proved to stay inside, in each iteration that runs. Raises VerifyError."""
    for op in (op for op in module.walk() if isinstance(op, OnSubset)):
        for value, tile in op.accesses:
            extents = shape_of(value.type) if isinstance(value.type, TensorType) else ()
            for dim in range(len(extents)) if not tile.is_full(extents, context_at(op).names) else ():
                _check(op, value, tile, dim)


def stays_inside_without(op: OnSubset, loop: Loop) -> bool:
    """Whether the subsets of an operation, which do not depend on a loop round it, are proved to stay inside where that
    has no iteration."""
    return all(
        tile.is_full(shape_of(value.type), context_at(op).names)
        or not any(_missing(op, value, tile, dim, loop)[0] for dim in range(len(shape_of(value.type))))
        for value, tile in op.accesses
        if isinstance(value.type, TensorType)
    )


def _check(op: OnSubset, value: Value, tile: Tile, dim: int) -> None:
    """The places of a subset along one dim are places of the value."""
    missing, facts = _missing(op, value, tile, dim)
    if missing and facts.is_possible:
        leaves = any(facts.decide(condition) is False for condition in missing)
        raise _error(op, value, tile, dim, missing, leaves)


def _missing(
    op: OnSubset, value: Value, tile: Tile, dim: int, idle: Loop | None = None
) -> tuple[Sequence[Predicate], Context]:
    """What is not proved of the places of a subset along one dim, and what is known; a loop may be `idle`."""
    extent = shape_of(value.type)[dim]
    places = Places(tile.offsets[dim], tile.sizes[dim], tile.strides[dim], extent)
    here = context_at(op)
    if all(any(map(here.holds, need)) for need in _needs(places, here.holds)):
        return (), here
    running = _in_iterations(op, idle, here)
    places = Places(*(substitute(size, running, here.names) for size in places))
    used = context_if(op, _where_it_is_used(op, tile.sizes[dim], idle)).substitute(running)
    return [need[0] for need in _needs(places, used.holds) if not any(map(used.holds_in_cases, need))], used


def _in_iterations(op: OnSubset, idle: Loop | None, here: Context) -> Substitution:
    """The variables of the loops around an operation, but for one that may be `idle`, as they are where these have an
    iteration, and the symbols, of which more may be known there."""
    found: dict[Symbol | Var, Dim] = {**here.symbols()}
    for var in reversed(_running(op, idle)):
        lower, upper, step = (substitute(d, found, here.names) for d in (var.lower, var.upper, var.step))
        last = where_positive(upper) if lower == 0 else upper
        is_once = is_less_equal(last - lower, step, here.names) is True
        found[var] = lower if is_once else Var(var.name, lower, last, step).size()
    return found


def _running(op: OnSubset, idle: Loop | None) -> Sequence[Var]:
    """The variables of the loops round an operation, innermost first, but for one that may be `idle`."""
    return [var for var in variables_around(op) if idle is None or var.name != idle.var.name]


def _needs(places: Places, holds: Callable[[Predicate], bool]) -> Sequence[Sequence[Predicate]]:
    """What says that the first and the last place lie inside, if there is any; of each several, one is enough."""
    offset, stride, extent = places.offset, places.stride, places.extent
    sizes = dict.fromkeys((places.size, where_positive(places.size)))
    lasts = [offset + (size - 1) * stride for size in sizes]
    least = dict.fromkeys((offset, _without_whole_rests(offset, holds)))
    not_before = [Predicate.of("<=", 0, first) for first in least], [Predicate.of("<=", 0, last) for last in lasts]
    not_behind = [Predicate.of("<=", offset + 1, extent)], [Predicate.of("<=", last + 1, extent) for last in lasts]
    if is_less_equal(0, stride) is True:
        rest = (extent - offset, extent - _in_last_iterations(offset))
        left = [Predicate.of("<=", size, place) for size in sizes for place in rest] if stride == 1 else []
        return [not_before[0], [*not_behind[1], *left]]
    return [not_before[1], not_behind[0]] if is_less_equal(stride, 0) is True else [*not_before, *not_behind]


def _in_last_iterations(place: Dim) -> Dim:
    """No less than a place in any iteration of the loops whose variables are added up in it."""
    for term, factor in place.terms if isinstance(place, Size) else ():
        if len(term) == 1 and isinstance(term[0], Var) and factor > 0:
            place = place + factor * (last_value(term[0]) - term[0])
    return place


def _without_whole_rests(place: Dim, holds: Callable[[Predicate], bool]) -> Dim:
    """No more than a place: what is left of a size is at most that size."""
    for term, factor in place.terms if isinstance(place, Size) else ():
        if len(term) == 1 and isinstance(term[0], Mod) and factor < 0 and holds(Predicate.of("<=", 0, term[0].lhs)):
            place = place + factor * (term[0].lhs - term[0])
    return place


def _where_it_is_used(op: OnSubset, size: Dim, idle: Loop | None) -> Sequence[Predicate]:
    """What holds where there is a place: the loops round an operation have an iteration, but for one that may be
    `idle`, and the dim has an element."""
    holding = [Predicate.of("<=", 1, size), *(Predicate.of("<", v.lower, v.upper) for v in _running(op, idle))]
    for alternatives in _demanded(op):
        possible = [condition for condition in alternatives if context_if(op, holding).allows(condition)]
        holding += possible if len(possible) == 1 else []
    return holding


def _demanded(op: OnSubset) -> Iterator[Sequence[Predicate]]:
    """The conditions of one of which each assertion of the function says that it holds: before the function does
    anything."""
    asserted = (first for first in (op.func.body.ops if op.func is not None else ()) if isinstance(first, Assert))
    return (first.alternatives for first in asserted)


def _error(op: OnSubset, value: Value, tile: Tile, dim: int, missing: Sequence[Predicate], leaves: bool) -> VerifyError:
    extent = shape_of(value.type)[dim]
    message = "the subset leaves" if leaves else "nothing says that the subset stays inside of"
    return op.error(
        f"{message} %{value.name} in dim {dim}",
        required=f"{' and '.join(map(str, missing))}: %{value.name} is {value.type}",
        found=tile.text(),
        fix=None if leaves else _fix(tile, dim, extent, missing),
        unproven=not leaves,
    )


def _fix(tile: Tile, dim: int, extent: Dim, missing: Sequence[Predicate]) -> str:
    offset, size, (condition, *others) = tile.offsets[dim], tile.sizes[dim], missing
    wanted = " and ".join(map(str, missing))
    if not any(condition.variables() for condition in missing):
        return f'say it at the start of the function: `tcp.assert {{any = [{wanted}], message = ".."}}`'
    if tile.strides[dim] == 1 and size != 1 and not others and condition.comparisons[0].lhs != 0:
        return Direction(f"end it with what is left: the size `{to_text(minimum(size, extent - offset))}`")
    return Direction(f"use it only where that holds: `gml_st.if {wanted} {{ .. }}`")
