"""Tuned values: records in a YAML file, each for one payload, schedule, target, compiler and number of threads.

`tcpx.compile(.., tuned="digits.tuned.yaml")` takes the record that fits. Where none does, it takes those of the
functions that the payload calls, which may be from another payload; where there are none of these either, it is refused
with what differs.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import Any, Final, cast

import yaml

from tcpx.assignment import Assignment, ParamValue
from tcpx.emit_c.compiler import find_compiler
from tcpx.emit_c.driver import compiler_flags
from tcpx.interp import Called, Run, run_schedule
from tcpx.module_copies import copy_module
from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.payload.given import path_of
from tcpx.payload.ir import Module
from tcpx.payload.structure import fingerprint
from tcpx.payload.text.file import UnreadableError, read_text
from tcpx.payload.text.printer import print_func
from tcpx.processor import parse_processor
from tcpx.reached import reached_hash
from tcpx.records import brief, frozen
from tcpx.store.files import write_whole
from tcpx.target import Target
from tcpx.transform.language.loader import Program
from tcpx.written_paths import file_to_write, path_to_write

VERSION: Final = 1
_CPUINFO: Final = Path("/proc/cpuinfo")


@frozen
class Setting:
    """What a record is for: all of it has to be the same. Payload and schedule are hashes of their structure; of a
    function, the payload is its key. The schedule of a record is what a run with its values reached, that of a
    compilation all of it."""

    payload: str
    schedule: str
    target: str
    compiler: str
    flags: str
    threads: int
    cpu: str

    def __repr__(self) -> str:
        return brief("Setting", f"of {self.target}, {self.threads} thread(s), payload {self.payload}")

    def beside(self, other: Setting) -> bool:
        """Whether all but the schedule is the same."""
        return replace(self, schedule="") == replace(other, schedule="")


@frozen
class TunedRecord:
    """`params` for `tcpx.compile`. `structure` is the text of the payload; `provenance` says where they come from, and
    `text` is a hash of all of the schedule then: where it is the same, nobody has to ask what is reached.

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
    text: str = ""

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
        return dict(Assignment(self.params).under(params))


def values_of(records: Iterable[TunedRecord]) -> Assignment:
    """The params of records as values for a run: those of a function by its structure."""
    named = [(f"{held.setting.payload}:" if held.function else "", held.params) for held in records]
    return Assignment({f"{of}{path}": value for of, params in named for path, value in params.items()})


def setting_of(module: Module, program: Program, target: Target, threads: int) -> Setting:
    """The setting of a compilation on this machine. Raises CompileError without a compiler."""
    version = find_compiler().version.splitlines()
    return Setting(
        fingerprint(module.main),
        schedule_hash(program),
        target.title,
        version[0] if version else "unknown",
        " ".join(compiler_flags(target, threads)),
        threads,
        cpu_name(),
    )


def records_of(
    module: Module,
    program: Program,
    target: Target,
    threads: int,
    params: Mapping[str, ParamValue],
    provenance: Mapping[str, str],
    cpu: str = "",
) -> tuple[TunedRecord, ...]:
    """A record for a payload on this machine, or on another `cpu`, and then one for each function that it calls once it
    is scheduled and that `params` set something in. Raises ScheduleError, and CompileError without a compiler."""
    *called, main = module.reached(module.main)
    structure = "\n".join(map(print_func, (main, *called)))
    setting = setting_of(module, program, target, threads)
    setting = replace(setting, cpu=cpu or setting.cpu)
    with scheduled(copy_module(module), program, target, threads, params) as run:
        own = replace(setting, schedule=reached_hash(program, run.trace.used))
        made = TunedRecord(own, dict(params), structure, dict(provenance), text=setting.schedule)
        functions = [
            TunedRecord(
                replace(setting, payload=key, schedule=reached_in(program, run, key)),
                values,
                function.text,
                dict(provenance),
                function.name,
                text=setting.schedule,
            )
            for key, (function, values) in _set_in_functions(run).items()
        ]
    return (made, *functions)


@contextmanager
def scheduled(
    copy: Module,
    program: Program,
    target: Target,
    threads: int,
    params: Mapping[str, ParamValue],
) -> Generator[Run]:
    """A run of a schedule over a copy of a payload, which is as it was afterwards. Raises ScheduleError."""
    run = run_schedule(copy, program, target, threads=threads, params=params, by_function=True, is_lowered=True)
    try:
        yield run
    finally:
        run.rewriter.rollback(0)


def reached_in(program: Program, run: Run, key: str) -> str:
    """What a run depended on in the function of this key."""
    return reached_hash(program, run.trace.used, run.trace.used_in.get(key, []))


def _set_in_functions(run: Run) -> dict[str, tuple[Called, dict[str, ParamValue]]]:
    """What was set in functions, by their keys."""
    found: dict[str, tuple[Called, dict[str, ParamValue]]] = {}
    for use in run.knobs:
        if use.is_recorded and run.functions is not None:
            name, value = use.param(use.place.partition(":")[2])
            found.setdefault(use.function, (run.functions.at(use.function), {}))[1].setdefault(name, value)
    return found


def schedule_hash(program: Program) -> str:
    """The text of a schedule and of all that it imports, as 16 digits; comments and layout do not count."""
    text = "\n".join(repr(unit.file.items) for unit in program.units)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def cpu_name() -> str:
    """The model of the processor."""
    text = _CPUINFO.read_text(encoding="utf-8", errors="replace") if _CPUINFO.is_file() else ""
    return parse_processor(text).name or platform.machine()


def read_records(path: str | Path) -> tuple[TunedRecord, ...]:
    """All records of a file. Raises ArgumentError."""
    file = path_of(path, "a file of tuned records")
    try:
        held: Any = yaml.safe_load(read_text(file))
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
    """Add a record to a file; it takes the place of one for the same setting and schedule. The file is replaced as a
    whole. Raises ArgumentError."""
    file = path_to_write(path)
    known = read_records(file) if file.exists() else ()
    write_records(file, [*(held for held in known if not _is_replaced(held, record)), record])


def write_records(path: str | Path, records: Sequence[TunedRecord]) -> None:
    """Write a file with these records. It is replaced as a whole. Raises ArgumentError."""
    file = file_to_write(path)
    text = yaml.safe_dump(
        {"version": VERSION, "records": [_as_yaml(held) for held in records]}, sort_keys=False, width=110
    )
    write_whole(file, text.encode())


def _is_replaced(held: TunedRecord, record: TunedRecord) -> bool:
    """Whether a record has no use beside a newer one: it is for the same, or of the same schedule, of which its values
    reached something else."""
    is_same = held.setting == record.setting
    return is_same or (held.text == record.text != "" and held.setting.beside(record.setting))


def _as_yaml(record: TunedRecord) -> dict[str, object]:
    return {
        **asdict(record.setting),
        **({"function": record.function} if record.function else {}),
        "params": dict(record.params),
        "provenance": dict(record.provenance),
        **({"text": record.text} if record.text else {}),
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
    held.setdefault("text", "")
    for name in (*names, "structure", "function", "text"):
        if not isinstance(held[name], int if name == "threads" else str):
            raise _unreadable(path, f"a record whose `{name}` is no {'number' if name == 'threads' else 'text'}")
    setting = Setting(**{name: held[name] for name in names})
    return TunedRecord(setting, params, held["structure"], provenance, held["function"], text=held["text"])


def _is_flat(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    entries = cast("dict[object, object]", value).items()
    return all(isinstance(name, str) and isinstance(entry, bool | int | float | str) for name, entry in entries)


def _unreadable(path: str | Path, found: str, required: str = "a file that tcpx tune --record wrote") -> ArgumentError:
    return ArgumentError(Diagnostic(f"cannot read the tuned records {path}", required=required, found=found))
