"""Seeded mutations of text files: bytes, characters, tokens and lines."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

TOKEN = re.compile(
    r"\s+|//[^\n]*|\"[^\"\n]*\"|[0-9]+\.[0-9]+|(?<=[0-9\]])x(?=\w|\[)|[0-9]+|[%@]?[A-Za-z_][\w.]*|\w+|\*\*|\.\.|->|=>|[<>=!]=|.",
    re.DOTALL,
)
STRANGE = (
    *("\0", "\x07", "\x1b[31m", "\r", "\r\n", "\t", "\f", "\v", "\ufeff", "\u2028", "\u00a0", "\u0663", "\u00e9"),
    *("\U0001f600", "\u202e", "\u0301", '"', "'", "\\", "\\u0000", "//", "///", "(", ")", "[", "]", "{", "}", ";"),
    *("<", ">", "=", ",", ".", "..", "...", ":", "%", "@", "#", "*", "**", "-", "- ", "+", "/", "!", "&", "\n", "\n\n"),
)
NUMBERS = (
    *("0", "1", "2", "3", "7", "8", "16", "100", "65536", "2147483648", "9223372036854775807", "9223372036854775808"),
    *("18446744073709551615", "99999999999999999999", "9" * 5000, "-1", "-9223372036854775808", "1.5", "0.0"),
    *("1e999", "1.0e999", "1.0e308", "00", "0x10", "1_000", "2 ** 40", "1..1000000000000", "1 / 0", "5 % 0"),
)
OPERATORS = ("+", "-", "*", "/", "%", "**", "==", "!=", "<", "<=", ">", ">=", "..", "and", "or", "not", "in", "if", "=")
DEEP = (("(", ")"), ("[", "]"), ("-", ""), ("not ", ""), ("min(1, ", ")"), ("", " + 1"), ("", ".m"), ("{", "}"))


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The file with one mutation, at times a few."""
    for _ in range(1 if rng.random() < 0.7 else rng.randint(2, 5)):
        data = rng.choices(MUTATIONS, WEIGHTS)[0](data, rng)
    return data


def _bytes(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    match rng.randrange(5):
        case 0:
            return data[:at] + bytes([rng.randrange(256)]) + data[at:]
        case 1:
            return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        case 2:
            return data[:at]
        case 3:
            return b"\xef\xbb\xbf" + data
        case _:
            return data.replace(b"\n", b"\r\n")


def _on_text(change: Callable[[str, random.Random], str]) -> Callable[[bytes, random.Random], bytes]:
    def mutate(data: bytes, rng: random.Random) -> bytes:
        return change(data.decode("utf-8", "replace"), rng).encode("utf-8", "replace")

    return mutate


def _characters(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    width = rng.choice((0, 0, 1, 1, 2, 20))
    return text[:at] + rng.choice((*STRANGE, "", "", "")) + text[at + width :]


def _tokens(text: str, rng: random.Random) -> str:
    pieces = TOKEN.findall(text)
    solid = [k for k, piece in enumerate(pieces) if not piece.isspace() and not piece.startswith("//")]
    if not solid:
        return text
    at, other = rng.choice(solid), rng.choice(solid)
    piece = pieces[at]
    match rng.randrange(5):
        case 0:
            pieces[at] = ""
        case 1:
            pieces[at] = f"{piece} {piece}"
        case 2:
            pieces[at], pieces[other] = pieces[other], piece
        case 3:
            pieces[at] = pieces[other]
        case _:
            opening, closing = rng.choice(DEEP)
            depth = rng.choice((1, 1, 2, 60, 70, 3000))
            pieces[at] = opening * depth + piece + closing * depth
    return "".join(pieces)


def _kinds(text: str, rng: random.Random) -> str:
    """A token becomes another one of the same kind, or two of a kind change places: most files stay well formed."""
    pieces = TOKEN.findall(text)
    kinds = _kinds_of(pieces)
    if not kinds:
        return text
    at = rng.choice([k for k, kind in enumerate(kinds) if kind] or [0])
    other = rng.choice([k for k, kind in enumerate(kinds) if kind == kinds[at]] or [0])
    if kinds[at] == "number" and rng.random() < 0.5:
        pieces[at] = str(rng.choice((0, 1, 2, 3, 5, 8, 63, 4096)))
    elif kinds[at] == "operator":
        pieces[at] = rng.choice(OPERATORS)
    elif rng.random() < 0.5:
        pieces[at] = pieces[other]
    else:
        pieces[at], pieces[other] = pieces[other], pieces[at]
    return "".join(pieces)


def _kinds_of(pieces: list[str]) -> list[str]:
    """Number, operator, value or function; a name goes with those that follow the same token."""
    kinds: list[str] = []
    last = ""
    for piece in pieces:
        if piece.isspace() or piece.startswith(("//", '"')):
            kinds.append("")
            continue
        if piece[0].isdigit():
            kinds.append("number")
        elif piece[0] in "%@":
            kinds.append(piece[0])
        elif piece[0].isalpha():
            kinds.append(f"name after {last if not last[:1].isalnum() else 'a word'}")
        else:
            kinds.append("operator" if piece in OPERATORS and piece != "=" else "")
        last = piece
    return kinds


def _numbers(text: str, rng: random.Random) -> str:
    found = list(re.finditer(r"\b[0-9]+\b", text))
    if not found:
        return text
    at = rng.choice(found)
    return text[: at.start()] + rng.choice(NUMBERS) + text[at.end() :]


def _lines(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = f"{lines[at]} {lines.pop(other)}" if at < len(lines) - 1 else lines[at]
        case _:
            lines[at] = rng.choice(("", "  ;", "// note", "/// doc", "}", "{"))
    return "\n".join(lines)


MUTATIONS = (_bytes, *map(_on_text, (_characters, _tokens, _kinds, _numbers, _lines)))
WEIGHTS = (1, 2, 3, 14, 3, 3)
