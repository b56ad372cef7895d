"""Python's collector of cycles, paused where it would go in vain through very many objects that live on."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

LEAST = 1_000_000
"""Objects, some 200 MB, that are made in pauses before all are looked at once."""


class _Old:
    """What was made in pauses since all objects were looked at, and after how much of that they are again."""

    made = 0
    limit = LEAST


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """While tables or a text are read, or a payload is compiled: a payload is one large cycle that is not garbage.

    What was made meanwhile counts as old then, or the collector would go through all of it at once. It goes through
    what is old only when enough came to it by its own count, so that is done here: when as many objects were made as
    there were after the last time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                _Old.made += gc.get_count()[0]
                gc.freeze()
                gc.unfreeze()
                if _Old.made > _Old.limit:
                    gc.collect()
                    _Old.made, _Old.limit = 0, max(LEAST, len(gc.get_objects()))
            gc.enable()
