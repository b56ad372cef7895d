"""Fixes of slow statements in the schedule that somebody gave: the statement that made them so, and what to write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from tcpx.costs.visits import Run
from tcpx.interp.trace import TraceEntry
from tcpx.payload.diagnostics import Diagnostic, Location
from tcpx.payload.ir import written_at
from tcpx.payload.ops.gml_st import Loop
from tcpx.records import frozen
from tcpx.remarks import causes
from tcpx.remarks.causes import Cause
from tcpx.remarks.edits import (
    Position,
    ScheduleEdit,
    argument_of,
    extended,
    import_of,
    position,
    statements_of,
    with_argument,
)
from tcpx.remarks.hints import Hint, lines_named, listed
from tcpx.remarks.tile_sizes import Sizes, entry_of, fewer_rows, fitting, more_rows, resized
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.loader import Program
from tcpx.transform.language.printer import print_statement
from tcpx.transform.recomputation import RECOMPUTED

DEFAULT: Final = "default"
REST, WHOLE = "rest", "whole"
"""Sequences of the default schedule for what is not scheduled yet: its recipes, and all that it does."""
WHOLE_TILES: Final = "tail: pad"
"""What lets tiles be whole at any size."""
_ENDS: Final = {
    causes.SCALAR: ("vectorize", "vectorize({loop})"),
    causes.ELEMENT_COPY: ("vectorize", "vectorize({loop})"),
    causes.WAITS: ("hoist_accumulator", "hoist_accumulator({op}, out_of: {loop})"),
    causes.BELOW_LIMIT: ("hoist_accumulator", "hoist_accumulator({op}, out_of: {loop})"),
}
"""What a schedule that tiles an operation may lack at its end: a transform, and its call."""
TilesOf = Callable[[Sequence[Run], Container[int]], Iterator[Sizes]]


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

    @property
    def root(self) -> str:
        """What the schedule calls its function."""
        return self.schedule.params[0].name

    def hints(self, cause: Cause, at: Location | None, runs: Sequence[Run], kernel: Sequence[Run]) -> Iterator[Hint]:
        """What to change in this schedule for a statement that is slow at a place of the payload, of the `runs` of the
        kernel, the smallest change first. Where recipes of the default schedule compute it: all that this does."""
        places = self._places_of(runs)
        if any(not self._is_default(place.statement) for place in places):
            yield from self._of_cause(cause, at, runs, places)
            computed = {written_at(op) for run in runs for op in run.ops}
            yield self._left_out([run for run in kernel if any(written_at(op) in computed for op in run.ops)])
        elif not places:
            yield self._without([])
        else:
            yield from self._prepared(places[-1].statement)

    def folded(self, names: Iterable[str], cone: Collection[Location | None], kernel: Sequence[Run]) -> Iterator[Hint]:
        """The values with these names, computed at compile time: first of all, and without the statements that
        schedule what they are computed of at the places of `cone`."""
        lines = [f'constant_fold(match one "{name}" in {self.root})' for name in names]
        edit = ScheduleEdit({}, first=statements_of(lines, self.root))
        text = "\n".join(("as the first statement of the schedule write:", *lines))
        yield Hint(text, schedule=edit.of(self.program.main.file))
        yield self._left_out([run for run in kernel if all(written_at(op) in cone for op in run.ops)], lines)

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
        return self._in_place(statement, [print_statement(let), f"constant_fold({names[0]})"])

    def fused(
        self, written: Mapping[str, Location | None], runs: Sequence[Run], kernel: Sequence[Run]
    ) -> Iterator[Hint]:
        """Operations with these names and places that these runs read, each computed in the outermost loop of the
        runs, as written, and without what schedules it elsewhere."""
        places = {place.entry.index: place for place in self._places_of(runs)}
        loops = [trip.loop for run in runs for trip in run.trips if isinstance(trip.loop, Loop)]
        at = places.get(entry_of(loops[0])) if loops else None
        if at is None or not isinstance(at.statement, ast.Let) or at.statement is not at.outermost:
            return
        needed = {position(place.outermost) for place in places.values()}
        for name, location in written.items():
            lines = [
                print_statement(at.statement),
                f'fuse(match one "{name}" in {self.root}, into: {at.statement.names[0]})',
            ]
            own = self._places_of([run for run in kernel if any(written_at(op) == location for op in run.ops)])
            those = [place.outermost for place in own if position(place.outermost) not in needed]
            yield replace(self._in_place(at.statement, lines), is_removal=True)
            if those:
                yield replace(self._in_place(at.statement, lines, self._with_users(those)), is_removal=True)

    def accepted(self, why: Diagnostic) -> Iterator[Hint]:
        """What lets a step that was refused apply, if that is an argument: the one that its fix names, or tiles of the
        same alternative that are whole since their tails are padded."""
        at = why.calls[-1][1] if why.calls else why.schedule
        if at is None or at.file != self.program.main.file.path:
            return
        if why.fix is not None and not why.calls:
            file = with_argument(self.program.main.file, at, why.fix)
            if file is not None:
                yield Hint(why.fix, at, schedule=file)
        argument = argument_of(WHOLE_TILES)
        for statement in self._alternative(at):
            call = _call_of(statement)
            if (
                argument is not None
                and call is not None
                and isinstance(call.function, ast.Name)
                and call.function.name == "tile"
            ):
                yield self._with_call(statement, extended(call, argument))

    def _alternative(self, at: Location) -> list[ast.Let | ast.Do]:
        """The statements of the innermost alternative that has something at a place."""
        tries = [node for node in ast.walk(self.schedule) if isinstance(node, ast.Try)]
        nodes = ([*ast.walk(block)] for each in tries for block in each.alternatives)
        around = [those for those in nodes if any(position(node) == (at.line, at.column) for node in those)]
        return [node for node in min(around, key=len, default=()) if isinstance(node, ast.Let | ast.Do)]

    def _of_cause(self, cause: Cause, at: Location | None, runs: Sequence[Run], places: list[Place]) -> Iterator[Hint]:
        if cause is causes.PADDING:
            yield from self._resized(fitting, runs, places)
            pads = [place.statement for place in places if place.entry.transform == "pad"]
            if pads:
                yield self._without(pads, is_rest=False)
        if cause is causes.RECOMPUTATION:
            yield from self._without_fusion(at, runs, places)
        if cause is causes.WAITS:
            yield from self._resized(more_rows, runs, places)
        if cause is causes.SPILLS:
            yield from self._resized(fewer_rows, runs, places)
        if cause in _ENDS:
            yield from self._ended(_ENDS[cause], places)
        packs = [place for place in places if place.entry.transform == "pack"]
        if cause is causes.ELEMENT_COPY and packs and isinstance(packs[-1].statement, ast.Do):
            yield self._without([packs[-1].statement], is_rest=False)

    def _ended(self, lacking: tuple[str, str], places: Sequence[Place]) -> Iterator[Hint]:
        """The schedule with a statement more about the innermost loop of the last tile, if it lacks that."""
        transform, text = lacking
        tiles = [place.statement for place in places if place.entry.transform == "tile"]
        call = _call_of(tiles[-1]) if tiles else None
        if call is None or not isinstance(tiles[-1], ast.Let) or any(p.entry.transform == transform for p in places):
            return
        op = call.arguments[0].value
        if isinstance(op, ast.Name):
            line = text.format(op=op.name, loop=tiles[-1].names[-1])
            edit = ScheduleEdit({}, last=statements_of([line], self.root))
            file = edit.of(self.program.main.file)
            yield Hint(f"end the schedule with `{line}`", tiles[-1].location, schedule=file)

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
                if isinstance(node, ast.Let | ast.Do) and position(node) == (where.line, where.column):
                    return Place(entry, node, outermost)
        return None

    def _is_default(self, statement: ast.Statement) -> bool:
        """Whether a statement leaves operations to the default schedule."""
        return isinstance(statement, ast.Do) and self._is_rest(statement.call)

    def _is_rest(self, call: ast.Call) -> bool:
        match call.function:
            case ast.Attribute(base=ast.Name(name=alias), name=name):
                return name in (REST, WHOLE) and alias in self._aliases()
            case _:
                return False

    def _aliases(self) -> list[str]:
        """The names of the default schedule here."""
        imports = self.program.main.imports.items()
        return [alias for alias, unit in imports if DEFAULT in unit.schedules and WHOLE in unit.sequences]

    # -- changes -----------------------------------------------------------------------------------------------------

    def _resized(self, tiles: TilesOf, runs: Sequence[Run], places: Sequence[Place]) -> Iterator[Hint]:
        """A statement that makes loops of these runs, with other sizes of all of them that have some."""
        by_entry = {place.entry.index: place for place in places}
        for sizes in tiles(runs, by_entry):
            place = by_entry[entry_of(next(iter(sizes)))]
            call = _call_of(place.statement)
            new = resized(call, sizes) if call is not None else None
            if new is not None:
                yield self._with_call(place.statement, new)

    def _with_call(self, statement: ast.Let | ast.Do, call: ast.Call) -> Hint:
        """A statement with another call in the place of its own."""
        field = "call" if isinstance(statement, ast.Do) else "value"
        return self._in_place(statement, [print_statement(replace(statement, **{field: call}))])

    def _without_fusion(self, at: Location | None, runs: Sequence[Run], places: list[Place]) -> Iterator[Hint]:
        """The producer that is computed more than once, computed once before."""
        names = {
            f"%{op.notes[RECOMPUTED]}"
            for run in runs
            for op in run.ops
            if at == written_at(op) and RECOMPUTED in op.notes
        }
        fusions = [place for place in places if place.entry.transform == "fuse"]
        those = [place for place in fusions if dict(place.entry.bound).get("target") in names] or fusions
        if those:
            yield replace(self._without([place.statement for place in those]), is_removal=True)

    def _prepared(self, statement: ast.Let | ast.Do) -> Iterator[Hint]:
        """All that the default schedule does, in place of its recipes alone."""
        called = statement.call.function if isinstance(statement, ast.Do) else None
        if isinstance(statement, ast.Do) and isinstance(called, ast.Attribute) and called.name == REST:
            whole = replace(statement.call, function=replace(called, name=WHOLE))
            yield self._in_place(statement, [print_statement(replace(statement, call=whole))])

    def _in_place(self, statement: ast.Statement, lines: Sequence[str], left_out: Sequence[ast.Statement] = ()) -> Hint:
        """Statements to write in place of one of the schedule, without others."""
        gone = {line for each in left_out for line in _lines_of(each)}
        edit = ScheduleEdit({**dict.fromkeys(self._at(gone), ()), position(statement): statements_of(lines, self.root)})
        without = f", without {lines_named(gone)}" if gone else ""
        text = "\n".join((f"in place of this statement of the schedule write{without}:", *lines))
        return Hint(text, statement.location, schedule=edit.of(self.program.main.file))

    def _at(self, lines: Container[int]) -> list[Position]:
        """The places of all that stands in these lines."""
        return [position(node) for node in ast.walk(self.schedule) if node.location.line in lines]

    def _left_out(self, runs: Sequence[Run], first: Sequence[str] = ()) -> Hint:
        """All that schedules these runs, left to the default schedule."""
        found = self._places_of(runs)
        mine = [place.outermost for place in found if not self._is_default(place.statement)]
        used = {name for each in mine for name in _used(each)}
        matched = {name for each in self.schedule.body.statements if _is_match(each) for name in _bound(each) & used}
        those = [*mine, *(each for each in self.schedule.body.statements if _used(each) & matched)]
        made = {entry_of(trip.loop) for run in runs for trip in run.trips if isinstance(trip.loop, Loop)}
        tiles = [place.statement for place in found if place.entry.index in made and place.outermost in those]
        hint = self._without(those, first=first)
        return replace(hint, place=tiles[0].location) if tiles else hint

    def _without(self, statements: Sequence[ast.Statement], *, is_rest: bool = True, first: Sequence[str] = ()) -> Hint:
        """The schedule without these statements and those that need what they name, with `first` ones; what nothing
        else schedules then is scheduled as by default. None at all, where nothing of it is left."""
        left_out = self._with_users(statements)
        shown = next((each for each in left_out if not _is_match(each)), None)
        kept = [each for each in self.schedule.body.statements if each not in left_out]
        if is_rest and not first and all(_is_match(each) or self._is_default(each) for each in kept):
            place = shown.location if shown is not None else None
            return Hint("compile without a schedule", place, schedule=self.program.main.file, is_default=True)
        lines = {line for each in left_out for line in _lines_of(each)}
        parts = [f"leave out {lines_named(lines)} of the schedule"] if lines else []
        calls = [node for node in ast.walk(self.schedule) if isinstance(node, ast.Call)]
        last, imports = "", ""
        if is_rest and not any(map(self._is_rest, calls)):
            alias = next(iter(self._aliases()), None) or self._new_name(DEFAULT)
            last = f"{alias}.{WHOLE}({self.root})"
            parts.append(f"end it with `{last}`")
            if not self._aliases():
                imports = f'import "{DEFAULT}.tcps" as {alias}'
                parts.append(f"write `{imports}` after the line of its language")
        if first:
            parts.append("\n".join(("as its first statement write:", *first)))
        text = listed(parts) if lines else listed(parts).replace("it with", "the schedule with", 1)
        edit = ScheduleEdit(
            dict.fromkeys(self._at(lines), ()),
            statements_of(first, self.root) if first else (),
            statements_of([last], self.root) if last else (),
            [import_of(imports)] if imports else (),
        )
        file = edit.of(self.program.main.file)
        return Hint(text, shown.location if shown is not None else None, schedule=file)

    def _with_users(self, statements: Sequence[ast.Statement]) -> list[ast.Statement]:
        """These statements, those that need what they name, and names that only they have a use for, in order."""
        at = {position(each) for each in statements}
        body = self.schedule.body.statements
        ended = {name for each in statements for name in _bound(each)}
        for each in body:
            if _used(each) & ended:
                at.add(position(each))
                ended |= _bound(each)
        for each in reversed(body):
            users = [position(one) for one in body if _used(one) & _bound(each)]
            if users and at.issuperset(users) and _is_match(each):
                at.add(position(each))
        found = {position(each): each for each in (*statements, *body)}
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


def _call_of(statement: ast.Let | ast.Do) -> ast.Call | None:
    """The call of the transform that is the statement; None where it is a part of an expression."""
    call = statement.call if isinstance(statement, ast.Do) else statement.value
    return call if isinstance(call, ast.Call) else None


def _lines_of(statement: ast.Statement) -> range:
    return range(statement.location.line, max(statement.location.end_line, statement.location.line) + 1)
