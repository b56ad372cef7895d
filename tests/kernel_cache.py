"""The cache of kernels in tests: they change tcpx while it runs, which no key can tell, so it is off."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tcpx import request_cache


@contextmanager
def kernel_cache(*, used: bool = True) -> Generator[None]:
    """`tcpx.compile` uses the cache of kernels, or does not."""
    before, request_cache.IS_USED = request_cache.IS_USED, used
    try:
        yield
    finally:
        request_cache.IS_USED = before
