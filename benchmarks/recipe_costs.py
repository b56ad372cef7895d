"""The table of what recipes cost on this machine, as `costs` of a target table: `make costs`.

For each kind of product and each level of the table there is, products with a right factor of that many bytes are
computed by each recipe of the kind, for several numbers of rows, in turn; the shortest times give `[start, row]`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np

import tcpx
from tcpx.inputs import random_inputs
from tcpx.measure.timer import least_seconds
from tcpx.payload.diagnostics import ScheduleError
from tcpx.target import Target

ROWS: Final = (1, 3, 8, 16, 48, 128, 320)
COLUMNS: Final = 1024
BYTES: Final = 4
BEYOND: Final = 2
"""The last level is measured with as many times the bytes of the one before."""
BATCH: Final = 2
_TEXT: Final = """\
func @f(%x: tensor<{left}xf32>, %w: tensor<{right}xf32>) -> tensor<{out}xf32> {{
{made}  %y = tcp.contract(%x, %{factor}) {{lhs = {lhs}, rhs = {rhs}, out = {dims}}} : tensor<{out}xf32>
  tcp.return(%y)
}}
"""


@dataclass(frozen=True, slots=True)
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


def shape_of(size: int) -> tuple[int, int]:
    """Columns and depth of a right factor of about so many bytes."""
    n = min(COLUMNS, max(32, int(sqrt(size / BYTES)) // 32 * 32))
    return n, max(16, size // BYTES // n // 16 * 16)


def sizes_of(limits: Sequence[int | None]) -> Iterator[int]:
    """Bytes inside each level: halfway to its end, on a scale of powers."""
    below = 0
    for limit in limits:
        size = below * BEYOND if limit is None else limit // 2 if not below else int(sqrt(below * limit))
        yield size or COLUMNS * COLUMNS * BYTES
        below = limit or below


def kernels(kind: Kind, shape: tuple[int, int, int], target: Target) -> dict[str, Callable[[], object]]:
    """A call for each recipe that can compute this product."""
    module = tcpx.parse(kind.text(*shape))
    arrays = random_inputs(module)
    calls: dict[str, Callable[[], object]] = {}
    for recipe in kind.recipes:
        try:
            kernel = tcpx.compile(module, target=target, params={"recipe": recipe})
        except ScheduleError as error:
            print(f"# {recipe} for {shape}: {error.diagnostic.message}", file=sys.stderr)
            continue
        calls[recipe] = kernel.bind(*arrays)
    return calls


def line(rows: Sequence[int], times: Sequence[float]) -> tuple[float, float]:
    """Start and time of a row that differ least from the times, as a part of each; neither is negative."""
    m, t = np.array(rows, float), np.array(times, float)
    system = np.stack([1 / t, m / t], axis=1)
    start, row = np.linalg.lstsq(system, np.ones_like(t), rcond=None)[0]
    if start < 0:
        return 0.0, float((system[:, 1] @ np.ones_like(t)) / (system[:, 1] @ system[:, 1]))
    return (float(start), float(row)) if row >= 0 else (float(np.min(t)), 0.0)


def measured(name: str, target: Target, options: argparse.Namespace) -> Iterator[str]:
    """The lines of YAML of one kind."""
    kind, levels = KINDS[name], target.costs[name]
    limits = [level.most_bytes for level in levels]
    for limit, size in zip(limits, sizes_of(limits), strict=True):
        n, k = shape_of(size)
        times: dict[str, dict[int, float]] = {}
        for m in ROWS:
            found = least_seconds(kernels(kind, (m, n, k), target), options.rounds, options.seconds)
            for recipe, seconds in found.items():
                times.setdefault(recipe, {})[m] = seconds * 1e12 / (n * k) / (BATCH if "b" in kind.lhs else 1)
            print(f"# {name}, {m}x{n}x{k}: {found}", file=sys.stderr, flush=True)
        lines = {recipe: line(list(by), list(by.values())) for recipe, by in times.items()}
        shown = [f"{recipe}: [{start:.1f}, {row:.1f}]" for recipe, (start, row) in lines.items()]
        yield f"    - {{{', '.join([*([f'bytes: {limit}'] if limit else []), *shown])}}}"


def main(words: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"kinds of products: {', '.join(KINDS)} (all)")
    parser.add_argument("--target", default="native", help="the table whose levels are measured (native)")
    parser.add_argument("--rounds", type=int, default=7, help="calls of each recipe in turn (7)")
    parser.add_argument("--seconds", type=float, default=0.005, help="least time of one measurement (0.005)")
    options = parser.parse_args(words)
    unknown = [name for name in options.kinds if name not in KINDS]
    if unknown:
        parser.error(f"there is no kind {unknown[0]}: {', '.join(KINDS)}")
    target = tcpx.load_target(options.target)
    print("costs:")
    for name in options.kinds or KINDS:
        print(f"  {name}:")
        for text in measured(name, target, options):
            print(text, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
