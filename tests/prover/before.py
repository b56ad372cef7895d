"""Sizes that remember what they were before they were simplified, and an evaluator that computes both.

`min(4, N - %i)` may be written as 4 where that is proved. Wherever an operation with such a size runs, both have to be
equal, also after the operation has moved. Sums, products and substitutions carry on what their operands were.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tcpx.payload import comparison
from tcpx.payload.attribute_sizes import dims_of
from tcpx.payload.contexts import variables_around
from tcpx.payload.evaluator import Evaluation
from tcpx.payload.ir import Operation
from tcpx.payload.sizes import arithmetic, evaluate, substitution
from tcpx.payload.sizes.expressions import (
    Atom,
    CeilDiv,
    Dim,
    FloorDiv,
    Max,
    Min,
    Mod,
    Size,
    Symbol,
    Var,
    as_dim,
    atoms,
    product,
    total,
)
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.types import BufferType, TensorType, shape_of


class WrittenSize(Size):
    """A size with another one that it is equal to wherever it is used."""

    __slots__ = ("before",)

    before: Dim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms and self.constant == other.constant

    __hash__ = Size.__hash__


class WrittenNumber(int):
    """The same for a number."""

    before: Dim


def before(size: Dim) -> Dim:
    """What a size was before it was simplified."""
    return size.before if isinstance(size, WrittenSize | WrittenNumber) else size


def written(size: Dim, was: Dim) -> Dim:
    """A size that remembers."""
    if isinstance(was, int) or was == size:
        return size
    made = WrittenNumber(size) if isinstance(size, int) else WrittenSize(size.terms, size.constant)
    made.before = was
    return made


@dataclass
class Found:
    """How many sizes were computed both ways, and where the values differed."""

    compared: int = 0
    unknown: int = 0
    """Those that were sizes of variables of loops that are not around the operation."""
    different: Counter[str] = field(default_factory=Counter[str])

    def compare(self, opcode: str, sizes: Iterable[Dim], values: Mapping[str, int]) -> None:
        """Compute sizes of an operation that is about to run."""
        for size in sizes:
            was = before(size)
            if was is size:
                continue
            if not _names(was) <= values.keys():
                self.unknown += 1  # of a loop that was unrolled, or that the operation has left
                continue
            self.compared += 1
            now, then = evaluate(size, values), evaluate(was, values)
            if now != then:
                self.different[f"{opcode}: {size} is {now}, {was} is {then}"] += 1


@contextmanager
def remembering() -> Generator[Found]:
    """Sizes remember, and every evaluation of a payload compares."""
    found = Found()
    with pytest.MonkeyPatch.context() as patch:
        for name, kind in (("floordiv", FloorDiv), ("ceildiv", CeilDiv), ("mod", Mod)):
            _replace(patch, getattr(arithmetic, name), _division(getattr(arithmetic, name), kind))
        for name, kind in (("minimum", Min), ("maximum", Max)):
            _replace(patch, getattr(arithmetic, name), _extremum(getattr(arithmetic, name), kind))
        _replace(patch, substitution.substitute, _substitution(substitution.substitute))
        _replace(patch, substitution.simplify, _unchanged(substitution.simplify))
        for name in ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__neg__"):
            patch.setattr(Size, name, _arithmetic(getattr(Size, name)))
        _replace(patch, comparison.same_attribute, _same(comparison.same_attribute))
        patch.setattr(Evaluation, "run", _run(Evaluation.run, found))
        yield found


def _replace(patch: pytest.MonkeyPatch, real: object, replacement: object) -> None:
    for module in [m for key, m in sys.modules.items() if key.partition(".")[0] in ("tcpx", "tests")]:
        for name in [key for key, value in vars(module).items() if value is real]:
            patch.setattr(module, name, replacement)


def _run(real: Callable[..., None], found: Found) -> Callable[..., None]:
    def run(self: Evaluation, op: Operation) -> None:
        types = [r.type for r in op.results if isinstance(r.type, TensorType | BufferType)]
        shapes = [d for type_ in types for d in shape_of(type_)]
        # Loops that are done leave the values of their variables behind.
        around = {var.name for var in variables_around(op)} | {s.name for s in op.func.symbols} if op.func else set()
        values = {name: value for name, value in self.sizes.items() if name in around}
        found.compare(op.opcode, [*shapes, *(d for a in op.attributes.values() for d in dims_of(a))], values)
        real(self, op)

    return run


def _same(real: Callable[..., bool]) -> Callable[..., bool]:
    """It compares types, too."""

    def are_same(a: object, b: object) -> bool:
        return real(a, b) or a == b

    return are_same


def _division(real: Callable[..., Dim], kind: type[FloorDiv | CeilDiv | Mod]) -> Callable[..., Dim]:
    def make(a: Any, b: Any, *known: Any) -> Dim:
        lhs, rhs = before(as_dim(a)), before(as_dim(b))
        made = real(a, b, *known)
        return made if isinstance(lhs, int) and isinstance(rhs, int) else written(made, kind(lhs, rhs).size())

    return make


def _extremum(real: Callable[..., Dim], kind: type[Min | Max]) -> Callable[..., Dim]:
    def make(*given: Any, **options: Any) -> Dim:
        args = dict.fromkeys(before(as_dim(arg)) for arg in given)
        made = real(*given, **options)
        return made if len(args) == 1 else written(made, kind(tuple(args)).size())

    return make


def _arithmetic(real: Callable[..., Any]) -> Callable[..., Any]:
    def compute(self: Size, *others: Any) -> Any:
        made = real(self, *others)
        operands = (self, *others)
        if made is NotImplemented or all(before(d) is d for d in operands if not isinstance(d, Atom)):
            return made
        return written(made, real(as_dim(before(self)), *map(before, others)))

    return compute


def _unchanged(real: Callable[..., Dim]) -> Callable[..., Dim]:
    def change(d: Any, *more: Any) -> Dim:
        return written(real(d, *more), before(as_dim(d)))

    return change


def _substitution(real: Callable[..., Dim]) -> Callable[..., Dim]:
    def substitute(d: Any, mapping: Mapping[Symbol | Var, Dim], known: KnownSymbols = NOTHING_KNOWN) -> Dim:
        made, was = real(d, mapping, known), before(as_dim(d))
        values = {atom.text: before(value) for atom, value in mapping.items()}
        now = _rewritten(was, values)
        return made if made is d and now is was else written(made, now)

    return substitute


def _rewritten(d: Dim, values: Mapping[str, Dim]) -> Dim:
    """The size with values in the places of leaves, not simplified."""
    if isinstance(d, int) or not any(text in atom.inside for atom in atoms(d) for text in values):
        return d
    return total([d.constant, *(c * product(_rewritten_atom(a, values) for a in factors) for factors, c in d.terms)])


def _rewritten_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if atom.text in values:
        return values[atom.text]
    operands = [_rewritten(operand, values) for operand in atom.operands]
    match atom:
        case Min() | Max():
            args = tuple(dict.fromkeys(operands))
            return args[0] if len(args) == 1 else type(atom)(args).size()
        case FloorDiv() | CeilDiv() | Mod():
            return type(atom)(*operands).size()
        case _:
            return atom.size()


def _names(d: Dim) -> set[str]:
    return set() if isinstance(d, int) else {leaf.name for leaf in d.leaves.values()}
