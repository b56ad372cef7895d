"""What recipes cost on a target, as measured: the table by which a schedule chooses between them.

    costs:
      others: dearer                                  # than those with a line, in each level that has one
      rows:                                           # a kind of product, by the bytes of its right factor
        - {bytes: l1 / 2, direct: [0, 11]}            # up to half of L1
        - {bytes: 3 * l2, direct: [0, 11], large: [512, 10]}
        - {direct: [90, 14], large: [512, 10]}        # more than that

A recipe takes `start + rows * row` for each element of the right factor, in one unit: what does not depend on the rows
of the result (packing that factor), and what each row takes. So it follows from how many rows on another is cheaper.
A recipe without a line is predicted (`predicted_costs`); a table that says `others: dearer` has measured all of them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import floor, inf, isqrt
from types import MappingProxyType
from typing import Final

from tcpx.records import frozen
from tcpx.target.table import Node

Costs = Mapping[str, "tuple[Level, ...]"]
_BYTES: Final = re.compile(r"(?:(\d+) \* )?(l[123])(?: / (\d+))?")
BEYOND: Final = 2
"""A right factor of the last level has as many times the bytes of the level before."""
ALL: Final = 4194304
"""Bytes of a right factor where a kind has one level."""
_OTHERS: Final = "others"
_DEARER: Final = "dearer"
_ROUNDING: Final = 1e-9
"""Relative: what dividing decimal fractions leaves."""


@frozen
class Line:
    """What a recipe takes: `start + rows * row`."""

    start: float
    row: float


@frozen
class Region:
    """Where a recipe is the cheapest: bytes above `least_bytes` up to `most_bytes`, and rows; None is no limit."""

    least_bytes: int
    most_bytes: int | None
    least_rows: int
    most_rows: int | None


@frozen
class Level:
    """What recipes take for right factors of at most `most_bytes`; None is no limit."""

    most_bytes: int | None
    lines: Mapping[str, Line]
    size: int
    """Bytes of a right factor inside: halfway to `most_bytes`, on a scale of powers."""
    is_whole: bool = False
    """Whether recipes without a line cost more than those with one."""

    def rows_of(self, recipe: str, others: Sequence[str]) -> tuple[int, int | None] | None:
        """The least and the most rows for which a recipe takes no longer than each of the others; None without any.
        What has no line is dearer than all that has."""
        own = self.lines.get(recipe)
        if own is None:
            return None
        least, most = 0.0, inf
        for other in (self.lines[name] for name in others if name in self.lines and name != recipe):
            gain, saved = other.start - own.start, own.row - other.row
            if saved > 0:
                most = min(most, gain / saved)
            elif saved < 0:
                least = max(least, gain / saved)
            elif gain < 0:
                return None
        if most < max(least, 1):
            return None
        return -floor(-least * (1 - _ROUNDING)), None if most == inf else floor(most * (1 + _ROUNDING))


def regions(levels: Sequence[Level], recipe: str, others: Sequence[str]) -> tuple[Region, ...]:
    """Where a recipe is the cheapest; levels that follow each other and agree are one region."""
    found: list[Region] = []
    below = 0
    for level in levels:
        rows = level.rows_of(recipe, others)
        if rows is not None:
            last = found[-1] if found else None
            joins = last is not None and last.most_bytes == below and (last.least_rows, last.most_rows) == rows
            start = found.pop().least_bytes if joins else below
            found.append(Region(start, level.most_bytes, *rows))
        below = level.most_bytes if level.most_bytes is not None else below
    return tuple(found)


def levels_at(limits: Sequence[int | None]) -> tuple[Level, ...]:
    """Levels of a kind that end there, without a line."""
    found: list[Level] = []
    below = 0
    for limit in limits:
        size = below * BEYOND if limit is None else isqrt(below * limit) if below else limit // 2
        found.append(Level(limit, MappingProxyType({}), size or ALL))
        below = limit or below
    return tuple(found)


def read_costs(node: Node, sizes: Mapping[str, int]) -> Costs:
    """The table under `costs`; `sizes` are those of the caches, which may leave a level nothing. Raises TargetError."""
    fields = node.fields()
    others = fields.pop(_OTHERS, None)
    if others is not None and others.value != _DEARER:
        raise others.fail(f"`{_DEARER}`, or no `{_OTHERS}` where they are to be predicted")
    return MappingProxyType({name: _levels(held, sizes, others is not None) for name, held in fields.items()})


def _levels(node: Node, sizes: Mapping[str, int], is_whole: bool) -> tuple[Level, ...]:
    *inner, last = node.items() or [node]
    found: dict[int | None, Mapping[str, Line]] = {}
    largest = 0
    for item in (*inner, last):
        fields = item.fields()
        most = fields.pop("bytes", None)
        if (most is None) is not (item is last):
            raise item.fail("`bytes` in every level but the last", found=", ".join(item.fields()))
        limit = _bytes(most, sizes) if most is not None else None
        lines = MappingProxyType({name: _line(held) for name, held in fields.items()})
        if limit is None or limit > largest or not found:  # else nothing is left for it here
            found[limit] = lines
            largest = limit or largest
    ends = levels_at(list(found))
    return tuple(replace(level, lines=found[level.most_bytes], is_whole=is_whole) for level in ends)


def _bytes(node: Node, sizes: Mapping[str, int]) -> int:
    if isinstance(node.value, int):
        return node.number()
    found = _BYTES.fullmatch(node.text())
    if found is None:
        raise node.fail("a number of bytes, or of caches: `l1 / 2`, `l2`, `3 * l2`")
    times, cache, parts = found.groups()
    return sizes[cache] * int(times or 1) // int(parts or 1)


def _line(node: Node) -> Line:
    held = [item.value for item in node.items()]
    numbers = [float(v) for v in held if isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v < inf]
    if len(numbers) != len(held) or len(held) != 2:
        raise node.fail("two numbers, `[start, row]`, that are not negative")
    return Line(*numbers)
