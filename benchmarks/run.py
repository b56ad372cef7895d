"""Measure the workloads on one thread; `--check` compares with the bars and ends with 1 if one is missed.

    python -m benchmarks.run [--check] [--quick]

Times are medians of samples taken while the machine ran steadily: see `benchmarks.machine`.
"""

from __future__ import annotations

import os

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
os.environ.update(dict.fromkeys(THREADS, "1"))  # before NumPy is imported: it reads them once

import argparse  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from dataclasses import dataclass  # noqa: E402

from benchmarks.machine import Machine, sample, typical  # noqa: E402
from benchmarks.workloads import MATMUL, MIN_PLUS, SPREAD, build, digits_runs, product_runs  # noqa: E402
from tcpx.target import load_target  # noqa: E402

IMPORTS = 7


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure; `bar` is what it must reach, or stay under where `at_most`."""

    name: str
    seconds: float
    rate: str
    value: float
    unit: str
    bar: float | None = None
    at_most: bool = False

    @property
    def holds(self) -> bool:
        """Whether the bar is met; a figure that could not be taken meets none."""
        if self.bar is None:
            return True
        return self.value <= self.bar if self.at_most else self.value >= self.bar

    def text(self) -> str:
        sign = "" if self.bar is None else f"{'<=' if self.at_most else '>='} {self.bar:g}"
        verdict = "" if self.bar is None else "ok" if self.holds else "MISSED"
        time = f"{self.seconds * 1e6:>12.1f} us"
        return f"{self.name:<22}{time}  {self.rate:>14}  {self.value:>8.2f} {self.unit:<12}{sign:>9}  {verdict}"


def matmul_rows(machine: Machine, wanted: int, limit: float) -> Iterator[Row]:
    """f32 products of square matrices."""
    kernel = build(MATMUL)
    for size in (512, 1024):
        kept = sample(machine, product_runs(kernel, size), wanted, limit)
        ours, numpy = typical(kept["tcpx"]), typical(kept["numpy"])
        flops = 2 * size**3
        rate = f"{flops / ours / 1e9:.1f} GFLOP/s"
        yield Row(f"matmul {size}", ours, rate, flops / ours / machine.flops * 100, "% of peak", 88)
        yield Row(f"matmul {size}, NumPy", numpy, f"{flops / numpy / 1e9:.1f} GFLOP/s", numpy / ours, "x NumPy's", 1)


def digits_rows(machine: Machine, wanted: int, limit: float) -> Iterator[Row]:
    """The digits network."""
    for batch in (64, 1024):
        kept = sample(machine, digits_runs(batch), wanted, limit)
        calls = max(1, 4096 // batch)
        ours, numpy = typical(kept["tcpx"]) / calls, typical(kept["numpy"]) / calls
        yield Row(f"digits B = {batch}", ours, f"{batch / ours / 1e6:.2f} M/s", numpy / ours, "x NumPy's", 1)


def min_plus_rows(machine: Machine, wanted: int, limit: float) -> Iterator[Row]:
    """Shortest paths: an addition and a minimum per step, so two vector instructions per vector of C and step of k."""
    kernel = build(MIN_PLUS)
    size = 512
    seconds = typical(sample(machine, product_runs(kernel, size, numpy=False), wanted, limit)["tcpx"])
    vectors = size**3 / machine.lanes
    rate = machine.peak("add_min")
    yield Row(
        "min-plus 512",
        seconds,
        f"{2 * size**3 / seconds / 1e9:.1f} GOP/s",
        2 * vectors / rate / seconds * 100,
        "% of bound",
        70,
    )


def spread_rows(machine: Machine, limit: float) -> Iterator[Row]:
    """Three schedules of one product."""
    size, seconds = 256, dict[str, float]()
    for name, schedule in SPREAD.items():
        runs = product_runs(build(MATMUL, schedule), size, numpy=False)
        seconds[name] = typical(sample(machine, runs, 5, limit)["tcpx"])
    slowest = max(seconds.values())
    for name, taken in seconds.items():
        bar = 3 if name == min(seconds, key=lambda n: seconds[n]) else None
        yield Row(f"256, {name}", taken, f"{2 * size**3 / taken / 1e9:.1f} GFLOP/s", slowest / taken, "x slowest", bar)


def import_rows() -> Iterator[Row]:
    """`import tcpx`, and with all that its first use imports, in fresh processes without the start of Python."""
    for name, use, bar in (("import tcpx", "", 0.3), ("import and first use", "tcpx.compile; ", None)):
        code = f"import time; t = time.perf_counter(); import tcpx; {use}print(time.perf_counter() - t)"
        taken = [
            float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
            for _ in range(IMPORTS)
        ]
        seconds = sorted(taken)[IMPORTS // 2]
        yield Row(name, seconds, "", seconds, "s", bar, at_most=True)


def main() -> int:
    """Print the table; 1 if a bar is missed and asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--check", action="store_true", help="end with 1 if a bar is missed")
    parser.add_argument("--quick", action="store_true", help="few samples")
    options = parser.parse_args()
    wanted, limit = (7, 6.0) if options.quick else (31, 60.0)
    machine = Machine(load_target("native"))
    for _ in range(200):
        machine.probe()
    print(f"target {machine.target.name}, 1 thread, FMA peak {machine.flops / 1e9:.1f} GFLOP/s f32")
    rows: list[Row] = []
    parts = (
        matmul_rows(machine, wanted, limit),
        digits_rows(machine, wanted, limit),
        min_plus_rows(machine, wanted, limit),
        spread_rows(machine, limit),
        import_rows(),
    )
    for part in parts:
        for row in part:
            rows.append(row)
            print(row.text(), flush=True)
    print(f"best FMA rate seen: {machine.flops / 1e9:.1f} GFLOP/s f32")
    missed = [row.name for row in rows if not row.holds]
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
