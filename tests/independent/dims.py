"""Sizes of drawn programs: texts of size expressions that can also be computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

Env = Mapping[str, int]


@dataclass(frozen=True)
class Dim:
    """An extent: its text without brackets, and its value for given symbols. Equal texts are equal extents."""

    text: str
    value: Callable[[Env], int]

    @staticmethod
    def static(extent: int) -> Dim:
        return Dim(str(extent), lambda env: extent)

    @staticmethod
    def symbol(name: str) -> Dim:
        return Dim(name, lambda env: env[name])

    @property
    def is_static(self) -> bool:
        return self.text.isdigit()

    @property
    def in_type(self) -> str:
        return self.text if self.is_static else f"[{self.text}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


@dataclass(frozen=True)
class Symbol:
    """A declared symbol: its range, what it is a multiple of, and what values a call may give it."""

    name: str
    low: int | None
    high: int | None
    multiple: int

    @property
    def declaration(self) -> str:
        text = self.name
        if self.low is not None:
            text += f": {self.low}..{'' if self.high is None else self.high}"
        return text + (f" multiple_of {self.multiple}" if self.multiple > 1 else "")

    @property
    def least(self) -> int:
        return -(-(self.low or 0) // self.multiple) * self.multiple

    def draw(self, rng: Random, limit: int) -> int:
        """A value that the declaration allows, at most `limit` where it allows that."""
        most = min(limit, self.high) if self.high is not None else limit
        most = max(self.least, most // self.multiple * self.multiple)
        favourites = [self.least, self.least + self.multiple, 1, 7, 8, 16, 17, 31, 33, most]
        allowed = [v for v in favourites if self.least <= v <= most and v % self.multiple == 0]
        if rng.random() < 0.6:
            return rng.choice(allowed)
        return rng.randrange(self.least, most + 1, self.multiple)


def draw_symbol(rng: Random, name: str) -> Symbol:
    low: int | None = rng.choice([None, None, None, 0, 1, 1, 2, 5])
    high = None if low is None or rng.random() < 0.5 else rng.choice([9, 16, 33, 40])
    multiple = rng.choice([1, 1, 1, 1, 2, 3, 4, 8, 16])
    if high is not None and -(-(low or 0) // multiple) * multiple > high:
        multiple = 1
    return Symbol(name, low, high, multiple)


def derived(rng: Random, base: Dim) -> Dim:
    """A size expression of a symbol, never negative."""
    t, v = base.text, base.value
    return rng.choice(
        [
            Dim(f"{t} + 1", lambda env: v(env) + 1),
            Dim(f"{t} + 3", lambda env: v(env) + 3),
            Dim(f"2*{t}", lambda env: 2 * v(env)),
            Dim(f"2*{t} + 1", lambda env: 2 * v(env) + 1),
            Dim(f"ceildiv({t}, 4)", lambda env: -(-v(env) // 4)),
            Dim(f"floordiv({t}, 2)", lambda env: v(env) // 2),
            Dim(f"min({t}, 8)", lambda env: min(v(env), 8)),
            Dim(f"max({t}, 5)", lambda env: max(v(env), 5)),
            Dim(f"mod({t}, 7)", lambda env: v(env) % 7),
        ]
    )
