"""tcpx calibrate: measure the machine for `native`."""

import argparse
import sys

from tcpx.calibrated import calibration_path, keep_calibration, uncalibrated
from tcpx.cli.options import Subcommand
from tcpx.cli.progress import showing, time_left
from tcpx.measure.machine_numbers import head_of, steps_of
from tcpx.measure.recipe_lines import KEPT
from tcpx.plurals import counted


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--show", action="store_true", help="print what was measured before, and where it is")
    actions.add_argument("--remove", action="store_true", help="give `native` the rates and costs of its table again")


def _execute(options: argparse.Namespace) -> int:
    path = calibration_path()
    if not (options.show or options.remove):
        _calibrate()
    elif not path.is_file():
        print(f"no calibration, {path}")
    elif options.show:
        print(path, path.read_text(encoding="utf-8", errors="backslashreplace"), sep="\n", end="")
    else:
        path.unlink()
        print(f"removed {path}")
    return 0


def _calibrate() -> None:
    target = uncalibrated()
    target.require_cpu()
    steps, lines = list(steps_of(target)), head_of(target)
    done: list[str] = []

    def describe(seconds: float) -> str:
        at = steps[min(len(done), len(steps) - 1)].name
        return f"calibrating {target.name}: {at}, {time_left(seconds, len(done) / len(steps))}"

    with showing(describe):
        for step in steps:
            lines += step.measure()
            done.append(step.name)
    unsettled = sum(KEPT in line for line in lines)
    if unsettled:
        text = f"{counted(unsettled, 'line')} did not settle, so that the table's stay"
        print(f"warning: {text}: calibrate again while this machine does nothing else", file=sys.stderr)
    print(f"wrote {keep_calibration(chr(10).join([*lines, '']))}")
    print(*lines[1:], sep="\n")


CALIBRATE = Subcommand(
    name="calibrate",
    summary="measure this machine for the target `native`",
    description="Measure what `native` takes from its table otherwise: how fast L3 is, from how much work on threads\n"
    "pay, and what the recipes of products cost. It takes a minute or two on a machine that does nothing else. The\n"
    "numbers are kept beside the cache of compiled kernels, and used from then on; targets by name do not change.",
    example="tcpx calibrate --show",
    add_arguments=_add_arguments,
    execute=_execute,
)
