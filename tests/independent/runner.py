"""A process that draws, compiles and calls cases, and writes what it saw line by line.

The process that started it can so tell where a crash or a hang was, which end this one alone. Also a command that runs
a single case again: `python -m tests.independent.runner --case SEED --target x86_avx2 --threads 2`.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
import warnings
from contextlib import nullcontext
from typing import TextIO

import numpy as np

import tcpx
from tests.independent.case import Case, call_kernel, draw_case, look_at_default, request

SECONDS_PER_STEP = 120


class Log:
    """One line of JSON for every step, at once on the disk."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, **entry: object) -> None:
        self.stream.write(json.dumps(entry) + "\n")
        self.stream.flush()

    def begin(self, case: Case | str, stage: str) -> None:
        faulthandler.dump_traceback_later(SECONDS_PER_STEP, exit=True)
        if isinstance(case, str):
            self.write(begin=case, stage=stage)
        else:
            self.write(begin=case.seed, stage=stage, reproducer=case.reproducer())

    def end(self, case: Case) -> None:
        faulthandler.cancel_dump_traceback_later()
        failures = [{"kind": f.kind, "message": f.message, "details": f.details} for f in case.failures]
        self.write(end=case.seed, failures=failures, counts=dict(case.counts), reproducer=case.reproducer())


def compiled(cases: list[Case], log: Log) -> dict[str, tcpx.Kernel]:
    """The kernels by seed: in one library, or one by one to find which is refused."""
    ready = list[tuple[Case, tcpx.CompileRequest]]()
    for case in cases:
        try:
            ready.append((case, request(case)))
        except tcpx.TcpxError as error:
            case.fail("schedule refused without its attempts", error.diagnostic.message, str(error))
    if not ready:
        return {}
    target, threads = cases[0].target, cases[0].threads
    log.begin(ready[0][0].seed if len(ready) == 1 else "all", "compile")
    try:
        kernels = tcpx.compile_many([r for _, r in ready], target=target, threads=threads)
    except tcpx.TcpxError as error:
        if len(ready) > 1:
            found = dict[str, tcpx.Kernel]()
            for case, _ in ready:
                found |= compiled([case], log)
            return found
        case = ready[0][0]
        stage = "default schedule refused" if case.schedule is None else f"{error.diagnostic.kind.value} when compiled"
        case.fail(stage, error.diagnostic.message, str(error))
        return {}
    return {case.seed: kernel for (case, _), kernel in zip(ready, kernels, strict=True)}


def run(seeds: list[str], target: str, threads: int, separate: bool, log: Log) -> None:
    """Draw all, compile all, call all."""
    cases = list[Case]()
    for seed in seeds:
        log.begin(seed, "draw")
        cases.append(draw_case(seed, target, threads))
    sound = [case for case in cases if case.module is not None]
    kernels = dict[str, tcpx.Kernel]()
    for group in [[case] for case in sound] if separate else [sound]:
        if group:
            kernels |= compiled(group, log)
    for case in cases:
        if case.seed in kernels:
            log.begin(case, "call")
            case.counts["compiled"] += 1
            if case.schedule is None:
                look_at_default(case, kernels[case.seed])
            call_kernel(case, kernels[case.seed])
        log.end(case)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", required=True, help="the seed of a case; may be repeated")
    parser.add_argument("--target", default="generic")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--separate", action="store_true", help="a library for each kernel")
    parser.add_argument("--log", help="where to write; standard output if not given")
    options = parser.parse_args()
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="numpy")
    warnings.filterwarnings("ignore", message="warning: ")  # remarks on the schedule
    warnings.filterwarnings("ignore", message="the C compiler broke down")  # gcc 12, on vectors of two lanes
    np.seterr(all="ignore")
    with open(options.log, "a", encoding="utf-8") if options.log else nullcontext(sys.stdout) as stream:
        run(options.case, options.target, options.threads, options.separate, Log(stream))


if __name__ == "__main__":
    main()
