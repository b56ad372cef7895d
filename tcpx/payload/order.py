"""Numbers that rise along a list, so that places in it are found and compared without walking it."""

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol

STEP = 2**40
"""Distance of neighbours where there is room."""
_number = attrgetter("order")


class Ordered(Protocol):
    """An item of such a list."""

    order: int


def place_of(item: Ordered, items: Sequence[Ordered]) -> int | None:
    """The index of an item; None if it is not in the list."""
    index = bisect_left(items, item.order, key=_number)
    return index if index < len(items) and items[index] is item else None


def number(items: Sequence[Ordered], index: int) -> None:
    """Give the item that was just put at `index` a number between those of its neighbours."""
    below = items[index - 1].order if index else None
    above = items[index + 1].order if index + 1 < len(items) else None
    if below is None or above is None:
        items[index].order = below + STEP if below is not None else above - STEP if above is not None else 0
        return
    items[index].order = (below + above) // 2
    if items[index].order == below:
        _spread(items, index)


def _spread(items: Sequence[Ordered], index: int) -> None:
    """Renumber the items round a crowded place: so many that there is room between them again."""
    width, step = 8, 0
    low, high, below = index, index, 0
    while step < width:
        width *= 2
        low, high = max(0, index - width), min(len(items), index + width)
        if low and high < len(items):
            below = items[low - 1].order
            step = (items[high].order - below) // (high - low + 1)
        else:
            step = STEP
            below = items[low - 1].order if low else items[high].order - STEP * (high + 1) if high < len(items) else 0
    for place, item in enumerate(items[low:high], 1):
        item.order = below + place * step
