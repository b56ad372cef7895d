"""The points of a search space: values of the knobs that count, which keep to all constraints."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import tcpx
from tcpx.assignment import BEYOND, Assignment, ParamValue
from tcpx.records import brief

Value = ParamValue
Point = Mapping[str, Value]
"""The value of every knob that counts, by path, in the order in which knobs are bound."""
Choose = Callable[[tcpx.Variable, Sequence[Value]], Value]
Order = Callable[[tcpx.Variable, Sequence[Value]], Sequence[Value]]
"""Picks one of the values that a knob can still have."""

MOST_NODES = 200_000
"""How many partial points a search for one point looks at before it gives up."""


@dataclass(slots=True)
class Space:
    """A search space, narrowed and widened: `allowed` lists the values of a knob that are asked for, by path, `added`
    those beyond its domain that it may have too."""

    search: tcpx.SearchSpace
    allowed: Mapping[str, tuple[Value, ...]] = field(default_factory=dict[str, tuple[Value, ...]])
    added: Mapping[str, tuple[Value, ...]] = field(default_factory=dict[str, tuple[Value, ...]])
    killed: Counter[str] = field(default_factory=Counter[str])
    """How many partial points each constraint refused, by its message, so far."""
    _watching: dict[str, list[tcpx.Constraint]] = field(init=False)
    _ranges: dict[str, tuple[float, float]] = field(init=False)

    def __post_init__(self) -> None:
        self._watching = {v.path: [] for v in self.search.variables}
        self._ranges = {}
        for constraint in self.search.constraints:
            for path in constraint.knobs:
                self._watching[path].append(constraint)
        for variable in self.search.variables:
            items = [] if variable.is_conditional else self.items(variable, {})
            if items and all(isinstance(item, int | float) for item in items):
                numbers = [item for item in items if isinstance(item, int | float)]
                self._ranges[variable.path] = (min(numbers), max(numbers))

    def __repr__(self) -> str:
        return brief("Space", f"of {len(self.variables)} knob(s)")

    @property
    def variables(self) -> tuple[tcpx.Variable, ...]:
        """The knobs, in the order in which they are bound."""
        return self.search.variables

    @property
    def is_conditional(self) -> bool:
        """Whether values of some knobs decide about others, or about their values."""
        return any(variable.is_conditional for variable in self.variables)

    def items(self, variable: tcpx.Variable, point: Point) -> list[Value]:
        """The values of a knob, given those of earlier ones."""
        wanted = self.allowed.get(variable.path)
        found = [item for item in variable.items(point) if not isinstance(item, tuple)]
        if found:
            found = list(dict.fromkeys([*found, *self.added.get(variable.path, ())]))
        if wanted is None:
            return found
        return [item for item in wanted if variable.domain is None or item in found]

    def points(self) -> Iterator[Point]:
        """All points, lazily, in the order of the domains."""
        return self._search(lambda _, items: items, count().__next__)

    def sample(self, generator: random.Random) -> Point | None:
        """A point at random; None if none is found among `MOST_NODES` partial points."""

        def shuffled(_: tcpx.Variable, items: Sequence[Value]) -> Sequence[Value]:
            return generator.sample(items, len(items))

        return self._first(shuffled)

    def walk(self, choose: Choose) -> Point | None:
        """The point that `choose` picks, knob by knob, out of the values that the constraints leave; where they leave
        none, the nearest values that do."""
        return self._first_given(lambda variable, items, _: choose(variable, items))

    def defaults(self) -> Point | None:
        """The point of the defaults, or one near it where they are no point."""

        return self.nearest_to({})

    def nearest_to(self, wanted: Mapping[str, Value]) -> Point | None:
        """The point that has the wanted values, and defaults elsewhere, as far as constraints allow."""

        def pick(variable: tcpx.Variable, items: Sequence[Value], point: Point) -> Value:
            return nearest(items, wanted.get(variable.path, variable.default_value(point)))

        return self._first_given(pick)

    def point_of(self, params: Mapping[str, Value]) -> Point:
        """The point nearest to some params: by path, by glob or name, or by the sequence and name of the knob."""
        by_name, given = {_last_of(path): value for path, value in params.items()}, Assignment(params)
        wanted: dict[str, Value] = {}
        for variable in self.variables:
            key = given.key(variable.path)
            if key is not None:
                wanted[variable.path] = params[key]
            elif _last_of(variable.path) in by_name:
                wanted[variable.path] = by_name[_last_of(variable.path)]
        return self.nearest_to(wanted) or {}

    def require_known(self, params: Mapping[str, Value]) -> None:
        """Raises ArgumentError for params that name no knob of the space."""
        for key in params:
            if all(variable.key_among([key]) is None for variable in self.variables):
                required = "a knob of the schedule that nothing pins, by name, path or glob of paths"
                raise tcpx.ArgumentError(self.search.no_knob(key, required))

    def neighbours(self, point: Point, generator: random.Random) -> Iterator[Point]:
        """Points that differ from one in a knob, and in what has to follow; without end, maybe the same again."""
        paths = [path for path in point if path in self._watching]
        while paths:
            moved = generator.choice(paths)

            def pick(variable: tcpx.Variable, items: Sequence[Value], made: Point, moved: str = moved) -> Value:
                del made
                held = point.get(variable.path)
                if variable.path != moved:
                    return nearest(items, held)
                others = [item for item in items if item != held] or list(items)
                if variable.is_choice or not isinstance(held, int | float) or isinstance(held, bool):
                    return generator.choice(others)
                others.sort(key=lambda item: abs(_number(item) - _number(held)))
                return generator.choice(others[: max(2, len(others) // 3)])

            found = self._first_given(pick)
            if found is not None:
                yield found

    def params(self, point: Point) -> dict[str, Value]:
        """What sets the knobs to a point. `tune` statements are numbered among those that run."""
        made: dict[str, Value] = {}
        numbers: Counter[str] = Counter()
        for variable in self.variables:
            if variable.path not in point:
                continue
            path = variable.path
            if variable.is_choice:
                numbers[variable.use] += 1
                path = f"{variable.use}.tune{numbers[variable.use]}"
            value = point[variable.path]
            is_beyond = value in self.added.get(variable.path, ()) and value not in variable.items(point)
            made[f"{path}{BEYOND}" if is_beyond else path] = value
        return made

    def _first(self, order: Order, made: dict[str, Value] | None = None) -> Point | None:
        visits = iter(range(MOST_NODES))
        return next(self._search(order, lambda: next(visits, None), made), None)

    def _first_given(self, pick: Callable[[tcpx.Variable, Sequence[Value], Point], Value]) -> Point | None:
        """The first point where `pick` also sees the knobs before."""
        made: dict[str, Value] = {}

        def order(variable: tcpx.Variable, items: Sequence[Value]) -> Sequence[Value]:
            first = items.index(pick(variable, items, made))
            return sorted(items, key=lambda item: abs(items.index(item) - first))

        return self._first(order, made)

    def _search(
        self, order: Order, visit: Callable[[], int | None], made: dict[str, Value] | None = None
    ) -> Iterator[Point]:
        """Depth first, knob by knob; a constraint is asked as soon as ranges of the rest decide it."""
        point: dict[str, Value] = {} if made is None else made
        ranges = dict(self._ranges)

        def descend(position: int) -> Iterator[Point]:
            if position == len(self.variables):
                yield dict(point)
                return
            variable = self.variables[position]
            path = variable.path
            if not variable.is_active(point):
                yield from descend(position + 1)
                return
            known = ranges.get(path)
            items = [item for item in self.items(variable, point) if self._fits(path, item, point, ranges)]
            for item in order(variable, items) if items else ():
                if visit() is None:
                    return
                point[path] = item
                ranges[path] = _interval(item)
                yield from descend(position + 1)
            point.pop(path, None)
            ranges.pop(path, None)
            if known is not None:
                ranges[path] = known

        return descend(0)

    def _fits(self, path: str, item: Value, point: dict[str, Value], ranges: dict[str, tuple[float, float]]) -> bool:
        """Whether constraints that watch this knob may still hold."""
        known = ranges.get(path)
        point[path], ranges[path] = item, _interval(item)
        try:
            for constraint in self._watching[path]:
                is_decided = constraint.knobs <= point.keys()
                if not (constraint.holds(point) if is_decided else constraint.may_hold(ranges)):
                    self.killed[constraint.message] += 1
                    return False
            return True
        finally:
            del point[path], ranges[path]
            if known is not None:
                ranges[path] = known


def nearest(items: Sequence[Value], wanted: object) -> Value:
    """The item that is wanted, or the nearest number, or the first."""
    found = next((item for item in items if item == wanted), None)
    if found is not None:
        return found
    if isinstance(wanted, int | float) and all(isinstance(item, int | float) for item in items):
        return min(items, key=lambda item: abs(_number(item) - wanted))
    return items[0]


def _last_of(path: str) -> str:
    """`packed_gemm.mc` of `mlp/fc1/packed_gemm.mc`."""
    return path.rpartition("/")[2]


def point_key(point: Point) -> str:
    """The same text for the same point."""
    return ", ".join(f"{path}={value!r}" for path, value in sorted(point.items()))


def _interval(item: Value) -> tuple[float, float]:
    return (item, item) if isinstance(item, int | float) else (float("-inf"), float("inf"))


def _number(item: object) -> float:
    return item if isinstance(item, int | float) else 0.0
