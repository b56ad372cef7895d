"""What recipes cost on a target, as measured: the table by which a schedule chooses between them.

    costs:
      rows:                                           # a kind of product, by the bytes of its right factor
        - {bytes: l1 / 2, direct: [0, 11]}            # up to half of L1
        - {bytes: 3 * l2, direct: [0, 11], large: [512, 10]}
        - {direct: [90, 14], large: [512, 10]}        # more than that

A recipe takes `start + rows * row` for each element of the right factor, in one unit: what does not depend on the rows
of the result (packing that factor), and what each row takes. So it follows from how many rows on another is cheaper.
"""

import re
from collections.abc import Mapping, Sequence
from math import floor, inf
from types import MappingProxyType
from typing import Final

from tcpx.records import frozen
from tcpx.target.table import Node

Costs = Mapping[str, "tuple[Level, ...]"]
_BYTES: Final = re.compile(r"(?:(\d+) \* )?(l[123])(?: / (\d+))?")
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

    def rows_of(self, recipe: str, others: Sequence[str]) -> tuple[int, int | None] | None:
        """The least and the most rows for which a recipe takes no longer than each of the others; None without any.
        What has no line was not worth measuring: it is dearer than all that has."""
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


def read_costs(node: Node, sizes: Mapping[str, int]) -> Costs:
    """The table under `costs`; `sizes` are those of the caches, which may leave a level nothing. Raises TargetError."""
    return MappingProxyType({name: _levels(held, sizes) for name, held in node.fields().items()})


def _levels(node: Node, sizes: Mapping[str, int]) -> tuple[Level, ...]:
    *inner, last = node.items() or [node]
    levels: list[Level] = []
    for item in (*inner, last):
        fields = item.fields()
        most = fields.pop("bytes", None)
        if (most is None) is not (item is last):
            raise item.fail("`bytes` in every level but the last", found=", ".join(item.fields()))
        limit = _bytes(most, sizes) if most is not None else None
        level = Level(limit, MappingProxyType({name: _line(held) for name, held in fields.items()}))
        if limit is None or not levels or limit > (levels[-1].most_bytes or 0):  # else nothing is left for it here
            levels.append(level)
    return tuple(levels)


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
