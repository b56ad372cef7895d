"""tcpx profile: where the time of a kernel goes."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import tcpx
from tcpx.cli.models import add_arguments, payload_of
from tcpx.cli.options import (
    Subcommand,
    add_payload,
    add_schedule,
    natural,
    params_of,
    schedule_of,
    seconds,
)
from tcpx.measure.kept_limits import kept_limits, raised_limits
from tcpx.measure.limits import Machine
from tcpx.measure.pinned_threads import PinnedThreads, available_cpus
from tcpx.measure.profile_page import profile_page
from tcpx.measure.profile_rows import shown_rows
from tcpx.measure.rows import Row
from tcpx.plurals import counted


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_payload(parser)
    add_schedule(parser)
    parser.add_argument("--random", type=natural, default=0, metavar="SEED", help="default: 0")
    add_arguments(parser, "the value of a symbolic size", "the array for an argument; the others are random")
    parser.add_argument("--seconds", type=seconds, default=0.5, metavar="S", help="how long it is called; default: 0.5")
    parser.add_argument("--json", metavar="FILE", help="write all of it as JSON")
    parser.add_argument("--html", metavar="PAGE", help="write one HTML file with a flame picture and a roofline")


def _execute(options: argparse.Namespace) -> int:
    payload = payload_of(options)
    arrays = payload.arrays(options.random)
    target = tcpx.load_target(options.target)
    found = tcpx.profile(
        payload.module,
        schedule_of(options),
        *arrays,
        params=params_of(options),
        target=target,
        threads=options.threads,
        seconds=options.seconds,
    )
    with PinnedThreads(available_cpus()[: options.threads]) as threads:
        machine = Machine(target, threads)
        limits = kept_limits(machine)
        rows = shown_rows(found, limits)
        if any((row.fraction or 0.0) > 1.0 for row in rows):
            limits = raised_limits(machine, limits)
            rows = shown_rows(found, limits)
    for line in _table(found, rows):
        print(line)
    if options.json is not None:
        Path(options.json).write_text(json.dumps(found.as_json(), indent=1) + "\n", encoding="utf-8")
        print(f"wrote {options.json}")
    if options.html is not None:
        Path(options.html).write_text(profile_page(found, rows, limits), encoding="utf-8")
        print(f"wrote {options.html}")
    return 0


def _table(found: tcpx.Profile, rows: Sequence[Row]) -> Iterator[str]:
    """The statements, each function's under its name, those of the kernel first."""
    head = f"@{found.kernel} for {found.target}, {found.threads} thread(s)"
    yield f"{head}: {_time(found.seconds)}, the fastest of {counted(found.calls, 'call')}"
    yield f"{'share':>6} {'time':>10} {'runs':>6} {'GFLOP/s':>8} {'GB/s':>7} {'limit':>6}  statement"
    functions = dict.fromkeys([found.kernel, *(held.function for held in found.rows)])
    for function in functions:
        if function != found.kernel:
            yield f"@{function}"
        for held, row in zip(found.rows, rows, strict=True):
            if held.function != function:
                continue
            figures = [
                f"{found.share(held):6.1%}",
                f"{_time(held.seconds):>10}",
                f"{held.runs:6g}",
                f"{held.gflops:8.1f}" if held.operations else " " * 8,
                f"{held.gigabytes:7.1f}" if held.l2_bytes else " " * 7,
                f"{row.fraction:6.0%}" if row.fraction is not None else " " * 6,
            ]
            node = f" ({held.node})" if held.node not in ("", held.operation) else ""
            limit = f", {row.limited_by}" if row.limited_by else ""
            yield f"{' '.join(figures)}  {held.shown}{node}{limit}"
    rest = found.seconds - sum(held.seconds for held in found.rows if held.function == found.kernel)
    yield f"{max(0.0, rest) / found.seconds:6.1%} {_time(max(0.0, rest)):>10} {' ' * 31}  the call, checks and clocks"
    yield f"workspace {found.workspace_bytes} bytes, constants {found.constants_bytes} bytes"


def _time(taken: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if taken * factor >= 1:
            return f"{taken * factor:.3g} {unit}"
    return f"{taken * 1e9:.3g} ns"


PROFILE = Subcommand(
    name="profile",
    summary="where the time of a kernel goes",
    description="Compile a payload with clocks around every loop nest and call of its functions, call it for some\n"
    "time, and say what each took in the fastest call: its share of the time, operations and bytes a second, and the\n"
    "part of what the machine can do at most. Operations, and bytes from beyond the first cache, are those of a model.",
    example="tcpx profile examples/digits/digits.tcp -s schedules/digits.tcps --size B=64",
    add_arguments=_add_arguments,
    execute=_execute,
    writes=("json", "html"),
)
