"""Did-you-mean."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, if one is alike."""
    found = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The fix line for an unknown name."""
    found = closest(name, known)
    return f"did you mean `{found}`?" if found is not None else None
