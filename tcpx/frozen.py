"""Schedules with their values written in: one file that imports nothing and has no knobs left."""

import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tcpx.api import apply_schedule, program_or_default
from tcpx.assignment import ParamValue
from tcpx.installed import LIBRARY
from tcpx.interp import KnobUse
from tcpx.loading import PayloadLike, module_of
from tcpx.payload.diagnostics import Diagnostic, Direction, Location, ScheduleError
from tcpx.source import emit
from tcpx.target import Target
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import FunctionCallee, find_callee, is_import
from tcpx.transform.language.builtins import Function
from tcpx.transform.language.embedded import Schedulable
from tcpx.transform.language.loader import Program, Unit, program_of_text
from tcpx.transform.language.printed_expressions import quoted
from tcpx.transform.language.printer import print_file
from tcpx.transform.language.views import view_of, without_view

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
Declared = ast.Sequence | ast.Function | ast.Matcher | ast.View
Place = tuple[str, int, int]


def freeze(
    module: PayloadLike,
    schedule: Schedulable | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    provenance: Mapping[str, str] | None = None,
    folder: str | Path = ".",
) -> str:
    """The text of a schedule that does what this one does with these params, for this payload and target.

    Knobs become `let`s of their values, an alternative of `tune` the block itself, and what is imported is copied.
    `provenance` goes into comments at the top; `folder` is where the text will lie. Raises what running the schedule
    raises, and ScheduleError where values that differ between uses of a sequence cannot be told apart by the names of
    their ops.
    """
    module = module_of(module)
    program = program_or_default(schedule)
    run = apply_schedule(module, program, params=params, target=target, threads=threads)
    file = Frozen(program, run.knobs, Path(folder)).file()
    header = [f"// {name}: {' '.join(text.split())}" for name, text in (provenance or {}).items()]
    text = "\n".join([*header, print_file(file)])
    made = program_of_text(text, str(Path(folder, "<frozen>")), [LIBRARY], folder)
    before, after = (
        _COMMENT.sub("", emit(module, held, params=given, target=target, threads=threads).c_source)
        for held, given in ((program, params), (made, None))
    )
    if before != after:
        raise _mixed(program) if len({unit.language for unit in program.units}) > 1 else _ambiguous(run.knobs)
    return text


class Frozen:
    """A program with these values of its knobs; `suffix` goes behind the names of all that it declares."""

    def __init__(self, program: Program, uses: Sequence[KnobUse], folder: Path, suffix: str = "") -> None:
        self._program, self._folder, self._suffix = program, folder, suffix
        self._uses: dict[Place, list[KnobUse]] = {}
        for use in uses:
            self._uses.setdefault(_place(use.location), []).append(use)
        self._names: dict[tuple[int, str], str] = {}
        taken = _local_names(program)
        for unit in program.units:
            for name in (*unit.sequences, *unit.functions, *unit.matchers, *unit.views, *unit.schedules):
                own = f"{name}{suffix}"
                while own in taken:
                    own += "_"
                taken.add(own)
                self._names[id(unit), name] = own

    def file(self) -> ast.File:
        """The frozen syntax tree: what the schedule needs, in front of it."""
        main = self._program.main
        schedule = next(iter(main.schedules.values()))
        oldest = ast.Language(min(unit.language for unit in self._program.units), location=main.file.items[0].location)
        needed: dict[str, Declared] = {}
        made = self._frozen(schedule, main, needed)
        if made.expects and not made.expects.lstrip().startswith("("):
            target = Path(main.file.path).parent / made.expects
            made = replace(made, expects=os.path.relpath(target, self._folder))
        return ast.File((oldest, *needed.values(), made), "<frozen>")

    def text_of_sequences(self, with_language: bool = True) -> str:
        """All of it, with the schedule as a sequence of its name and the suffix."""
        first, *needed, made = self.file().items
        if not isinstance(made, ast.Schedule):
            raise TypeError(f"required a schedule at the end, found {made!r}")
        own = ast.Sequence(f"{made.name}{self._suffix}", made.params, (), made.body, location=made.location)
        return print_file(ast.File((*((first,) if with_language else ()), *needed, own), "<frozen>"))

    def head(self, name: str) -> str:
        """The first line of a schedule of this name that expects what this one does."""
        made = self.file().items[-1]
        expects = made.expects if isinstance(made, ast.Schedule) else ""
        return f"schedule {name}(root: func){f' expects {quoted(expects)}' if expects else ''} {{"

    def _frozen(self, item: Any, unit: Unit, needed: dict[str, Declared]) -> Any:  # noqa: ANN401 - any declaration
        params = getattr(item, "params", ())
        subject = next((p.name for p in params if without_view(p.type, unit).name == "op"), "")

        def change(node: object) -> object:
            match node:
                case ast.Knob() if _place(node.location) in self._uses:
                    value = _value(self._uses[_place(node.location)], node.location, subject)
                    return ast.Let((node.name,), value, trivia=node.trivia, location=node.location)
                case ast.Tune() if _place(node.location) in self._uses:
                    return self._chosen(node, subject)
                case ast.Call(function=ast.Attribute(name="is_a"), arguments=(asked,)):
                    return replace(node, arguments=(replace(asked, value=self._renamed(asked.value, unit, needed)),))
                case ast.Call():
                    return replace(node, function=self._renamed(node.function, unit, needed))
                case ast.TypeOf() if (view := view_of(node, unit)) is not None:
                    return replace(node, name=self._need(view.unit, view.view.name, needed))
                case ast.Pattern() | ast.Shape():
                    alias, dot, name = node.op_class.rpartition(".")
                    owner = unit.imports.get(alias) if dot else unit
                    if owner is not None and name in owner.matchers:
                        return replace(node, op_class=self._need(owner, name, needed))
                    return node
                case _:
                    return node

        return _without_unread(item, ast.rebuilt(item, change), unit)

    def _chosen(self, tune: ast.Tune, subject: str) -> ast.If:
        """The block that runs; where uses differ, chosen by the name of the op they are about."""
        uses = self._uses[_place(tune.location)]
        at = tune.location
        branches: list[ast.Branch] = []
        if tune.default is not None and len({use.value for use in uses}) > 1 and not any(u.overridden for u in uses):
            for word, block in zip(tune.words, tune.alternatives, strict=True):  # as the defaults choose
                is_default = ast.Binary("==", tune.default, ast.Literal(word, location=at), location=at)
                branches.append(ast.Branch(is_default, block, location=at))
            return ast.If(tuple(branches), None, trivia=tune.trivia, location=at)
        for use in uses:
            number = tune.words.index(use.value) if isinstance(use.value, str) else use.value
            block = tune.alternatives[number if isinstance(number, int) else 0]
            branches.append(ast.Branch(_is_named(subject, _subject_of(use, uses), at), block, location=at))
        if len({use.value for use in uses}) == 1:
            branches = [ast.Branch(_literal(True, at), branches[0].body, location=at)]
        return ast.If(tuple(branches), None, trivia=tune.trivia, location=at)

    def _renamed(self, function: ast.Expression, unit: Unit, needed: dict[str, Declared]) -> ast.Expression:
        match function:
            case ast.Attribute(base=ast.Name(name=alias), name=name) if alias in unit.imports:
                return ast.Name(self._need(unit.imports[alias], name, needed), location=function.location)
            case ast.Name(name=name) if name in unit.sequences or name in unit.functions or name in unit.matchers:
                return ast.Name(self._need(unit, name, needed), location=function.location)
            case _:
                return function

    def _need(self, unit: Unit, name: str, needed: dict[str, Declared]) -> str:
        """The new name of a declaration, which is copied."""
        own = self._names[id(unit), name]
        if own not in needed:
            tables = (unit.sequences, unit.functions, unit.matchers, unit.views)
            held: Declared = next(table[name] for table in tables if name in table)
            made = self._frozen(held, unit, needed)
            needed[own] = replace(made, name=own)
        return own


def _value(uses: Sequence[KnobUse], at: Location, subject: str) -> ast.Expression:
    """The value of a knob; where uses differ, chosen by the name of the op they are about."""
    value = _literal(uses[-1].value, at)
    for use in reversed(uses[:-1]):
        if use.value != uses[-1].value:
            asked = _is_named(subject, _subject_of(use, uses), at)
            value = ast.Conditional(asked, _literal(use.value, at), value, location=at)
    return value


def _without_unread(item: ast.Node, made: Any, unit: Unit) -> Any:  # noqa: ANN401 - any declaration
    """What `item` became, without the `let`s of values that nothing reads any more: knobs did."""
    values = {let.location for let in ast.walk(item) if isinstance(let, ast.Let) and _is_value(let, unit)}
    before = _names_read(item)
    while True:
        unread = before - _names_read(made)
        left = [let for let in ast.walk(made) if isinstance(let, ast.Let) and unread.issuperset(let.names)]
        left_out = {let.location for let in left} & values
        if not left_out:
            return made
        made = ast.rebuilt(made, lambda node, out=left_out: _block_without(node, out))


def _block_without(node: object, left_out: Container[Location]) -> object:
    if not isinstance(node, ast.Block):
        return node
    return replace(node, statements=tuple(s for s in node.statements if s.location not in left_out))


def _names_read(part: object) -> set[str]:
    return {node.name for node in ast.walk(part) if isinstance(node, ast.Name)}


def _is_value(let: ast.Let, unit: Unit) -> bool:
    """Whether no step and no match is behind a `let`: it can be left out where nothing reads it."""
    return not any(
        isinstance(node, ast.Match) or (isinstance(node, ast.Call) and not _computes(node.function, unit))
        for node in ast.walk(let.value)
    )


def _computes(function: ast.Expression, unit: Unit) -> bool:
    """Whether what is called is a function, or a method of a handle."""
    if isinstance(function, ast.Attribute) and not is_import(function, unit):
        return True
    return isinstance(find_callee(function, unit), FunctionCallee | Function)


def _local_names(program: Program) -> set[str]:
    """What parameters, knobs, loops and `let` are called anywhere: a declaration of another file may not be."""
    names: set[str] = set()
    for unit in program.units:
        for held in (unit.sequences, unit.functions, unit.matchers, unit.views, unit.schedules):
            for node in ast.walk(tuple(held.values())):
                match node:
                    case ast.Let(names=several) | ast.ForEach(variables=several):
                        names.update(several)
                    case ast.Knob(name=name) | ast.Param(name=name):
                        names.add(name)
                    case _:
                        pass
    return names


def _subject_of(use: KnobUse, uses: Sequence[KnobUse]) -> str:
    """The part of the path of a use that tells it from the others: the name of its op."""
    paths = [other.path.rpartition(".")[0].split("/") for other in uses]
    own = use.path.rpartition(".")[0].split("/")
    told = [part for k, part in enumerate(own) if any(len(path) <= k or path[k] != part for path in paths)]
    return told[-1] if told else own[-1]


def _literal(value: object, at: Location) -> ast.Expression:
    if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
        return ast.Unary("-", ast.Literal(-value, location=at), location=at)
    if not isinstance(value, int | float | str):
        raise TypeError(f"required a value of a knob, found {value!r}")
    return ast.Literal(value, location=at)


def _is_named(subject: str, name: str, at: Location) -> ast.Expression:
    """`mm.name == "fc1"`."""
    asked = ast.Attribute(ast.Name(subject, location=at), "name", location=at)
    return ast.Binary("==", asked, ast.Literal(name, location=at), location=at)


def _place(where: Location) -> Place:
    return where.file, where.line, where.column


def _mixed(program: Program) -> ScheduleError:
    found = ", ".join(f"{Path(unit.file.path).name} (language {unit.language})" for unit in program.units)
    return ScheduleError(
        Diagnostic(
            "the files of the schedule mean something else in one version of the language",
            required="files in one version",
            found=found,
            fix=Direction("`tcpx fmt --upgrade` the older ones first"),
        )
    )


def _ambiguous(uses: Sequence[KnobUse]) -> ScheduleError:
    return ScheduleError(
        Diagnostic(
            "the values cannot be written into the schedule",
            required="values that the names of the ops tell apart, where uses of a sequence differ",
            found=", ".join(_shown(uses)),
            fix="keep them as a record: tcpx tune --record",
        )
    )


def _shown(uses: Sequence[KnobUse]) -> Iterator[str]:
    return (f"{use.path}={use.value}" for use in uses if not use.shares)
