"""Python's collector of cycles, paused where it would go in vain through very many objects that live on."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

_FEW = 100_000
"""So many objects are collected in less time than it takes to notice."""


class _Old:
    """How many objects became old in pauses since the last collection, and how many may."""

    made = 0
    limit = _FEW


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """While tables or a text are read, or a payload is compiled: a payload is one large cycle that is not garbage.

    What was made meanwhile counts as old then, or the collector would go through all of it at once. Python does not
    count what becomes old this way, so that what was compiled before is collected when the next pause begins, once as
    many objects became old as there were before.
    """
    enabled = gc.isenabled()
    if enabled and _Old.made > _Old.limit:
        gc.collect()
        _Old.made, _Old.limit = 0, max(_FEW, _become_old())
    try:
        gc.disable()
        yield
    finally:
        if enabled:
            try:
                _Old.made += gc.get_count()[0]
                if not gc.get_freeze_count():
                    gc.freeze()
                    gc.unfreeze()
            finally:  # a signal's exception may come anywhere
                gc.enable()


def _become_old() -> int:
    """Count all objects as old; how many there are. Counting walks through them, and refers to none: a list of them
    would, and tuples that other threads are making could not grow any more."""
    if gc.get_freeze_count():
        return 0
    gc.freeze()
    count = gc.get_freeze_count()
    gc.unfreeze()
    return count
