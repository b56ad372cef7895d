"""The statements recorded so far, block by block, each checked as it comes."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tcpx.payload.diagnostics import Kind, Location, ScheduleError
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import CONSTANTS, FUNCTIONS
from tcpx.transform.language.checker.scope import NOTHING, Problems, Scope
from tcpx.transform.language.checker.statements import check_statement
from tcpx.transform.language.embedded.places import Caller, Use
from tcpx.transform.language.embedded.values import Results, Value, refused
from tcpx.transform.language.kinds import Static
from tcpx.transform.language.loader import Unit
from tcpx.transform.language.printer import print_statement
from tcpx.transform.language.tokens import is_name

PENDING = ast.Fail("", location=Location("", 0, 0))
"""In the place of an `else` that is not recorded yet."""


def raise_problems(problems: Problems) -> None:
    """Raise the first problem that is more than a remark, with the others as its notes; forget them all."""
    found = [d for d in problems.found if d.kind is not Kind.WARNING]
    problems.found.clear()
    if found:
        first, *others = found
        notes = tuple(f"also {d.schedule}: {d.message}" for d in others)
        raise ScheduleError(replace(first, notes=first.notes + notes))


@dataclass(slots=True)
class Recorder:
    """What is recorded of one function, matcher, sequence or schedule."""

    unit: Unit
    scope: Scope
    results: tuple[Static, ...]
    is_function: bool = False
    """Only `let` binds then: what Python assigns to a name is part of the expression."""
    params: list[ast.Param] = field(default_factory=list[ast.Param])
    blocks: list[list[ast.Statement]] = field(default_factory=lambda: [[]])
    left: Location | None = None
    """The `for` that Python left by `break`."""
    is_closed: bool = False
    """Its `with` has ended."""
    count: int = 0
    """The statements added so far."""

    def record(self, statement: ast.Statement) -> None:
        """Check a statement and add it to the open block."""
        self.check_header(statement)
        self.add(statement)

    def add(self, statement: ast.Statement) -> None:
        """Add a statement that is checked already."""
        self.count += 1
        self.blocks[-1].append(statement)

    def check_header(self, statement: ast.Statement, again: bool = False) -> None:
        """Check a statement whose blocks are empty yet; `again` if it is the last one made longer."""
        if self.is_closed:
            raise refused(
                "the body is recorded already",
                "a statement inside its `with`",
                f"`{print_statement(statement).splitlines()[0]}` behind it",
                where=statement.location,
            )
        if self.is_function and not isinstance(statement, ast.Return | ast.Let):
            raise refused(
                "a function only binds names and returns a value",
                "parameters, `s.let(..)`, then `s.return_(..)`",
                f"`{print_statement(statement).splitlines()[0]}`",
                "declare it as a sequence: `file.sequence(..)`",
                statement.location,
            )
        if not again:
            self.check_complete()
        self._check(statement)

    def _check(self, statement: ast.Statement) -> None:
        check_statement(statement, self.scope, self.results)
        raise_problems(self.scope.problems)

    def last(self) -> ast.Statement | None:
        """The last statement of the open block."""
        return self.blocks[-1][-1] if self.blocks[-1] else None

    def check_complete(self) -> None:
        """Refuse to go on behind a construct that lacks its last block, or out of a `for` that Python left."""
        if self.left is not None:
            raise refused("a recorded loop has no `break`", "a body that ends by itself", "`break`", where=self.left)
        last = self.last()
        if isinstance(last, ast.Specialize) and last.orelse is PENDING:
            raise _lacks("specialize_when", "`with s.else_():` or `s.else_fail(..)` behind it", last)
        if isinstance(last, ast.Tune) and len(last.alternatives) < 2:
            raise _lacks("tune", "`with s.or_tune():` behind it", last)

    # -- names ---------------------------------------------------------------------------------------------------

    def free_name(self, wanted: str) -> str:
        """The name, or the name with the first number that makes it free."""
        taken = {*self.scope.visible(), *CONSTANTS, *FUNCTIONS, *self.unit.imports, *self.unit.sequences}
        taken |= {*self.unit.functions, *self.unit.matchers, *self.unit.views}
        wanted = wanted if re.match("[A-Za-z_]", wanted) else f"_{wanted}"
        name, k = wanted, 1
        while name in taken or not is_name(name):
            k += 1
            name = f"{wanted}_{k}"
        return name

    def named(self, name: str, where: Location) -> Value:
        return Value(self, ast.Name(name, location=where), scope=self.scope)

    def is_open(self, scope: Scope) -> bool:
        """Whether what a scope binds can be used by the next statement."""
        held: Scope | None = self.scope if not self.is_closed else None
        while held is not None and held is not scope:
            held = held.outer
        return held is not None

    def let(
        self,
        node: ast.Expression,
        wanted: tuple[str, ...],
        where: Location,
        doc: str = "",
        unpacked: bool = False,
        optional: bool = False,
    ) -> Value:
        """Bind results, under these names or free ones like them; `unpacked` gives several even of one name."""
        names: list[str] = []
        for name in wanted:
            free = self.free_name(name) if name != NOTHING else name
            while free in names and free != NOTHING:
                free = self.free_name(f"{free}_2")
            names.append(free)
        self.record(ast.Let(tuple(names), node, optional, trivia=ast.Trivia(doc), location=where))
        values = [self.named(name, where) for name in names]
        return Results(values, values[0]) if unpacked or len(values) > 1 else values[0]

    def made(self, node: ast.Expression, place: Caller, is_free: bool) -> Value:
        """A new expression: bound by `let` where Python assigns it to a name."""
        has_parts = isinstance(node, ast.Match) and node.cardinality == "one"
        can_be_bound = not self.is_function and not is_free
        if can_be_bound and place.use is Use.ASSIGNED and (has_parts or not place.unpacked):
            return self.let(node, place.names, place.location, unpacked=place.unpacked)
        is_nameless = can_be_bound and place.use is Use.UNKNOWN
        return Value(self, node, is_free, made_before=self.count if is_nameless else None)

    # -- blocks --------------------------------------------------------------------------------------------------

    def open(self, names: tuple[str, ...] = (), where: Location | None = None) -> None:
        """Open a block in which these names are bound."""
        self.scope = self.scope.inner()
        for name in names:
            self.scope.bind(name, Static.ANY, where or PENDING.location)
        self.blocks.append([])

    def close(self, where: Location) -> ast.Block:
        """Close the innermost block."""
        self.check_complete()
        return self.abandon(where)

    def abandon(self, where: Location) -> ast.Block:
        """Close the innermost block, complete or not."""
        outer = self.scope.outer
        self.scope = outer if outer is not None else self.scope
        return ast.Block(tuple(self.blocks.pop()), location=where)

    def for_each(
        self, items: ast.Expression, where: Location, wanted: tuple[str, ...], unpacked: bool
    ) -> Iterator[Value]:
        """Record a loop: Python runs its body once."""
        names = tuple(self.free_name(name) for name in wanted)
        self.check_header(ast.ForEach(names, items, ast.Block((), location=where), location=where))
        self.open(names, where)
        values = [self.named(name, where) for name in names]
        depth, is_done = len(self.blocks), False
        try:
            yield Results(values, values[0]) if unpacked else values[0]
            is_done = True
        finally:
            if not is_done and len(self.blocks) == depth:
                self.abandon(where)
                self.left = where
        body = self.close(where)
        self.blocks[-1].append(ast.ForEach(names, items, body, location=where))


@dataclass(slots=True)
class BlockContext:
    """`with` opens a block; what it holds goes to `finish`."""

    recorder: Recorder
    finish: Callable[[ast.Block], None]
    where: Location
    names: tuple[str, ...] = ()
    """What is bound in the block."""

    def __enter__(self) -> None:
        self.recorder.open(self.names, self.where)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.recorder.abandon(self.where)
            return
        self.finish(self.recorder.close(self.where))


def _lacks(what: str, required: str, statement: ast.Statement) -> ScheduleError:
    return refused(f"`{what}` lacks its last block", required, "none behind it", where=statement.location)
