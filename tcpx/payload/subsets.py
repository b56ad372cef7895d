"""Rectangular subsets of tensors, vectors and buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tcpx.payload.sizes import (
    Dim,
    Max,
    Min,
    Mod,
    Size,
    Substitution,
    Var,
    is_equal,
    is_less_equal,
    lower_bound,
    minimum,
    mod,
    not_negative,
    substitute,
    to_text,
    upper_bound,
    variables,
)
from tcpx.payload.sizes.monotone import direction
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.sizes.substitution import are_same
from tcpx.records import frozen_for_checkers


@frozen_for_checkers
class Tile:
    """Elements offsets + strides * (0..sizes-1) of a source; `dropped` dims have size 1 and are not in the value.

    Offsets, sizes and strides have one entry per dim of the source, in elements; no strides means all 1.
    """

    offsets: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    strides: tuple[Dim, ...] = ()
    dropped: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.strides:
            object.__setattr__(self, "strides", (1,) * len(self.offsets))

    @staticmethod
    def full(shape: Sequence[Dim]) -> Tile:
        """The tile that is all of a source."""
        return Tile((0,) * len(shape), tuple(shape))

    @property
    def rank(self) -> int:
        """Dims of the source."""
        return len(self.offsets)

    @property
    def kept(self) -> tuple[int, ...]:
        """Dims of the source that are dims of the value."""
        return tuple(dim for dim in range(self.rank) if dim not in self.dropped)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Shape of the value: the sizes of the dims that are not dropped."""
        return tuple(self.sizes[dim] for dim in self.kept)

    @property
    def extents(self) -> tuple[Dim, ...]:
        """Elements from the first to the last along each dim."""
        return tuple(
            size if stride == 1 else (size - 1) * stride + 1
            for size, stride in zip(self.sizes, self.strides, strict=True)
        )

    @property
    def has_unit_strides(self) -> bool:
        """Whether every stride is the constant 1."""
        return all(stride == 1 for stride in self.strides)

    @property
    def has_steps(self) -> bool:
        """Whether it may leave elements out between those that it has."""
        return any(stride not in (1, -1) for stride in self.strides)

    @property
    def is_at_origin(self) -> bool:
        """Whether it provably is the first elements along each dim, one after the other."""
        return self.has_unit_strides and all(offset == 0 for offset in self.offsets)

    def is_full(self, shape: Sequence[Dim], known: KnownSymbols = NOTHING_KNOWN) -> bool:
        """Whether the value provably is the whole source of this shape, dim for dim, by what is `known`."""
        return (
            not self.dropped
            and len(shape) == self.rank
            and all(is_equal(stride, 1, known) is True for stride in self.strides)
            and all(_is_zero_throughout(offset, known) for offset in self.offsets)
            and all(is_equal(size, dim, known) is True for size, dim in zip(self.sizes, shape, strict=True))
        )

    def is_one_run(self, shape: Sequence[Dim]) -> bool:
        """Whether its elements follow one another, row by row, in a value of this shape."""
        long = [dim for dim, size in enumerate(self.sizes) if size != 1]
        whole = range(long[0] + 1, self.rank) if long else ()
        return self.has_unit_strides and all(
            self.offsets[dim] == 0 and is_equal(self.sizes[dim], shape[dim]) is True for dim in whole
        )

    def leaves(self, dim: int, extent: Dim) -> bool:
        """Whether an element of the tile provably lies outside of a dim of this extent, for all sizes."""
        offset, size, stride = self.offsets[dim], self.sizes[dim], self.strides[dim]
        if (lower_bound(size) or 0) < 1:
            return False
        places = (offset, offset + (size - 1) * stride)
        most = [upper_bound(place) for place in places]
        beyond = [lower_bound(place - extent) for place in places]
        return any(b is not None and b < 0 for b in most) or any(b is not None and b >= 0 for b in beyond)

    def rising(self) -> Tile:
        """Its elements in an order in which no stride is negative; of an empty dim, nothing."""
        if all(not isinstance(stride, int) or stride >= 0 for stride in self.strides):
            return self
        offsets, strides = list(self.offsets), list(self.strides)
        for dim, (size, stride) in enumerate(zip(self.sizes, self.strides, strict=True)):
            if isinstance(stride, int) and stride < 0:
                offsets[dim], strides[dim] = offsets[dim] + (size - 1) * stride, -stride
        return Tile(tuple(offsets), self.sizes, tuple(strides), self.dropped)

    def dense(self) -> Tile:
        """All elements from its first to its last along each dim, in rising order, with the dims that it drops; itself
        where it has steps that only the kernel knows."""
        if (self.has_unit_strides and not self.dropped) or not all(isinstance(stride, int) for stride in self.strides):
            return self
        rising = self.rising()
        return Tile(rising.offsets, tuple(map(not_negative, rising.extents)))

    def order_in_dense(self) -> Tile:
        """Its elements, of those of `dense`."""
        extents = self.rising().extents
        falls = [isinstance(stride, int) and stride < 0 for stride in self.strides]
        offsets = tuple(extent - 1 if fall else 0 for extent, fall in zip(extents, falls, strict=True))
        return Tile(offsets, self.sizes, self.strides, self.dropped)

    def substitute(self, mapping: Substitution, known: KnownSymbols = NOTHING_KNOWN) -> Tile:
        """The tile with symbols and loop variables replaced, simplified by what is `known`; itself where nothing is."""
        return self.map(lambda d: substitute(d, mapping, known))

    def map(self, of: Callable[[Dim], Dim]) -> Tile:
        """The tile with what `of` makes of its sizes; itself where these stay."""
        offsets, sizes, strides = (tuple([of(d) for d in part]) for part in (self.offsets, self.sizes, self.strides))
        parts = ((offsets, self.offsets), (sizes, self.sizes), (strides, self.strides))
        return self if all(are_same(new, old) for new, old in parts) else Tile(offsets, sizes, strides, self.dropped)

    def text(self) -> str:
        """`tile [%i, 0] [min(6, M - %i), N]`, then ` [strides]` and ` drop [dims]` where there are any."""
        words = [f"tile {_list_text(self.offsets)} {_list_text(self.sizes)}"]
        if not self.has_unit_strides:
            words.append(_list_text(self.strides))
        if self.dropped:
            words.append(f"drop {_list_text(self.dropped)}")
        return " ".join(words)

    def __str__(self) -> str:
        return self.text()


def _is_zero_throughout(offset: Dim, known: KnownSymbols) -> bool:
    """Whether an offset provably is 0 in every iteration of the loops round it, whatever their ranges become.

    A loop variable may be 0 only because an iteration runs at all, or until its loop is peeled or split: what is known
    of sizes by it would be lost with the variable.
    """
    return not variables(offset) and is_equal(offset, 0, known) is True


def compose(outer: Tile, inner: Tile) -> Tile:
    """The tile of outer's source that is `inner` of outer's value."""
    offsets, sizes, strides = list(outer.offsets), list(outer.sizes), list(outer.strides)
    for dim, offset, size, stride in zip(outer.kept, inner.offsets, inner.sizes, inner.strides, strict=True):
        offsets[dim] = outer.offsets[dim] + outer.strides[dim] * offset
        sizes[dim] = size
        strides[dim] = outer.strides[dim] * stride
    dropped = tuple(sorted((*outer.dropped, *(outer.kept[dim] for dim in inner.dropped))))
    return Tile(tuple(offsets), tuple(sizes), tuple(strides), dropped)


def disjoint(a: Tile, b: Tile, known: KnownSymbols) -> bool | None:
    """Whether two tiles of one source share no element, with what is known of symbols; None if unknown."""
    a, b = a.rising(), b.rising()
    extents = list(zip(a.offsets, a.extents, b.offsets, b.extents, strict=True))
    if any(_ends_before(start, extent, other) for start, extent, other, _ in extents) or any(
        _ends_before(other, extent, start) for start, _, other, extent in extents
    ):
        return True
    for start, extent, other_start, other_extent in extents:
        if start == other_start:
            continue
        if _is_before(start, extent, other_start, known) or _is_before(other_start, other_extent, start, known):
            return True
        if extent == other_extent == 1 and _are_other_residues(start, other_start):
            return True
    if any(is_less_equal(size, 0, known) is True for size in (*a.sizes, *b.sizes)):
        return True
    if not (a.has_unit_strides and b.has_unit_strides):
        return None
    if any((lower_bound(size, known) or 0) < 1 for size in (*a.sizes, *b.sizes)):
        return None
    for start, extent, other_start, other_extent in extents:
        if is_less_equal(start + extent, other_start, known) is not False:
            return None
        if is_less_equal(other_start + other_extent, start, known) is not False:
            return None
    return False


def _ends_before(start: Dim, extent: Dim, other: Dim) -> bool:
    """Whether start + extent <= other without a search: constant distance, extent limited by a constant."""
    distance = other - start
    match extent:
        case Size(terms=(((Min(args=(int() as most, *_)),), 1),), constant=constant):
            return isinstance(distance, int) and most + constant <= distance
        case _:
            return isinstance(distance, int) and isinstance(extent, int) and extent <= distance


def _is_before(start: Dim, extent: Dim, other: Dim, known: KnownSymbols) -> bool:
    """Whether an interval is proved to end before another begins, or to be empty."""
    most = where_positive(extent)
    ends = [start + extent] if most == extent else [start + extent, start + most]
    return any(is_less_equal(end, other, known) is True for end in ends)


def _are_other_residues(a: Dim, b: Dim) -> bool:
    """Whether two sizes are remainders by one number that provably differ: `mod(t, 2)` and `mod(t + 1, 2)`."""
    match a, b:
        case (
            Size(terms=(((Mod(lhs=first, rhs=int() as divisor),), 1),), constant=0),
            Size(terms=(((Mod(lhs=second, rhs=other),), 1),), constant=0),
        ) if divisor == other:
            return (distance := mod(second - first, divisor)) != 0 and isinstance(distance, int)
        case _:
            return False


def where_positive(size: Dim) -> Dim:
    """What a size is where it is at least 1: without `max(0, ..)`."""
    match size:
        case Size(terms=(((Max(args=(0, most)),), 1),), constant=0):
            return most
        case Size(terms=(((Min(args=args),), 1),), constant=0):
            return minimum(*map(where_positive, args))
        case _:
            return size


def over_iterations(tile: Tile, var: Var, shape: Sequence[Dim], known: KnownSymbols) -> Tile | None:
    """The tile of a source of this shape that is those of all iterations of a loop together; None if nothing proves,
    with what is `known` of symbols, that they are one without gaps."""
    if not tile.has_unit_strides or tile.dropped:
        return None
    sign_of = partial(sign, known=known)
    runs = is_less_equal(var.lower + 1, var.upper, known) is True
    stepped = [d for d in range(tile.rank) if var in variables(tile.offsets[d]) or var in variables(tile.sizes[d])]
    if not stepped:
        return tile if runs else None
    dim, *others = stepped
    falls = direction(tile.offsets[dim] + tile.sizes[dim], var, sign_of) == -1
    # Where indices fall, their negatives rise.
    offset, end = (-tile.offsets[dim] - tile.sizes[dim], 0) if falls else (tile.offsets[dim], shape[dim])
    if others or direction(offset, var, sign_of) != 1:
        return None
    start, behind, following = (
        substitute(offset, {var: v}, known) for v in (var.lower, var.upper, var.size() + var.step)
    )
    # Seen from where an iteration starts. In the last one, `to_behind` is not above `step`.
    size, step, to_behind, to_end = tile.sizes[dim], following - offset, behind - offset, end - offset
    ends_behind = ((size, to_behind), (minimum(step, to_behind, known=known), size))
    ends_with_source = (
        (size, not_negative(to_end, known)),
        (minimum(step, to_end, known=known), size),
        (minimum(to_end, to_end - to_behind + step, known=known), size),
    )
    if _all_hold(ends_behind, known):
        last = behind
    elif _all_hold(ends_with_source, known) and (runs or is_less_equal(end, behind, known) is True):
        last = end
    else:
        return None
    offsets, sizes = list(tile.offsets), list(tile.sizes)
    offsets[dim], sizes[dim] = -last if falls else start, last - start
    return Tile(tuple(offsets), tuple(sizes))


def _all_hold(pairs: Sequence[tuple[Dim, Dim]], known: KnownSymbols) -> bool:
    """Whether the first of each pair provably is at most the second."""
    return all(is_less_equal(a, b, known) is True for a, b in pairs)


def sign(d: Dim, known: KnownSymbols) -> int | None:
    """1 for a size that provably is not negative, -1 for one that is not positive, None where nothing proves it."""
    return 1 if is_less_equal(0, d, known) is True else -1 if is_less_equal(d, 0, known) is True else None


def _list_text(dims: Sequence[Dim]) -> str:
    return f"[{', '.join(map(to_text, dims))}]"
