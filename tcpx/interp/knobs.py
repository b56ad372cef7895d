"""The knobs of one run: what is asked for, and the uses that were bound."""

from __future__ import annotations

from collections.abc import Iterator

from tcpx.assignment import BEYOND, SHARED, Assignment, ParamValue
from tcpx.interp.values import RuntimeValue, describe
from tcpx.payload.diagnostics import Location
from tcpx.payload.types import ScalarType
from tcpx.payload.uses import Ticketed
from tcpx.records import frozen


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

    @property
    def function(self) -> str:
        """The key of the function that it is in; empty for the payload itself."""
        return self.place.partition(":")[0]

    @property
    def is_recorded(self) -> bool:
        """Whether records of functions have it: it is in one, and was given a value."""
        return self.overridden and bool(self.place)

    def param(self, path: str) -> tuple[str, ParamValue]:
        """The key and the value that set a knob at a path to what this one is. Raises TypeError for a size."""
        value = str(self.value) if isinstance(self.value, ScalarType) else self.value
        if not isinstance(value, int | float | str):
            raise TypeError(f"required a value that params may have, found {describe(value)}")
        return f"{path}{BEYOND if self.beyond else ''}", value


class OverriddenLaterError(Exception):
    """A value reaches a later use of a shared knob alone: it is that of the first use too, which has run."""

    def __init__(self, structure: str, key: str) -> None:
        super().__init__(structure)
        self.structure = structure
        self.key = key

    def settled(self, assignment: Assignment) -> Assignment:
        """For the next run: all that share the knob have the value."""
        sign = BEYOND if self.key.endswith(BEYOND) else ""
        return assignment | {f"{SHARED}{self.structure}{sign}": assignment[self.key]}


class KnobUses:
    """The knobs that were bound, in the order of their last use, and what the assignment says of them; `mark` and
    `rollback` undo uses."""

    def __init__(self, assignment: Assignment | None = None) -> None:
        self.assignment = assignment if assignment is not None else Assignment()
        self.hits = 0
        """How often a knob was found to be set, by more than another knob of its structure."""
        self.read: set[str] = set()
        self.names: set[str] = set()
        self._uses: dict[str, KnobUse] = {}
        self._paths: Ticketed[str] = Ticketed()
        self._first: dict[str, Ticketed[str]] = {}
        """By structure: the paths of uses that share no value of another."""
        self._undo: list[tuple[str, KnobUse | None, tuple[int, ...]]] = []

    def __iter__(self) -> Iterator[KnobUse]:
        return iter([self._uses[path] for path in self._paths])

    def key(self, use: str, name: str, place: str = "", structure: str = "") -> str | None:
        """The key whose value the knob of a use of a sequence has; `place` is the use as records know it."""
        path = f"{use}.{name}"
        self.names.update((name, path))
        self.read.update(self.assignment.reaching(path))
        found = self.assignment.key(path, f"{place}.{name}", structure)
        self.hits += found is not None and not found.startswith(SHARED)
        return found

    def value(self, use: str, name: str) -> ParamValue | None:
        """The value that a knob, or a parameter of the schedule, is given by its path."""
        key = self.key(use, name)
        return self.assignment[key] if key is not None else None

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
