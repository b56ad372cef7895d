"""Names in scope while checking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tcpx.payload.diagnostics import Diagnostic, Direction, Kind, Location
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import CONSTANTS, FUNCTIONS
from tcpx.transform.language.kinds import Static
from tcpx.transform.language.loader import Unit
from tcpx.transform.language.syntax import NOTHING
from tcpx.transform.language.views import ViewOf

Called = ast.Function | ast.Matcher | ast.Sequence


@dataclass(slots=True)
class Binding:
    """A name and what is known of it."""

    name: str
    static: Static
    location: Location
    is_knob: bool = False
    is_value: bool = False
    """Bound by a `let` to the value of an expression, which has no other effect."""
    used: bool = False
    ended: Location | None = None
    """The statement that ended the handle for the rest of the block."""
    view: ViewOf | None = None
    """The view it is declared as, whose roles it has."""


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
        """Something that is wrong; what was found is the text there, if it is not given."""
        found = where.span if given is None else given
        self.found.append(Diagnostic(message, Kind.DEFINITE, schedule=where, required=required, found=found, fix=fix))

    def warn(self, message: str, where: Location, fix: str | None = None) -> None:
        """Something that is not wrong, but that nobody would write on purpose."""
        self.found.append(Diagnostic(message, Kind.WARNING, schedule=where, fix=fix))


@dataclass(slots=True)
class Scope:
    """The names of one block; `outer` is the enclosing one."""

    unit: Unit
    problems: Problems
    outer: Scope | None = None
    names: dict[str, Binding] = field(default_factory=dict[str, Binding])
    left: dict[str, Location] = field(default_factory=dict[str, Location])
    """Names of blocks that ended, with their places, in this declaration."""
    in_where: bool = False
    candidate: str = ""
    """The class of what the `where` is asked about; empty where it is not known."""
    calls: list[tuple[Called, Location]] = field(default_factory=list["tuple[Called, Location]"])
    """What is called where, in this declaration."""
    imports_read: set[str] = field(default_factory=set[str])
    """The imports of the file that something names."""

    def inner(self, in_where: bool = False, candidate: str = "") -> Scope:
        """A block, or a `where` about candidates of a class."""
        asked = candidate if in_where else self.candidate
        return Scope(
            self.unit,
            self.problems,
            self,
            left=self.left,
            in_where=in_where or self.in_where,
            candidate=asked,
            calls=self.calls,
            imports_read=self.imports_read,
        )

    def end(self, name: str, where: Location) -> None:
        """A statement ends the handle of this name: for the rest of this block it cannot be used."""
        known = self.lookup(name)
        if known is not None:
            self.names[name] = replace(known, used=True, ended=where, is_knob=False, is_value=False)

    def note_import(self, alias: str) -> None:
        """A name before a `.`, which may be that of an import."""
        if alias in self.unit.imports:
            self.imports_read.add(alias)

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

    def report_unused(self) -> None:
        """A remark for each knob and value of this block that nothing reads; its names end with it."""
        self.left.update((name, binding.location) for name, binding in self.names.items())
        for binding in self.names.values():
            if (binding.is_knob or binding.is_value) and not binding.used:
                what = f"the knob `{binding.name}`" if binding.is_knob else f"`{binding.name}`"
                self.problems.warn(f"nothing reads {what}", binding.location, fix=Direction("use it, or remove it"))

    def report_unused_params(self, params: Iterable[ast.Param]) -> None:
        """A remark for each parameter that nothing reads."""
        for param in params:
            if not self.names[param.name].used:
                self.problems.warn(f"nothing reads the parameter `{param.name}`", param.location)

    def bind(
        self,
        name: str,
        static: Static,
        where: Location,
        is_knob: bool = False,
        is_value: bool = False,
        view: ViewOf | None = None,
    ) -> None:
        """Bind a name; binding it again, or hiding a built-in or an import, is reported. `_` binds nothing."""
        if name == NOTHING:
            return
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
        elif name not in self.unit.schedules and self.unit.declared(name):
            self.problems.add(
                f"`{name}` is the name of {self.unit.declared(name)}", where, required="a name that is free"
            )
        self.names[name] = Binding(name, static, where, is_knob, is_value, view=view)
