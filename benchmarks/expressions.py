"""Arithmetic in sizes, as workloads write it: numbers, names, + - * / // and parentheses."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Final

Number = int | float
OPERATORS: Final[dict[type[ast.operator], Callable[[Number, Number], Number]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def value_of(text: str | Number, sizes: Mapping[str, int]) -> Number:
    """The value of an expression. Raises ValueError for anything else than arithmetic in the sizes."""
    try:
        tree = ast.parse(str(text), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"required arithmetic, found {text!r}: {error.msg}") from error
    return _value(tree, sizes)


def _value(node: ast.expr, sizes: Mapping[str, int]) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(left, sizes), _value(right, sizes))
        case _:
            found = ast.unparse(node)
            raise ValueError(f"required arithmetic in {', '.join(sizes) or 'numbers'}, found {found!r}")
