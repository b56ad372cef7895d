"""What the expressions of a schedule evaluate to."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from tcpx.assignment import shown
from tcpx.interp.conditions import AnyOf
from tcpx.interp.space.formula import Formula
from tcpx.payload.ir import MAIN, CopyPath
from tcpx.payload.sizes import Dim, Size, to_text
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import ScalarType
from tcpx.records import frozen, frozen_for_checkers
from tcpx.target import Target
from tcpx.transform.language.views import ViewOf


@frozen
class Side:
    """A side of the splits that had it when `x.copy("tail")` was evaluated; copies that later splits make stay in."""

    name: str
    splits: frozenset[int]

    def has(self, path: CopyPath) -> bool:
        """Whether a copy is on this side of one of the splits; a copy of whole tiles, `main`, is so of all it went
        through."""
        sides = [side for split, side in path if split in self.splits]
        return self.name in sides and (self.name != MAIN or set(sides) == {MAIN})


@frozen_for_checkers
class OpHandle:
    """A name for computations, for good: it denotes all live operations that continue these origins.

    `sides` and `inside` narrow it: to copies on these sides of splits (`x.copy("main")`), and to operations inside
    what other handles denote (`x in L`), on one path of calls. `label` is what it was called when it was made, for
    messages.
    """

    origins: tuple[int, ...]
    label: str = ""
    sides: tuple[Side, ...] = ()
    inside: tuple[OpHandle, ...] = ()
    view: ViewOf | None = field(default=None, compare=False, repr=False)
    """The view it was declared as, whose roles `x.role` and bare dims mean."""


@frozen_for_checkers
class OperandHandle:
    """`x.lhs`: an operand by name; `x.out`: the result; `result1`: a further result."""

    base: OpHandle
    name: str


def base_of(handle: OpHandle | OperandHandle) -> OpHandle:
    """The computation that a handle denotes, or of which it denotes an operand."""
    return handle.base if isinstance(handle, OperandHandle) else handle


@frozen_for_checkers
class DimHandle:
    """`x.m`: a dim of an operation."""

    base: OpHandle
    dim: str


@frozen
class Unknown:
    """Top: any value at all. A name has it where what it is bound to is not known before the schedule runs."""


UNKNOWN: Final = Unknown()
Scalar = int | Size | float | bool | str
Concrete = OpHandle | OperandHandle | DimHandle | Target | Scalar | ScalarType | Predicate | AnyOf
RuntimeValue = Concrete | Formula | Unknown | tuple["RuntimeValue", ...]
"""An element of one of three domains: a concrete value, which is all that a run has; a formula over knobs, which stands
for the value that each assignment gives; top."""


def as_dim_value(value: RuntimeValue) -> Dim | None:
    """The value as a size; None where it is none (`true` is none)."""
    return value if isinstance(value, int | Size) and not isinstance(value, bool) else None


_KINDS: Final = (
    (OpHandle, "op"),
    (OperandHandle, "value"),
    (DimHandle, "dim"),
    (Target, "target"),
    (bool | Predicate | AnyOf, "bool"),
    (int, "int"),
    (Size, "size"),
    (float, "float"),
    (str, "string"),
    (ScalarType, "dtype"),
    (tuple, "list"),
    (Formula, "formula"),
    (Unknown, "unknown"),
)


def kind_of(value: RuntimeValue) -> str:
    """The type of a value, as a schedule would write it."""
    return next(name for kind, name in _KINDS if isinstance(value, kind))


def describe(value: RuntimeValue) -> str:
    """The value in messages and in the trace."""
    match value:
        case OpHandle():
            return f"%{value.label}"
        case OperandHandle():
            return f"%{value.base.label}.{value.name}"
        case DimHandle():
            return f"%{value.base.label}.{value.dim}"
        case Target():
            return value.name
        case int() | float() | str():
            return shown(value)
        case Size():
            return to_text(value)
        case ScalarType() | Predicate() | AnyOf() | Formula() | Unknown():
            return str(value)
        case tuple():
            return f"[{', '.join(map(describe, value))}]"
