"""Numbers for people, the same in every text and on every page."""

from typing import Final

_TIMES: Final = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
_PREFIXES: Final = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def duration(seconds: float) -> str:
    """Three significant digits with a unit: `1.24 ms`."""
    unit, scale = next(((unit, scale) for unit, scale in _TIMES if seconds >= 0.9995 * scale), _TIMES[-1])
    return f"{_digits(seconds / scale)} {unit}"


def amount(number: float) -> str:
    """Three significant digits with a prefix: `151 M`."""
    prefix, scale = next(((prefix, scale) for prefix, scale in _PREFIXES if number >= 0.9995 * scale), ("", 1.0))
    return f"{_digits(number / scale)} {prefix}".rstrip()


def percent(part: float) -> str:
    """A part of a whole: `12.3 %`."""
    return f"{100 * part:.1f} %"


def _digits(number: float) -> str:
    if number >= 99.95:
        return f"{number:.0f}"
    return f"{number:.3g}"
