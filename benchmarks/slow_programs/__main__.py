"""Measure slow programs beside their fast forms, and print the remarks on the slow ones.

`--compile` only fills the cache of kernels, so that a later run has the machine for itself while it measures.
`--record` writes the factors into the table. `--judge` measures nothing: it says of which programs the remarks name a
right cause, and where the factor of following them is within `WITHIN` of the one in the table. `--follow` applies the
text of each hint and measures what that gives.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Sequence
from math import exp, log
from statistics import median
from typing import Final

import tcpx
from benchmarks.slow_programs.factors import WITHIN, measured, report_followed
from benchmarks.slow_programs.programs import TABLE, SlowProgram, slow_programs
from tcpx.remarks.causes import MOST_FACTOR

LEAST_FACTOR: Final = 2.0
PROCESSOR: Final = tcpx.load_target("native").name


def record(factors: dict[str, float]) -> None:
    """Write measured factors into the table, as those of this processor."""
    text = TABLE.read_text(encoding="utf-8")
    for program in slow_programs():
        if program.name in factors:
            known = {**program.factors, PROCESSOR: float(f"{factors[program.name]:.3g}")}
            listed = ", ".join(f"{name}: {factor:g}" for name, factor in sorted(known.items()))
            entry = re.compile(rf"(- name: {re.escape(program.name)}\n  does: .*\n  causes: .*\n  factors: ).*\n")
            text = entry.sub(rf"\g<1>{{{listed}}}\n", text, count=1)
    TABLE.write_text(text, encoding="utf-8")


def judge(programs: Sequence[SlowProgram]) -> None:
    """Print each program with its remarks, how many are named with a right cause, and how far the factors are off."""
    named, quotients = 0, list[float]()
    for program in programs:
        form = program.forms[0]
        schedule = None if form.schedule is None else tcpx.parse_schedule(form.schedule)
        remarks = tcpx.remarks_of(form.module(program.stored()), schedule, sizes=dict(program.sizes))
        right = [remark for remark in remarks if remark.cause in program.causes]
        factor, known = followed(right), program.factor(PROCESSOR)
        named += bool(right)
        if right and factor > 1:
            quotients.append(factor / min(known, MOST_FACTOR))
        found = ", ".join(f"{remark.cause} {remark.factor:.1f}" for remark in remarks if remark.factor)
        stated = f"{known:7.2f} {factor:7.2f} {factor / known:6.2f}"
        print(f"{'   ' if right else 'NO '}{program.name:34} {stated} {', '.join(program.causes)} | {found}")
    within = sum(1 / WITHIN <= quotient <= WITHIN for quotient in quotients)
    print(f"{named} of {len(programs)} are named with a right cause, {within} with a right factor")
    if quotients:
        print(f"half of the factors miss by less than {exp(median(abs(log(each)) for each in quotients)):.2f} times")


def followed(remarks: Sequence[tcpx.Diagnostic]) -> float:
    """How many times as fast a kernel is if all remarks are followed: of each statement, the one that gains most."""
    spared: dict[str, float] = {}
    for remark in remarks:
        if remark.factor:
            name = remark.message.split("`")[1]
            spared[name] = max(spared.get(name, 0.0), 1 - 1 / remark.factor)
    return 1 / max(1 / MOST_FACTOR, 1 - sum(spared.values()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slow_programs", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="*", help="a glob of names: 'padding/*'")
    parser.add_argument("--compile", action="store_true", help="compile, measure nothing")
    parser.add_argument("--record", action="store_true", help="write the factors into the table")
    parser.add_argument("--judge", action="store_true", help="compare the remarks with the table, measure nothing")
    parser.add_argument("--follow", action="store_true", help="measure what following the hints gives")
    options = parser.parse_args()
    warnings.simplefilter("ignore", tcpx.ScheduleWarning)
    if options.judge:
        judge(slow_programs(options.pattern))
        return
    if options.follow:
        report_followed(slow_programs(options.pattern))
        return
    factors: dict[str, float] = {}
    for program in slow_programs(options.pattern):
        kernels = [form.kernel(program.stored()) for form in program.forms]
        if options.compile:
            continue
        found = measured(program, kernels)
        if isinstance(found, str):
            sys.exit(f"{program.name}: {found}")
        slow, fast = found
        factors[program.name] = slow / fast
        times = f"{slow * 1e6:9.1f} us {fast * 1e6:9.1f} us {slow / fast:7.2f} times"
        low = "  TOO FEW" if slow < LEAST_FACTOR * fast else ""
        print(f"{program.name:34} {times} {', '.join(program.causes)}{low}", flush=True)
        for remark in kernels[0].remarks:
            print("    ", remark.message)
    if factors:
        print(f"{len(factors)} programs, geometric mean {exp(sum(map(log, factors.values())) / len(factors)):.2f}")
    if options.record:
        record(factors)


if __name__ == "__main__":
    main()
