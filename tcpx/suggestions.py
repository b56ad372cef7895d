"""Did-you-mean."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_ALIKE = 0.6
_ALIKE_SHORT = 0.5
"""Of names of two letters, such as the dims `d0` and `oh`: one is the same."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, if one is alike; capitals are like small letters."""
    found = nearest(name, known, 1)
    return found[0] if found else None


def nearest(name: str, known: Iterable[str], count: int) -> list[str]:
    """At most so many of the known names, those most like `name` first."""
    names: dict[str, str] = {}
    for one in sorted(known):
        names.setdefault(one.lower(), one)
    cutoff = _ALIKE_SHORT if len(name) == 2 else _ALIKE
    return [names[one] for one in get_close_matches(name.lower(), list(names), n=count, cutoff=cutoff)]


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The fix line for an unknown name."""
    found = closest(name, known)
    return f"did you mean `{found}`?" if found is not None else None


def numbered_dim(name: str, dims: Sequence[str]) -> str | None:
    """The fix for a dim given by its number, `d1`, of an operation whose dims have names."""
    number = name.removeprefix("d")
    is_known = name.startswith("d") and number.isdigit() and int(number) < len(dims)
    return f"did you mean `{dims[int(number)]}`?" if is_known else None
