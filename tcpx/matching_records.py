"""Which tuned records fit a compilation, and what differs where none does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Final

from tcpx.interp import Run
from tcpx.module_copies import copy_module
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, TcpxError
from tcpx.payload.ir import Module
from tcpx.payload.structural_difference import structural_differences
from tcpx.payload.text.parser import parse
from tcpx.reached import reached_hash
from tcpx.records import frozen
from tcpx.target import Target
from tcpx.transform.language.loader import Program
from tcpx.tuned import Setting, TunedRecord, reached_in, read_records, scheduled, setting_of, values_of

SHOWN: Final = 8


@frozen
class Compilation:
    """What records are looked for: a payload on this machine. `wanted` is its setting, and `copy` a copy of it, which
    schedules run over."""

    module: Module
    copy: Module
    program: Program
    target: Target
    wanted: Setting

    @staticmethod
    def of(module: Module, program: Program, target: Target, threads: int) -> Compilation:
        """On `threads` threads. Raises CompileError without a compiler."""
        return Compilation(module, copy_module(module), program, target, setting_of(module, program, target, threads))

    def record(self, known: Sequence[TunedRecord]) -> TunedRecord | None:
        """The newest record of the payload whose values reach today what they reached then."""
        fitting = (held for held in reversed(known) if not held.function and held.setting.beside(self.wanted))
        return next((held for held in fitting if self._reaches(held) == held.setting.schedule), None)

    def functions(self, known: Sequence[TunedRecord]) -> Mapping[str, TunedRecord]:
        """The newest records of functions that it calls once its schedule has run, where their values reach in the
        function what they reached then; by the keys of functions."""
        here = [held for held in known if held.setting.beside(replace(self.wanted, payload=held.setting.payload))]
        fitting = {held.setting.payload: held for held in here if held.function}
        while fitting:
            with self._scheduled(fitting.values()) as run:
                called = {use.function for use in run.knobs if use.is_recorded}
                fitting = {key: held for key, held in fitting.items() if key in called}
                stale = [
                    key
                    for key, held in fitting.items()
                    if held.text != self.wanted.schedule and held.setting.schedule != reached_in(self.program, run, key)
                ]
            if not stale:
                break
            fitting = {key: held for key, held in fitting.items() if key not in stale}
        return fitting

    def composed(self, known: Sequence[TunedRecord]) -> TunedRecord | None:
        """What is recorded of the functions that are called once the schedule has run; None where nothing is."""
        fitting = self.functions(known)
        if not fitting:
            return None
        with self._scheduled(fitting.values()) as run:
            uses = [use for use in run.knobs if use.is_recorded]
            parts = {use.path.partition(":")[0].removeprefix("@"): use.function for use in uses}
            params = dict(use.param(use.path) for use in uses)
        told = {name: f"@{fitting[key].function} ({key})" for name, key in parts.items()}
        told_of = {"functions": ", ".join(f"@{name} has the record of {of}" for name, of in told.items())}
        return TunedRecord(self.wanted, params, "", told_of, parts=told) if uses else None

    def no_record(self, path: str | Path, known: Sequence[TunedRecord]) -> ArgumentError:
        """What differs in the nearest of some records."""
        nearest = max(known, key=lambda held: _likeness(held.setting, self.wanted), default=None)
        return ArgumentError(
            Diagnostic(
                f"{path} has no record for this compilation",
                required=", ".join(f"{name} {value}" for name, value in asdict(self.wanted).items() if name != "flags"),
                found=f"{len(known)} record(s)" if nearest is None else f"nearest: {nearest}",
                notes=tuple(self._differences(nearest)) if nearest is not None else (),
                fix="tune again: tcpx tune .. --record",
            )
        )

    def _scheduled(self, records: Iterable[TunedRecord]) -> AbstractContextManager[Run]:
        return scheduled(self.copy, self.program, self.target, self.wanted.threads, values_of(records))

    def _reaches(self, record: TunedRecord) -> str:
        """What the schedule reaches today with the values of a record, as its setting says it; empty where they cannot
        be set any more."""
        if record.text == self.wanted.schedule:
            return record.setting.schedule
        try:
            with self._scheduled([record]) as run:
                return reached_hash(self.program, run.trace.used)
        except TcpxError:
            return ""

    def _differences(self, record: TunedRecord) -> Sequence[str]:
        """What is not the same, in words; of the payload, what differs in structure."""
        found: list[str] = []
        for made in fields(Setting):
            was, now = getattr(record.setting, made.name), getattr(self.wanted, made.name)
            if made.name == "schedule" and record.text != now:
                found.append(self._of_schedule(record))
            elif made.name == "payload" and was != now and not record.function:
                found += self._structural(record)
            elif made.name not in ("payload", "schedule") and was != now:
                found.append(f"{made.name}: the record is for {was}, this is {now}")
        found = [held for held in found if held]
        if record.function and not found:
            found.append(
                f"no function that is called has the structure and the constant arguments of @{record.function}"
            )
        return found

    def _of_schedule(self, record: TunedRecord) -> str:
        was = record.setting.schedule
        if record.function:
            with self._scheduled([record]) as run:
                is_called = record.setting.payload in run.trace.used_in
            return f"what @{record.function} reached of the schedule and its imports has changed since" * is_called
        if record.setting.payload != self.wanted.payload:
            return "the schedule, or what it imports, has changed since"
        now = self._reaches(record)
        changed = "what its values reach of the schedule and its imports has changed since"
        return "" if was == now else f"{changed} ({was}, now {now or 'they cannot be set'})"

    def _structural(self, record: TunedRecord) -> Sequence[str]:
        try:
            expected = parse(record.structure, "the record", Path(), Constants()).main
        except TcpxError as error:
            return [f"the payload of the record cannot be read: {error.diagnostic.message}"]
        found = [str(difference) for difference in structural_differences(expected, self.module.main)]
        return [*found[:SHOWN], *([f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else [])]


def matching_record(path: str | Path, module: Module, program: Program, target: Target, threads: int) -> TunedRecord:
    """The record of a file for a compilation on this machine, or what those of its functions come to. Raises
    ArgumentError where none fits: what differs in the nearest one."""
    compilation, known = Compilation.of(module, program, target, threads), read_records(path)
    found = compilation.record(known) or compilation.composed(known)
    if found is None:
        raise compilation.no_record(path, known)
    return found


def _likeness(setting: Setting, wanted: Setting) -> tuple[bool, int]:
    """The same payload counts most."""
    same = sum(getattr(setting, made.name) == getattr(wanted, made.name) for made in fields(Setting))
    return setting.payload == wanted.payload, same
