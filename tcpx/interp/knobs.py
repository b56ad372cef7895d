"""Knobs: their values in one run, and the overrides that set them by name or by path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import cast

import numpy as np

from tcpx.interp.knob_names import BEYOND, KnobNames, best_key, last_name, reaches
from tcpx.interp.values import RuntimeValue, describe
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, Location, ScheduleError, python_type_of
from tcpx.payload.types import ScalarType
from tcpx.payload.uses import Ticketed
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.suggestions import did_you_mean, nearest

ParamValue = int | float | bool | str
_LONGEST_LIST = 100
_MOST_NAMES = 8
_MOST_PATHS = 4


@frozen
class KnobUse:
    """One knob of one use of a sequence: a coordinate of the search space.

    Uses of one `structure` share a value: the first of them is the coordinate, `shares` of the others is its path.
    A separate knob has no structure.
    """

    path: str
    value: RuntimeValue
    default: RuntimeValue
    domain: tuple[RuntimeValue, ...]
    location: Location
    overridden: bool
    structure: str = ""
    shares: str = ""
    beyond: bool = False
    """Whether it may have a value outside its domain: it was set so, or it shares the value of one that was."""
    place: str = ""
    """The path as records of functions know it; empty in the entry, and where nobody asks for it."""

    def param(self, path: str) -> tuple[str, ParamValue]:
        """The key and the value that set a knob at a path to what this one is. Raises TypeError for a size."""
        value = str(self.value) if isinstance(self.value, ScalarType) else self.value
        if not isinstance(value, int | float | str):
            raise TypeError(f"required a value that params may have, found {describe(value)}")
        return f"{path}{BEYOND if self.beyond else ''}", value


class OverriddenLaterError(Exception):
    """An override reaches a later use of a shared knob alone: its value is that of the first use too, which has run."""

    def __init__(self, structure: str, value: RuntimeValue, beyond: bool = False) -> None:
        super().__init__(structure)
        self.structure = structure
        self.value = value
        self.beyond = beyond


class KnobUses:
    """The knobs that were bound, in the order of their last use; `mark` / `rollback` undo."""

    def __init__(self) -> None:
        self._uses: dict[str, KnobUse] = {}
        self._paths: Ticketed[str] = Ticketed()
        self._first: dict[str, Ticketed[str]] = {}
        """By structure: the paths of uses that share no value of another."""
        self._undo: list[tuple[str, KnobUse | None, tuple[int, ...]]] = []

    def __iter__(self) -> Iterator[KnobUse]:
        return iter([self._uses[path] for path in self._paths])

    def at(self, path: str) -> KnobUse | None:
        """The last use of the knob of a path."""
        return self._uses.get(path)

    def shared_by(self, path: str, structure: str) -> KnobUse | None:
        """The first use of a structure at another path, whose value the knob at this one takes over."""
        paths = self._first.get(structure, ())
        found = next((paths[k] for k in range(len(paths)) if paths[k] != path), None)
        return self._uses[found] if found is not None else None

    def record(self, use: KnobUse) -> None:
        """A use that runs again (in a loop) is one coordinate."""
        old = self._uses.get(use.path)
        tickets = tuple(paths.remove(use.path) for paths in self._lists(old))
        for paths in self._lists(use):
            paths.append(use.path)
        self._uses[use.path] = use
        self._undo.append((use.path, old, tickets))

    def mark(self) -> int:
        """A point to roll back to."""
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        """Forget what was recorded since."""
        while len(self._undo) > mark:
            path, old, tickets = self._undo.pop()
            for paths in self._lists(self._uses.pop(path)):
                paths.remove(path)
            for paths, ticket in zip(self._lists(old), tickets, strict=True):
                paths.put_back(path, ticket)
            if old is not None:
                self._uses[path] = old

    def _lists(self, use: KnobUse | None) -> list[Ticketed[str]]:
        if use is None:
            return []
        is_first = bool(use.structure) and not use.shares
        return [self._paths, *([self._first.setdefault(use.structure, Ticketed())] if is_first else [])]


@dataclass(slots=True)
class Overrides:
    """`params=`: `mc` sets every knob (or schedule parameter) of this name, `packed_gemm.mc` those whose path ends so,
    `*/fc1/*.mc` those whose whole path matches, `@layer:*.mc` those of a called function; `*` matches any text, `/` and
    `.` included. With `!` behind it the value need not be in the domain. Where none matches, what is recorded of the
    function holds."""

    values: Mapping[str, ParamValue]
    settled: Mapping[str, RuntimeValue] = field(default_factory=dict[str, RuntimeValue])
    """By structure of shared knobs: what overrides of later uses gave them in an earlier run."""
    settled_beyond: frozenset[str] = frozenset()
    """Structures whose settled value need not be in the domain."""
    recorded: Mapping[str, ParamValue] = field(default_factory=dict[str, ParamValue])
    """Values from records of functions, by the path as these know it."""
    uses: KnobUses = field(default_factory=KnobUses)
    hits: int = 0
    """How often a knob was found to be overridden."""
    _matched: set[str] = field(default_factory=set[str])
    _names: set[str] = field(default_factory=set[str])

    @property
    def by_path(self) -> bool:
        """Whether some hold for uses of a knob rather than for its name: they may reach some uses alone."""
        return any(not key.removesuffix(BEYOND).isidentifier() for key in self.values)

    def find(self, use: str, name: str, place: str = "") -> ParamValue | None:
        """The value for a knob, by the key that holds for it."""
        key = self._key(use, name, place)
        return self.values.get(key, self.recorded.get(key)) if key is not None else None

    def is_beyond(self, use: str, name: str, place: str = "") -> bool:
        """Whether the value for a knob need not be in its domain."""
        key = self._key(use, name, place)
        return key is not None and key.endswith(BEYOND)

    def _key(self, use: str, name: str, place: str) -> str | None:
        path = f"{use}.{name}"
        self._names.update((name, path))
        keys = [key for key in self.values if reaches(key, path)]
        self._matched.update(keys)
        own = f"{place}.{name}"
        keys = keys or [key for key in (own, f"{own}{BEYOND}") if key in self.recorded]
        self.hits += bool(keys)
        return best_key(keys, path)

    def settle(self, found: OverriddenLaterError) -> Overrides:
        """For the next run: the first use of the knob has the value too."""
        beyond = self.settled_beyond.union([found.structure] if found.beyond else [])
        return Overrides(self.values, {**self.settled, found.structure: found.value}, beyond, self.recorded)

    def check_all_matched(self) -> None:
        """An override that matched nothing is an error."""
        for key, value in self.values.items():
            if key not in self._matched:
                raise ScheduleError(matches_nothing(key, value, sorted(self._names)))


def matches_nothing(key: str, value: ParamValue, names: list[str]) -> Diagnostic:
    """What is wrong with an override of no knob; `names` are knobs by name, and by path where uses are known."""
    found, notes = listed_knobs(key, [n for n in names if "." in n] or names)
    return Diagnostic(
        f"the parameter `{key}` (= {describe(value)}) matches no knob of the schedule",
        required="the name of a knob, or a path such as `*/fc1/*.mc`",
        found=found,
        notes=notes,
        fix=_fix(key, names),
    )


def listed_knobs(key: str, paths: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """What there is in place of a knob that is not there: all of them, or, where these are many, the names that they
    end with, and those nearest to the key as notes."""
    short = KnobNames.of(paths)
    every = ", ".join(map(short, paths))
    if len(every) <= _LONGEST_LIST:
        return every or "no knobs", ()
    names = sorted({last_name(path) for path in paths})
    shown, others = names[:_MOST_NAMES], len(names) - _MOST_NAMES
    more = f" and {counted(others, 'other name')}" if others > 0 else ""
    close = nearest(last_name(key.removesuffix(BEYOND)), names, _MOST_PATHS)
    alike = [path for name in close for path in paths if path != name and last_name(path) == name]
    return (
        f"{counted(len(paths), 'knob')}, called {', '.join(shown)}{more}",
        tuple(f"there is `{short(path)}`" for path in alike[:_MOST_PATHS]),
    )


def overrides_of(
    params: Mapping[str, ParamValue] | None, recorded: Mapping[str, ParamValue] | None = None
) -> Overrides:
    """What `params=` says. Raises ScheduleError for a name or a value that no knob can have."""
    if params is None:
        return Overrides({}, recorded=recorded or {})
    match params:
        case Mapping():
            return Overrides({key: _settable(key, value) for key, value in params.items()}, recorded=recorded or {})
        case _:
            raise ArgumentError(
                Diagnostic(
                    "`params` is no mapping",
                    required='names of knobs with their values, such as `{"mc": 96}`',
                    found=python_type_of(params),
                )
            )


def _settable(key: object, value: object) -> ParamValue:
    held: object = cast("object", value.item()) if isinstance(value, np.generic) else value
    if isinstance(key, str) and isinstance(held, int | float | str):
        return held
    raise ScheduleError(
        Diagnostic(
            f"`params` cannot set {key} to {value}",
            required="a name or path as a string, and an int, float, bool or string for it",
            found=f"`{value}`, which no knob can be" if isinstance(key, str) else f"`{key}`, which is no name",
        )
    )


def _fix(key: str, names: list[str]) -> str | None:
    """A glob of a name alone was meant as the end of a path."""
    is_glob = any(character in key for character in "*?[")
    if is_glob and "." not in key and any(fnmatchcase(name, key) for name in names if "." not in name):
        return f"a glob is one of whole paths: write `*.{key}`"
    paths, last = [name for name in names if "." in name], last_name(key.removesuffix(BEYOND))
    short = map(KnobNames.of(paths), paths)
    return did_you_mean(key, [*short, *paths] if "." in key else names) or did_you_mean(
        last, {last_name(name) for name in names}
    )
