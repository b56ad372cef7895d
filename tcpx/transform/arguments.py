"""What a transform is given: its arguments, resolved for one copy of its handles, and its context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Diagnostic, Direction, Kind, Location, ScheduleError
from tcpx.payload.ir import FuncOp, Operation, Value, written_at
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes import Dim, Size, Symbol, redeclare, to_text
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes.traversal import symbols
from tcpx.payload.types import ScalarType
from tcpx.records import frozen
from tcpx.target import Target
from tcpx.transform.editing import source_name
from tcpx.transform.language_versions import NEWEST, Difference


@frozen
class OperandRef:
    """An operand of an operation (`mm.rhs`): the place where a value is read, not only the value."""

    op: Operation
    index: int

    @property
    def value(self) -> Value:
        return self.op.operands[self.index]


ValueRef = OperandRef | Value
"""`mm.rhs` is an OperandRef; `mm.out` and a value made by a transform are Values."""


def value_of(ref: ValueRef) -> Value:
    """The value itself: of an operand, what the operation reads."""
    return ref.value if isinstance(ref, OperandRef) else ref


@frozen
class Digit:
    """One digit of a layout. `k` is a whole dim, `k/4` and `k%4` parts of one; `k pad 16` rounds the pitch up to 16."""

    dim: str
    floordiv: int | None = None
    mod: int | None = None
    pad: int | None = None
    window: Dim | None = None
    """An index of several dims, as `2*i + k`, that is stored as the operand has it; `dim` is its text."""

    def __str__(self) -> str:
        parts = ((f"/{self.floordiv}", self.floordiv), (f"%{self.mod}", self.mod), (f" pad {self.pad}", self.pad))
        return self.dim + "".join(text for text, given in parts if given is not None)


DimSizes = Mapping[str, Dim]
"""Dim name -> size, in the order written."""


@frozen
class DimStep:
    """A dim with a size, of a map in which a dim may stand several times."""

    dim: str
    size: Dim
    entry: int = 0
    """Which entry of the map it is of: a list of dims as a key gives one for each of them."""

    def __str__(self) -> str:
        return f"{self.dim}: {self.size}"


ArgumentValue = (
    Operation
    | OperandRef
    | Value
    | str
    | int
    | float
    | Size
    | Predicate
    | ScalarType
    | DimSizes
    | tuple[Operation, ...]
    | tuple[str, ...]
    | tuple[int, ...]
    | tuple[Digit, ...]
    | tuple[DimStep, ...]
    | None
)
T = TypeVar("T")


class Arguments:
    """Arguments by parameter name, checked against the declaration; one accessor per type.

    An accessor of an argument that is absent (default None) is an internal error: ask `given` first, or use the
    `optional_` form.
    """

    def __init__(self, transform: str, values: Mapping[str, ArgumentValue]) -> None:
        self._transform = transform
        self._values = dict(values)

    def given(self, name: str) -> bool:
        """Whether the argument is there, by the schedule or by its default."""
        return self._values.get(name) is not None

    def _of(self, name: str, kind: type[T]) -> T:
        value = self._values.get(name)
        if not isinstance(value, kind):
            raise self._mistyped(name, kind.__name__)
        return value

    def _all_of(self, name: str, kind: type[T]) -> tuple[T, ...]:
        items = self._values.get(name)
        if not isinstance(items, tuple):
            raise self._mistyped(name, f"list of {kind.__name__}")
        found = tuple(item for item in items if isinstance(item, kind))
        if len(found) != len(items):
            raise self._mistyped(name, f"list of {kind.__name__}")
        return found

    def _optional(self, name: str, accessor: Callable[[str], T]) -> T | None:
        return accessor(name) if self.given(name) else None

    def _mistyped(self, name: str, required: str) -> ScheduleError:
        return ScheduleError(
            Diagnostic(
                f"the transform `{self._transform}` reads its argument `{name}` in a way it is not declared",
                Kind.INTERNAL,
                required=required,
                found=type(self._values.get(name)).__name__ if name in self._values else "no such parameter",
            )
        )

    def op(self, name: str) -> Operation:
        return self._of(name, Operation)

    def optional_op(self, name: str) -> Operation | None:
        return self._optional(name, self.op)

    def ops(self, name: str) -> tuple[Operation, ...]:
        return self._all_of(name, Operation)

    def loop(self, name: str) -> Loop:
        return self._of(name, Loop)

    def optional_loop(self, name: str) -> Loop | None:
        return self._optional(name, self.loop)

    def loops(self, name: str) -> tuple[Loop, ...]:
        return self._all_of(name, Loop)

    def every_operation(self) -> list[Operation]:
        """The operations among all arguments."""
        found: list[object] = []
        for value in self._values.values():
            found += value if isinstance(value, tuple) else [value]
        return [op for op in found if isinstance(op, Operation)]

    def every_size(self) -> list[Size]:
        """The symbolic sizes among all arguments."""
        found: list[object] = []
        for value in self._values.values():
            found += value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else [value]
        found = [item.size if isinstance(item, DimStep) else item for item in found]
        return [size for size in found if isinstance(size, Size)]

    def map_sizes(self, of: Callable[[Dim], Dim]) -> Arguments:
        """The arguments, with what `of` makes of the sizes among them."""
        return Arguments(self._transform, {name: _map_sizes(value, of) for name, value in self._values.items()})

    def func(self, name: str) -> FuncOp:
        return self._of(name, FuncOp)

    def value(self, name: str) -> ValueRef:
        held = self._values.get(name)
        return held if isinstance(held, OperandRef) else self._of(name, Value)

    def optional_value(self, name: str) -> ValueRef | None:
        return self._optional(name, self.value)

    def dim(self, name: str) -> str:
        return self._of(name, str)

    def dims(self, name: str) -> tuple[str, ...]:
        return self._all_of(name, str)

    def sizes(self, name: str) -> DimSizes:
        """Dim -> size, in the order written."""
        held = self._values.get(name)
        if not isinstance(held, Mapping):
            raise self._mistyped(name, "map of sizes")
        return held

    def steps(self, name: str) -> tuple[DimStep, ...]:
        """Dims with sizes in the order written, each as often as it stands there."""
        return self._all_of(name, DimStep)

    def optional_sizes(self, name: str) -> DimSizes | None:
        return self._optional(name, self.sizes)

    def layout(self, name: str) -> tuple[Digit, ...]:
        return self._all_of(name, Digit)

    def int(self, name: str) -> int:
        return self._of(name, int)

    def optional_int(self, name: str) -> int | None:
        held = self._values.get(name)
        return None if held is None else self._of(name, int)

    def ints(self, name: str) -> tuple[int, ...]:
        return self._all_of(name, int)

    def size(self, name: str) -> Dim:
        held = self._values.get(name)
        return held if isinstance(held, int) else self._of(name, Size)

    def optional_size(self, name: str) -> Dim | None:
        return self._optional(name, self.size)

    def float(self, name: str) -> float:
        held = self._values.get(name)
        return held if isinstance(held, float | int) else self._of(name, float)

    def bool(self, name: str) -> bool:
        return self._of(name, bool)

    def string(self, name: str) -> str:
        """A STRING, NAME or ENUM."""
        return self._of(name, str)

    def optional_string(self, name: str) -> str | None:
        return self._optional(name, self.string)

    def dtype(self, name: str) -> ScalarType:
        return self._of(name, ScalarType)

    def predicate(self, name: str) -> Predicate:
        return self._of(name, Predicate)


def _map_sizes(value: ArgumentValue, of: Callable[[Dim], Dim]) -> ArgumentValue:
    match value:
        case Size():
            return of(value)
        case Predicate():
            return value.map(of)
        case Mapping():
            return {dim: of(size) for dim, size in value.items()}
        case tuple():
            return cast("ArgumentValue", tuple(_map_size(item, of) for item in value))
        case _:
            return value


def _map_size(item: object, of: Callable[[Dim], Dim]) -> object:
    return replace(item, size=of(item.size)) if isinstance(item, DimStep) else item


@dataclass(slots=True)
class TransformContext:
    """What a transform may use besides its arguments. `location` is the statement's place in the schedule."""

    rewriter: Rewriter
    target: Target
    threads: int = 1
    location: Location | None = None
    remarks: list[str] = field(default_factory=list[str])
    """Text for the user (`print`, `emit_remark`): shown when the step commits."""
    snapshots: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Names and payload texts that the trace keeps."""
    warnings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    """What is legal and hardly meant: a remark of the run when the step commits."""
    unchanged: list[Operation] = field(default_factory=list[Operation])
    """Operations that the step was given and left where they are: it does not count as their schedule."""
    handle_name: Callable[[Operation], str | None] = field(default=lambda _: None)
    """The name that the schedule has for a handle of an operation, where it has one."""
    named: frozenset[str] = frozenset()
    """Names in the paths of params: a knob of one of these operations is set by itself."""
    language: int = NEWEST
    """The version of the schedule language that the statement is in."""
    outdated: list[Difference] = field(default_factory=list[Difference])
    """What the step did as an older version of the language has it."""

    def name_of(self, op: Operation) -> str:
        """What a statement that is offered calls an operation: its handle, or else its name in the payload."""
        return self.handle_name(op) or source_name(op)

    def declared(self, op: Operation, size: Dim) -> Dim:
        """The size, of the symbols that the function of `op` declares. Raises ScheduleError for one of another
        function: of symbols that it has not, or that are declared to be less there than is known of them here."""
        func = self.rewriter.func_of(op)
        known = {symbol.name: symbol for symbol in func.symbols}
        here = {**known, **context_at(op).names}
        names = [s.name for s in symbols(size) if s.name not in known or not _includes(s, here[s.name])]
        if names and len(self.rewriter.module.funcs) > 1:
            raise self.fail(
                f"the size is one of another function than @{func.name}, where %{op.name} stands",
                op=op,
                required=f"a size over the symbols of @{func.name}: {', '.join(s.name for s in func.symbols)}",
                found=f"{to_text(size)}, with another {', '.join(names)}",
                fix=Direction(f"take the size of an operation in @{func.name}"),
            )
        return redeclare(size, known)

    def fail(
        self,
        message: str,
        op: Operation | None = None,
        required: str | None = None,
        found: str | None = None,
        fix: str | None = None,
        notes: tuple[str, ...] = (),
    ) -> ScheduleError:
        """A silenceable error to raise: a precondition that is not met. `try` and `optional` may recover from it."""
        return ScheduleError(
            Diagnostic(
                message,
                Kind.SILENCEABLE,
                schedule=self.location,
                payload=written_at(op) if op is not None else None,
                required=required,
                found=found,
                notes=notes,
                fix=fix,
            )
        )

    def warn(
        self, message: str, op: Operation, required: str, found: str, fix: str | None = None, cause: str = ""
    ) -> None:
        """Say that the step does what is hardly meant. Of all copies of an operation the first one that says so does:
        the message names no copy."""
        if all(message != known.message for known in self.warnings):
            place = written_at(op)
            self.warnings.append(
                Diagnostic(
                    message, Kind.WARNING, self.location, place, required=required, found=found, fix=fix, cause=cause
                )
            )

    def refuse_since(
        self, difference: Difference, message: str, op: Operation, required: str, found: str, fix: str
    ) -> None:
        """Raise what a version of the language refuses; in an older one, warn of it."""
        if difference.holds(self.language):
            raise self.fail(message, op, required, found, fix)
        self.warn(message, op, required, found, fix)
        self.outdated.append(difference)

    def remark(self, text: str) -> None:
        """Tell the user something once the step is committed."""
        self.remarks.append(text)

    def keep(self, name: str, text: str) -> None:
        """Let the trace keep a payload text under a name, once the step is committed."""
        self.snapshots.append((name, text))


def _includes(symbol: Symbol, other: Symbol) -> bool:
    """Whether each value that a symbol is declared to have is one of another's."""
    is_below = symbol.upper is None or (other.upper is not None and other.upper <= symbol.upper)
    return symbol.lower <= other.lower and is_below and other.multiple_of % symbol.multiple_of == 0
