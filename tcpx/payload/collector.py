"""Python's collector of cycles, paused where it would go in vain through very many objects that live on."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """While tables or a text are read, or a payload is compiled: a payload is one large cycle that is not garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
