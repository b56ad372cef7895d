"""Functions of one structure whose sizes differ become one function of sizes that its arguments tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from math import gcd
from typing import Final

from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.ir import FuncOp, Value, defined_by
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes import Dim, Symbol
from tcpx.payload.structure import fingerprint
from tcpx.payload.types import TensorType, dtype_of, shape_of
from tcpx.payload.verifier import verify_ops
from tcpx.transform.outlining import replace_function

LEAST_VARYING: Final = 16
"""Smaller sizes are equal in a family: which code is good for windows, batches and few channels depends on them."""
MOST_DIVISOR: Final = 16
"""Up to this, sizes of a family are multiples of the same power of two: whether they fill vectors decides, too."""

Sizes = tuple[int, ...]
"""A size as it is in each function of a family."""


def kind_of(size: int) -> str:
    """What is equal of a size in a family."""
    return str(size) if size < LEAST_VARYING else f"{gcd(size, MOST_DIVISOR)}*"


def join_families(rewriter: Rewriter, funcs: Sequence[FuncOp]) -> None:
    """Let functions of one structure, whose sizes alone differ, be one."""
    families = dict[str, list[FuncOp]]()
    for func in funcs:
        families.setdefault(fingerprint(func, kind_of), []).append(func)
    for members in families.values():
        if len(members) > 1 and not any(func.symbols for func in members):
            _join(rewriter, members)


def _join(rewriter: Rewriter, members: Sequence[FuncOp]) -> None:
    """Let functions be one, or leave them, where what it computes breaks a rule for other sizes.

    A size of the arguments that is the same in each is a number, another one a symbol, with the range and the divisor
    that it has in them, or a symbol and a number. Sizes of what is computed follow from these.
    """
    kept, *others = members
    rows = [list(_tensors(func)) for func in members]
    shapes = {same[0]: list(zip(*map(_static, same), strict=True)) for same in zip(*rows, strict=True)}
    given = {sizes for value in kept.args for sizes in shapes[value]}
    known, symbols = _of_arguments(given)
    mark = rewriter.mark()
    rewriter.add_symbols(kept, symbols)
    for value, shape in shapes.items():
        dims = [_size(sizes, known) for sizes in shape]
        if None in dims:
            rewriter.rollback(mark)
            return
        rewriter.set_type(value, TensorType(tuple(d for d in dims if d is not None), dtype_of(value.type)))
    try:
        verify_ops(kept.walk())
    except VerifyError:  # a rule does not follow for all sizes
        rewriter.rollback(mark)
        return
    for func in others:
        replace_function(rewriter, func, kept)


def _tensors(func: FuncOp) -> Iterator[Value]:
    """All tensors in a function, its arguments first."""
    values = (value for op in (func, *func.walk()) for value in defined_by(op))
    return (value for value in dict.fromkeys(values) if isinstance(value.type, TensorType))


def _static(value: Value) -> Sizes:
    return tuple(dim for dim in shape_of(value.type) if isinstance(dim, int))


def _of_arguments(given: set[Sizes]) -> tuple[Mapping[Sizes, Dim], Sequence[Symbol]]:
    """The sizes of arguments in terms of symbols, and these. Of sizes that differ by the same number everywhere, the
    least is the symbol."""
    known, symbols = dict[Sizes, Dim](), list[Symbol]()
    for sizes in sorted(given):
        if len(set(sizes)) > 1 and _size(sizes, known) is None:
            made = Symbol(f"s{len(symbols)}", min(sizes), max(sizes), gcd(*sizes))
            symbols.append(made)
            known[sizes] = made.size()
    return known, symbols


def _size(sizes: Sizes, known: Mapping[Sizes, Dim]) -> Dim | None:
    """A size in terms of known ones: one number, one of them, one and a number, or a product of two; None of others."""
    if len(set(sizes)) == 1:
        return sizes[0]
    if sizes in known:
        return known[sizes]
    for held, dim in known.items():
        gaps = {size - other for size, other in zip(sizes, held, strict=True)}
        if len(gaps) == 1:
            return dim + gaps.pop()
    pairs = combinations_with_replacement(known.items(), 2)
    return next((p * q for (a, p), (b, q) in pairs if sizes == tuple(x * y for x, y in zip(a, b, strict=True))), None)
