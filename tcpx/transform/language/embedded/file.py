"""A schedule file written in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tcpx.payload.diagnostics import Location, unusable_argument
from tcpx.plurals import counted
from tcpx.records import brief
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.checker.program import require_checked
from tcpx.transform.language.checker.scope import Problems, Scope
from tcpx.transform.language.checker.statements import Results
from tcpx.transform.language.embedded.body import Body
from tcpx.transform.language.embedded.places import Use, caller, here
from tcpx.transform.language.embedded.printed import with_printed_places
from tcpx.transform.language.embedded.recorder import Recorder
from tcpx.transform.language.embedded.steps import Library
from tcpx.transform.language.embedded.types import type_of
from tcpx.transform.language.embedded.values import checked_name, refused
from tcpx.transform.language.kinds import TYPE_NAMES, Static
from tcpx.transform.language.loader import Program, Unit, program_of_file
from tcpx.transform.language.printer import print_file
from tcpx.transform.language_versions import NEWEST

Declared = ast.Function | ast.Sequence | ast.Matcher | ast.View | ast.Schedule
DeclaredOf = Callable[[tuple[ast.Param, ...], ast.Block], Declared]


class ScheduleFile:
    """Records a `.tcps` file: imports, functions, matchers, sequences, schedules; `str` gives its text.

        file = tcpx.ScheduleFile("mlp.tcps")
        gemm = file.imports("lib/gemm.tcps")
        with file.schedule("mlp") as s:
            root = s.param("func")
            for mm in s.match_some("contract", root):
                last = s.epilogue(mm)
                gemm.packed_gemm(mm, last)
        kernel = tcpx.compile(payload, file)

    `name` is the file name that stands in the C beside the lines of the text; if it is empty, that of the Python file.
    `language` is the version of the schedule language that it is in.
    Imports are looked for beside the Python file, then in `schedule_path`, then in the library.
    """

    def __init__(self, name: str = "", schedule_path: Sequence[str | Path] = (), *, language: int = NEWEST) -> None:
        where = here()
        python_file = Path(where.file)
        self._beside = python_file.parent
        self._schedule_path = tuple(schedule_path)
        self._recorder: Recorder | None = None
        self._tree = ast.File((ast.Language(language, location=where),), path=name or f"{python_file.stem}.tcps")

    def __repr__(self) -> str:
        return brief("ScheduleFile", self._tree.path, f"of {len(self._tree.items)} item(s)")

    @property
    def tree(self) -> ast.File:
        """The syntax tree recorded so far."""
        return self._tree

    def to_text(self) -> str:
        """The text of the `.tcps` file; parsing it gives `tree`."""
        return print_file(self._tree)

    __str__ = to_text

    def program(self) -> Program:
        """The schedule as `tcpx.compile` takes it. Raises ScheduleError."""
        self._check_closed("program")
        return self._program(with_printed_places(self._tree))

    def imports(self, path: str, *, alias: str = "") -> Library:
        """`import "path" as alias`: an object whose methods are the sequences of the file."""
        place = caller()
        self._check_closed("imports")
        written = alias or (place.names[0] if place.use is Use.ASSIGNED and len(place.names) == 1 else "")
        if written:
            checked_name(written, place.location)
        self._keep(ast.Import(path, written, location=place.location))
        return _ImportedLibrary(self, written or Path(path).stem)

    def schedule(self, name: str, *, expects: str = "", doc: str = "") -> BodyContext:
        """`with file.schedule("mlp") as s:`; its first parameter is `root = s.param("func")`."""
        where, trivia = _place_of(name), ast.Trivia(doc)
        return self._callable(
            lambda params, body: ast.Schedule(name, params, expects, body, trivia=trivia, location=where), (), where
        )

    def sequence(self, name: str, *, results: Sequence[str] = (), doc: str = "") -> BodyContext:
        """`with file.sequence("packed", results=["loop", "loop"]) as s:`."""
        return self._of_statements(ast.Sequence, name, results, doc)

    def matcher(self, name: str, *, results: Sequence[str] = (), doc: str = "") -> BodyContext:
        """`with file.matcher("conv_relu", results=["op"]) as s:`: a named pattern, for `match_some` and its like."""
        return self._of_statements(ast.Matcher, name, results, doc)

    def view(self, name: str, *, doc: str = "") -> BodyContext:
        """`with file.view("product") as s:`: one parameter, and `s.let(..)` for each role."""
        where, trivia = _place_of(name), ast.Trivia(doc)
        return self._callable(
            lambda params, body: ast.View(name, params, _roles(body), trivia=trivia, location=where),
            (),
            where,
            is_function=True,
        )

    def _of_statements(
        self, kind: type[ast.Sequence] | type[ast.Matcher], name: str, results: Sequence[str], doc: str
    ) -> BodyContext:
        where, trivia = _place_of(name), ast.Trivia(doc)
        types = tuple(type_of(r, where) for r in results)
        return self._callable(
            lambda params, body: kind(name, params, types, body, trivia=trivia, location=where), types, where
        )

    def function(self, name: str, *, result: str, doc: str = "") -> BodyContext:
        """`with file.function("rows", result="int") as s:`: parameters, `s.let(..)`, `s.return_` of one value."""
        where, trivia = _place_of(name), ast.Trivia(doc)
        type_ = type_of(result, where)
        return self._callable(
            lambda params, body: ast.Function(name, params, type_, *_returned(body), trivia=trivia, location=where),
            (type_,),
            where,
            is_function=True,
        )

    def _callable(
        self, declared: DeclaredOf, types: tuple[ast.TypeOf, ...], where: Location, is_function: bool = False
    ) -> BodyContext:
        self._check_closed("function, sequence or schedule")
        results = tuple(TYPE_NAMES.get(t.name, Static.ANY) for t in types)
        return BodyContext(self, declared, results, where, is_function)

    def _check_closed(self, what: str) -> None:
        if self._recorder is not None:
            raise refused(
                f"`{what}` stands outside of other bodies", "one `with` after the other", "a body that is open"
            )

    def _program(self, tree: ast.File) -> Program:
        return program_of_file(tree, self._schedule_path, self._beside)

    def unit(self) -> Unit:
        """What the names of the items so far mean."""
        return self._program(self._tree).main

    def open_body(self) -> Recorder:
        """The body that is being recorded."""
        if self._recorder is None:
            raise refused(
                "a step stands in a sequence or schedule", "`with file.schedule(..) as s:` round it", "none is open"
            )
        return self._recorder

    def open(self, results: Results, is_function: bool) -> Recorder:
        """Start to record a body."""
        unit = self.unit()
        self._recorder = Recorder(unit, Scope(unit, Problems()), results, is_function)
        return self._recorder

    def close(self, item: Declared | None) -> None:
        """The body is recorded: check it as a whole and keep it; None drops it."""
        self._recorder = None
        if item is None:
            return
        self._keep(item)

    def _keep(self, item: ast.Item) -> None:
        longer = replace(self._tree, items=(*self._tree.items, item))
        require_checked(self._program(longer))
        self._tree = longer


class _ImportedLibrary(Library):
    """An import of a file whose bodies come later."""

    def __init__(self, file: ScheduleFile, alias: str) -> None:
        self._file = file
        unit = file.unit()
        super().__init__(Recorder(unit, Scope(unit, Problems()), ()), alias)

    def recording(self) -> Recorder:
        return self._file.open_body()


class BodyContext:
    """`with file.schedule(..) as s:`."""

    def __init__(
        self, file: ScheduleFile, declared: DeclaredOf, results: Results, where: Location, is_function: bool
    ) -> None:
        self._file = file
        self._declared = declared
        self._results = results
        self._where = where
        self._is_function = is_function

    def __enter__(self) -> Body:
        self._recorder = self._file.open(self._results, self._is_function)
        return Body(self._recorder)

    def __exit__(self, kind: object, *_: object) -> None:
        recorder = self._recorder
        if kind is not None:
            recorder.is_closed = True
            self._file.close(None)
            return
        try:
            recorder.check_complete()
            body = ast.Block(tuple(recorder.blocks[0]), location=self._where)
            item = self._declared(tuple(recorder.params), body)
        finally:
            recorder.is_closed = True
            self._file.close(None)
        self._file.close(item)


def _place_of(name: str) -> Location:
    """The line of Python that declares something, if what it calls it is a name. Raises ScheduleError."""
    where = here()
    checked_name(name, where)
    return where


def _returned(body: ast.Block) -> tuple[ast.Expression, tuple[ast.Let, ...]]:
    """The value of a function, and the names before it. Raises ScheduleError if there is none, or another one."""
    lets = tuple(statement for statement in body.statements if isinstance(statement, ast.Let))
    match body.statements[len(lets) :]:
        case (ast.Return(values=(value,)),):
            return value, lets
        case statements:
            found = f"{len(statements)} of them" if statements else "none"
            raise refused("a function gives one expression", "one `s.return_(..)`", found, where=body.location)


def _roles(body: ast.Block) -> tuple[ast.Let, ...]:
    """The roles of a view. Raises ScheduleError for anything else."""
    lets = tuple(s for s in body.statements if isinstance(s, ast.Let) and len(s.names) == 1 and not s.optional)
    if lets and len(lets) == len(body.statements):
        return lets
    found = f"{counted(len(body.statements), 'statement')}, {len(lets)} of them a role"
    raise refused("a view only names parts of an operation", "`s.let(..)` for each of them", found, where=body.location)


Schedulable = Program | ScheduleFile
"""What `tcpx.compile` takes as a schedule."""


def program_of(schedule: Schedulable) -> Program:
    """The program of either. Raises ArgumentError for anything else."""
    match schedule:
        case ScheduleFile():
            return schedule.program()
        case Program():
            return schedule
        case _:
            required = "what `tcpx.load_schedule` or `tcpx.parse_schedule` gives, or a `tcpx.ScheduleFile`"
            raise unusable_argument("schedule", schedule, required, "load_schedule")
