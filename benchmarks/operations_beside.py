"""`python -m benchmarks.operations --against REV`: each operation in this tree and in another revision, interleaved."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.beside import Beside
from benchmarks.operations import LAYOUTS, SIZES, Array, Case, expected_of
from benchmarks.registry import TCPX
from tcpx.cli.measuring import plan_of, threads_of
from tcpx.measure.output import write_results
from tcpx.measure.protocol import Input, Task
from tcpx.measure.rows import Row
from tcpx.measure.session import Session
from tcpx.measure.table import table

ARGUMENTS = "xyzw"


def measured_beside(cases: Sequence[Case], options: argparse.Namespace) -> int:
    """Measure, print, keep; with `--check` 1 if something is slower. Raises ArgumentError."""
    beside = Beside.of(options)
    rows: list[Row] = []
    for cpus in threads_of(options):
        with Session([TCPX, *beside.launches], cpus, plan=plan_of(options)) as session:
            for case in cases:
                for layout in LAYOUTS:
                    for m, n in SIZES:
                        made = _measured(session, beside, case, layout, m, n)
                        print(table(made, head=not session.rows[len(made) :] and not rows), flush=True)
            rows += session.finished()
    for path in write_results(rows, options.output):
        print(f"wrote {path}")
    return 1 if beside.finish(rows) and options.check else 0


def _measured(session: Session, beside: Beside, case: Case, layout: str, m: int, n: int) -> Sequence[Row]:
    arrays = case.arrays(m, n, layout)
    wanted, tolerance = expected_of(case, arrays, m, n)

    def distance(found: Array, dtype: str) -> float:
        del dtype
        if found.shape != wanted.shape:
            return float("inf")
        found, known = found.astype(np.float64), wanted.astype(np.float64)
        return float(np.max(np.abs(found - known) / (tolerance * (1 + np.abs(known))), initial=0.0))

    with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as folder:
        inputs: list[Input] = []
        for name, array in zip(ARGUMENTS, arrays, strict=False):
            np.save(Path(folder, f"{name}.npy"), array)
            inputs.append(Input(name, array.dtype.name, strided=layout == "apart" and array.ndim > 1))
        name = f"operations/{case.name}/{m}x{n}{'/apart' if layout == 'apart' else ''}"
        payload = case.payload(layout)
        task = Task(name, "operation", len(session.cpus), folder, tuple(inputs), payload=payload)
        rows = session.measure(task, check=distance)
        beside.note(session, task, rows, distance)
        return rows
