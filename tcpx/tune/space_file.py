"""A YAML file that narrows a search space and says how to search it.

knobs:
  "*/fc1/*.kc": [128, 256]      # these values only
  "*.mr": {from: 4, to: 8}      # the values of the domain in this range
  nv: 4                         # this value: pinned
  nc: {widen: [16384]}          # these values too, beyond the domain
sampler: tpe
trials: 200
budget: 10m
sizes:                          # the workloads: values of the payload's symbols, with weights
  - {B: 64, weight: 2}
  - {B: 1}
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Final, TypeGuard, cast

import yaml

import tcpx
from tcpx.inputs import size_values
from tcpx.records import frozen
from tcpx.tune.places import compose, place_of, suggestion, value_of
from tcpx.tune.space import Space, Value

KEYS: Final = ("knobs", "sampler", "trials", "budget", "sizes")
UNITS: Final[Mapping[str, float]] = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@frozen
class Workload:
    """Values of the payload's symbols, and how much they count."""

    sizes: tuple[tuple[str, int], ...]
    weight: float = 1.0

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self.sizes) or "no sizes"


@frozen
class KnobEntry:
    """What the file says about the knobs that a name or glob matches. With `widens` the values are further ones."""

    glob: str
    values: tuple[Value, ...] | None
    least: float
    most: float
    node: yaml.Node
    widens: bool = False


@frozen
class SpaceFile:
    """The file; what it leaves out is None or empty."""

    path: str = ""
    knobs: tuple[KnobEntry, ...] = ()
    sampler: str | None = None
    trials: int | None = None
    budget: float | None = None
    workloads: tuple[Workload, ...] = ()
    text: tuple[str, ...] = field(default=(), repr=False)
    held: Mapping[str, Value] = field(default_factory=dict[str, Value])
    """Knobs by their paths that have one value and are not searched. Unlike a param it holds for no other use."""

    def narrowed(self, search: tcpx.SearchSpace) -> Space:
        """The space with what the file leaves of it. Raises ArgumentError for a knob that there is not, and for values
        that a knob does not have."""
        allowed: dict[str, tuple[Value, ...]] = {}
        added: dict[str, tuple[Value, ...]] = {}
        for entry in self.knobs:
            found = [v for v in search.variables if v.key_among([entry.glob]) is not None]
            if not found:
                problem = search.no_knob(entry.glob, "a knob of the schedule, by name, path or glob of paths")
                place = place_of(entry.node, self.path, self.text)
                raise tcpx.ArgumentError(replace(problem, schedule=place))
            for variable in found:
                self._require_type(entry, variable)
                if entry.widens and entry.values is not None:
                    added[variable.path] = (*added.get(variable.path, ()), *entry.values)
                else:
                    allowed[variable.path] = self._allowed(entry, variable)
        for path in self.held.keys() & {variable.path for variable in search.variables}:
            allowed[path] = added[path] = (self.held[path],)
        return Space(search, allowed, added)

    def _require_type(self, entry: KnobEntry, variable: tcpx.Variable) -> None:
        strangers = [value for value in entry.values or () if not _is_of(variable.type, value)]
        if strangers:
            found = ", ".join(map(_shown, strangers))
            message = f"`{variable.path}` is declared `{variable.type}`"
            raise self.refused(message, entry.node, f"values of the type {variable.type}", found)

    def _allowed(self, entry: KnobEntry, variable: tcpx.Variable) -> tuple[Value, ...]:
        domain = [item for item in variable.items({}) if not isinstance(item, tuple)]
        is_open = variable.domain is None or variable.is_conditional
        if entry.values is None:
            kept = tuple(i for i in domain if isinstance(i, int | float) and entry.least <= i <= entry.most)
            if kept or is_open:
                return kept or tuple(range(int(entry.least), int(entry.most) + 1))
            found = f"{entry.least:g} to {entry.most:g}"
            raise self._outside(variable, domain, entry, found)
        strangers = [value for value in entry.values if not is_open and value not in domain]
        if strangers:
            raise self._outside(variable, domain, entry, ", ".join(map(str, strangers)))
        return entry.values

    def _outside(self, variable: tcpx.Variable, domain: list[Value], entry: KnobEntry, found: str) -> Exception:
        required = f"values of its domain: {', '.join(map(str, domain))}"
        fix = f"`{{widen: [..]}}` adds values, or widen the domain where it is declared: {variable.location}"
        return self.refused(f"`{variable.path}` has no such value", entry.node, required, found, fix)

    def refused(
        self, message: str, node: yaml.Node, required: str, found: str, fix: str | None = None
    ) -> tcpx.ArgumentError:
        """The error about what stands at a place of the file."""
        place = place_of(node, self.path, self.text)
        return tcpx.ArgumentError(tcpx.Diagnostic(message, schedule=place, required=required, found=found, fix=fix))


def read_space_file(path: str | Path) -> SpaceFile:
    """Read the file. Raises ArgumentError, with the place of what it cannot use, and OSError."""
    found, cause = "a folder, a pipe or a device", None
    if "\0" in str(path):
        found = "a path with a NUL character"
    elif Path(path).is_file() or not Path(path).exists():
        try:
            return space_file_of(Path(path).read_text(encoding="utf-8"), str(path))
        except UnicodeDecodeError as error:
            found, cause = f"the byte 0x{error.object[error.start]:02x}, which is no character", error
    raise tcpx.ArgumentError(
        tcpx.Diagnostic(f"the space file {path} cannot be read", required="a YAML mapping in UTF-8", found=found)
    ) from cause


def space_file_of(text: str, path: str = "<space>") -> SpaceFile:
    """The file of a text. Raises ArgumentError."""
    return _Reader(text, path).file()


def seconds_of(text: str) -> float | None:
    """`90`, `90s`, `10m`, `1.5h` in seconds; None for anything else."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", text.strip())
    return float(found[1]) * UNITS[found[2]] if found is not None else None


class _Reader:
    def __init__(self, text: str, path: str) -> None:
        self._text, self._file = text, SpaceFile(path, text=tuple(text.splitlines()))

    def file(self) -> SpaceFile:
        try:
            return self._read(compose(self._text))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            found = str(getattr(error, "problem", None) or error)
            place = place_of(mark, self._file.path, self._file.text) if mark is not None else None
            diagnostic = tcpx.Diagnostic(
                "the space file cannot be read", schedule=place, required="a YAML mapping", found=found
            )
            raise tcpx.ArgumentError(diagnostic) from error

    def _read(self, root: yaml.Node | None) -> SpaceFile:
        if root is None:
            return self._file
        entries = dict(self._entries(root, "a mapping with `knobs`, `sampler`, .."))
        for key, node in entries.items():
            if key not in KEYS:
                raise self._file.refused(
                    f"the file has no part `{key}`", node, ", ".join(KEYS), key, suggestion(key, KEYS)
                )
        return replace(
            self._file,
            knobs=tuple(self._knobs(entries["knobs"])) if "knobs" in entries else (),
            sampler=self._word(entries["sampler"]) if "sampler" in entries else None,
            trials=self._trials(entries["trials"]) if "trials" in entries else None,
            budget=self._budget(entries["budget"]) if "budget" in entries else None,
            workloads=tuple(self._workloads(entries["sizes"])) if "sizes" in entries else (),
        )

    def _knobs(self, node: yaml.Node) -> Iterator[KnobEntry]:
        for glob, held in self._entries(node, "a mapping of knobs"):
            value = value_of(held)
            widens = isinstance(value, dict) and set(cast("dict[str, object]", value)) == {"widen"}
            if widens:
                value = cast("dict[str, object]", value)["widen"]
            if isinstance(value, dict):
                ends = cast("dict[str, object]", value)
                low, high = ends.get("from"), ends.get("to")
                if set(ends) != {"from", "to"} or not _is_number(low) or not _is_number(high):
                    raise self._file.refused(f"`{glob}` is no range", held, "{from: 4, to: 8}", _shown(ends))
                yield KnobEntry(glob, None, low, high, held)
                continue
            items: list[object] = cast("list[object]", value) if isinstance(value, list) else [value]
            values = [item for item in items if isinstance(item, int | float | str)]
            if not values or len(values) < len(items):
                required = "a value, a list of values, {from: 4, to: 8}, or {widen: [16]}"
                raise self._file.refused(f"`{glob}` has no values", held, required, _shown(items))
            yield KnobEntry(glob, tuple(values), 0, 0, held, widens)

    def _workloads(self, node: yaml.Node) -> Iterator[Workload]:
        if not isinstance(node, yaml.SequenceNode):
            raise self._file.refused("`sizes` is no list", node, "a list of mappings such as {B: 64}", _kind(node))
        for item in node.value:
            found = dict[str, int | str]()
            weight = 1.0
            for name, held in self._entries(item, "a mapping such as {B: 64, weight: 2}"):
                value = value_of(held)
                if name == "weight" and _is_number(value) and value > 0:
                    weight = float(value)
                elif name != "weight" and (isinstance(value, str) or (_is_whole(value) and value >= 0)):
                    found[name] = value
                else:
                    raise self._file.refused(f"`{name}` is no number that fits", held, "a number", _shown(value))
            yield Workload(tuple(size_values(found).items()), weight)

    def _trials(self, node: yaml.Node) -> int:
        value = value_of(node)
        if not _is_whole(value) or value < 1:
            raise self._file.refused("`trials` is no number of candidates", node, "a number above 0", _shown(value))
        return value

    def _budget(self, node: yaml.Node) -> float:
        value = value_of(node)
        found = seconds_of(str(value))
        if found is None:
            raise self._file.refused("`budget` is no time", node, "seconds, or 90s, 10m, 2h", _shown(value))
        return found

    def _word(self, node: yaml.Node) -> str:
        value = value_of(node)
        if not isinstance(value, str):
            raise self._file.refused("`sampler` is no name", node, "the name of a sampler", _shown(value))
        return value

    def _entries(self, node: yaml.Node, required: str) -> Iterator[tuple[str, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            raise self._file.refused("this is no mapping", node, required, _kind(node))
        seen = set[str]()
        for key, held in node.value:
            name = str(value_of(key))
            if name in seen:
                raise self._file.refused(f"`{name}` is there twice", key, "each name once", f"a second `{name}`")
            seen.add(name)
            yield name, held


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_of(type_: str, value: object) -> bool:
    """Whether a knob of a type can have the value."""
    match type_:
        case "bool":
            return isinstance(value, bool)
        case "float":
            return _is_number(value)
        case "string" | "dtype":
            return isinstance(value, str)
        case _:
            return _is_whole(value)


def _kind(node: yaml.Node) -> str:
    return (
        "a list"
        if isinstance(node, yaml.SequenceNode)
        else "a mapping"
        if isinstance(node, yaml.MappingNode)
        else "a value"
    )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if not isinstance(value, dict | list) else yaml.safe_dump(value, default_flow_style=True).strip()
