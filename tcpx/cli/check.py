"""tcpx check: find what is wrong with a payload, a schedule or both, without compiling."""

import argparse
import shlex
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import tcpx
from tcpx.api import lowered
from tcpx.cli.models import add_specialisation, specialised_of
from tcpx.cli.options import TABLE_SUFFIXES, Subcommand, UsageError, add_schedule, params_of

SCHEDULE_SUFFIX = ".tcps"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="payload file (.tcp), over which the schedule also runs; or a schedule (.tcps) or a table of a target "
        "(.yaml), which is checked alone",
    )
    add_schedule(parser, default="none, only FILE is checked")
    add_specialisation(parser)


def _check_table(path: str, target: tcpx.Target) -> int:
    """Run the rows of a table."""
    found = tcpx.verify_rows(target)
    for diagnostic in found:
        print(diagnostic.render(), file=sys.stderr)
    if found:
        print(f"{path}: {len(found)} problem(s)", file=sys.stderr)
        return 1
    count = len(target.kernels) + len(target.own_rows)
    print(f"{path}: the table is well formed; {count} row(s) do what their semantics say")
    return 0


def _problems(path: str, findings: Sequence[tcpx.Diagnostic]) -> int:
    """Print what was found in a file; the number of errors among it."""
    for finding in findings:
        print(finding.render(), file=sys.stderr)
    problems = sum(finding.is_error for finding in findings)
    if problems:
        print(f"{path}: {problems} problem(s)", file=sys.stderr)
    return problems


def _execute(options: argparse.Namespace) -> int:
    if options.file is not None and options.file.endswith(TABLE_SUFFIXES):
        if options.schedule is not None:
            raise UsageError(f"required a table alone, found one and -s {options.schedule}")
        return _check_table(options.file, tcpx.load_target(options.file, allow_native=options.allow_native))
    target = options.target
    if isinstance(target, tcpx.Target) and not target.is_installed and _check_table(target.name, target):
        return 1
    path, schedule_path = _files(options.file, options.schedule)
    if path is None and (options.size or options.input):
        raise UsageError("--size and --input are for a model, FILE.onnx")
    module = None if path is None else specialised_of(options)
    if schedule_path is None:
        if module is not None and _problems(str(path), tcpx.check(None, module)):
            return 1
        print(f"{path}: the payload is well formed; no schedule was run over it, not the default one either:")
        words = ["tcpx", "explain", str(path)]
        words += [word for name, number in options.size for word in ("--size", f"{name}={number}")]
        words += [word for name, file in options.input for word in ("--input", f"{name}={file}")]
        print(f"  `{shlex.join(words)}` says what that copies and leaves alone")
        return 0
    schedule = tcpx.load_schedule(schedule_path)
    params, threads = params_of(options), options.threads
    found = tcpx.check(schedule, module, params=params, target=target, threads=threads)
    if _problems(schedule_path, found):
        return 1
    if module is None:
        print(f"{schedule_path}: nothing is wrong that can be seen without a payload")
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tcpx.ScheduleWarning)  # they are printed already
        run = lowered(tcpx.CompileRequest(module, schedule, params), tcpx.load_target(target), threads)
    print(f"{schedule_path}: {len(run.trace.entries)} step(s) apply to @{module.main.name} of {path}")
    for remark in (remark for remark in run.remarks if remark not in found):
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
    "finds out about matches, dims and sizes, and say what it left alone. Of a table, also one that --target names,\n"
    "the C of its rows is run under the sanitizers and compared with their semantics; nothing else is compiled.",
    example="tcpx check examples/digits/digits.tcp -s schedules/digits.tcps",
    add_arguments=_add_arguments,
    execute=_execute,
)
