"""How many iterations of a loop lie between two accesses of one element: the relation that decides which order of
iterations is legal.

`distance(loop, first, second)` is about two subsets of one tensor, which operations in a loop read or write. `second`
in an iteration is d iterations behind `first`. d is positive where `second` comes later, 0 in one iteration. The answer
is a range of such d: exact, with bounds or open, and never too small. What nothing proves is an open range, so a
transform that asks for a bound refuses.

The range comes from three sources, each of which only narrows it. A subset that moves by a constant in each iteration
limits d, one dim at a time (Banerjee, Dependence Analysis for Supercomputing, 1988); variables of other loops take part
with their own ranges of d, so that one dim decides for another. Remainders of subscripts rule elements out. And subsets
of a later iteration are compared by `disjoint`, which knows minima, quotients and symbols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from math import gcd

from tcpx.payload.contexts import context_at
from tcpx.payload.ir import is_in
from tcpx.payload.iteration_digits import by_digits
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.index import Bind
from tcpx.payload.sizes import Dim, Size, Var, is_less_equal, substitute, upper_bound, variables
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.subsets import Tile, disjoint
from tcpx.records import frozen_for_checkers


@frozen_for_checkers
class Distance:
    """A range of distances, in iterations; None is no bound."""

    least: int | None = None
    most: int | None = None

    @property
    def is_never(self) -> bool:
        """Whether no two iterations, nor one, access one element."""
        return self.least is not None and self.most is not None and self.least > self.most

    @property
    def is_zero(self) -> bool:
        """Whether no two different iterations access one element."""
        return self.is_never or self.least == self.most == 0

    @property
    def exact(self) -> int | None:
        """The only distance; None if there may be others, or there is none."""
        return self.least if self.least == self.most else None

    def may_be(self, least: int | None, most: int | None) -> bool:
        """Whether nothing rules out a distance from `least` to `most`."""
        return not self.within(least, most).is_never

    @property
    def may_be_later(self) -> bool:
        """Whether the second access may come in a later iteration."""
        return self.may_be(1, None)

    @property
    def may_be_earlier(self) -> bool:
        """Whether the second access may come in an earlier iteration."""
        return self.may_be(None, -1)

    def within(self, least: int | None, most: int | None) -> Distance:
        """The distances from `least` to `most` of these."""
        lows = [bound for bound in (self.least, least) if bound is not None]
        highs = [bound for bound in (self.most, most) if bound is not None]
        return Distance(max(lows, default=None), min(highs, default=None))

    def reversed(self) -> Distance:
        """The distances from the second access to the first."""
        return Distance(None if self.most is None else -self.most, None if self.least is None else -self.least)

    def __str__(self) -> str:
        if self.is_never:
            return "never"
        if self.exact is not None:
            return str(self.exact)
        return f"{'..' if self.least is None else self.least} to {'..' if self.most is None else self.most}"


NEVER = Distance(1, 0)
ANY = Distance()
LATER = Distance(1, None)


def distance(loop: Loop, first: Tile, second: Tile | None = None, later_in: Loop | None = None) -> Distance:
    """How many iterations of a loop `second`, by default the same subset, comes behind `first` where both have a common
    element.

    Operations in the loop access the subsets. Variables of loops inside, and what is bound inside, have any value in
    either access. With `later_in`, a loop round `loop` or in it, only accesses count of which the second is in a later
    iteration of that loop.
    """
    known = context_at(loop).names
    if later_in is None and is_less_equal(loop.var.upper - loop.var.lower, loop.var.step, known) is True:
        return Distance(0, 0)
    loops = [loop] if later_in is None else [later_in, loop] if is_in(loop, later_in) else [loop, later_in]
    other = first if second is None else second
    inside, bound = _inside(loops[0], (first, other), [each.var for each in loops])
    order = [*(each.var for each in loops), *inside]
    given = {} if later_in is None else {later_in.var: LATER}
    relation = _Relation(first.rising(), other.rising(), order, bound, given, known)
    return relation.of(loop.var, is_symmetric=second is None and later_in is None)


def changes_in(loop: Loop, tile: Tile) -> bool:
    """Whether a subset may be another one in each iteration of a loop."""
    dims = (*tile.offsets, *tile.sizes, *tile.strides)
    return any(loop.var in variables(dim) for dim in dims) or bool(_inside(loop, [tile], [loop.var])[1])


def _inside(loop: Loop, tiles: Sequence[Tile], known: Sequence[Var]) -> tuple[list[Var], list[Var]]:
    """The variables in subsets of loops inside a loop, outermost first, and of what is bound inside."""
    named = {
        v for tile in tiles for part in (tile.offsets, tile.sizes, tile.strides) for d in part for v in variables(d)
    }
    named -= {*known, *(outer.var for outer in loop.ancestors() if isinstance(outer, Loop))}
    # An inner loop may begin at a variable of another one.
    waiting = list(named)
    while waiting:
        var = waiting.pop()
        further = {v for d in (var.lower, var.upper, var.step) for v in variables(d)} - named - {*known}
        named |= further
        waiting += further
    if not named:
        return [], []
    ops = [op for op in loop.walk() if op is not loop]
    inner = [op.var for op in ops if isinstance(op, Loop) and op.var in named]
    return list(dict.fromkeys(v for v in inner if v not in known)), [
        op.var for op in ops if isinstance(op, Bind) and op.var in named
    ]


class _Relation:
    """What is known of the distances between two subsets, for the variables of a nest, outermost first."""

    def __init__(
        self,
        first: Tile,
        second: Tile,
        order: Sequence[Var],
        bound: Sequence[Var] = (),
        given: Mapping[Var, Distance] | None = None,
        names: KnownSymbols = NOTHING_KNOWN,
    ) -> None:
        self.first, self.second, self.order, self.bound, self.names = first, second, order, bound, names
        self.known: dict[Var, Distance] = dict.fromkeys(order, ANY) | dict(given or {})

    def of(self, var: Var, is_symmetric: bool) -> Distance:
        """The distances of one variable. `is_symmetric`: both subsets are one, so that what holds of later iterations
        holds of earlier ones."""
        self._narrow()
        if any(self._in_range(each).is_never for each in self.order):
            return NEVER
        found = self._in_range(var)
        if found.may_be_later and self._is_never_later(var):
            found = found.within(None, 0)
            if is_symmetric:
                return found.within(0, 0)
        if is_symmetric and found.may_be_later and _are_apart_by_digits(self.first, var):
            return found.within(0, 0)
        if not is_symmetric and found.may_be_earlier and self._reversed()._is_never_later(var):
            found = found.within(0, None)
        return found

    def _reversed(self) -> _Relation:
        known = {var: each.reversed() for var, each in self.known.items()}
        return _Relation(self.second, self.first, self.order, self.bound, known, self.names)

    def _is_never_later(self, var: Var) -> bool:
        elsewhere = self._elsewhere({**self.known, var: self.known[var].within(1, None)})
        return disjoint(self.first, elsewhere, self.names) is True

    def _elsewhere(self, known: Mapping[Var, Distance], without: Var | None = None) -> Tile:
        """The second subset in terms of the variables of the first, and of others at these distances from them."""
        mapping: dict[Var, Dim] = {}
        for var in (*self.order, *self.bound):
            mapping[var] = _at(var, known.get(var, ANY), mapping)
        # The ranges of the others are those of the other iteration of this one, too.
        mapping = {var: other for var, other in mapping.items() if var is not without}
        return self.second.substitute(mapping, self.names) if mapping else self.second

    def _in_range(self, var: Var) -> Distance:
        """The distances of a variable that its loop has iterations for."""
        found, ends = self.known[var], (var.lower, var.upper, var.step)
        if not {*self.order, *self.bound}.isdisjoint(v for d in ends for v in variables(d)):
            return found  # two runs of the loop may have other ranges
        width = upper_bound(var.upper - var.lower, self.names) if isinstance(var.step, int) else None
        if width is None or not isinstance(var.step, int):
            return found
        most = max(0, (width - 1) // var.step)
        return found.within(-most, most)

    def _narrow(self) -> None:
        """Limit the distances of each variable by those of the others, until no limit changes, or long enough."""
        for _ in range(len(self.order) + 1):
            before = dict(self.known)
            for var in self.order:
                limit = self._limit(var)
                self.known[var] = self.known[var].within(limit.least, limit.most)
                if self.known[var].is_never:
                    return
            if self.known == before or len(self.order) == 1:
                return

    def _limit(self, var: Var) -> Distance:
        """The distances at which the subsets meet in each dim that moves by one number in each iteration."""
        if var.step != 1 and not {*self.order, *self.bound}.isdisjoint(variables(var.lower)):
            return ANY  # iterations of two runs of the loop are not whole steps from each other
        found, second = ANY, self._elsewhere(self.known, without=var)
        dims = zip(
            self.first.offsets, self.first.extents, second.offsets, second.extents,
            zip(self.first.strides, second.strides, strict=True), strict=True,
        )  # fmt: skip
        for start, extent, other, other_extent, strides in dims:
            slope = substitute(other, {var: var.size() + var.step}, self.names) - other
            if var not in variables(slope):
                limit = _limit_in_dim(var, other - start, slope, extent, other_extent, strides, self.names)
                found = found.within(limit.least, limit.most)
        return found


def _at(var: Var, known: Distance, outside: Mapping[Var, Dim]) -> Dim:
    """The variable of a loop in the other iteration; `outside` are those of loops round it."""
    if known.exact is not None:
        return var.size() + known.exact * var.step
    lower, upper, step = (substitute(d, outside) for d in (var.lower, var.upper, var.step))
    least = lower if known.least is None else var.size() + known.least * step
    most = upper if known.most is None else var.size() + known.most * step + 1
    return Var(f"{var.name}~later", least, most, step).size()


def _limit_in_dim(
    var: Var, gap: Dim, slope: Dim, extent: Dim, other: Dim, strides: tuple[Dim, Dim], known: KnownSymbols
) -> Distance:
    """The distances at which two intervals overlap that are `gap` from each other in one iteration, and `slope` further
    in each later one of the second: `-other < gap + slope * distance < extent`."""
    if isinstance(slope, int) and _are_other_remainders(gap, slope, extent, other, strides):
        return NEVER
    above, below = extent - gap, other + gap
    if not isinstance(slope, int):
        return _limit_by_sign(var, gap, slope, above, below, known)
    most, least = upper_bound(above, known), _upper_bound_in_any(var, gap, other, known)
    if slope == 0:
        return NEVER if (most is not None and most <= 0) or (least is not None and least <= 0) else ANY
    high = None if most is None else most - 1
    low = None if least is None else 1 - least
    if slope < 0:
        low, high = (None if high is None else -high), (None if low is None else -low)
    return Distance(None if low is None else -(-low // abs(slope)), None if high is None else high // abs(slope))


def _limit_by_sign(var: Var, gap: Dim, slope: Dim, above: Dim, below: Dim, known: KnownSymbols) -> Distance:
    """The distances where it is only known which way the intervals move: none on a side on which one step is enough."""
    # `below` has the extent in the other iteration: with the gap in this one, it is compared for all of them.
    is_below_known = var not in variables(gap)
    if is_less_equal(0, slope, known) is True:
        is_earlier = not (is_below_known and is_less_equal(below, slope, known) is True)
        is_later = is_less_equal(above, slope, known) is not True
    elif is_less_equal(slope, 0, known) is True:
        is_earlier = is_less_equal(above, -slope, known) is not True
        is_later = not (is_below_known and is_less_equal(below, -slope, known) is True)
    else:
        return ANY
    return Distance(None if is_earlier else 0, None if is_later else 0)


def _upper_bound_in_any(var: Var, gap: Dim, other: Dim, known: KnownSymbols) -> int | None:
    """The most that the extent in the other iteration and the gap in this one are together."""
    if var not in variables(gap) or var not in variables(other):
        return upper_bound(other + gap, known)
    parts = upper_bound(other, known), upper_bound(gap, known)
    return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]


def _are_other_remainders(gap: Dim, slope: int, extent: Dim, other: Dim, strides: tuple[Dim, Dim]) -> bool:
    """Whether the elements of two subsets always leave other remainders by a number."""
    steps = [stride for stride, size in zip(strides, (extent, other), strict=True) if size != 1]
    terms = gap.terms if isinstance(gap, Size) else ()
    factors = [slope, *(factor for _, factor in terms), *(step if isinstance(step, int) else 1 for step in steps)]
    rest = gap.constant if isinstance(gap, Size) else gap
    common = gcd(*factors)
    return common > 1 and rest % common != 0


def _are_apart_by_digits(tile: Tile, var: Var) -> bool:
    """Whether tiles of two iterations are disjoint where they depend on a quotient and a remainder of the variable
    alone: in one of these iterations differ. Dims that depend on the other say nothing of it."""
    found = by_digits((*tile.offsets, *tile.sizes, *tile.strides), var)
    if found is None:
        return False
    parts, digits = found
    rank = tile.rank
    split = Tile(parts[:rank], parts[rank : 2 * rank], parts[2 * rank :])
    for first, second in permutations(digits):
        kept = [d for d in range(rank) if second not in (*variables(split.offsets[d]), *variables(split.sizes[d]))]
        offsets, sizes, strides = (tuple(p[d] for d in kept) for p in (split.offsets, split.sizes, split.strides))
        alone = Tile(offsets, sizes, strides)
        if kept and all(
            _Relation(t, t, [v]).of(v, is_symmetric=True).is_zero for t, v in ((alone, first), (split, second))
        ):
            return True
    return False
