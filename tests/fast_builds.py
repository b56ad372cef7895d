"""Kernels of tests are compiled with -O1, but for those of tests with the mark `optimized` and of `--optimize`.

The C compiler has a third of what tests take; with -O1 it takes 0.6 of that. What is drawn at random is compiled as for
users: tests/nets has the mark, and other processes, as those of tests/independent, compile as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tcpx.emit_c import driver
from tcpx.emit_c.compiler import Compiler


class FastBuilds:
    """Has every kernel of this process compiled by way of itself."""

    def __init__(self) -> None:
        self.is_fast = True
        self._build = driver._build
        driver._build = self.build

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """What a test says."""
        self.is_fast = item.get_closest_marker("optimized") is None

    def build(self, source: str, compiler: Compiler, flags: Sequence[str], *others: Any, **options: Any) -> Path:
        """As the driver does; of several flags for how much is optimized, the last one counts."""
        return self._build(source, compiler, (*flags, "-O1") if self.is_fast else flags, *others, **options)
