"""Failures that are known and open: the one table of them. It is to become empty; a line goes when its defect does."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A failure by its kind, a pattern for its message, and one for the program and the schedule."""

    finding: str
    kind: str
    message: str = ""
    program: str = ""


KNOWN: list[Known] = []


def expected(kind: str, message: str, reproducer: str) -> str | None:
    """The finding that a failure belongs to; None if it is new."""
    for known in KNOWN:
        if known.kind == kind and re.search(known.message, message) and re.search(known.program, reproducer):
            return known.finding
    return None
