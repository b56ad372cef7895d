"""The symbols in the sizes of a payload are as its functions declare them: what a branch says stands in contexts."""

from __future__ import annotations

from collections.abc import Iterator

from tcpx.payload.attribute_sizes import dims_of
from tcpx.payload.ir import OVER_DIMS, FuncOp, Module, Operation, defined_by
from tcpx.payload.sizes import Dim, Symbol, Var
from tcpx.payload.sizes.expressions import atoms
from tcpx.payload.types import shape_of


def other_symbols(module: Module) -> list[str]:
    """The symbols in sizes of a module that their function declares otherwise, or not at all."""
    return [text for func in module.funcs.values() for text in _in_function(func)]


def _in_function(func: FuncOp) -> Iterator[str]:
    declared = {symbol.name: symbol.declaration for symbol in func.symbols}
    for op in func.walk():
        for size in _sizes(op):
            for symbol in _symbols(size):
                if declared.get(symbol.name) != symbol.declaration:
                    yield f"%{op.name} of @{func.name}: {symbol.declaration}, declared {declared.get(symbol.name)}"


def _sizes(op: Operation) -> Iterator[Dim]:
    for key, attribute in op.attributes.items():
        if key not in OVER_DIMS and key not in ("ragged", "kinds"):
            yield from dims_of(attribute)
    for value in defined_by(op):
        yield from shape_of(value.type)


def _symbols(size: Dim) -> Iterator[Symbol]:
    """Each instance of a symbol in a size, and in the ranges of its loop variables."""
    for atom in atoms(size):
        if isinstance(atom, Symbol):
            yield atom
        parts = (atom.lower, atom.upper, atom.step) if isinstance(atom, Var) else atom.operands
        for part in parts:
            yield from _symbols(part)
