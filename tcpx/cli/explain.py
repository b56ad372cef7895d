"""tcpx explain: what every statement of a schedule did to a payload."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from difflib import SequenceMatcher

import tcpx
from tcpx.cli.options import Subcommand, add_schedule, params_of, schedule_of


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="payload file (.tcp)")
    add_schedule(parser)


def _execute(options: argparse.Namespace) -> int:
    module = tcpx.load(options.file)
    run = tcpx.apply_schedule(
        module,
        schedule_of(options),
        params=params_of(options),
        target=options.target,
        threads=options.threads,
    )
    for knob in run.knobs:
        origin = "overridden" if knob.overridden else "its default"
        print(f"knob {knob.path} = {knob.value} ({origin})")
    nest: list[str] = []
    for entry in run.trace.entries:
        print()
        print(f"step {entry.index + 1}: {' '.join(entry.statement.split())}")
        print(f"  at {entry.location}")
        for name, place in entry.calls:
            print(f"  in {name}, called from {place}")
        for name, denoted in entry.bound:
            print(f"  {name} = {denoted}")
        if entry.nest:
            after = entry.nest.splitlines()
            for line in _marked(nest, after):
                print(f"  {line}")
            nest = after
    for line in run.trace.output:
        print(f"\n{line.location} says:\n{line}")
    coverage = run.coverage.text()
    if coverage:
        print(f"\n{coverage}")
    return 0


def _marked(before: list[str], after: list[str]) -> Iterator[str]:
    """The loop nest with a `+` at the lines that the step made; lines that only moved in or out are not new."""
    matcher = SequenceMatcher(None, [b.strip() for b in before], [a.strip() for a in after], autojunk=False)
    kept = {block.b + k for block in matcher.get_matching_blocks() for k in range(block.size)}
    for position, line in enumerate(after):
        yield f"{'+' if before and position not in kept else '|'} {line}"


EXPLAIN = Subcommand(
    name="explain",
    summary="show what every statement of a schedule did",
    description="Run a schedule over a payload and show, for every step, the line it stands in, what its arguments\n"
    "denoted, and the loop nest after it; `+` marks the lines that the step made. Nothing is compiled.",
    example="tcpx explain examples/digits/digits.tcp -s schedules/digits.tcps",
    add_arguments=_add_arguments,
    execute=_execute,
)
