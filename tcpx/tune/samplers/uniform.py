"""Points at random."""

import random
from typing import Final

from tcpx.tune.samplers.grid import GridSampler
from tcpx.tune.space import Point, Space, point_key

MOST_REPEATS: Final = 30
"""After so many known points in a row, what is left is gone through in order."""


class RandomSampler:
    """Draws knob by knob; of points that were tried, others are drawn."""

    def __init__(self, space: Space, generator: random.Random) -> None:
        self._space, self._generator = space, generator
        self._known: set[str] = set()
        self._rest: GridSampler | None = None

    def ask(self) -> Point | None:
        """A point that was not proposed before; None if there are none left."""
        for _ in range(MOST_REPEATS):
            if self._rest is not None:
                break
            found = self._space.sample(self._generator)
            if found is None:
                break
            if self._is_new(found):
                return found
        self._rest = self._rest or GridSampler(self._space)
        while (found := self._rest.ask()) is not None:
            if self._is_new(found):
                return found
        return None

    def tell(self, point: Point, cost: float | None) -> None:
        """A point that was tried is not proposed again."""
        del cost
        self._known.add(point_key(point))

    def _is_new(self, point: Point) -> bool:
        key = point_key(point)
        is_new = key not in self._known
        self._known.add(key)
        return is_new
