"""tcpx bisect: the step that broke the numbers, or the speed."""

import argparse
import sys

import tcpx
from tcpx.cli.options import (
    Subcommand,
    add_payload,
    add_schedule,
    add_sizes,
    checked_unique,
    params_of,
    schedule_of,
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_payload(parser)
    add_schedule(parser)
    parser.add_argument("--speed", action="store_true", help="look for the step that made the kernel slow")
    add_sizes(
        parser, "try this size; without it, for the numbers: 0, 1, odd ones and those round every tile. May be repeated"
    )


def _execute(options: argparse.Namespace) -> int:
    module, schedule = tcpx.load(options.file), schedule_of(options)
    sizes = checked_unique(options.size, "--size")
    if options.speed:
        return _speed(options, module, schedule, sizes)
    found = tcpx.bisect(
        module,
        schedule,
        params=params_of(options),
        target=options.target,
        threads=options.threads,
        sizes=[sizes] if sizes else (),
    )
    diagnostic = found.diagnostic()
    if diagnostic is not None:
        print(diagnostic.render(), file=sys.stderr)
        print(f"found with {found.probes} of {found.steps} steps evaluated")
        return 1
    print(f"{found.steps} steps and the compiled C keep the numbers, in {len(found.cases)} cases:")
    for case in found.cases:
        print(f"  {case}")
    return 0


def _speed(
    options: argparse.Namespace, module: tcpx.Module, schedule: tcpx.Schedule | None, sizes: dict[str, int]
) -> int:
    found = tcpx.bisect_speed(
        module, schedule, params=params_of(options), target=options.target, threads=options.threads, sizes=sizes
    )
    print("the schedule up to a step, finished by the default lowering:")
    for cut in found.cuts:
        time = f"{cut.seconds * 1e6:10.1f} us" if cut.seconds is not None else f"{'-':>13}"
        what = "nothing of it" if cut.step is None else " ".join(cut.step.statement.split())
        mark = ">" if found.slow is not None and cut.number == found.slow.number else " "
        print(f"{mark} {cut.number:>4}  {time}  {what}{f'  ({cut.refusal})' if cut.refusal else ''}")
    if found.slow is None or found.slow.step is None:
        print("no step made it slower for good")
        return 0
    step = found.slow.step
    last_good = found.fastest.number
    print(f"{step.location}: after step {found.slow.number} it is never again as fast as after step {last_good}")
    return 1


BISECT = Subcommand(
    name="bisect",
    summary="name the step that broke the numbers, or the speed",
    description="Search for the step of a schedule after which the payload computes something else: the reference\n"
    "evaluator runs the payload cut after some of its steps and compares with it before the first; if all steps are\n"
    "right, the compiled kernel is run too. A step that only large sizes show is found by giving them (--size).\n\n"
    "With --speed (and a --size for each symbol): compile the schedule cut after each use of a sequence, then after\n"
    "each step of one use, and time these kernels in turn. The step that is named is the one after which the kernel\n"
    "is never again as fast. A cut is not the whole schedule: a step that only makes later ones slow is not named.\n\n"
    "The exit status is 1 also where a step is named.",
    example="tcpx bisect examples/digits/digits.tcp -s schedules/digits.tcps --size B=7",
    add_arguments=_add_arguments,
    execute=_execute,
)
