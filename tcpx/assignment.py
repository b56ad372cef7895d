"""Values of knobs by structural paths: one immutable assignment, whatever wrote its keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, cast

import numpy as np

from tcpx.payload.diagnostics import ArgumentError, Diagnostic, ScheduleError, python_type_of
from tcpx.payload.structure import DIGITS
from tcpx.plurals import counted
from tcpx.records import brief, frozen
from tcpx.suggestions import did_you_mean, nearest
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.loader import Program

ParamValue = int | float | bool | str
BEYOND: Final = "!"
"""At the end of a key: its value need not be in the domain that the knob declares."""
SHARED: Final = "="
"""At the start of a key: the structure of knobs that share its value."""
_BOUNDARIES: Final = "/.:"
_GLOB: Final = re.compile(r"[*?[]")
_OF_FUNCTION: Final = re.compile(rf"[0-9a-f]{{{DIGITS}}}:")
_OF_STRUCTURE: Final = re.compile(rf"{SHARED}[0-9a-f]{{{DIGITS}}}!?\Z")
_LONGEST_LIST: Final = 100
_MOST_NAMES: Final = 8
_MOST_PATHS: Final = 4


class Assignment(Mapping[str, ParamValue]):
    """Values by keys, in order. The path of a knob is the path of calls that lead to it, and its name:
    `mlp/fc1/packed_gemm.mc`, and in a called function `@layer:mlp/fc1/packed_gemm.mc`.

    `mc` is the key of every knob (or schedule parameter) of this name, `packed_gemm.mc` of those whose path ends so,
    `*/fc1/*.mc` of those whose whole path matches, `@layer:*.mc` of those of a called function; `*` matches any text,
    `/` and `.` included. As records of functions have it, a key is the structure of the function and the path with
    operations by their numbers: `KEY:mlp/%3/packed_gemm.mc`. `=STRUCTURE` is that of knobs that share a value.
    """

    __slots__ = ("_ends", "_globs", "_order", "_values")

    def __init__(self, values: Mapping[str, ParamValue] | None = None) -> None:
        self._values = dict(values or {})
        self._order = {key: place for place, key in enumerate(self._values)}
        self._globs = [key for key in self._values if _GLOB.search(key)]
        self._ends: dict[str, list[str]] = {}
        for key in self._values:
            self._ends.setdefault(key.removesuffix(BEYOND), []).append(key)

    @staticmethod
    def of(params: object) -> Assignment:
        """What `params=` says. Raises ArgumentError for what is no mapping, and ScheduleError for a name or a value
        that no knob can have."""
        match params:
            case None:
                return Assignment()
            case Assignment():
                return params
            case Mapping():
                given = cast("Mapping[object, object]", params)
                return Assignment(dict(_settable(key, value) for key, value in given.items()))
            case _:
                raise ArgumentError(
                    Diagnostic(
                        "`params` is no mapping",
                        required='names of knobs with their values, such as `{"mc": 96}`',
                        found=python_type_of(params),
                    )
                )

    def __getitem__(self, key: str) -> ParamValue:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return brief("Assignment", *(f"{key}={value}" for key, value in self._values.items()))

    @staticmethod
    def merged(several: Iterable[Mapping[str, ParamValue]]) -> Assignment:
        """The values of several, of which later ones replace those of equal keys."""
        return Assignment({key: value for each in several for key, value in each.items()})

    def __or__(self, others: Mapping[str, ParamValue]) -> Assignment:
        return Assignment.merged((self, others))

    def under(self, params: Mapping[str, ParamValue] | None) -> Assignment:
        """With the values that are given, without those of knobs that these reach."""
        given = Assignment(params)
        left = {key: value for key, value in self.items() if not given.reaching(key.removesuffix(BEYOND))}
        return Assignment(left) | given

    @property
    def of_functions(self) -> Assignment:
        """The values of functions by their structure, of whatever payload."""
        return Assignment({key: value for key, value in self.items() if _OF_FUNCTION.match(key)})

    @property
    def of_payload(self) -> Assignment:
        """The values by paths of one payload."""
        return Assignment({key: value for key, value in self.items() if not _OF_FUNCTION.match(key)})

    @property
    def by_path(self) -> bool:
        """Whether some hold for uses of a knob of the payload rather than for its name: they may reach some uses
        alone."""
        return any(not key.removesuffix(BEYOND).isidentifier() for key in self.of_payload)

    @property
    def named(self) -> frozenset[str]:
        """The names in paths that hold in the entry, or in any function."""
        paths = (key.removesuffix(BEYOND) for key in self.of_payload if not key.startswith("@"))
        return frozenset(name for path in paths for name in path.rpartition(".")[0].split("/") if name)

    def reaching(self, path: str) -> list[str]:
        """The keys that hold for the knob of a path, in order."""
        found = dict.fromkeys(key for end in _ends(path) for key in self._ends.get(end, ()))
        found |= dict.fromkeys(key for key in self._globs if _matches(key, path))
        return sorted(found, key=self._order.__getitem__)

    def key(self, path: str, place: str = "", structure: str = "") -> str | None:
        """The key whose value a knob has: of those that reach its path the best one, else that of its `place` in a
        function, as records know it, else that of the knobs that share its value."""
        exact = [*([place] if _OF_FUNCTION.match(place) else []), *([f"{SHARED}{structure}"] if structure else [])]
        known = (key for form in exact for key in (f"{form}{BEYOND}", form) if key in self._values)
        return _best(self.reaching(path), path) or next(known, None)

    def require_read(self, read: Collection[str], names: Collection[str], by_function: bool) -> None:
        """Raise ScheduleError for a key that was not `read`; `names` are the knobs that there were. Values of functions
        by their structure are of any payload, where somebody asks for such functions."""
        for key, value in self.items():
            is_optional = _OF_STRUCTURE.match(key) or (by_function and _OF_FUNCTION.match(key))
            if key not in read and not is_optional:
                raise ScheduleError(_matches_nothing(key, value, sorted(names)))

    def unknown(self, program: Program) -> tuple[Diagnostic, ...]:
        """What is wrong with keys whose name no knob of a schedule, or of what it imports, has.

        Which uses of a sequence there are is known with a payload only, so of a path its last part is looked at.
        """
        names = sorted(set(_declared_names(program))) if self else []
        return tuple(
            _matches_nothing(key, value, names)
            for key, value in self.items()
            if not any(_may_mean(key.removesuffix(BEYOND), name) for name in names)
        )


def _matches(glob: str, path: str) -> bool:
    bare = glob.removesuffix(BEYOND)
    return fnmatchcase(path if bare.startswith("@") else in_any_function(path), bare)


def _best(keys: Sequence[str], path: str) -> str | None:
    """The one of some keys that reach a knob, in order, that holds: its path goes before the end of it, a longer end
    first, that before a glob, a glob before its name alone; of two globs the last."""
    full, name = (path, in_any_function(path)), last_name(path)

    def rank(place: int) -> tuple[bool, int, bool, int]:
        bare = keys[place].removesuffix(BEYOND)
        return bare in full, len(bare) if bare != name and _is_end(bare, path) else 0, bare != name, place

    return keys[max(range(len(keys)), key=rank)] if keys else None


def last_name(path: str) -> str:
    """The name of a knob in its path."""
    return path.rpartition(".")[2]


def in_any_function(path: str) -> str:
    """The path of a knob in its function; where no step was taken, what becomes a function is in the entry."""
    return path.rpartition(":")[2]


def _ends(path: str) -> Iterator[str]:
    """The ends of a path that begin where a name does, the shortest first."""
    first = len(path) - len(last_name(path))
    yield from (path[k:] for k in range(first, 0, -1) if path[k - 1] in _BOUNDARIES)
    yield path


def _is_end(key: str, path: str) -> bool:
    """Whether a path ends with a key that begins where a name of it does: `mc` and `packed_gemm.mc` are of
    `mlp/fc1/packed_gemm.mc`."""
    return path == key or (path.endswith(key) and path[len(path) - len(key) - 1] in _BOUNDARIES)


@frozen
class KnobNames:
    """The shortest names of knobs that nothing but their own path ends with; paths that are not known are their own."""

    names: Mapping[str, str]

    @staticmethod
    def of(paths: Iterable[str]) -> KnobNames:
        """Those of some knobs among each other."""
        known = list(dict.fromkeys(paths))
        count = Counter(end for path in known for end in _ends(path))
        return KnobNames({path: next((end for end in _ends(path) if count[end] == 1), path) for path in known})

    def __call__(self, path: str) -> str:
        """The name of a path; `!` after it stays there."""
        bare = path.removesuffix(BEYOND)
        return self.names.get(bare, bare) + path[len(bare) :]


def shown(value: ParamValue) -> str:
    """A value in messages, as a schedule writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def listed_knobs(key: str, paths: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """What there is in place of a knob that is not there: all of them, or, where these are many, the names that they
    end with, and those nearest to the key as notes."""
    short = KnobNames.of(paths)
    every = ", ".join(map(short, paths))
    if len(every) <= _LONGEST_LIST:
        return every or "no knobs", ()
    names = sorted({last_name(path) for path in paths})
    printed, others = names[:_MOST_NAMES], len(names) - _MOST_NAMES
    more = f" and {counted(others, 'other name')}" if others > 0 else ""
    close = nearest(last_name(key.removesuffix(BEYOND)), names, _MOST_PATHS)
    alike = [path for name in close for path in paths if path != name and last_name(path) == name]
    return (
        f"{counted(len(paths), 'knob')}, called {', '.join(printed)}{more}",
        tuple(f"there is `{short(path)}`" for path in alike[:_MOST_PATHS]),
    )


def _matches_nothing(key: str, value: ParamValue, names: list[str]) -> Diagnostic:
    """What is wrong with a key of no knob; `names` are knobs by name, and by path where uses are known."""
    found, notes = listed_knobs(key, [n for n in names if "." in n] or names)
    return Diagnostic(
        f"the parameter `{key}` (= {shown(value)}) matches no knob of the schedule",
        required="the name of a knob, or a path such as `*/fc1/*.mc`",
        found=found,
        notes=notes,
        fix=_fix(key, names),
    )


def _fix(key: str, names: list[str]) -> str | None:
    """A glob of a name alone was meant as the end of a path."""
    if _GLOB.search(key) and "." not in key and any(fnmatchcase(name, key) for name in names if "." not in name):
        return f"a glob is one of whole paths: write `*.{key}`"
    paths, last = [name for name in names if "." in name], last_name(key.removesuffix(BEYOND))
    short = map(KnobNames.of(paths), paths)
    return did_you_mean(key, [*short, *paths] if "." in key else names) or did_you_mean(
        last, {last_name(name) for name in names}
    )


def _settable(key: object, value: object) -> tuple[str, ParamValue]:
    held: object = cast("object", value.item()) if isinstance(value, np.generic) else value
    is_name = isinstance(key, str) and not _OF_STRUCTURE.match(key)
    if isinstance(key, str) and is_name and isinstance(held, int | float | str):
        return key, held
    raise ScheduleError(
        Diagnostic(
            f"`params` cannot set {key} to {value}",
            required="a name or path as a string, and an int, float, bool or string for it",
            found=f"`{value}`, which no knob can be" if is_name else f"`{key}`, which is no name",
        )
    )


def _may_mean(key: str, name: str) -> bool:
    """Whether it is the name, or a glob of which some part at the end matches `.name`, the end of a path."""
    if key.isidentifier():
        return key == name
    return any(fnmatchcase(f".{name}", key[k:]) for k in range(len(key)) if k or key.startswith("*"))


def _declared_names(program: Program) -> Iterator[str]:
    for schedule in program.main.schedules.values():
        yield from (param.name for param in schedule.params[1:])
    for unit in program.units:
        for declared in (*unit.sequences.values(), *unit.schedules.values()):
            nodes = list(ast.walk(declared))
            yield from (node.name for node in nodes if isinstance(node, ast.Knob))
            tunes = [node for node in nodes if isinstance(node, ast.Tune)]
            yield from (node.name for node in tunes if node.name)
            yield from (f"tune{k}" for k, _ in enumerate((n for n in tunes if not n.name), start=1))
