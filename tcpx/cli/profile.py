"""tcpx profile: where the time of a kernel goes."""

import argparse
import json
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
from tcpx.measure.profile_rows import goes_through, shown_rows
from tcpx.measure.profile_table import text_of


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
        if goes_through(found, limits):
            limits = raised_limits(machine, limits)
            rows = shown_rows(found, limits)
    print("\n".join(text_of(found, rows)))
    if options.json is not None:
        held = found.as_json()
        held["limits"] = [{"seconds": row.limit_s, "set_by": row.limited_by, "part": row.fraction} for row in rows]
        Path(options.json).write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {options.json}")
    if options.html is not None:
        Path(options.html).write_text(profile_page(found, rows, limits), encoding="utf-8")
        print(f"wrote {options.html}")
    return 0


PROFILE = Subcommand(
    name="profile",
    summary="where the time of a kernel goes",
    description="Compile a payload with clocks around every loop nest and call of its functions, call it for some\n"
    "time, and say what each takes: its share of the time, the median and the least time over the calls, operations\n"
    "that the payload asks for and what is issued beyond, operations and bytes a second, and the part of what the\n"
    "machine can do at most. Operations, and bytes from beyond the first cache, are those of a model.",
    example="tcpx profile examples/digits/digits.tcp -s schedules/digits.tcps --size B=64",
    add_arguments=_add_arguments,
    execute=_execute,
    writes=("json", "html"),
)
