"""Python's collector of cycles, paused where it would go in vain through very many objects that live on."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

_FACTOR = 4
"""Objects that count as old are collected when a part of this of them is new; Python has the same rule."""


class _Old:
    """What was made in pauses since the last collection, and all there was behind the last pause, in objects."""

    made = 0
    total = 0


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """While tables or a text are read, or a payload is compiled: a payload is one large cycle that is not garbage.

    What was made meanwhile counts as old then, or the collector would go through all of it at once. Python does not
    count what becomes old this way, so that what was compiled before is collected when the next pause begins.
    """
    enabled = gc.isenabled()
    if enabled and _Old.made * _FACTOR > _Old.total:
        gc.collect()
        _Old.made = 0
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                _Old.made += gc.get_count()[0]
                gc.freeze()
                _Old.total = gc.get_freeze_count()
                gc.unfreeze()
            gc.enable()
