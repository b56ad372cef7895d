"""tcpx explain: what every statement of a schedule did to a payload."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from textwrap import indent

import tcpx
from tcpx.cli.options import Subcommand, add_schedule, params_of, schedule_of


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="payload file (.tcp)")
    add_schedule(parser)


def _execute(options: argparse.Namespace) -> int:
    module = tcpx.load(options.file)
    nest = tcpx.loop_nest(module.main).splitlines()
    print("before:")
    _print_nest(nest, nest)

    def show(entry: tcpx.TraceEntry) -> None:
        """Called as soon as the step is done, so that what led to a failure is seen."""
        nonlocal nest
        print(f"\nstep {entry.index + 1}: {' '.join(entry.statement.split())}")
        print(f"  at {entry.location}")
        for name, place in entry.calls:
            print(f"  in {name}, called from {place}")
        for name, denoted in entry.bound:
            print(f"  {name} = {denoted}")
        if entry.nest:
            after = entry.nest.splitlines()
            _print_nest(nest, after)
            nest = after

    run = tcpx.apply_schedule(
        module,
        schedule_of(options),
        params=params_of(options),
        target=options.target,
        threads=options.threads,
        on_step=show,
    )
    _print_end(run)
    return 0


def _print_end(run: tcpx.Run) -> None:
    """What is known only at the end: all knobs, what steps printed, what was left alone."""
    if run.knobs:
        print("\nknobs:")
    for knob in run.knobs:
        print(f"  {knob.path} = {knob.value} ({'overridden' if knob.overridden else 'its default'})")
    for line in run.trace.output:
        print(f"\nprinted at {line.location}:\n{line}")
    coverage = run.coverage.text()
    if coverage:
        print(f"\nleft alone:\n{indent(coverage, '  ')}")


def _print_nest(before: list[str], after: list[str]) -> None:
    for line in _marked(before, after):
        print(f"  {line}")


def _marked(before: list[str], after: list[str]) -> Iterator[str]:
    """The loop nest after a step: `+` at lines that are new, `~` at those that moved in or out of a loop."""
    unchanged = Counter(before)
    known = Counter(line.strip() for line in before)
    for line in after:
        mark = "+" if not known[line.strip()] else "|" if unchanged[line] else "~"
        known[line.strip()] -= mark != "+"
        unchanged[line] -= mark == "|"
        yield f"{mark} {line}"


EXPLAIN = Subcommand(
    name="explain",
    summary="show what every statement of a schedule did",
    description="Run a schedule over a payload and show, for every step, the line it stands in, what its arguments\n"
    "denoted, and the loop nest after it; `+` marks lines that are new, `~` those that moved\n"
    "into or out of a loop. Nothing is compiled.",
    example="tcpx explain examples/digits/digits.tcp -s schedules/digits.tcps",
    add_arguments=_add_arguments,
    execute=_execute,
)
