"""Python's collector of cycles, paused where it would go in vain through very many objects that live on."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """While tables or a text are read, or a payload is compiled: a payload is one large cycle that is not garbage.

    What was made meanwhile counts as old then, or the collector would go through all of it at once.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
