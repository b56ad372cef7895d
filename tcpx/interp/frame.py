"""One use of a sequence while it runs: its names, its place in the call stack, its path for knobs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tcpx.interp.space.formula import Formula
from tcpx.interp.values import OpHandle, RuntimeValue, Unknown
from tcpx.payload.diagnostics import Diagnostic, Kind, Location, ScheduleError
from tcpx.payload.ir import Operation
from tcpx.target import Target
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.loader import Unit

Calls = tuple[tuple[str, Location], ...]


@dataclass(slots=True)
class Frame:
    """Names in scope. `use` is the path of this use (`mlp/fc1/packed_gemm`), in a called function that of `@layer:` and
    so on; `calls` the stack, innermost first."""

    unit: Unit
    use: str
    names: dict[str, RuntimeValue] = field(default_factory=dict[str, RuntimeValue])
    calls: Calls = ()
    place: str = ""
    """The path as records know it: `KEY:mlp/%3/packed_gemm`, whatever functions and operations are called. The key is
    that of the function: none in the entry, and where nobody asks for it."""
    given: tuple[RuntimeValue, ...] = ()
    """The values of the parameters of this use."""
    formulas: dict[str, Formula | Unknown] = field(default_factory=dict[str, Formula | Unknown])
    """Names that depend on knobs, while the search space is surveyed: what they are whatever the knobs are. `names` has
    what they are with the defaults."""
    target: Target | None = None
    """The target of the function or group that it is about, where that has one of its own."""
    candidate: RuntimeValue | None = None
    """The operation a `where` is asked about."""
    tunes: list[ast.Tune] = field(default_factory=list[ast.Tune])
    """The `tune` statements that ran in this use, shared by its blocks."""

    def block(self) -> Frame:
        """A frame for a nested block: what it binds ends with it."""
        return replace(self, names=dict(self.names), formulas=dict(self.formulas))

    def over_knobs(self) -> Frame:
        """The same names in the domain of formulas, where they depend on knobs."""
        return replace(self, names={**self.names, **self.formulas}) if self.formulas else self

    def handle_name(self, op: Operation) -> str | None:
        """The name that is bound to a handle of this operation, the narrowest and newest one; None without one."""
        held = {n: v for n, v in reversed(self.names.items()) if isinstance(v, OpHandle)}
        known = [n for n, v in held.items() if not (v.sides or v.inside) and set(op.origins) & set(v.origins)]
        return min(known, key=lambda name: len(held[name].origins), default=None)

    def error(
        self,
        message: str,
        where: ast.Node | Location,
        required: str | None = None,
        found: str | None = None,
        fix: str | None = None,
        kind: Kind = Kind.DEFINITE,
        notes: tuple[str, ...] = (),
        payload: Location | None = None,
        of: type[ScheduleError] = ScheduleError,
    ) -> ScheduleError:
        """An error at a place of this sequence, with its call stack; what was found is the text there, if not given."""
        place = where if isinstance(where, Location) else where.location
        found = place.span if found is None else found
        return of(
            Diagnostic(
                message,
                kind,
                schedule=place,
                payload=payload,
                required=required,
                found=found,
                fix=fix,
                notes=notes,
                calls=self.calls,
            )
        )

    def located(
        self,
        known: Diagnostic,
        where: Location,
        payload: Location | None = None,
        kind: type[ScheduleError] = ScheduleError,
    ) -> ScheduleError:
        """The same failure as a ScheduleError at a place of this sequence, unless it knows its own places."""
        return kind(
            replace(
                known,
                schedule=known.schedule or where,
                payload=known.payload or payload,
                calls=known.calls or self.calls,
            )
        )
