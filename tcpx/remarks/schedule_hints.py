"""Fixes of slow statements in the schedule that somebody gave: the statement that made them so, and what to write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Self

from tcpx.costs.visits import Run
from tcpx.interp.trace import TraceEntry
from tcpx.payload.diagnostics import Location
from tcpx.payload.ops.gml_st import Loop, OnSubset
from tcpx.payload.ops.vector import Write
from tcpx.payload.size_traversal import variables
from tcpx.payload.sizes import evaluate
from tcpx.payload.types import VectorType
from tcpx.records import frozen
from tcpx.remarks import causes
from tcpx.remarks.causes import Cause
from tcpx.remarks.hints import Hint, lines_named, listed
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.loader import Program
from tcpx.transform.language.printer import print_statement
from tcpx.transform.recomputation import RECOMPUTED

DEFAULT: Final = "default"
REST: Final = "rest"
"""The sequence of the default schedule that schedules what nothing has touched."""
INDEPENDENT: Final = 8
"""Results that an instruction is to have between two that follow each other: its latency, in instructions."""


@frozen
class Place:
    """A statement of the given schedule, and the one of the schedule's own block that it stands in."""

    entry: TraceEntry
    statement: ast.Let | ast.Do
    outermost: ast.Statement


class GivenSchedule:
    """A schedule that somebody wrote, and the steps that it took."""

    def __init__(self, program: Program, entries: Sequence[TraceEntry]) -> None:
        self.program, self.entries = program, entries
        self.schedule = program.schedule()

    @classmethod
    def of(cls, program: Program, entries: Sequence[TraceEntry]) -> Self | None:
        """None for the default schedule, and for one that is no text, which texts cannot mend."""
        if program.is_default or len(program.main.schedules) != 1:
            return None
        return None if program.schedule().location.printed is not None else cls(program, entries)

    def hint(self, cause: Cause, at: Location | None, runs: Sequence[Run], kernel: Sequence[Run]) -> Hint | None:
        """What to change in this schedule for a statement that is slow at a place of the payload, of the `runs` of the
        kernel; None where it is computed as the default schedule does it."""
        places = self._places_of(runs)
        if any(not self._is_default(place.statement) for place in places):
            return self._of_cause(cause, at, runs, places) or self._left_out(runs, kernel)
        return None if places else self._without([])

    def folded(self, names: Iterable[str]) -> Hint:
        """The values with these names, computed at compile time."""
        root = self.schedule.params[0].name
        lines = [f'constant_fold(match one "{name}" in {root})' for name in names]
        return Hint("\n".join(("as the first statement of the schedule write:", *lines)))

    def folded_pack(self, runs: Sequence[Run]) -> Hint | None:
        """The last constant that these runs pack, packed at compile time."""
        packs = [place.statement for place in self._places_of(runs) if place.entry.transform == "pack"]
        call = _call_of(packs[-1]) if packs else None
        if call is None:
            return None
        statement = packs[-1]
        kept = [argument for argument in call.arguments if argument.name not in ("at", "parallel")]
        names = statement.names if isinstance(statement, ast.Let) else (self._new_name("packed"),)
        let = ast.Let(names, replace(call, arguments=tuple(kept)), location=statement.location)
        return _written([print_statement(let), f"constant_fold({names[0]})"], statement.location)

    def _of_cause(self, cause: Cause, at: Location | None, runs: Sequence[Run], places: list[Place]) -> Hint | None:
        if cause is causes.PADDING:
            return self._without_padding(runs, places)
        if cause is causes.RECOMPUTATION:
            return self._without_fusion(at, runs, places)
        if cause is causes.WAITS:
            return self._more_rows(runs, places)
        packs = [place for place in places if place.entry.transform == "pack"]
        if cause is causes.ELEMENT_COPY and packs and isinstance(packs[-1].statement, ast.Do):
            return self._without([packs[-1].statement], is_rest=False)
        return None

    # -- places ------------------------------------------------------------------------------------------------------

    def _places_of(self, runs: Sequence[Run]) -> list[Place]:
        """The statements of the schedule whose steps made or changed what runs, in order."""
        ops = [op for run in runs for op in (*run.ops, *(trip.loop for trip in run.trips))]
        steps = sorted({step for op in ops for step in op.steps if step <= len(self.entries)})
        found = (self._place(self.entries[step - 1]) for step in steps)
        return [place for place in found if place is not None]

    def _place(self, entry: TraceEntry) -> Place | None:
        where = entry.calls[-1][1] if entry.calls else entry.location
        if where is None or where.file != self.program.main.file.path:
            return None
        for outermost in self.schedule.body.statements:
            for node in ast.walk(outermost):
                if isinstance(node, ast.Let | ast.Do) and _position(node) == (where.line, where.column):
                    return Place(entry, node, outermost)
        return None

    def _is_default(self, statement: ast.Statement) -> bool:
        """Whether a statement leaves operations to the default schedule."""
        return isinstance(statement, ast.Do) and self._is_rest(statement.call)

    def _is_rest(self, call: ast.Call) -> bool:
        match call.function:
            case ast.Attribute(base=ast.Name(name=alias), name=name):
                return name == REST and alias in self._aliases()
            case _:
                return False

    def _aliases(self) -> list[str]:
        """The names of the default schedule here."""
        imports = self.program.main.imports.items()
        return [alias for alias, unit in imports if DEFAULT in unit.schedules and REST in unit.sequences]

    # -- changes -----------------------------------------------------------------------------------------------------

    def _without_padding(self, runs: Sequence[Run], places: list[Place]) -> Hint | None:
        """Tiles that divide what they are tiles of, as nearly as vectors allow; no `pad` of a whole dim."""
        by_entry = {place.entry.index: place for place in places}
        wastes = [
            (trip.count * _step(loop, run) / _extent(loop, run), loop, run)
            for run in runs
            for trip in run.trips
            if isinstance(loop := trip.loop, Loop) and _extent(loop, run) > 0 and _entry_of(loop) in by_entry
        ]
        waste, loop, run = max(wastes, key=lambda each: each[0], default=(1.0, None, None))
        if loop is not None and run is not None and waste > 1:
            size = _balanced(_extent(loop, run), _step(loop, run), _lanes(loop, runs))
            padded = -(-_extent(loop, run) // size) * size
            hint = _resized(by_entry[_entry_of(loop)], loop, size)
            if hint is not None and padded < causes.PADDING.least * _extent(loop, run):
                return hint
        pads = [place.statement for place in places if place.entry.transform == "pad"]
        return self._without(pads, is_rest=False) if pads else None

    def _without_fusion(self, at: Location | None, runs: Sequence[Run], places: list[Place]) -> Hint | None:
        """The producer that is computed more than once, computed once before."""
        names = {f"%{op.notes[RECOMPUTED]}" for run in runs for op in run.ops if at == op.written_at and op.notes}
        fusions = [place for place in places if place.entry.transform == "fuse"]
        those = [place for place in fusions if dict(place.entry.bound).get("target") in names] or fusions
        return self._without([place.statement for place in those]) if those else None

    def _more_rows(self, runs: Sequence[Run], places: list[Place]) -> Hint | None:
        """A register tile of enough rows that none waits for the one before."""
        by_entry = {place.entry.index: place for place in places}
        run = max(runs, key=lambda run: run.times * len(run.ops))
        loops = [trip.loop for trip in run.trips if isinstance(trip.loop, Loop) and _entry_of(trip.loop) in by_entry]
        along = _names_in_results(runs)
        rows = [loop for loop in loops if loop.var.name in along and _lanes(loop, runs) == 1]
        rows = [loop for loop in rows if _step(loop, run) < min(INDEPENDENT, _extent(loop, run))]
        if not rows:
            return None
        place = by_entry[_entry_of(rows[-1])]
        return _resized(place, rows[-1], min(INDEPENDENT, _extent(rows[-1], run)))

    def _left_out(self, runs: Sequence[Run], kernel: Sequence[Run]) -> Hint:
        """All that the statement computes, left to the default schedule."""
        computed = {op.written_at for run in runs for op in run.ops}
        places = self._places_of([run for run in kernel if any(op.written_at in computed for op in run.ops)])
        mine = [place.outermost for place in places if not self._is_default(place.statement)]
        used = {name for each in mine for name in _used(each)}
        matched = {name for each in self.schedule.body.statements if _is_match(each) for name in _bound(each) & used}
        return self._without([*mine, *(each for each in self.schedule.body.statements if _used(each) & matched)])

    def _without(self, statements: Sequence[ast.Statement], *, is_rest: bool = True) -> Hint:
        """The schedule without these statements and those that need what they name; what nothing else schedules then
        is scheduled as by default."""
        left_out = self._with_users(statements)
        lines = {line for each in left_out for line in _lines_of(each)}
        parts = [f"leave out {lines_named(lines)} of the schedule"] if lines else []
        calls = [node for node in ast.walk(self.schedule) if isinstance(node, ast.Call)]
        if is_rest and not any(map(self._is_rest, calls)):
            alias = next(iter(self._aliases()), None) or self._new_name(DEFAULT)
            parts.append(f"end it with `{alias}.{REST}({self.schedule.params[0].name})`")
            if not self._aliases():
                parts.append(f'write `import "{DEFAULT}.tcps" as {alias}` after the line of its language')
        text = listed(parts) if lines else listed(parts).replace("it with", "the schedule with", 1)
        shown = next((each for each in left_out if not _is_match(each)), None)
        return Hint(text, shown.location if shown is not None else None)

    def _with_users(self, statements: Sequence[ast.Statement]) -> list[ast.Statement]:
        """These statements, those that need what they name, and names that only they have a use for, in order."""
        at = {_position(each) for each in statements}
        body = self.schedule.body.statements
        ended = {name for each in statements for name in _bound(each)}
        for each in body:
            if _used(each) & ended:
                at.add(_position(each))
                ended |= _bound(each)
        for each in reversed(body):
            users = [_position(one) for one in body if _used(one) & _bound(each)]
            if users and at.issuperset(users) and _is_match(each):
                at.add(_position(each))
        found = {_position(each): each for each in (*statements, *body)}
        return [found[place] for place in sorted(at)]

    def _new_name(self, name: str) -> str:
        """A name that nothing in this file has."""
        known = {node.name for node in ast.walk(self.program.main.file.items) if isinstance(node, ast.Name)}
        known |= set(self.program.main.imports)
        return next(each for k in range(len(known) + 1) if (each := name + "_" * k) not in known)


def _bound(statement: ast.Statement) -> set[str]:
    return set(statement.names) if isinstance(statement, ast.Let) else set()


def _is_match(statement: ast.Statement) -> bool:
    """Whether a statement gives operations a name, and no more."""
    return isinstance(statement, ast.Let) and isinstance(statement.value, ast.Match)


def _used(statement: ast.Statement) -> set[str]:
    return {node.name for node in ast.walk(statement) if isinstance(node, ast.Name)}


def _position(node: ast.Node) -> tuple[int, int]:
    """Statements that are equal are told apart by their places."""
    return node.location.line, node.location.column


def _call_of(statement: ast.Let | ast.Do) -> ast.Call | None:
    """The call of the transform that is the statement; None where it is a part of an expression."""
    call = statement.call if isinstance(statement, ast.Do) else statement.value
    return call if isinstance(call, ast.Call) else None


def _written(lines: Sequence[str], place: Location) -> Hint:
    """Statements to write in place of one of the schedule."""
    return Hint("\n".join(("in place of this statement of the schedule write:", *lines)), place)


def _lines_of(statement: ast.Statement) -> range:
    return range(statement.location.line, max(statement.location.end_line, statement.location.line) + 1)


# -- loops -----------------------------------------------------------------------------------------------------------


def _entry_of(loop: Loop) -> int:
    """The number of the step that made a loop."""
    return loop.steps[0] - 1 if loop.steps else -1


def _step(loop: Loop, run: Run) -> int:
    return evaluate(loop.var.step, run.sizes)


def _extent(loop: Loop, run: Run) -> int:
    return evaluate(loop.var.upper, run.sizes) - evaluate(loop.var.lower, run.sizes)


def _lanes(loop: Loop, runs: Sequence[Run]) -> int:
    """The lanes of the vectors that lie along what a loop steps over; 1 for none."""
    widths = [1]
    for op in (op for run in runs for op in run.ops if isinstance(op, OnSubset)):
        offsets = [tile.offsets[-1] for _, tile in op.accesses if tile.offsets]
        if any(var.name == loop.var.name for offset in offsets for var in variables(offset)):
            widths += [_width(value.type) for value in (*op.results, *op.operands[:1])]
    return max(widths)


def _width(type_: object) -> int:
    return type_.shape[-1] if isinstance(type_, VectorType) else 1


def _names_in_results(runs: Sequence[Run]) -> set[str]:
    """The names of loop variables whose iterations write different elements."""
    writes = (op for run in runs for op in run.ops if isinstance(op, Write))
    offsets = (offset for op in writes for _, tile in op.accesses for offset in tile.offsets)
    return {var.name for offset in offsets for var in variables(offset)}


def _balanced(extent: int, step: int, lanes: int) -> int:
    """The size of tiles of which as many cover a dim, with the least that is beyond it, in whole vectors."""
    share = -(-extent // -(-extent // step))
    return -(-share // lanes) * lanes if step % lanes == 0 else share


def _resized(place: Place, loop: Loop, size: int) -> Hint | None:
    """The statement of a loop, with another size; None where its text names no size for the loop."""
    call = _call_of(place.statement)
    if call is None:
        return None
    dim = loop.name.rpartition("/")[2]
    changed = False

    def change(node: object) -> object:
        nonlocal changed
        if isinstance(node, ast.MapOf):
            entries = tuple((key, _literal(value, size) if _names(key, dim) else value) for key, value in node.entries)
            changed |= entries != node.entries
            return replace(node, entries=entries)
        if isinstance(node, ast.Argument) and node.name == "factor":
            changed = True
            return replace(node, value=_literal(node.value, size))
        return node

    new = ast.rebuilt(call, change)
    if not changed:
        return None
    field = "call" if isinstance(place.statement, ast.Do) else "value"
    return _written([print_statement(replace(place.statement, **{field: new}))], place.statement.location)


def _names(key: ast.Expression, dim: str) -> bool:
    """Whether a dim of a map is that of a loop, whose name is the dim's and a number."""
    return isinstance(key, ast.Name) and dim.startswith(key.name) and dim.removeprefix(key.name).isdigit()


def _literal(value: ast.Expression, size: int) -> ast.Literal:
    return ast.Literal(size, location=value.location)
