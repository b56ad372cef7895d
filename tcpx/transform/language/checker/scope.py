"""Names in scope while checking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tcpx.payload.diagnostics import Diagnostic, Kind, Location
from tcpx.transform.language.builtins import CONSTANTS, FUNCTIONS
from tcpx.transform.language.kinds import Static
from tcpx.transform.language.loader import Unit


@dataclass(slots=True)
class Binding:
    """A name and what is known of it."""

    name: str
    static: Static
    location: Location
    is_knob: bool = False
    used: bool = False


@dataclass(slots=True)
class Problems:
    """The diagnostics found so far."""

    found: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def add(
        self,
        message: str,
        where: Location,
        required: str | None = None,
        given: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.found.append(Diagnostic(message, Kind.DEFINITE, schedule=where, required=required, found=given, fix=fix))


@dataclass(slots=True)
class Scope:
    """The names of one block; `outer` is the enclosing one."""

    unit: Unit
    problems: Problems
    outer: Scope | None = None
    names: dict[str, Binding] = field(default_factory=dict[str, Binding])
    in_where: bool = False

    def inner(self, in_where: bool = False) -> Scope:
        return Scope(self.unit, self.problems, self, in_where=in_where or self.in_where)

    def lookup(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def visible(self) -> Iterator[str]:
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.outer

    def bind(self, name: str, static: Static, where: Location, is_knob: bool = False) -> None:
        """Bind a name; binding it again, or hiding a built-in or an import, is reported."""
        known = self.lookup(name)
        if known is not None:
            self.problems.add(
                f"`{name}` is bound twice",
                where,
                required="a name that is not bound yet",
                given=f"`{name}` bound at {known.location}",
            )
        elif name in CONSTANTS or name in FUNCTIONS:
            self.problems.add(f"`{name}` is built in", where, required="a name that is free")
        elif name in self.unit.imports or name in self.unit.sequences:
            what = "an import" if name in self.unit.imports else "a sequence"
            self.problems.add(f"`{name}` is the name of {what}", where, required="a name that is free")
        self.names[name] = Binding(name, static, where, is_knob)
