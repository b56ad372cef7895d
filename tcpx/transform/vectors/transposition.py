"""Square blocks transposed in registers, or the lanes of each of their rows combined: as many vectors as each has
lanes, in stages of shuffles of two.

A place in the block has a number of a row and a number of a lane. A pair of rows of the target that takes each lane of
two vectors once, and whose numbers of lanes exchange bits, moves bits between both numbers; a block is transposed when
all bits of rows have become bits of lanes. Which pairs do that in as few stages as there are bits is found by search.
Each stage moves a bit of lanes to the numbers of rows: where the two vectors that it makes are combined, half as many
are left, and in the end one, whose lane k is what the lanes of row k give together.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import permutations
from typing import TypeVar

from tcpx.records import frozen
from tcpx.target import LaneType, Target

Bits = tuple[int, ...]
"""What each bit of a number stands for: bits of lanes of the block are 0, 1, .., bits of its rows are behind them."""
RowT = TypeVar("RowT")


@frozen
class Stage:
    """Vectors whose numbers differ in bit `bit` are replaced: the one without it by the lanes `low` of both, the other
    one by the lanes `high`."""

    bit: int
    low: tuple[int, ...]
    high: tuple[int, ...]


@frozen
class Network:
    """The stages, and for each vector in the end the column that it is."""

    stages: tuple[Stage, ...]
    columns: tuple[int, ...]

    def apply(self, rows: Sequence[RowT], shuffled: Callable[[RowT, RowT, Sequence[int]], RowT]) -> list[RowT]:
        """The columns of a block, given its rows and what takes lanes of two of them."""
        held = list(rows)
        for stage in self.stages:
            for number in range(len(held)):
                other = number | 1 << stage.bit
                if other != number:
                    first, second = held[number], held[other]
                    held[number] = shuffled(first, second, stage.low)
                    held[other] = shuffled(first, second, stage.high)
        found = dict(zip(self.columns, held, strict=True))
        return [found[column] for column in range(len(held))]

    def combined(
        self,
        rows: Sequence[RowT],
        shuffled: Callable[[RowT, RowT, Sequence[int]], RowT],
        combine: Callable[[RowT, RowT], RowT],
    ) -> RowT:
        """The lanes of each of some rows combined: those of row k are lane k of the result. Lanes for which there is no
        row hold anything."""
        made: dict[tuple[int, int, Stage], RowT] = {}
        held = {number: rows[_present(number, len(rows))] for number in range(len(self.columns))}
        for stage in self.stages:
            following: dict[int, RowT] = {}
            for number, first in held.items():
                if number >> stage.bit & 1:
                    continue
                second = held[number | 1 << stage.bit]
                key = id(first), id(second), stage
                if key not in made:
                    parts = (shuffled(first, second, lanes) for lanes in (stage.low, stage.high))
                    made[key] = combine(*parts)
                following[number] = made[key]
            held = following
        return held[0]


@lru_cache(maxsize=256)
def network(target: Target, *types: LaneType, columns: int = 0, to_rows: bool = False) -> Network | None:
    """How a block of vectors of each of these types is transposed on the target; None where no rows do it in all.

    With fewer `columns` than lanes, as many vectors hold rows of that length one behind the other, and become the
    columns; the other way with `to_rows`.
    """
    type_ = types[0]
    count, held = type_.lanes.bit_length() - 1, (columns or type_.lanes).bit_length() - 1
    if type_.lanes != 1 << count or count == 0 or columns not in (0, 1 << held) or not 0 < held <= count:
        return None
    others = [{row.lanes for row in target.shuffles(other)} for other in types[1:]]
    rows = [row.lanes for row in target.shuffles(type_) if all(row.lanes in lanes for lanes in others)]
    pairs = [
        (low, high, moved) for low, high in permutations(rows, 2) if (moved := _moved_bits((*low, *high))) is not None
    ]
    bits = tuple(range(count + held))
    start, wanted = (bits[:count], bits[count:]), bits[held:]
    if to_rows:
        start, wanted = (bits[held:], bits[:held]), bits[:count]
    first = count if to_rows else 0
    reached: dict[tuple[Bits, Bits], tuple[Stage, ...]] = {start: ()}
    for _ in range(count):
        following: dict[tuple[Bits, Bits], tuple[Stage, ...]] = {}
        for (lanes, numbers), stages in reached.items():
            for bit in range(held):
                for low, high, moved in pairs:
                    before = (*lanes, numbers[bit])
                    after = tuple(before[source] for source in moved)
                    state = (after[:-1], (*numbers[:bit], after[-1], *numbers[bit + 1 :]))
                    following.setdefault(state, (*stages, Stage(bit, low, high)))
        reached = following
        for (lanes, numbers), stages in reached.items():
            if lanes == wanted:
                order = tuple(bit - first for bit in numbers)
                return Network(stages, tuple(_number(order, vector) for vector in range(1 << held)))
    return None


def _present(number: int, count: int) -> int:
    """The number of one of `count` rows that stands for another one, so that as few pairs differ as can be."""
    while number >= count:
        number -= 1 << number.bit_length() - 1
    return number


def _moved_bits(lanes: Sequence[int]) -> Bits | None:
    """From which bit of the number of a source each bit of the number of a lane comes; None where lanes are not moved
    by exchanging bits. The last bit says which of two vectors."""
    count = len(lanes).bit_length() - 1
    sources = [lanes[1 << bit] for bit in range(count)]
    if any(source.bit_count() != 1 for source in sources) or len(set(sources)) != count:
        return None
    moved = tuple(source.bit_length() - 1 for source in sources)
    return moved if all(lanes[k] == _number(moved, k) for k in range(len(lanes))) else None


def _number(bits: Bits, held: int) -> int:
    """The number whose bit `bits[k]` is bit k of `held`."""
    return sum(1 << place for k, place in enumerate(bits) if held >> k & 1)
