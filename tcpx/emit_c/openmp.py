"""The OpenMP runtime of kernels that run on several threads: how its threads wait, and a process that was forked.

gcc's libgomp lets a thread that waits run in circles for milliseconds. Beside other programs that keeps the CPU from
the thread that it waits for: see docs/adr/0018-threads-wait-briefly.md. LLVM's runtime offers its CPU to others while
it waits, and is left as it is.

A thread that may use one CPU runs parallel loops alone: two threads would take turns, and wait for each other.

A child process has only the thread that called `fork`. libgomp does not notice: it would wait for ever for the other
threads of the team with which that thread ran a parallel loop before. LLVM's runtime starts new ones.
"""

import os
import threading
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from tcpx.processor import cpu_flags

SPIN_COUNT: Final = 500
"""Turns that a thread of libgomp waits before it sleeps: 10 to 25 us, about what it takes to wake it."""
VIRTUAL_SPIN_COUNT: Final = 2000
"""The same in a virtual machine, where a CPU that sleeps is woken by way of the host: 30 to 60 us."""
_SPIN_VARIABLE: Final = "GOMP_SPINCOUNT"
_CHOICES: Final = (_SPIN_VARIABLE, "OMP_WAIT_POLICY")
_WARNING: Final = (
    "this process was forked from a thread that had called a kernel on several threads, and libgomp cannot start them "
    "again: kernels called from this thread run on one thread. Call them from a new thread, or start workers by "
    "`multiprocessing.get_context('spawn')`"
)


@contextmanager
def brief_waits() -> Generator[None]:
    """A libgomp that is loaded within lets its threads sleep after `spin_count` turns, unless the environment says how
    threads wait.

    libgomp reads this from the environment of the process when it is loaded, and never again. `os.environ` does not
    show it; afterwards it is gone, so that no child process and no other runtime sees it.
    """
    if any(name in os.environ for name in _CHOICES):
        yield
        return
    os.putenv(_SPIN_VARIABLE, str(spin_count()))
    try:
        yield
    finally:
        os.unsetenv(_SPIN_VARIABLE)


def spin_count() -> int:
    """Turns for which a thread waits on this machine: about as long as it takes to wake it."""
    return VIRTUAL_SPIN_COUNT if "hypervisor" in cpu_flags() else SPIN_COUNT


class Team(threading.local):
    """Whether the calling thread can enter parallel loops. A kernel calls `prepare` where `is_ready` is false: at the
    first call of each thread, which asks how many CPUs it may use."""

    has_warned = False
    """Whether this process, or one that it was forked from, has warned."""
    is_ready = False
    _is_lost = False

    def __init__(self, limit_levels: Callable[[int], object]) -> None:
        """`limit_levels` is libgomp's `omp_set_max_active_levels`; the runtime stays loaded."""
        self._limit_levels = limit_levels

    def prepare(self, stacklevel: int) -> None:
        """Run parallel loops of the calling thread on one thread where it may use one CPU; with a warning, where its
        team was lost.

        `stacklevel` is that of `warnings.warn` if it were called in place of this.
        """
        if self._is_lost:
            self._limit_levels(0)
            if not Team.has_warned:
                Team.has_warned = True
                warnings.warn(_WARNING, RuntimeWarning, stacklevel + 1)
        elif len(os.sched_getaffinity(0)) == 1:
            self._limit_levels(0)
        self.is_ready = True

    def forked(self) -> None:
        """In a child process: the team of its one thread is lost, if it had one."""
        self._is_lost = self._is_lost or self.is_ready
        self.is_ready = False


class Serial:
    """The team of kernels that need none, or whose runtime follows a fork by itself."""

    is_ready = True

    def prepare(self, stacklevel: int) -> None:
        """Nothing to do."""
        del stacklevel


_teams: dict[int, Team] = {}


def team_of(address: int, limit_levels: Callable[[int], object]) -> Team:
    """The team of the libgomp whose `omp_set_max_active_levels` lies at an address; the same for all its libraries."""
    return _teams.setdefault(address, Team(limit_levels))


def _after_fork() -> None:
    for team in _teams.values():
        team.forked()


os.register_at_fork(after_in_child=_after_fork)
