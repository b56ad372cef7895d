"""What recipes of products cost on this machine: the lines `[start, row]` of `costs` in a table of a target.

For each kind of product and each level of its table, products with a right factor of that many bytes are computed by
each recipe of the kind, for several numbers of rows, in turn; the shortest times give the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from math import log2
from typing import Final

import numpy as np

import tcpx
from tcpx.inputs import random_inputs
from tcpx.measure.pinned_threads import available_cpus
from tcpx.measure.timer import settled_seconds
from tcpx.records import frozen

COLUMNS: Final = 1024
WIDE: Final = 4096
LEAST_DEPTH: Final = 256
"""Of a wide one."""
BYTES: Final = 4
BATCH: Final = 2
UNSETTLED: Final = "unsettled: other programs ran"
KEPT: Final = "the table's: times did not settle"
FEWEST_ROWS: Final = 2
"""Numbers of rows of which the times of each shape have to settle: a line goes through two."""
_TEXT: Final = """\
func @f(%x: tensor<{left}xf32>, %w: tensor<{right}xf32>) -> tensor<{out}xf32> {{
{made}  %y = tcp.contract(%x, %{factor}) {{lhs = {lhs}, rhs = {rhs}, out = {dims}}} : tensor<{out}xf32>
  tcp.return(%y)
}}
"""


@frozen
class Kind:
    """How the factors of a product are stored: a letter for each dim."""

    lhs: str
    rhs: str
    recipes: tuple[str, ...]
    is_made: bool = False

    def text(self, m: int, n: int, k: int) -> str:
        """The payload."""
        sizes = {"b": BATCH, "m": m, "n": n, "k": k}
        out = f"{'b' if 'b' in self.lhs else ''}mn"
        left, right, result = ("x".join(str(sizes[d]) for d in dims) for dims in (self.lhs, self.rhs, out))
        lhs, rhs, dims = (str(list(letters)).replace("'", '"') for letters in (self.lhs, self.rhs, out))
        made = f"  %e = tcp.neg(%w) : tensor<{right}xf32>\n" if self.is_made else ""
        factor = "e" if self.is_made else "w"
        return _TEXT.format(left=left, right=right, out=result, made=made, factor=factor, lhs=lhs, rhs=rhs, dims=dims)


KINDS: Final[Mapping[str, Kind]] = {
    "rows": Kind("mk", "kn", ("stream", "direct", "panel", "tile", "large")),
    "made": Kind("mk", "kn", ("stream", "large"), is_made=True),
    "depths": Kind("mk", "nk", ("dot", "large")),
    "batch": Kind("bmk", "bkn", ("direct", "large")),
    "batch_columns": Kind("bkm", "bkn", ("direct", "panel", "columns", "large")),
}


@frozen
class Plan:
    """Which numbers of rows are measured, how many seconds the times of each may take to settle, and the least seconds
    of a sample."""

    rows: tuple[int, ...] = (1, 3, 8, 16, 48, 128, 320)
    patience: float = 5.0
    seconds: float = 0.005


QUICK: Final = Plan(rows=(4, 16, 64, 256), patience=1.5, seconds=0.002)
"""For a whole table in a minute or two."""


@frozen
class Lines:
    """Start and row of each recipe that can compute the products, in picoseconds for an element of the right factor,
    and whether the times settled."""

    by_recipe: Mapping[str, tuple[float, float]]
    is_settled: bool


@frozen
class Level:
    """A line of a table that is to be measured: right factors of at most `limit` bytes, None for any, by one of
    `size`; `known` are the lines that the table has."""

    kind: str
    limit: int | None
    size: int
    known: Mapping[str, tuple[float, float]]

    def lines(self, target: tcpx.Target, plan: Plan = QUICK) -> Lines:
        """What the recipes take. Times that did not settle do not count where enough others did. Raises
        CompileError."""
        kind = KINDS[self.kind]
        shapes = list(shapes_of(self.size))
        points: list[tuple[tuple[int, int], int, Mapping[str, float], bool]] = []
        for (n, k), m in product(shapes, plan.rows):
            found, is_settled = settled_seconds(kernels(kind, (m, n, k), target), plan.patience, plan.seconds)
            points.append(((n, k), m, found, is_settled))
        counts = [sum(is_settled for shape, *_, is_settled in points if shape == known) for known in shapes]
        is_settled = min(counts) >= min(FEWEST_ROWS, len(plan.rows))
        times: dict[str, list[tuple[int, float]]] = {}
        for (n, k), m, found, counts_here in points:
            for recipe, seconds in found.items() if counts_here or not is_settled else ():
                elements = n * k * (BATCH if "b" in kind.lhs else 1)
                times.setdefault(recipe, []).append((m, seconds * 1e12 / elements))
        return Lines({recipe: line(*zip(*taken, strict=True)) for recipe, taken in times.items()}, is_settled)

    def entry(self, lines: Lines) -> str:
        """As it stands in a table."""
        return self._text(lines.by_recipe) + ("" if lines.is_settled else f"   # {UNSETTLED}")

    def entry_or_known(self, lines: Lines) -> str:
        """As it stands in a table: what the table has where the times did not settle."""
        if lines.is_settled:
            return self.entry(lines)
        return f"{self._text(self.known)}   # {KEPT}"

    def _text(self, lines: Mapping[str, tuple[float, float]]) -> str:
        limit = [f"bytes: {self.limit}"] if self.limit is not None else []
        shown = [f"{name}: [{start:.1f}, {row:.1f}]" for name, (start, row) in lines.items()]
        return f"- {{{', '.join([*limit, *shown])}}}"


def levels_of(name: str, target: tcpx.Target) -> Iterator[Level]:
    """The lines of one kind that the table of a target has."""
    for level in target.costs[name]:
        known = {recipe: (line.start, line.row) for recipe, line in level.lines.items()}
        yield Level(name, level.most_bytes, level.size, known)


def shapes_of(size: int) -> Iterator[tuple[int, int]]:
    """Columns and depth of right factors of about so many bytes: one that is about as deep as wide, or deeper, and of
    large ones a wide one, too. The columns are powers of two, as those of most models. Their rows share the sets of a
    cache, so that reading them in place costs most."""
    elements = size // BYTES
    n = min(COLUMNS, 1 << max(5, round(log2(elements) / 2)))
    yield n, max(16, elements // n // 16 * 16)
    if elements >= WIDE * LEAST_DEPTH:
        yield WIDE, elements // WIDE // 16 * 16


def kernels(kind: Kind, shape: tuple[int, int, int], target: tcpx.Target) -> dict[str, Callable[[], object]]:
    """A call for each recipe that can compute this product; they are compiled side by side."""
    module = tcpx.parse(kind.text(*shape))
    arrays = random_inputs(module)

    def compiled(recipe: str) -> tcpx.Kernel | None:
        try:
            return tcpx.compile(module, target=target, params={"recipe": recipe})
        except tcpx.ScheduleError:  # the recipe is none for this product
            return None

    with ThreadPoolExecutor(len(available_cpus())) as pool:
        found = zip(kind.recipes, pool.map(compiled, kind.recipes), strict=True)
        return {recipe: kernel.bind(*arrays) for recipe, kernel in found if kernel is not None}


def line(rows: Sequence[int], times: Sequence[float]) -> tuple[float, float]:
    """Start and time of a row that differ least from the times, as a part of each; neither is negative."""
    m, t = np.array(rows, float), np.array(times, float)
    system = np.stack([1 / t, m / t], axis=1)
    start, row = np.linalg.lstsq(system, np.ones_like(t), rcond=None)[0]
    if start < 0:
        return 0.0, float((system[:, 1] @ np.ones_like(t)) / (system[:, 1] @ system[:, 1]))
    return (float(start), float(row)) if row >= 0 else (float(np.min(t)), 0.0)
