"""Globs of node ids, as the lists of tests in text files have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path


def glob_pattern(glob: str) -> re.Pattern[str]:
    """`*` and `?` are wildcards; brackets are literal, for node ids are full of them."""
    return re.compile(re.escape(glob).replace(r"\*", ".*").replace(r"\?", "."))


def listed_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a list with their numbers, without empty ones and comments."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            yield number, line.strip()
