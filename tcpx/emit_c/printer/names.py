"""From payload names, which may hold any text, to C identifiers and C comments."""

import re
from collections.abc import Iterable

from tcpx.emit_c.printer.reserved import is_external, is_reserved

_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*", re.ASCII)
"""An identifier; what follows a digit or a point is the end of a number (`1.0f`) or a member."""
_NOT_IN_WORDS = re.compile(r"[^A-Za-z0-9]+")
LONGEST = 63
"""C11 5.2.4.1: the characters of an internal identifier that are sure to count."""
LONGEST_SHARED = LONGEST - 8
"""The same without a number and a suffix: the name of a function is no shorter than it must be, as others call it."""
LONGEST_LOCAL = 32
"""The characters of a variable's name before its number: paths of exported models make lines of 300 columns."""


def mangle(text: str) -> str:
    """A C identifier that resembles `text`: `fc1/m1~tail` -> `fc1_m1_tail`. Different texts may give the same."""
    return _identifier(_words(text)[:LONGEST_SHARED])


def _words(text: str) -> str:
    return _NOT_IN_WORDS.sub("_", text).strip("_")


def _identifier(word: str) -> str:
    if not word:
        return "v"
    if word[0].isdigit():
        word = f"v{word}"
    return f"{word}_" if is_reserved(word) else word


def _last(words: str, longest: int) -> str:
    """As many of the last words as fit: in a path, the last parts say the most."""
    while len(words) > longest and "_" in words:
        _, words = words.split("_", 1)
    return words[:longest]


def mangle_external(text: str) -> str:
    """The same for a function that a linker sees, so that it takes the place of none of the system."""
    word = mangle(text)
    return f"{word}_kernel" if is_external(word) else word


def words_of(code: Iterable[str]) -> set[str]:
    """The identifiers that occur in C code."""
    return {word for text in code for word in _WORD.findall(text)}


class Names:
    """Hands out identifiers, each once: names that mangle alike are told apart by a number."""

    __slots__ = ("_numbers", "_taken", "given")

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken: set[str] = set(taken)
        self.given: dict[str, int] = {}
        """Every name that was handed out, without suffixes, and how many were before it."""
        self._numbers: dict[tuple[str, tuple[str, ...]], int] = {}
        """By beginning of a name and suffixes: the numbers up to this one are known to be taken."""

    def fresh(self, text: str, suffixes: Iterable[str] = ("",), longest: int = LONGEST_LOCAL) -> str:
        """A new identifier for `text`; it is unused with every one of the suffixes."""
        stem = _identifier(_last(_words(text), longest))
        ends = tuple(suffixes)
        name, number = stem, self._numbers.get((stem, ends), 1)
        while any(name + end in self._taken for end in ends):
            number += 1
            name = f"{stem}{'' if stem.endswith('_') else '_'}{number}"
        self._numbers[stem, ends] = number
        self._taken.update(name + end for end in ends)
        self.given[name] = len(self.given)
        return name


def in_comment(text: str) -> str:
    """`text` as it may stand inside a C comment: one line of ASCII that cannot end it, nest one or continue a line."""
    plain = "".join(c if " " <= c <= "~" and c != "\\" else "?" for c in text)
    for opening in ("*/", "/*", "//", "??"):
        while opening in plain:
            plain = plain.replace(opening, f"{opening[0]} {opening[1]}")
    return plain.strip()
