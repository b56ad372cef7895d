"""What is tuned, as the processes that try candidates read it from a file."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import tcpx
from tcpx.records import brief, frozen
from tcpx.tune.space_file import Workload

Array = npt.NDArray[np.generic]


@frozen
class Example:
    """A workload with arguments and the results that the reference evaluator gives for them."""

    workload: Workload
    arrays: tuple[Array, ...]
    expected: tuple[Array, ...]


@frozen
class Problem:
    """`target` has the numbers that this machine was calibrated to, which a process with another cache would not find.
    `cpus` are those that kernels are timed on, one per thread. `plugins` are Python modules that register operations
    or transforms. `memory` is what a candidate may take, in bytes, beside what the examples do."""

    module: tcpx.Module
    schedule: tcpx.Schedule
    target: tcpx.Target
    threads: int
    cpus: tuple[int, ...]
    examples: tuple[Example, ...]
    fixed: Mapping[str, int | float | bool | str]
    plugins: tuple[str, ...] = ()
    memory: int = 4 << 30

    def __repr__(self) -> str:
        return brief(
            "Problem", f"of @{self.module.main.name} for {self.target.title}, {len(self.examples)} workload(s)"
        )

    def write(self, path: Path) -> None:
        """To a file that only this user reads: it is a pickle, which runs what it says."""
        path.touch(mode=0o600)
        path.write_bytes(pickle.dumps(self))

    @staticmethod
    def read(path: Path) -> Problem:
        """The inverse of `write`, for files of this user's own tuner alone."""
        held: object = pickle.loads(path.read_bytes())
        if not isinstance(held, Problem):
            raise TypeError(f"required a problem in {path}, found {type(held).__name__}")
        return replace(held, examples=tuple(map(_with_own_dtypes, held.examples)))


def _with_own_dtypes(example: Example) -> Example:
    """Arrays out of a pickle have dtypes that equal those of NumPy, but are not the same objects."""

    def own(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(array.view(np.dtype(array.dtype.type)) for array in arrays)

    return Example(example.workload, own(example.arrays), own(example.expected))


def examples_of(module: tcpx.Module, workloads: Sequence[Workload], seed: int) -> tuple[Example, ...]:
    """Random arguments for each workload and what they give. Raises ArgumentError for a size that nothing tells."""
    made: list[Example] = []
    for workload in workloads or (Workload(()),):
        arrays = tcpx.random_inputs(module, seed, sizes=dict(workload.sizes))
        results = tcpx.evaluate(module, *arrays, seed=seed, in_order=False)
        made.append(Example(workload, arrays, results if isinstance(results, tuple) else (results,)))
    return tuple(made)
