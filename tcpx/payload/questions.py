"""Expressions as keys: with all that a proof about them may look at, so its answer can be remembered."""

from __future__ import annotations

from collections.abc import Iterator

from tcpx.payload.size_expressions import Dim, Size, Symbol, Var, atoms
from tcpx.payload.size_traversal import operands

Key = int | tuple[Size, tuple["Key | int | str | None", ...]]


class Question:
    """An expression to prove something about; equal to another one if terms and facts agree, in order."""

    __slots__ = ("_hash", "key", "size")

    def __init__(self, size: Size) -> None:
        self.size = size
        self.key = _key(size)
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Question) and self.key == other.key

    def __hash__(self) -> int:
        return self._hash


def _key(d: Dim) -> Key:
    if isinstance(d, int):
        return d
    seen: dict[Symbol | Var, list[Symbol | Var]] = {}
    facts: list[Key | int | str | None] = []
    for leaf in _leaves(d):
        known = seen.setdefault(leaf, [])
        if any(leaf is instance for instance in known):
            continue
        known.append(leaf)
        facts.append(leaf.text)
        if isinstance(leaf, Symbol):
            facts += (leaf.lower, leaf.upper, leaf.multiple_of)
        else:
            facts += map(_key, (leaf.lower, leaf.upper, leaf.step))
    return d, tuple(facts)


def _leaves(d: Dim) -> Iterator[Symbol | Var]:
    for atom in atoms(d):
        if isinstance(atom, Symbol | Var):
            yield atom
        else:
            for operand in operands(atom):
                yield from _leaves(operand)
