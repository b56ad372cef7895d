"""Random questions about quotients, remainders, minima, maxima and products."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tcpx.payload.sizes.expressions import Atom, CeilDiv, Dim, FloorDiv, Max, Min, Mod, Symbol, Var
from tcpx.payload.sizes.predicates import Comparison
from tests.prover.affine import BLOCKS, condition_at, drawn_leaves
from tests.prover.asked import Bound, Question

WORDS: Sequence[Bound] = ("lower", "upper", "divisor")


def drawn(draw: random.Random) -> Question:
    """A comparison, a bound or a divisor, with up to two conditions."""
    leaves, values = drawn_leaves(draw, draw.choice((1, 2, 2, 3)))
    conditions = [
        condition_at(draw, _size(draw, leaves, 1), _size(draw, leaves, 1), values)
        for _ in range(draw.choice((0, 0, 1, 1, 2)))
    ]
    size = _size(draw, leaves, 2)
    kind = draw.random()
    if kind < 0.15:
        return Question((draw.choice(WORDS), size if not isinstance(size, int) else leaves[0].size()), conditions)
    if kind < 0.4:
        return Question(Comparison(draw.choice(("<=", "<", "==")), size, _size(draw, leaves, 2)), conditions)
    return Question(Comparison(draw.choice(("<=", "<=", "<")), *_nearly_ordered(draw, size, leaves)), conditions)


def _nearly_ordered(draw: random.Random, size: Dim, leaves: Sequence[Symbol | Var]) -> tuple[Dim, Dim]:
    """Two sizes of which the first is often at most the second, by what the calls in them are."""
    block, other = draw.choice(BLOCKS), _size(draw, leaves, 1)
    shift = draw.choice((0, 0, 0, 1, -1, block))
    match draw.randrange(8):
        case 0:
            return _call(draw, size, other, Min), size + shift
        case 1:
            return size, _call(draw, size, other, Max) + shift
        case 2:
            return block * FloorDiv(size, block).size(), size + shift
        case 3:
            return size, block * CeilDiv(size, block).size() + shift
        case 4:
            return Mod(size, block).size(), block - 1 + shift
        case 5:
            return _call(draw, size, other, Min), _call(draw, size + 1, other, Max) + shift
        case 6:
            leaf = draw.choice(leaves).size()
            return FloorDiv(size, block) * leaf, CeilDiv(size, block) * leaf + shift
        case _:
            return FloorDiv(size, block).size(), FloorDiv(size + draw.choice(leaves), block).size() + shift


def _call(draw: random.Random, a: Dim, b: Dim, kind: type[Min | Max]) -> Dim:
    return a if a == b else kind((a, b)).size()


def _size(draw: random.Random, leaves: Sequence[Symbol | Var], depth: int) -> Dim:
    if depth == 0 or draw.random() < 0.2:
        return draw.choice([*(leaf.size() for leaf in leaves), draw.randint(0, 8)])
    a, b = _size(draw, leaves, depth - 1), _size(draw, leaves, depth - 1)
    match draw.randrange(10):
        case 0 | 1:
            return _call(draw, a, b, draw.choice((Min, Max)))
        case 2 | 3 | 4:
            return _quotient(draw, a, leaves)
        case 5:
            return a * b
        case 6:
            return a - b
        case _:
            return a + draw.choice((1, 1, 2, draw.choice(BLOCKS))) * b


def _quotient(draw: random.Random, size: Dim, leaves: Sequence[Symbol | Var]) -> Dim:
    by_number = isinstance(size, int) or draw.random() < 0.8
    divisor: Dim = draw.choice(BLOCKS) if by_number else draw.choice(leaves).size() + 1
    atom: Atom = draw.choice((FloorDiv, CeilDiv, Mod))(size, divisor)
    return atom.size()
