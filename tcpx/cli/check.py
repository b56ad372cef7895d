"""tcpx check: find what is wrong with a payload and a schedule, without compiling."""

from __future__ import annotations

import argparse
import sys

import tcpx
from tcpx.cli.options import Subcommand, UsageError, add_schedule, params_of, schedule_of


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="payload file (.tcp); if given, the schedule also runs over it"
    )
    add_schedule(parser, default="none, only the payload is read")


def _execute(options: argparse.Namespace) -> int:
    path: str | None = options.file
    if path is None and options.schedule is None:
        raise UsageError("required a payload FILE, a schedule (-s), or both")
    module = None if path is None else tcpx.load(path)
    schedule = schedule_of(options)
    if schedule is None:
        print(f"{path}: the payload is well formed")
        return 0
    found = tcpx.check(schedule)
    for diagnostic in found:
        print(diagnostic.render(), file=sys.stderr)
    if found:
        print(f"{options.schedule}: {len(found)} problem(s)", file=sys.stderr)
        return 1
    if module is None:
        print(f"{options.schedule}: nothing is wrong that can be seen without a payload")
        return 0
    run = tcpx.apply_schedule(
        module, schedule, params=params_of(options), target=options.target, threads=options.threads
    )
    print(f"{options.schedule}: {len(run.trace.entries)} step(s) apply to @{module.main.name} of {path}")
    for line in run.coverage.text().splitlines():
        print(f"  remark: {line}")
    return 0


CHECK = Subcommand(
    name="check",
    summary="check a schedule, with or without a payload",
    description="Check names, types and arguments of a schedule. Given a payload too, run the schedule over it, which\n"
    "finds out about matches, dims and sizes, and say what it left alone. Nothing is compiled.",
    example="tcpx check examples/digits/digits.tcp -s schedules/digits.tcps",
    add_arguments=_add_arguments,
    execute=_execute,
)
