"""Python's collector of cycles, paused where it would go in vain through very many objects that live on."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

_FEW = 100_000
"""So many objects are collected in less time than it takes to notice."""
_FROZEN_BY_PYTHON = 1_000
"""Python 3.12 starts with some hundred frozen objects of its own. A program that freezes its objects has more."""


class _Made:
    """What was made in pauses: objects that are young, and those that may be old since all were looked at."""

    young = 0
    old = 0
    found = 0
    """How much garbage was found among young objects so far."""
    kept = 0
    """How many objects there were when all had been looked at."""


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """While tables or a text are read, or a payload is compiled: a payload is one large cycle that is not garbage.

    What was made meanwhile stays young, and is collected when the next pause begins: by then it mostly is garbage, and
    still in the processor's caches. What is left is old. So is what was made in a long pause, at once, or the collector
    would go through it all when the pause ends. Python does not count what becomes old this way: all objects are
    collected when a pause begins once there are twice as many as after the last time.
    """
    enabled = gc.isenabled()
    if enabled:
        _collect()
    try:
        gc.disable()
        yield
    finally:
        if enabled:
            try:
                made = gc.get_count()[0]
                if made < _FEW:
                    _Made.young += made
                else:
                    _Made.old += made
                    _become_old()
            finally:  # a signal's exception may come anywhere
                gc.enable()


def _collect() -> None:
    """Collect what is young; all, if much has become old."""
    if _Made.young > _FEW // 10:
        gc.collect(1)
        found = sum(generation["collected"] for generation in gc.get_stats()[:2])
        _Made.old += max(0, _Made.young - (found - _Made.found))
        _Made.young, _Made.found = 0, found
    if _Made.old > max(_FEW, _Made.kept):
        _Made.old = _become_old() - _Made.kept  # some were freed without the collector
    if _Made.old > max(_FEW, _Made.kept):
        gc.collect()
        _Made.old, _Made.kept = 0, _become_old()


def _become_old() -> int:
    """Count all objects as old; how many there are. Counting walks through them, and refers to none: a list of them
    would, and tuples that other threads are making could not grow any more. What a program froze stays frozen."""
    if gc.get_freeze_count() > _FROZEN_BY_PYTHON:
        return 0
    gc.freeze()
    count = gc.get_freeze_count()
    gc.unfreeze()
    return count
