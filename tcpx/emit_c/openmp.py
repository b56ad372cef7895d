"""The OpenMP runtime of kernels that run on several threads, in a process that was forked.

A child process has only the thread that called `fork`. libgomp does not notice: it would wait for ever for the other
threads of the team with which that thread ran a parallel loop before. LLVM's runtime starts new ones.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Final

_WARNING: Final = (
    "this process was forked from a thread that had called a kernel on several threads, and libgomp cannot start them "
    "again: kernels called from this thread run on one thread. Call them from a new thread, or start workers by "
    "`multiprocessing.get_context('spawn')`"
)


class Team(threading.local):
    """Whether the calling thread can enter parallel loops. A kernel calls `prepare` where `is_ready` is false."""

    has_warned = False
    """Whether this process, or one that it was forked from, has warned."""
    is_ready = False
    _is_lost = False

    def __init__(self, limit_levels: Callable[[int], object]) -> None:
        """`limit_levels` is libgomp's `omp_set_max_active_levels`; the runtime stays loaded."""
        self._limit_levels = limit_levels

    def prepare(self, stacklevel: int) -> None:
        """Run parallel loops of the calling thread on one thread, with a warning, where its team was lost.

        `stacklevel` is that of `warnings.warn` if it were called in place of this.
        """
        if self._is_lost:
            self._limit_levels(0)
            if not Team.has_warned:
                Team.has_warned = True
                warnings.warn(_WARNING, RuntimeWarning, stacklevel + 1)
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
