"""A schedule with everything it imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from tcpx.installed import LIBRARY
from tcpx.limits import DEEPEST_NESTING
from tcpx.payload.diagnostics import Diagnostic, Direction, Location, ScheduleError
from tcpx.payload.given import path_of
from tcpx.payload.text.file import UnreadableError, is_file, read_text, unusual_path
from tcpx.plurals import counted
from tcpx.records import brief, frozen
from tcpx.suggestions import did_you_mean
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.kinds import Static
from tcpx.transform.language.parser import parse_schedule
from tcpx.transform.language.tree_cache import cached_tree
from tcpx.transform.language_versions import NEWEST, OLDEST, known_versions

Roles = Mapping[str, dict[str, ast.Function]]
REMEMBERED: Final = 64
"""Files whose syntax trees are kept: most schedules import the same few."""


@dataclass(slots=True)
class Unit:
    """One file: its syntax tree, and what its names mean."""

    file: ast.File
    imports: dict[str, Unit] = field(default_factory=dict[str, "Unit"])
    sequences: dict[str, ast.Sequence] = field(default_factory=dict[str, ast.Sequence])
    schedules: dict[str, ast.Schedule] = field(default_factory=dict[str, ast.Schedule])
    functions: dict[str, ast.Function] = field(default_factory=dict[str, ast.Function])
    matchers: dict[str, ast.Matcher] = field(default_factory=dict[str, ast.Matcher])
    views: dict[str, ast.View] = field(default_factory=dict[str, ast.View])
    roles: dict[str, dict[str, ast.Function]] = field(default_factory=dict[str, "dict[str, ast.Function]"])
    """The roles of each view, as functions of the operation."""
    expanded: dict[tuple[int, tuple[object, ...]], ast.Specialize | ast.Block] = field(
        default_factory=dict[tuple[int, tuple[object, ...]], "ast.Specialize | ast.Block"]
    )
    """What `versions` statements mean for items, by the identity of the statement."""
    role_types: dict[int, Static] = field(default_factory=dict[int, Static])
    """The static types of roles, by the identity of their functions, as far as they were asked for."""

    def __repr__(self) -> str:
        return brief("Unit", self.file.path)

    @property
    def language(self) -> int:
        """The version of the language that its statements are in, whoever imports it."""
        return language_of(self.file)

    def declared(self, name: str) -> str:
        """What of this file has the name, in words; empty if nothing has."""
        tables = {
            "an import": self.imports,
            "a sequence": self.sequences,
            "a schedule": self.schedules,
            "a function": self.functions,
            "a matcher": self.matchers,
            "a view": self.views,
        }
        return next((what for what, table in tables.items() if name in table), "")


@cache
def _is_in_library(file: str) -> bool:
    return Path(file).is_relative_to(LIBRARY)


@frozen
class Program:
    """A schedule and all files it imports, directly or not; `units` in order of first import, the main one first."""

    main: Unit
    units: tuple[Unit, ...]
    is_default: bool = False
    """Whether it is what tcpx takes where no schedule is given: nobody could mend it, so it refuses no payload."""

    def __repr__(self) -> str:
        return brief("Schedule", self.main.file.path, f"of {len(self.units)} file(s)")

    def is_of_library(self, place: Location) -> bool:
        """Whether a statement stands in the installed library, which the user of a schedule did not write."""
        own = not self.is_default and place.file == self.main.file.path
        return not own and _is_in_library(place.file)

    def schedule(self, name: str = "") -> ast.Schedule:
        """The schedule of this name, or the only one of the main file."""
        known = self.main.schedules
        if name in known:
            return known[name]
        if not name and len(known) == 1:
            return next(iter(known.values()))
        raise ScheduleError(
            Diagnostic(
                f"there is no schedule `{name}`" if name else "it is not said which schedule is meant",
                schedule=Location(self.main.file.path, 1, 1),
                required=f"one of {', '.join(known)}" if known else "a `schedule` in the file",
                found=name or counted(len(known), "schedule"),
                fix=did_you_mean(name, known)
                or (
                    Direction("keep one; let the others be sequences, or files of their own")
                    if len(known) > 1
                    else None
                ),
            )
        )


def load_program(path: str | Path, schedule_path: Sequence[str | Path] = ()) -> Program:
    """Read a `.tcps` file and what it imports; one that is not there is looked for in the folders of the path, as an
    import is. Raises ParseError and ScheduleError."""
    file = _place(Path(path), schedule_path)
    return _Loader(tuple(Path(p) for p in schedule_path)).program(*_tree(schedule_text(file), str(file)), file.parent)


def _place(path: Path, folders: Sequence[str | Path]) -> Path:
    """Where a file is: at its path, or in one of the folders. If in none, its path: reading that says so."""
    places = [path, *(Path(folder) / path for folder in folders)]
    try:
        return next((place for place in places if is_file(place)), path)
    except (OSError, ValueError):  # a name that is too long, a NUL
        return path


def program_of_text(
    text: str,
    file: str = "<schedule>",
    schedule_path: Sequence[str | Path] = (),
    beside: str | Path = ".",
) -> Program:
    """The program of a text; its imports are looked for in the folder `beside` first."""
    tree = parse_schedule(text, file)
    return _Loader(tuple(Path(p) for p in schedule_path)).program(tree, _roles_of(tree), Path(beside))


def default_program() -> Program:
    """What tcpx applies where no schedule is given: `schedules/default.tcps`."""
    return replace(load_program(LIBRARY / "default.tcps", [LIBRARY]), is_default=True)


def program_of_file(file: ast.File, schedule_path: Sequence[str | Path] = (), beside: str | Path = ".") -> Program:
    """The program of a syntax tree that was built rather than parsed."""
    return _Loader(tuple(Path(p) for p in schedule_path)).program(file, _roles_of(file), Path(beside))


def schedule_text(path: str | Path) -> str:
    """The text of a `.tcps` file. Raises ScheduleError."""
    try:
        return read_text(path_of(path, "a schedule"))
    except UnreadableError as error:
        known = error.diagnostic("a schedule text")
        raise ScheduleError(replace(known, schedule=known.payload, payload=None)) from error


@lru_cache(maxsize=REMEMBERED)
def _tree(text: str, path: str) -> tuple[ast.File, Roles]:
    """The syntax tree of a file with this text, and the roles of its views. Raises ParseError."""
    file = cached_tree(text, path, parse_schedule)
    return file, _roles_of(file)


def _roles_of(file: ast.File) -> Roles:
    """By the names of the views."""
    return {item.name: _roles(item) for item in file.items if isinstance(item, ast.View)}


class _Loader:
    def __init__(self, schedule_path: tuple[Path, ...]) -> None:
        self._path = schedule_path
        self._units: dict[Path, Unit] = {}
        self._open: list[Path] = []

    def program(self, file: ast.File, roles: Roles, folder: Path) -> Program:
        main = self._unit(file, roles, folder)
        return Program(main, (main, *self._units.values()))

    def _unit(self, file: ast.File, roles: Roles, folder: Path) -> Unit:
        unit = Unit(file)
        for k, item in enumerate(file.items):
            match item:
                case ast.Language():
                    _check_language(item, k)
                case ast.Import():
                    unit.imports[_alias(item, unit)] = self._imported(item, folder)
                case ast.Function():
                    _check_fresh(item, unit)
                    unit.functions[item.name] = item
                case ast.Matcher():
                    _check_fresh(item, unit)
                    unit.matchers[item.name] = item
                case ast.View():
                    _check_fresh(item, unit)
                    unit.views[item.name] = item
                    unit.roles[item.name] = roles[item.name]
                case ast.Sequence():
                    _check_fresh(item, unit)
                    unit.sequences[item.name] = item
                case ast.Schedule():
                    _check_fresh(item, unit)
                    unit.schedules[item.name] = item
        language_of(file)
        return unit

    def _imported(self, item: ast.Import, folder: Path) -> Unit:
        path = self._find(item, folder)
        if path in self._open:
            chain = " -> ".join(p.name for p in [*self._open[self._open.index(path) :], path])
            raise ScheduleError(
                Diagnostic("the files import each other", schedule=item.location, required="no cycle", found=chain)
            )
        if len(self._open) >= DEEPEST_NESTING:
            message = f"files import each other more than {DEEPEST_NESTING} deep"
            required = f"at most {DEEPEST_NESTING} files that import one another in a row"
            found = f'{len(self._open) + 1} files, the last of them "{item.path}"'
            raise ScheduleError(Diagnostic(message, schedule=item.location, required=required, found=found))
        if path not in self._units:
            self._open.append(path)
            self._units[path] = self._unit(*_tree(schedule_text(path), str(path)), path.parent)
            self._open.pop()
        return self._units[path]

    def _find(self, item: ast.Import, folder: Path) -> Path:
        places = [folder, *self._path, LIBRARY]
        try:
            found = list(dict.fromkeys((p / item.path).resolve() for p in places if is_file(p / item.path)))
            strange = unusual_path(item.path, found, ".tcps")
        except (OSError, ValueError, RuntimeError) as error:  # a NUL in the path; links in a circle
            message, required = "this cannot be the path of a file", "the path of a schedule"
            found_text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ScheduleError(
                Diagnostic(message, schedule=item.location, required=required, found=found_text)
            ) from error
        if strange:
            raise ScheduleError(
                Diagnostic(
                    f'"{item.path}" is not imported',
                    schedule=item.location,
                    required="the relative path of a schedule, which ends in .tcps also once links are followed",
                    found=strange,
                )
            )
        if not found:
            raise ScheduleError(
                Diagnostic(
                    f'"{item.path}" is not there',
                    schedule=item.location,
                    required="a file beside the importing one, on the schedule path or in the library",
                    found="none in " + ", ".join(dict.fromkeys(str(p) for p in places)),
                    fix=did_you_mean(item.path, _files_of(places)),
                )
            )
        if len(found) > 1:
            raise ScheduleError(
                Diagnostic(
                    f'"{item.path}" is there twice',
                    schedule=item.location,
                    required="one file of this name",
                    found=", ".join(map(str, found)),
                )
            )
        return found[0]


def language_of(file: ast.File) -> int:
    """The version of the language that a file is in. Raises ScheduleError for one that does not say so first, or that
    names no version."""
    first = file.items[0] if file.items else None
    if isinstance(first, ast.Language):
        return _checked_version(first)
    where = first.location if first is not None else Location(file.path, 1, 1)
    raise ScheduleError(
        Diagnostic(
            "the file does not say which version of the language it is in",
            schedule=where,
            required=f"`language {NEWEST}` first",
            found=where.span or "nothing",
            fix=f"write `language {NEWEST}` above",
        )
    )


def _files_of(places: Sequence[Path]) -> list[str]:
    return [str(f.relative_to(p)) for p in places if p.is_dir() for d in (p, p / "lib") for f in d.glob("*.tcps")]


def _checked_version(item: ast.Language) -> int:
    if not OLDEST <= item.version <= NEWEST:
        raise ScheduleError(
            Diagnostic(
                "this version of the language is not known",
                schedule=item.location,
                required=known_versions(),
                found=f"language {item.version}",
                fix=f"write `language {NEWEST}`",
            )
        )
    return item.version


def _check_language(item: ast.Language, position: int) -> None:
    if position > 0:
        raise ScheduleError(
            Diagnostic(
                "`language` stands first in the file",
                schedule=item.location,
                required="nothing before it",
                found=f"{position} other item{'' if position == 1 else 's'}",
            )
        )


def _alias(item: ast.Import, unit: Unit) -> str:
    name = item.bound_name
    if name in unit.imports:
        message = f"two imports are called `{name}`"
        raise ScheduleError(
            Diagnostic(
                message,
                schedule=item.location,
                required="different names",
                found=f"`{name}` twice",
                fix=f'write `import "{item.path}" as other_{name}`',
            )
        )
    return name


def _roles(view: ast.View) -> dict[str, ast.Function]:
    """Each role as a function: the names of those before it stand for `x.name`."""
    params = tuple(
        replace(p, type=ast.TypeOf(view.name, location=p.type.location), default=None) for p in view.params[:1]
    )
    known: set[str] = set()

    def change(node: object) -> object:
        if isinstance(node, ast.Name) and node.name in known:
            subject = ast.Name(params[0].name, location=node.location)
            return ast.Attribute(subject, node.name, location=node.location)
        return node

    found: dict[str, ast.Function] = {}
    for let in view.lets:
        (name,) = let.names
        value = ast.rebuilt(let.value, change) if params else let.value
        any_type = ast.TypeOf("any", location=let.location)
        found[name] = ast.Function(name, params, any_type, value, trivia=let.trivia, location=let.location)
        known.add(name)
    return found


def _check_fresh(item: ast.Function | ast.Matcher | ast.View | ast.Sequence | ast.Schedule, unit: Unit) -> None:
    if unit.declared(item.name):
        raise ScheduleError(
            Diagnostic(
                f"`{item.name}` is declared twice",
                schedule=item.location,
                required="one declaration of a name",
                found=f"`{item.name}`, which is {unit.declared(item.name)} already",
            )
        )
