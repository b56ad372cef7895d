"""Places for the names of points in a picture, so that they cover neither each other nor points."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

LETTER: Final = 6.8
"""The width of a letter, about, of the widest fonts."""
ASCENT, DESCENT = 9.0, 3.0
LINE: Final = 14.0
GAP: Final = 4.0
MOST_LINES: Final = 7
"""A name may be so far above or below its point."""


class Box(NamedTuple):
    """A rectangle, in units of the picture."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: "Box") -> bool:
        """Whether they have a part in common."""
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)

    def is_in(self, other: "Box") -> bool:
        """Whether the other one has all of it."""
        is_beside = self.left < other.left or self.right > other.right
        return not (is_beside or self.top < other.top or self.bottom > other.bottom)


class Label(NamedTuple):
    """Where a name begins, or with the anchor `end` ends, and whether it is so far from its point that a line shows
    which one it is of."""

    x: float
    y: float
    anchor: str
    is_far: bool


def box_of(x: float, y: float, words: str, anchor: str = "start") -> Box:
    """What a text covers."""
    width = LETTER * len(words)
    left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
    return Box(left, y - ASCENT, left + width, y + DESCENT)


def placed(points: Sequence[tuple[float, float, float, str]], taken: Sequence[Box], room: Box) -> list[Label | None]:
    """Places for the names of points, given as x, y, radius and name, in `room`, without covering what is `taken`; the
    first points have the first choice. None for a name that has no place, or is empty."""
    covered = [*taken, *(Box(x - r, y - r, x + r, y + r) for x, y, r, _ in points)]
    found: list[Label | None] = []
    for x, y, radius, words in points:
        label = None
        for each in _choices(x, y, radius) if words else ():
            box = box_of(each.x, each.y, words, each.anchor)
            if box.is_in(room) and not any(map(box.covers, covered)):
                label = each
                covered.append(box)
                break
        found.append(label)
    return found


def _choices(x: float, y: float, radius: float) -> Iterator[Label]:
    """Beside the point, then farther above and below."""
    for line in range(MOST_LINES):
        for up in (-1, 1) if line else (0,):
            middle = y + DESCENT + up * line * LINE
            yield Label(x + radius + GAP, middle, "start", line > 1)
            yield Label(x - radius - GAP, middle, "end", line > 1)
