"""Expressions as keys: with all that a proof about them may look at, so its answer can be remembered."""

from __future__ import annotations

from collections.abc import Iterator

from tcpx.payload.size_expressions import Dim, Size, Symbol, Var, atoms
from tcpx.payload.size_traversal import operands

Fact = tuple[str, int, int | None, int] | tuple[str, Dim, Dim, Dim, tuple[int, ...]]
"""Of a symbol or a loop variable: its text, its facts, and the numbers of what the facts mention."""


class Question:
    """An expression to prove something about; equal to another one if terms and facts agree, in order."""

    __slots__ = ("_hash", "key", "size")

    def __init__(self, size: Size) -> None:
        self.size = size
        facts = _Facts()
        mentioned = facts.mentioned(size)
        self.key = (size, mentioned, tuple(facts.numbers))
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Question) and self.key == other.key

    def __hash__(self) -> int:
        return self._hash


class _Facts:
    """All facts about an expression, each numbered and held once: those of a loop in loops mention all outer ones."""

    __slots__ = ("_known", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[Fact, int] = {}
        self._known: dict[int, int] = {}

    def mentioned(self, *dims: Dim) -> tuple[int, ...]:
        """The numbers of the symbols and loop variables of expressions, in order."""
        seen: set[int] = set()
        return tuple(dict.fromkeys(self._number(leaf) for d in dims for leaf in _leaves(d, seen)))

    def _number(self, leaf: Symbol | Var) -> int:
        known = self._known.get(id(leaf))
        if known is None:
            fact = self._fact(leaf)
            known = self._known[id(leaf)] = self.numbers.setdefault(fact, len(self.numbers))
        return known

    def _fact(self, leaf: Symbol | Var) -> Fact:
        if isinstance(leaf, Symbol):
            return leaf.text, leaf.lower, leaf.upper, leaf.multiple_of
        facts = leaf.lower, leaf.upper, leaf.step
        return leaf.text, *facts, self.mentioned(*facts)


def _leaves(d: Dim, seen: set[int]) -> Iterator[Symbol | Var]:
    """The symbols and loop variables of an expression; parts of it that are one object are gone through once."""
    for atom in atoms(d):
        if isinstance(atom, Symbol | Var):
            yield atom
        elif id(atom) not in seen:
            seen.add(id(atom))
            for operand in operands(atom):
                yield from _leaves(operand, seen)
