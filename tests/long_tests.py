"""Which tests are long, and which of many of a kind are slow: `long_tests.txt` lists them for `make test-long`,
`slow_tests.txt` for `make conformance`. Plugins of pytest mark them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tcpx.processor import missing_flags
from tcpx.target import load_target
from tests.globs import glob_pattern, listed_lines

LONG_TESTS = Path(__file__).with_name("long_tests.txt")
SLOW_TESTS = Path(__file__).with_name("slow_tests.txt")


class LongTests:
    """Marks the tests that the list names, in every process that collects."""

    def __init__(self, path: Path, mark: str = "long") -> None:
        self.path, self.mark = path, mark
        self.patterns: Mapping[str, re.Pattern[str]] = {glob: glob_pattern(glob) for _, glob in listed_lines(path)}

    def unmatched(self, nodeids: Iterable[str]) -> list[str]:
        """The globs that name none of these, though one of these is of the same file."""
        known = list(nodeids)
        files = {nodeid.partition("::")[0] for nodeid in known}
        return [
            glob
            for glob, pattern in self.patterns.items()
            if glob.partition("::")[0] in files and not any(pattern.fullmatch(nodeid) for nodeid in known)
        ]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Mark them, before `-m` selects. A glob for a test that is gone is an error."""
        for item in items:
            if any(pattern.fullmatch(item.nodeid) for pattern in self.patterns.values()):
                item.add_marker(self.mark)
        if not any("::" in argument for argument in config.args):
            unmatched = self.unmatched(item.nodeid for item in items)
            if unmatched:
                found = ", ".join(unmatched)
                raise pytest.UsageError(f"{self.path}: required globs of tests, found no test of {found}")


class NarrowerVectors:
    """Leaves the long tests of AVX2 to `make conformance` where those of AVX-512 run, the same in wider vectors.
    `TCPX_HIDE_CPU_FLAGS` brings them back. Has to be registered before the lists: the last one is asked first."""

    def __init__(self) -> None:
        self.has_wider = not missing_flags(load_target("x86_avx512").cpu_flags)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark them slow."""
        for item in items if self.has_wider else []:
            if "x86_avx2" in item.nodeid.partition("[")[2] and item.get_closest_marker("long") is not None:
                item.add_marker("slow")
