"""A peer that does what the task's attribute `behaviour` says: doubles `x`, or goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping

import numpy as np

from tcpx.measure.protocol import Prepared, Task, UnsupportedError


def describe(threads: int) -> Mapping[str, str]:
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    return {"version": "1.2", "threads": str(threads), "cpus": cpus, "omp": os.environ["OMP_NUM_THREADS"]}


def prepare(task: Task) -> Prepared:
    behaviour = task.attributes["behaviour"]
    x = task.arrays()["x"]
    sys.stdout.write("libraries print to standard output\n")
    subprocess.run([sys.executable, "-c", "print('so do their children')"], check=True)
    if behaviour in REFUSALS:
        REFUSALS[behaviour]()
    calls = iter([1, 2])
    runs = {
        "wrong": lambda: 3 * x,
        "nan": lambda: x * np.nan,
        "crash when timed": lambda: 2 * x if next(calls) == 1 else os.abort(),
    }
    return Prepared(runs.get(behaviour, lambda: 2 * x))


def refuse() -> None:
    raise UnsupportedError("no doubling here")


def fail() -> None:
    raise RuntimeError("two\nlines")


def crash() -> None:
    sys.stderr.write("last words\n")
    sys.stderr.flush()
    os.abort()


REFUSALS = {
    "unsupported": refuse,
    "raise": fail,
    "crash": crash,
    "exit": lambda: sys.exit(3),
    "hang": lambda: time.sleep(3600),
}
