"""What is slower than 0.7 of the fastest peer, and what the remarks on it say: `python -m benchmarks.slow_cells`.

    tcpx bench -o out.json; python -m benchmarks.slow_cells out.json

The benchmarks print the same at their end. A cell is a workload, or an operation at one size, on some threads.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import tcpx
from benchmarks.registry import AGAIN, CLANG, TCPX
from tcpx.columns import aligned
from tcpx.measure.rows import Row, read_rows
from tcpx.measure.session import MACHINE

LEAST: Final = 0.7
"""The time of the fastest peer over that of tcpx, below which a cell is slow."""
OWN: Final = (MACHINE, TCPX.name, AGAIN, CLANG)
LEFT: Final = (0, 3, 5)
HEAD: Final = ("cell", "threads", "ratio", "fastest peer", "factor", "cause")


@dataclass(frozen=True, slots=True)
class Cell:
    """The time of the fastest peer over that of tcpx, and the remarks on the kernel: mappings with `cause`, `factor`,
    `message`."""

    name: str
    threads: int
    ratio: float
    peer: str
    remarks: Sequence[Mapping[str, Any]] = ()

    @property
    def is_slow(self) -> bool:
        """Whether the fastest peer takes less than 0.7 of the time."""
        return self.ratio < LEAST

    @property
    def causes(self) -> list[tuple[str, float]]:
        """The causes that the remarks name, and by what factor the kernel would be faster without."""
        return [(remark["cause"], remark["factor"]) for remark in self.remarks]

    def lines(self) -> list[tuple[str, ...]]:
        """A line for each remark, or one that says that there is none."""
        first = (self.name, str(self.threads), f"{self.ratio:.2f}", self.peer)
        found = [(f"{remark['factor']:.1f}", f"{remark['cause']}: {remark['message']}") for remark in self.remarks]
        return [(*(first if k == 0 else [""] * 4), *said) for k, said in enumerate(found or [("", "no remark")])]


def cells_of(rows: Sequence[Row]) -> list[Cell]:
    """The cells of rows of a run in which tcpx and a peer have a time."""
    found: list[Cell] = []
    for (name, threads), of in groupby(rows, key=lambda row: (row.workload, row.threads)):
        times = {row.peer: row for row in of if row.median_s}
        peers = [row for peer, row in times.items() if peer not in OWN and not peer.startswith(f"{TCPX.name}@")]
        own, fastest = times.get(TCPX.name), min(peers, key=lambda row: row.median_s or 0.0, default=None)
        if own is not None and own.median_s and fastest is not None and fastest.median_s:
            ratio = fastest.median_s / own.median_s
            found.append(Cell(name, threads, ratio, fastest.peer, own.facts.get("remarks", ())))
    return found


def report(cells: Sequence[Cell]) -> str:
    """The slow cells, a line for each remark, and how many have one."""
    slow = sorted((cell for cell in cells if cell.is_slow), key=lambda cell: cell.ratio)
    lines = aligned([HEAD, *(line for cell in slow for line in cell.lines())], LEFT) if slow else []
    named = sum(bool(cell.remarks) for cell in slow)
    counts = f"{len(slow)} of {len(cells)} cells are below {LEAST} of the fastest peer, {named} of them have a remark"
    return "\n".join([*lines, counts])


def main() -> int:
    """Report on the rows of files."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.slow_cells", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("files", nargs="+", metavar="FILE.json", help="rows, as `tcpx bench -o` writes them")
    try:
        cells = [cell for name in parser.parse_args().files for cell in cells_of(read_rows(Path(name)))]
    except tcpx.ArgumentError as error:
        print(error.diagnostic.render(), file=sys.stderr)
        return 1
    print(report(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
