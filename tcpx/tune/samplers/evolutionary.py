"""Evolution: neighbours and crossings of the fastest points (a steady-state genetic algorithm with tournaments)."""

import random
from collections.abc import Sequence
from typing import Final

import tcpx
from tcpx.tune.samplers.uniform import RandomSampler
from tcpx.tune.space import Point, Space, Value, nearest, point_key

PARENTS: Final = 12
"""The fastest points, which have offspring."""
EXPLORED: Final = 0.2
"""The part of the proposals that are random."""
CROSSED: Final = 0.3
TRIES: Final = 20


class EvolutionarySampler:
    """Random until it knows a few times, then mostly offspring of the fastest."""

    def __init__(self, space: Space, generator: random.Random) -> None:
        self._space, self._generator = space, generator
        self._random = RandomSampler(space, generator)
        self._known: set[str] = set()
        self._costs: list[tuple[float, Point]] = []

    def ask(self) -> Point | None:
        """Offspring that was not proposed before, or a random point."""
        explores = len(self._costs) < 4 or self._generator.random() < EXPLORED
        for _ in range(0 if explores else TRIES):
            found = self._offspring()
            if found is not None and point_key(found) not in self._known:
                self._known.add(point_key(found))
                return found
        return self._random.ask()

    def tell(self, point: Point, cost: float | None) -> None:
        """Keep the fastest."""
        self._known.add(point_key(point))
        self._random.tell(point, cost)
        if cost is not None:
            self._costs.append((cost, point))
            self._costs.sort(key=lambda held: held[0])
            del self._costs[PARENTS:]

    def _offspring(self) -> Point | None:
        parent = self._parent()
        if self._generator.random() >= CROSSED:
            return next(self._space.neighbours(parent, self._generator), None)
        other = self._parent()

        def choose(variable: tcpx.Variable, items: Sequence[Value]) -> Value:
            held = self._generator.choice([parent, other]).get(variable.path, parent.get(variable.path))
            return nearest(items, held)

        return self._space.walk(choose)

    def _parent(self) -> Point:
        """The faster of two."""
        drawn = [self._generator.choice(self._costs) for _ in range(2)]
        return min(drawn, key=lambda held: held[0])[1]
