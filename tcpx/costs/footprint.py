"""Bytes that the loops of a kernel touch, and how often they have to come from beyond a cache.

A site is what one block does to one buffer: a box of elements, which loop variables move. The footprint of a loop is
the sum over buffers of what its sites touch while it and the loops inside run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
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
    strides: tuple[int, ...] = ()
    """Bytes from an element to the next one in each dim."""
    moved: int = 1
    """How often its lines are moved each time."""
    is_read: bool = False
    parts: list[set[tuple[int, int]]] = field(default_factory=list[set[tuple[int, int]]])
    """The ranges of each dim that the accesses of the block touch: rows may be left out in between."""

    def _extents(self, inside: int) -> list[int]:
        """The elements of each dim that are touched while loops from number `inside` on run: rows that are left out
        are not, elements of rows come with their lines."""
        found: list[int] = []
        for dim, (low, high, size) in enumerate(zip(self.low, self.high, self.shape, strict=True)):
            moving = [
                (abs(s[dim]), trip.count)
                for s, trip in zip(self.shifts[inside:], self.trips[inside:], strict=True)
                if s[dim]
            ]
            up_to = min(high - low + sum(distance for distance, _ in moving), size)
            apart = sum(end - begin for begin, end in self.parts[dim]) * prod(count for _, count in moving)
            found.append(min(up_to, apart) if dim < len(self.shape) - 1 else up_to)
        return found

    def bytes(self, inside: int) -> int:
        """What is touched while loops from number `inside` on run."""
        extents = self._extents(inside)
        if not extents:
            return self.width
        return prod(extents[:-1]) * max(extents[-1] * self.width, min(LINE, self.shape[-1] * self.width))

    def sets(self, inside: int, sets: int) -> int:
        """How many of the sets of a cache its lines fall into while these loops run: few where rows lie at a distance
        that has a large power of two in it."""
        extents = self._extents(inside)
        if not extents:
            return 1
        row = max(1, min(sets, -(-extents[-1] * self.width // LINE)))
        return _sets_of_rows(row, tuple(zip(extents[:-1], self.strides, strict=False)), sets)

    def overflows(self, inside: int, capacity: int, ways: int) -> int:
        """The sets of a cache of so many ways that its lines fall into while these loops run, if these do not hold them
        until the loops run again; else 0."""
        sets = sets_of(capacity, ways)
        used = self.sets(inside, sets)
        *rows, row = self._extents(inside) or [1]
        lines = max(1, -(-row * self.width // LINE))
        for count, stride in zip(rows, self.strides, strict=False):
            lines *= count if abs(stride) >= LINE else -(-count * abs(stride) // LINE)  # a line has several short rows
        return used if used < sets and lines > held(used * ways) else 0

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
    footprints: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """The bytes that each loop touches while it runs, once they were asked for."""

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
        self.footprints.clear()
        low = [evaluate(offset, sizes) for offset in tile.offsets]
        high = [at + max(0, evaluate(size, sizes)) for at, size in zip(low, tile.sizes, strict=True)]
        key = id(block), id(value)
        known = self.found.get(key)
        if known is None:
            shape = tuple(max(0, evaluate(dim, sizes)) for dim in type_.shape)
            width = -(-type_.dtype.bits // 8)
            shifts = [_shift(tile.offsets, low, trip, sizes) for trip in trips]
            strides = tuple(width * evaluate(stride, sizes) for stride in type_.strides)
            parts = [{pair} for pair in zip(low, high, strict=True)]
            self.found[key] = Site(
                value, trips, low, high, shape, width, shifts, strides, moved, moved < WRITTEN, parts
            )
            return
        for own, pair in zip(known.parts, zip(low, high, strict=True), strict=True):
            own.add(pair)
        known.moved = max(known.moved, moved)
        known.is_read |= moved < WRITTEN
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
        short = (site for site in self.found.values() if site.trips and site.has_short_rows)
        fetched = self._fetched(capacity, 0)
        return sum(max(0.0, fetched.get(id(site), 0.0) - site.bytes(0)) / LINE for site in short)

    def lines_in_turn(self, capacity: int, ways: int) -> float:
        """How many lines come one after the other, into one set of a cache: those of a site come into few of its sets,
        which cannot hold them."""
        found = 0.0
        fetched = self._fetched(capacity, ways)
        for site in self.found.values():
            inner = [used for k in range(len(site.trips) + 1) if (used := site.overflows(k, capacity, ways))]
            found += fetched.get(id(site), 0.0) / LINE / inner[-1] if inner else 0.0
        return found

    def _footprints(self) -> dict[Operation, int]:
        loops = {trip.loop for site in self.found.values() for trip in site.trips} - self.footprints.keys()
        for loop in loops:
            inside = [s for s in self.found.values() if any(trip.loop is loop for trip in s.trips)]
            self.footprints[loop] = _together(inside, lambda s, loop=loop: s.bytes(_position(s, loop)))
        return self.footprints

    def _fetched(self, capacity: int, ways: int) -> dict[int, float]:
        """The bytes of each site, by its id, that come from beyond a cache. With `ways`, that does not hold a
        site either whose lines fall into too few of its sets."""
        if self.footprint() <= capacity and not (
            ways and any(site.overflows(0, capacity, ways) for site in self.found.values())
        ):
            return {}
        footprints = self._footprints()
        return {id(site): _fetched(site, footprints, capacity, ways) for site in self.found.values()}

    def by_loop(self, capacity: int) -> dict[Operation | None, float]:
        """The same bytes as `traffic`, by the loop that a site is in."""
        found: dict[Operation | None, float] = {}
        fetched = self._fetched(capacity, 0)
        for site in self.found.values() if fetched else ():
            loop = site.trips[-1].loop if site.trips else None
            found[loop] = found.get(loop, 0.0) + fetched[id(site)] * site.moved
        return found


def held(capacity: int) -> int:
    """What a cache still has most of: where it is a little more than its size, a few of its sets overflow."""
    return capacity + capacity // 8


def sets_of(capacity: int, ways: int) -> int:
    """The sets of a cache of so many bytes: a power of two."""
    return 1 << max(1, capacity // (LINE * ways)).bit_length() - 1


@cache
def _sets_of_rows(lines: int, dims: tuple[tuple[int, int], ...], sets: int) -> int:
    """How many sets of a cache some rows use. Each row has `lines` lines; `dims` are how many rows there are along each
    dim, and the bytes from one to the next."""
    every = (1 << sets) - 1
    used = (1 << lines) - 1
    for count, stride in dims:
        done = 1
        while done < count:  # rows that lie further, as many as there are
            more = min(done, count - done)
            shift = more * stride // LINE % sets
            used |= ((used << shift) | (used >> (sets - shift))) & every
            done += more
    return used.bit_count()


def _together(sites: Sequence[Site], size: Callable[[Site], int]) -> int:
    """Of the sites of a buffer, the largest counts."""
    held: dict[int, int] = {}
    for site in sites:
        held[id(site.buffer)] = max(held.get(id(site.buffer), 0), size(site))
    return sum(held.values())


def _position(site: Site, loop: Operation) -> int:
    return next(k for k, trip in enumerate(site.trips) if trip.loop is loop)


def _fetched(site: Site, footprints: Mapping[Operation, int], capacity: int, ways: int) -> float:
    fits = (
        k
        for k, trip in enumerate(site.trips)
        if footprints[trip.loop] <= capacity and not (ways and site.overflows(k, capacity, ways))
    )
    inside = next(fits, len(site.trips))
    outside = inside
    while outside > 0 and not site.depends_on(outside - 1):
        outside -= 1
    once = float(site.bytes(inside))
    is_kept = not (ways and site.overflows(len(site.trips), capacity, ways))
    if outside == inside > 0 and is_kept:  # iterations that follow each other may share a line
        outside -= 1
        once = min(once * site.trips[outside].count, float(site.bytes(outside)))
    return once * prod(trip.count for trip in site.trips[:outside])


def _shift(offsets: Sequence[Dim], low: Sequence[int], trip: Trip, sizes: Mapping[str, int]) -> list[int]:
    if trip.last == trip.first:
        return [0] * len(low)
    moved = {**sizes, trip.name: trip.last}
    return [evaluate(offset, moved) - at for offset, at in zip(offsets, low, strict=True)]
