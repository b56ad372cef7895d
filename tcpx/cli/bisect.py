"""tcpx bisect: the step that broke the numbers, or the speed."""

import argparse
import sys

import tcpx
from tcpx.cli.models import add_arguments, payload_of
from tcpx.cli.options import (
    Subcommand,
    UsageError,
    add_payload,
    add_schedule,
    natural,
    params_of,
    schedule_of,
)
from tcpx.plurals import counted
from tcpx.quantities import duration


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_payload(parser)
    add_schedule(parser)
    parser.add_argument(
        "--against",
        choices=("evaluator", "ort", "onnx"),
        help="look for the operation of a whole model that is computed wrong: by the compiled kernel, beside the "
        "reference evaluator; by the payload, too, beside ONNX Runtime or the reference of the package onnx",
    )
    parser.add_argument("--random", type=natural, default=0, metavar="SEED", help="with --against; default: 0")
    parser.add_argument("--speed", action="store_true", help="look for the step that made the kernel slow")
    add_arguments(
        parser,
        "try this size; without it, for the numbers: 0, 1, odd ones and those round every tile",
        "with --against: the array for an argument; the others are random",
    )


def _execute(options: argparse.Namespace) -> int:
    if options.against is not None:
        return _values(options)
    payload, schedule = payload_of(options), schedule_of(options)
    if payload.files:
        raise UsageError("--input needs --against, or a model whose input has to be constant")
    module, sizes = payload.module, dict(payload.sizes)
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
        print(f"found with {found.probes} of {counted(found.steps, 'step')} evaluated")
        return 1
    print(
        f"{counted(found.steps, 'step')} and the compiled C keep the numbers, in {counted(len(found.cases), 'case')}:"
    )
    for case in found.cases:
        print(f"  {case}")
    return 0


def _values(options: argparse.Namespace) -> int:
    """The operation of a model, or of a payload, that is computed wrong."""
    if options.speed:
        raise UsageError("--against is about the numbers, --speed is not")
    payload = payload_of(options, keeps_model=True)
    model = payload.model
    if model is None and options.against != "evaluator":
        raise UsageError(f"--against {options.against} needs a model, FILE.onnx")
    arrays = payload.arrays(options.random)
    schedule, params = schedule_of(options), params_of(options)

    def say(count: int) -> None:
        print(f"kernel {count}: compiled and compared with the reference evaluator", flush=True)

    if model is None:
        found = tcpx.bisect_values(
            payload.module,
            schedule,
            *arrays,
            params=params,
            target=options.target,
            threads=options.threads,
            on_probe=say,
        )
    else:
        found = tcpx.onnx.bisect(
            model,
            dict(zip(payload.names, arrays, strict=True)),
            schedule,
            against=options.against,
            params=params,
            target=options.target,
            threads=options.threads,
            on_probe=say,
        )
    if found.compared:
        print(f"{counted(found.compared, 'value')} of the payload compared with those of {options.against}")
    diagnostic = found.diagnostic()
    if diagnostic is not None:
        print(diagnostic.render(), file=sys.stderr)
        return 1
    print("the compiled kernel gives what the reference evaluator does")
    return 0


def _speed(
    options: argparse.Namespace, module: tcpx.Module, schedule: tcpx.Schedule | None, sizes: dict[str, int | str]
) -> int:
    found = tcpx.bisect_speed(
        module, schedule, params=params_of(options), target=options.target, threads=options.threads, sizes=sizes
    )
    print("the schedule up to a step, finished by the default lowering:")
    for cut in found.cuts:
        time = duration(cut.seconds) if cut.seconds is not None else "-"
        what = "nothing of it" if cut.step is None else " ".join(cut.step.statement.split())
        mark = ">" if found.slow is not None and cut.number == found.slow.number else " "
        print(f"{mark} {cut.number:>4}  {time:>8}  {what}{f'  ({cut.refusal})' if cut.refusal else ''}")
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
    "With --against, at one choice of inputs: name the first operation, of a model the node of ONNX, whose result\n"
    "deviates although what it reads is right, the function that computes it, the step of the schedule that makes it\n"
    "wrong by itself, and the largest deviation. Some ten kernels are compiled, which return values on the way.\n\n"
    "The exit status is 1 also where a step or an operation is named.",
    example="tcpx bisect examples/digits/digits.tcp -s schedules/digits.tcps --size B=7",
    add_arguments=_add_arguments,
    execute=_execute,
)
