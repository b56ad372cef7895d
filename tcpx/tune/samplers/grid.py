"""All points, in order."""

from collections.abc import Iterator

from tcpx.tune.space import Point, Space


class GridSampler:
    """Goes through the space once, lazily."""

    def __init__(self, space: Space) -> None:
        self._points: Iterator[Point] = space.points()

    def ask(self) -> Point | None:
        """The next point."""
        return next(self._points, None)

    def tell(self, point: Point, cost: float | None) -> None:
        """What came of a point changes nothing."""
