"""tcpx check: find what is wrong with a payload, a schedule or both, without compiling."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import tcpx
from tcpx.cli.options import Subcommand, UsageError, add_schedule, params_of

SCHEDULE_SUFFIX = ".tcps"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="payload file (.tcp), over which the schedule also runs; or a schedule (.tcps), which is checked alone",
    )
    add_schedule(parser, default="none, only FILE is checked")


def _execute(options: argparse.Namespace) -> int:
    path, schedule_path = _files(options.file, options.schedule)
    module = None if path is None else tcpx.load(path)
    if schedule_path is None:
        print(f"{path}: the payload is well formed")
        return 0
    schedule = tcpx.load_schedule(schedule_path)
    params, target, threads = params_of(options), options.target, options.threads
    found = tcpx.check(schedule, module, params=params, target=target, threads=threads)
    for diagnostic in found:
        print(diagnostic.render(), file=sys.stderr)
    problems = sum(diagnostic.is_error for diagnostic in found)
    if problems:
        print(f"{schedule_path}: {problems} problem(s)", file=sys.stderr)
        return 1
    if module is None:
        print(f"{schedule_path}: nothing is wrong that can be seen without a payload")
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tcpx.ScheduleWarning)  # they are printed already
        run = tcpx.apply_schedule(module, schedule, params=params, target=target, threads=threads)
    print(f"{schedule_path}: {len(run.trace.entries)} step(s) apply to @{module.main.name} of {path}")
    for remark in run.remarks:
        print(remark.render(), file=sys.stderr)
    for line in run.coverage.text().splitlines():
        print(f"  remark: {line}")
    return 0


def _files(file: str | None, schedule: str | None) -> tuple[str | None, str | None]:
    """The payload and the schedule: a FILE that is called a schedule is one."""
    if file is not None and Path(file).suffix == SCHEDULE_SUFFIX:
        if schedule is not None:
            raise UsageError(f"required a payload FILE and one schedule, found two schedules: {file} and -s {schedule}")
        return None, file
    if file is None and schedule is None:
        raise UsageError("required a payload FILE, a schedule (-s), or both")
    return file, schedule


CHECK = Subcommand(
    name="check",
    summary="check a schedule, with or without a payload",
    description="Check names, types and arguments of a schedule. Given a payload too, run the schedule over it, which\n"
    "finds out about matches, dims and sizes, and say what it left alone. Nothing is compiled.",
    example="tcpx check examples/digits/digits.tcp -s schedules/digits.tcps",
    add_arguments=_add_arguments,
    execute=_execute,
)
