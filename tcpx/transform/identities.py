"""Algebraic identities as tables: what stands on the left becomes what stands on the right, in names of the payload.

A letter is any value, the same one wherever it stands; a number is a constant of which each element is that number.
`EXACT` holds for every value there is, NaN, infinities and -0.0 included, up to which NaN it is; the others are applied
where a step asks for them. `not_`, `and_` and `or_` are `tcp.not`, `tcp.and` and `tcp.or`, as in Python's `operator`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from typing import Final

from tcpx.payload.ir import operation_classes
from tcpx.payload.traits.algebra import algebra
from tcpx.payload.types import ScalarKind, ScalarType
from tcpx.records import frozen

FLOAT: Final = frozenset({ScalarKind.FLOAT})
INTEGER: Final = frozenset({ScalarKind.SIGNED, ScalarKind.UNSIGNED})
DISCRETE: Final = INTEGER | {ScalarKind.BOOL}
NUMBER: Final = FLOAT | INTEGER
SIGNED: Final = FLOAT | {ScalarKind.SIGNED}
UNSIGNED: Final = frozenset({ScalarKind.UNSIGNED})
ANY: Final = FLOAT | DISCRETE
"""The kinds of dtypes of results that a line is for."""

Kinds = frozenset[ScalarKind]
Table = tuple[tuple[str, str, Kinds], ...]

EXACT: Final[Table] = (
    ("add(x, -0.0)", "x", FLOAT),  # x + 0.0 would make 0.0 of -0.0
    ("add(x, 0)", "x", DISCRETE),
    ("add(x, neg(y))", "sub(x, y)", NUMBER),
    ("sub(x, 0)", "x", NUMBER),  # +0.0: x - -0.0 would make 0.0 of -0.0
    ("sub(x, x)", "0", INTEGER),
    ("sub(x, neg(y))", "add(x, y)", NUMBER),
    ("sub(-0.0, x)", "neg(x)", FLOAT),
    ("sub(0, x)", "neg(x)", INTEGER),
    ("mul(x, 1)", "x", ANY),
    ("mul(x, 0)", "0", DISCRETE),
    ("mul(x, -1)", "neg(x)", FLOAT),
    ("mul(neg(x), neg(y))", "mul(x, y)", NUMBER),
    ("div(x, 1)", "x", FLOAT),
    ("div(x, -1)", "neg(x)", FLOAT),
    ("div(1, x)", "reciprocal(x)", FLOAT),
    ("div(neg(x), neg(y))", "div(x, y)", FLOAT),
    ("floordiv(x, 1)", "x", INTEGER),
    ("min(x, x)", "x", ANY),
    ("max(x, x)", "x", ANY),
    ("min(x, 1e999)", "x", FLOAT),  # infinity; of NaN, NaN
    ("max(x, -1e999)", "x", FLOAT),
    ("min(x, 0)", "0", UNSIGNED),
    ("max(x, 0)", "x", UNSIGNED),
    ("mod(x, 1)", "0", INTEGER),
    ("rem(x, 1)", "0", INTEGER),
    ("pow(x, 1)", "x", FLOAT),
    ("pow(x, 2)", "mul(x, x)", FLOAT),
    ("select(c, x, x)", "x", ANY),
    ("select(1, x, y)", "x", ANY),
    ("select(0, x, y)", "y", ANY),
    ("select(not_(c), x, y)", "select(c, y, x)", ANY),
    ("neg(neg(x))", "x", NUMBER),
    ("not_(not_(x))", "x", DISCRETE),
    ("and_(x, x)", "x", DISCRETE),
    ("or_(x, x)", "x", DISCRETE),
    ("xor(x, x)", "0", DISCRETE),
    ("and_(x, 0)", "0", DISCRETE),
    ("or_(x, 0)", "x", DISCRETE),
    ("xor(x, 0)", "x", DISCRETE),
    ("shift_left(x, 0)", "x", INTEGER),
    ("shift_right(x, 0)", "x", INTEGER),
    ("abs(abs(x))", "abs(x)", NUMBER),
    ("abs(neg(x))", "abs(x)", SIGNED),
    ("relu(relu(x))", "relu(x)", NUMBER),
    ("floor(floor(x))", "floor(x)", FLOAT),
    ("ceil(ceil(x))", "ceil(x)", FLOAT),
    ("trunc(trunc(x))", "trunc(x)", FLOAT),
    ("round(round(x))", "round(x)", FLOAT),
    ("fma(x, 1, z)", "add(x, z)", FLOAT),
    ("fma(x, y, -0.0)", "mul(x, y)", FLOAT),
    ("multiply_add(x, 1, z)", "add(x, z)", FLOAT),
    ("multiply_add(x, y, -0.0)", "mul(x, y)", FLOAT),
)
INEXACT: Final[Mapping[str, Table]] = {
    "zeros": (  # the sign of a zero, and a NaN; first, since a sum with 0 is none that rounds
        ("add(x, 0)", "x", FLOAT),
        ("sub(x, -0.0)", "x", FLOAT),
        ("sub(0, x)", "neg(x)", FLOAT),
        ("mul(x, 0)", "0", FLOAT),
        ("mul(x, -0.0)", "0", FLOAT),
        ("sub(x, x)", "0", FLOAT),
        ("fma(x, y, 0)", "mul(x, y)", FLOAT),
        ("fma(x, 0, z)", "z", FLOAT),
        ("fma(x, -0.0, z)", "z", FLOAT),
        ("multiply_add(x, y, 0)", "mul(x, y)", FLOAT),
        ("multiply_add(x, 0, z)", "z", FLOAT),
        ("multiply_add(x, -0.0, z)", "z", FLOAT),
    ),
    "fma": (  # one rounding in place of two
        ("add(mul(x, y), z)", "fma(x, y, z)", FLOAT),
        ("sub(mul(x, y), z)", "fma(x, y, neg(z))", FLOAT),
        ("sub(z, mul(x, y))", "fma(neg(x), y, z)", FLOAT),
    ),
    "reciprocals": (  # two roundings in place of one; rows share a divisor
        ("div(x, repeated(y))", "mul(x, repeated(reciprocal(y)))", FLOAT),
    ),
}
"""By the option of `canonicalize` that asks for them."""
REPEATED: Final = "repeated"
"""Any broadcast of a value: on the right, the same broadcast of another one."""


@frozen
class Term:
    """A pattern: a letter, a number, or an operation of others."""

    letter: str = ""
    number: float | int | None = None
    opcode: str = ""
    args: tuple[Term, ...] = ()

    @property
    def is_operation(self) -> bool:
        return bool(self.opcode)


@frozen
class Identity:
    """One line of a table."""

    text: str
    left: Term
    right: Term
    kinds: Kinds

    def holds_for(self, dtype: ScalarType) -> bool:
        """Whether it does for results of a dtype."""
        return dtype.kind in self.kinds


@cache
def identities(*options: str) -> Mapping[str, tuple[Identity, ...]]:
    """The exact ones and those of these options, by the opcode on the left; those that commute, both ways."""
    found: dict[str, tuple[Identity, ...]] = {}
    for left, right, kinds in (*EXACT, *(line for option in options for line in INEXACT[option])):
        for term in _orders(_term(ast.parse(left, mode="eval").body)):
            made = Identity(f"{left} -> {right}", term, _term(ast.parse(right, mode="eval").body), kinds)
            found[term.opcode] = (*found.get(term.opcode, ()), made)
    return found


def _orders(term: Term) -> tuple[Term, ...]:
    """A pattern with its first two operands in both orders, where they commute and that is another one."""
    known = operation_classes().get(term.opcode)
    if known is None or algebra(known).commutes != (0, 1) or term.args[0] == term.args[1]:
        return (term,)
    first, second, *rest = term.args
    return term, Term(opcode=term.opcode, args=(second, first, *rest))


def _term(node: ast.expr) -> Term:
    match node:
        case ast.Name(id=letter):
            return Term(letter=letter)
        case ast.Constant(value=int() | float() as number):
            return Term(number=number)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return Term(number=-number)
        case ast.Call(func=ast.Name(id=name), args=args):
            opcode = name if name == REPEATED else f"tcp.{name.rstrip('_')}"
            return Term(opcode=opcode, args=tuple(map(_term, args)))
        case _:
            raise ValueError(f"no pattern: {ast.unparse(node)}")
