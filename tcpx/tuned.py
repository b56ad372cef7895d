"""Tuned values: records in a YAML file, each for one payload, schedule, target, compiler and number of threads.

`tcpx.compile(.., tuned="digits.tuned.yaml")` takes the record that fits. Where none does, it takes those of the
functions that the payload calls, which may be from another payload; where there are none of these either, it is refused
with what differs.
"""

import hashlib
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import Any, Final, cast

import yaml

from tcpx.emit_c.compiler import find_compiler
from tcpx.emit_c.driver import compiler_flags
from tcpx.interp import Called, ParamValue, Run, reaches, run_schedule
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, TcpxError
from tcpx.payload.ir import Module
from tcpx.payload.structural_difference import structural_differences
from tcpx.payload.structure import fingerprint
from tcpx.payload.text.file import UnreadableError, read_text
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_func
from tcpx.records import brief, frozen
from tcpx.target import Target
from tcpx.transform.language.loader import Program

VERSION: Final = 1
SHOWN: Final = 8
_CPUINFO: Final = Path("/proc/cpuinfo")


@frozen
class Setting:
    """What a record is for: all of it has to be the same. Payload and schedule are hashes of their structure; of a
    function, the payload is its key."""

    payload: str
    schedule: str
    target: str
    compiler: str
    flags: str
    threads: int
    cpu: str


@frozen
class TunedRecord:
    """`params` for `tcpx.compile`. `structure` is the text of the payload; `provenance` says where they come from.

    A record of a called function has the name that it had as `function`, and in its params, in place of the names of
    operations, their numbers in the function. What is put together of such records has `parts`: by the names of
    functions here, the record that was used.
    """

    setting: Setting
    params: Mapping[str, ParamValue]
    structure: str
    provenance: Mapping[str, str] = field(default_factory=dict[str, str])
    function: str = ""
    parts: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        return brief("TunedRecord", f"of {self.setting.target}, {len(self.params)} value(s)")

    def __str__(self) -> str:
        setting = self.setting
        what = f"function @{self.function}" if self.function else "payload"
        where = f"schedule {setting.schedule}, {setting.target}, {setting.threads} thread(s)"
        used = [f"@{name} has the record of {of}" for name, of in self.parts.items()]
        return "; ".join([f"{what} {setting.payload}, {where}", *used])

    def under(self, params: Mapping[str, ParamValue] | None) -> dict[str, ParamValue]:
        """Its params, but for those that others set: these go before."""
        given = params or {}
        left = {key: value for key, value in self.params.items() if not any(reaches(other, key) for other in given)}
        return {**left, **given}


def setting_of(module: Module, program: Program, target: Target, threads: int) -> Setting:
    """The setting of a compilation on this machine. Raises CompileError without a compiler."""
    version = find_compiler().version.splitlines()
    return Setting(
        fingerprint(module.main),
        schedule_hash(program),
        target.name,
        version[0] if version else "unknown",
        " ".join(compiler_flags(target, threads)),
        threads,
        cpu_name(),
    )


def record_of(
    module: Module, setting: Setting, params: Mapping[str, ParamValue], provenance: Mapping[str, str]
) -> TunedRecord:
    """A record for a payload."""
    *called, main = module.reached(module.main)
    structure = "\n".join(map(print_func, (main, *called)))
    return TunedRecord(setting, dict(params), structure, dict(provenance))


def records_of_functions(
    copy: Module,
    program: Program,
    target: Target,
    setting: Setting,
    params: Mapping[str, ParamValue],
    provenance: Mapping[str, str],
) -> tuple[TunedRecord, ...]:
    """Records for the functions that a payload calls once it is scheduled, of what `params` set in them. `copy` is a
    copy of the payload, which is changed."""
    run = run_schedule(copy, program, target, threads=setting.threads, params=params, recorded={})
    return tuple(
        TunedRecord(replace(setting, payload=key), values, called.text, dict(provenance), called.name)
        for key, (called, values) in _set_in_functions(run).items()
    )


def _set_in_functions(run: Run) -> dict[str, tuple[Called, dict[str, ParamValue]]]:
    """What was set in functions, by their keys."""
    found: dict[str, tuple[Called, dict[str, ParamValue]]] = {}
    for use in run.knobs:
        if use.overridden and use.place and run.functions is not None:
            key, _, place = use.place.partition(":")
            name, value = use.param(place)
            found.setdefault(key, (run.functions.at(key), {}))[1].setdefault(name, value)
    return found


def schedule_hash(program: Program) -> str:
    """The text of a schedule and of all that it imports, as 16 digits; comments and layout do not count."""
    text = "\n".join(repr(unit.file.items) for unit in program.units)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def cpu_name() -> str:
    """The model of the processor."""
    text = _CPUINFO.read_text(encoding="utf-8", errors="replace") if _CPUINFO.is_file() else ""
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(names, platform.machine())


def read_records(path: str | Path) -> tuple[TunedRecord, ...]:
    """All records of a file. Raises ArgumentError."""
    try:
        held: Any = yaml.safe_load(read_text(Path(path)))
    except UnreadableError as error:
        raise _unreadable(path, error.found) from error
    except RecursionError as error:
        raise _unreadable(path, "lists and mappings too deep in one another") from error
    except (ValueError, yaml.YAMLError) as error:  # ValueError: a date that there is not
        raise _unreadable(path, str(error)) from error
    if not isinstance(held, dict) or not isinstance(cast("dict[str, Any]", held).get("records"), list):
        raise _unreadable(path, "no list `records`")
    content = cast("dict[str, Any]", held)
    if content.get("version") != VERSION:
        raise _unreadable(path, f"version {content.get('version')}", f"version {VERSION}")
    return tuple(_record(path, entry) for entry in cast("list[Any]", content["records"]))


def write_record(path: str | Path, record: TunedRecord) -> None:
    """Add a record to a file; it takes the place of one for the same setting. The file is replaced as a whole."""
    file = Path(path)
    known = read_records(file) if file.exists() else ()
    kept = [*(held for held in known if held.setting != record.setting), record]
    text = yaml.safe_dump(
        {"version": VERSION, "records": [_as_yaml(held) for held in kept]}, sort_keys=False, width=110
    )
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, prefix=file.name, delete=False) as made:
        made.write(text)
    os.replace(made.name, file)


def matching_record(
    path: str | Path, module: Module, copy: Module, program: Program, target: Target, threads: int
) -> TunedRecord:
    """The record of a file for a compilation on this machine, or what those of its functions come to; `copy` is a copy
    of the payload, which is changed. Raises ArgumentError where none fits: what differs in the nearest one."""
    wanted = setting_of(module, program, target, threads)
    known = read_records(path)
    found = next((record for record in known if record.setting == wanted), None)
    found = found or _composed(known, wanted, copy, program, target)
    if found is not None:
        return found
    nearest = max(known, key=lambda record: _likeness(record.setting, wanted), default=None)
    raise ArgumentError(
        Diagnostic(
            f"{path} has no record for this compilation",
            required=", ".join(f"{name} {value}" for name, value in asdict(wanted).items() if name != "flags"),
            found=f"{len(known)} record(s)" if nearest is None else f"nearest: {nearest}",
            notes=tuple(_differences(nearest, wanted, module)) if nearest is not None else (),
            fix="tune again: tcpx tune .. --record",
        )
    )


def _composed(
    known: Sequence[TunedRecord], wanted: Setting, copy: Module, program: Program, target: Target
) -> TunedRecord | None:
    """What is recorded of the functions that are called once the schedule has run; None where nothing is."""
    fitting = {
        r.setting.payload: r
        for r in known
        if r.function and replace(r.setting, payload="") == replace(wanted, payload="")
    }
    recorded = {f"{key}:{path}": value for key, record in fitting.items() for path, value in record.params.items()}
    if not recorded:
        return None
    run = run_schedule(copy, program, target, threads=wanted.threads, recorded=recorded)
    uses = [use for use in run.knobs if use.overridden and use.place]
    parts = {use.path.partition(":")[0].removeprefix("@"): use.place.partition(":")[0] for use in uses}
    told = {name: f"@{fitting[key].function} ({key})" for name, key in parts.items()}
    told_of = {"functions": ", ".join(f"@{name} has the record of {of}" for name, of in told.items())}
    return TunedRecord(wanted, dict(use.param(use.path) for use in uses), "", told_of, parts=told) if uses else None


def _likeness(setting: Setting, wanted: Setting) -> tuple[bool, int]:
    """The same payload counts most."""
    same = sum(getattr(setting, made.name) == getattr(wanted, made.name) for made in fields(Setting))
    return setting.payload == wanted.payload, same


def _differences(record: TunedRecord, wanted: Setting, module: Module) -> Sequence[str]:
    """What is not the same, in words; of the payload, what differs in structure."""
    found: list[str] = []
    for made in fields(Setting):
        was, now = getattr(record.setting, made.name), getattr(wanted, made.name)
        if was == now:
            continue
        if made.name == "payload" and record.function:
            continue
        if made.name == "payload":
            found += _structural(record, module)
        elif made.name == "schedule":
            found.append(f"the schedule, or what it imports, has changed since ({was}, now {now})")
        else:
            found.append(f"{made.name}: the record is for {was}, this is {now}")
    if record.function and not found:
        found.append(f"no function that is called has the structure and the constant arguments of @{record.function}")
    return found


def _structural(record: TunedRecord, module: Module) -> Sequence[str]:
    try:
        expected = parse(record.structure, "the record", Path(), Constants()).main
    except TcpxError as error:
        return [f"the payload of the record cannot be read: {error.diagnostic.message}"]
    found = [str(difference) for difference in structural_differences(expected, module.main)]
    return [*found[:SHOWN], *([f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else [])]


def _as_yaml(record: TunedRecord) -> dict[str, object]:
    return {
        **asdict(record.setting),
        **({"function": record.function} if record.function else {}),
        "params": dict(record.params),
        "provenance": dict(record.provenance),
        "structure": record.structure,
    }


def _record(path: str | Path, entry: object) -> TunedRecord:
    if not isinstance(entry, dict):
        raise _unreadable(path, "a record that is no mapping")
    held = cast("dict[str, Any]", entry)
    names = [made.name for made in fields(Setting)]
    missing = [name for name in (*names, "params", "structure") if name not in held]
    if missing:
        raise _unreadable(path, f"a record without {', '.join(missing)}")
    params: Any = held["params"]
    provenance: Any = held.get("provenance") or {}
    for name, value in (("params", params), ("provenance", provenance)):
        if not _is_flat(value):
            raise _unreadable(path, f"a record whose `{name}` are no mapping of names to numbers and texts")
    held.setdefault("function", "")
    for name in (*names, "structure", "function"):
        if not isinstance(held[name], int if name == "threads" else str):
            raise _unreadable(path, f"a record whose `{name}` is no {'number' if name == 'threads' else 'text'}")
    setting = Setting(**{name: held[name] for name in names})
    return TunedRecord(setting, params, held["structure"], provenance, held["function"])


def _is_flat(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    entries = cast("dict[object, object]", value).items()
    return all(isinstance(name, str) and isinstance(entry, bool | int | float | str) for name, entry in entries)


def _unreadable(path: str | Path, found: str, required: str = "a file that tcpx tune --record wrote") -> ArgumentError:
    return ArgumentError(Diagnostic(f"cannot read the tuned records {path}", required=required, found=found))
