"""Bytes that the loops of a kernel touch, and how often they have to come from beyond a cache.

A site is what one block does to one buffer: a box of elements, which loop variables move. The footprint of a loop is
the sum over buffers of what its sites touch while it and the loops inside run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.sizes import Dim, evaluate
from tcpx.payload.subsets import Tile
from tcpx.payload.types import BufferType
from tcpx.records import frozen

LINE = 64
"""Bytes of a cache line."""
WRITTEN = 2
"""How often a line is moved that is written: it comes, and goes back."""
PREFETCHED = 1024
"""Bytes of a row from which the core fetches the next lines before they are read."""
LINE_CYCLES = 12.0
"""Cycles in which a line comes from L3 that no prefetch brings, beside others on their way: measured on a Zen 4, by
products of 4 to 6 rows with a depth of 4096 and 16384."""


@frozen
class Trip:
    """A loop at given sizes: `first` and `last` are values of its variable, `loop` tells it from others."""

    loop: Operation
    name: str
    first: int
    last: int
    count: int


@dataclass(slots=True)
class Site:
    """What a block touches of a buffer in the first iteration of all loops round it, `trips`, the outermost first.

    `shifts` has, for each loop, how far its last iteration is from its first, by dim.
    """

    buffer: object
    trips: tuple[Trip, ...]
    low: list[int]
    high: list[int]
    shape: tuple[int, ...]
    width: int
    shifts: list[list[int]]
    moved: int = 1
    """How often its lines are moved each time."""

    def bytes(self, inside: int) -> int:
        """What is touched while loops from number `inside` on run."""
        moved = [sum(abs(shift[dim]) for shift in self.shifts[inside:]) for dim in range(len(self.low))]
        extents = [
            min(high - low + more, size)
            for low, high, more, size in zip(self.low, self.high, moved, self.shape, strict=True)
        ]
        if not extents:
            return self.width
        return prod(extents[:-1]) * max(extents[-1] * self.width, min(LINE, self.shape[-1] * self.width))

    def _run(self) -> int:
        """The bytes that lie side by side of what the innermost loop touches in one run."""
        moved = self.shifts[-1] if self.shifts else [0] * len(self.low)
        along = 0 if any(moved[:-1]) else abs(moved[-1])
        return (self.high[-1] - self.low[-1] + along) * self.width

    @property
    def has_short_rows(self) -> bool:
        """Whether the innermost loop goes from row to row of which it touches a short part."""
        return len(self.shape) > 1 and self._run() < min(PREFETCHED, self.shape[-1] * self.width)

    def depends_on(self, loop: int) -> bool:
        """Whether a loop moves it."""
        return any(self.shifts[loop])


@dataclass(slots=True)
class Sites:
    """All sites of a kernel."""

    found: dict[tuple[int, int], Site] = field(default_factory=dict[tuple[int, int], Site])

    def note(
        self,
        block: Block | None,
        value: Value,
        tile: Tile,
        trips: tuple[Trip, ...],
        sizes: Mapping[str, int],
        moved: int = 1,
    ) -> None:
        """An access to a buffer; accesses of a block to one buffer are one site."""
        type_ = value.type
        if not isinstance(type_, BufferType):
            return
        low = [evaluate(offset, sizes) for offset in tile.offsets]
        high = [at + max(0, evaluate(size, sizes)) for at, size in zip(low, tile.sizes, strict=True)]
        key = id(block), id(value)
        known = self.found.get(key)
        if known is None:
            shape = tuple(max(0, evaluate(dim, sizes)) for dim in type_.shape)
            width = -(-type_.dtype.bits // 8)
            shifts = [_shift(tile.offsets, low, trip, sizes) for trip in trips]
            self.found[key] = Site(value, trips, low, high, shape, width, shifts, moved)
            return
        known.moved = max(known.moved, moved)
        known.low = list(map(min, known.low, low))
        known.high = list(map(max, known.high, high))

    def footprint(self) -> int:
        """Bytes that all of the kernel touches."""
        return _together(list(self.found.values()), lambda site: site.bytes(0))

    def once(self) -> int:
        """Bytes that move if all that it touches comes, and goes back, once."""
        held: dict[int, int] = {}
        for site in self.found.values():
            held[id(site.buffer)] = max(held.get(id(site.buffer), 0), site.bytes(0) * site.moved)
        return sum(held.values())

    def traffic(self, capacity: int) -> float:
        """Bytes that come from beyond a cache of this capacity while it runs, when it ran before.

        Each site is fetched again whenever a loop runs whose footprint the cache does not hold; what the next loops out
        do not move stays, and so does what an iteration shares with the next one.
        """
        return sum(self.by_loop(capacity).values())

    def lines_again(self, capacity: int) -> float:
        """Lines of short rows that come once more from beyond a cache of this capacity while it runs: no prefetch
        brings them."""
        if self.footprint() <= capacity:
            return 0.0
        footprints = self._footprints()
        short = (site for site in self.found.values() if site.trips and site.has_short_rows)
        return sum(max(0.0, _fetched(site, footprints, capacity) - site.bytes(0)) / LINE for site in short)

    def _footprints(self) -> dict[Operation, int]:
        """The bytes that each loop touches while it runs."""
        found: dict[Operation, int] = {}
        for loop in {trip.loop for site in self.found.values() for trip in site.trips}:
            inside = [s for s in self.found.values() if any(trip.loop is loop for trip in s.trips)]
            found[loop] = _together(inside, lambda s, loop=loop: s.bytes(_position(s, loop)))
        return found

    def by_loop(self, capacity: int) -> dict[Operation | None, float]:
        """The same bytes, by the loop that a site is in."""
        found: dict[Operation | None, float] = {}
        if self.footprint() <= capacity:
            return found
        footprints = self._footprints()
        for site in self.found.values():
            loop = site.trips[-1].loop if site.trips else None
            found[loop] = found.get(loop, 0.0) + _fetched(site, footprints, capacity) * site.moved
        return found


def _together(sites: Sequence[Site], size: Callable[[Site], int]) -> int:
    """Of the sites of a buffer, the largest counts."""
    held: dict[int, int] = {}
    for site in sites:
        held[id(site.buffer)] = max(held.get(id(site.buffer), 0), size(site))
    return sum(held.values())


def _position(site: Site, loop: Operation) -> int:
    return next(k for k, trip in enumerate(site.trips) if trip.loop is loop)


def _fetched(site: Site, footprints: Mapping[Operation, int], capacity: int) -> float:
    fits = (k for k, trip in enumerate(site.trips) if footprints[trip.loop] <= capacity)
    inside = next(fits, len(site.trips))
    outside = inside
    while outside > 0 and not site.depends_on(outside - 1):
        outside -= 1
    once = float(site.bytes(inside))
    if outside == inside > 0:  # iterations that follow each other may share a line
        outside -= 1
        once = min(once * site.trips[outside].count, float(site.bytes(outside)))
    return once * prod(trip.count for trip in site.trips[:outside])


def _shift(offsets: Sequence[Dim], low: Sequence[int], trip: Trip, sizes: Mapping[str, int]) -> list[int]:
    if trip.last == trip.first:
        return [0] * len(low)
    moved = {**sizes, trip.name: trip.last}
    return [evaluate(offset, moved) - at for offset, at in zip(offsets, low, strict=True)]
