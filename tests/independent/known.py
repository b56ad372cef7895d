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


PRODUCT = r"tcp\.(contract|matmul)"
KNOWN: list[Known] = [
    Known(
        "transforms of a generic with an affine map",
        "internal error",
        r"`\w+` left the payload in a state that breaks a rule: .* \(tcp\.generic\): dim \d+ of",
    ),
    Known(
        "transforms of a generic with an affine map",
        "internal error",
        r"`\w+` left the payload in a state that breaks a rule: .* \(tcp\.pad\): padding makes no dim smaller",
        r"maps = .*\d - \w",
    ),
    Known("pack of a diagonal operand", "internal error", r"`pack` left the payload in .*`operand` has the wrong rank"),
    Known("evaluate: contractions", "wrong numbers of evaluate", program=PRODUCT),
    Known("evaluate: contractions", "ended with 1", "call", program=PRODUCT),
    Known("a pad that feeds a contraction", "default schedule refused", program=rf"(?s)tcp\.pad.*{PRODUCT}"),
]


def expected(kind: str, message: str, reproducer: str) -> str | None:
    """The finding that a failure belongs to; None if it is new."""
    for known in KNOWN:
        if known.kind == kind and re.search(known.message, message) and re.search(known.program, reproducer):
            return known.finding
    return None
