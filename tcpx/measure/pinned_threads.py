"""Threads that stay on one CPU each, to run a C function on all of them at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

ResultT = TypeVar("ResultT")


def available_cpus() -> tuple[int, ...]:
    """The CPUs that this process may run on, in order."""
    return tuple(sorted(os.sched_getaffinity(0)))


class PinnedThreads:
    """One thread per CPU of `cpus`. A context manager; the threads end with it."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self.cpus = tuple(cpus)
        self._pools = [ThreadPoolExecutor(1) for _ in self.cpus]
        for pool, cpu in zip(self._pools, self.cpus, strict=True):
            pool.submit(os.sched_setaffinity, 0, {cpu}).result()

    def __enter__(self) -> PinnedThreads:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads."""
        for pool in self._pools:
            pool.shutdown()

    def run(self, task: Callable[[int], ResultT]) -> list[ResultT]:
        """`task(k)` on thread k, all started together; what each gave."""
        together = threading.Barrier(len(self.cpus))

        def started(k: int) -> ResultT:
            together.wait()
            return task(k)

        return [future.result() for future in [pool.submit(started, k) for k, pool in enumerate(self._pools)]]
