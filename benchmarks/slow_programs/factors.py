"""What following a hint gives, measured: the slow program beside the one with the text of the hint."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import median
from typing import Final

import numpy as np

import tcpx
from benchmarks.slow_programs.follow import Texts, followed
from benchmarks.slow_programs.programs import Array, Form, SlowProgram
from benchmarks.slow_programs.timing import seconds_of
from tcpx.remarks.causes import MOST_FACTOR

WITHIN: Final = 1.3


def report_followed(programs: Sequence[SlowProgram]) -> None:
    """Print, for the first remark on each program that names a right cause, the stated factor and the measured one,
    and of how many they agree."""
    quotients: list[float] = []
    prose = 0
    for program in programs:
        remark = _remark(program)
        if remark is None:
            print(f"{program.name:34} no remark that is right", flush=True)
            continue
        texts = followed(Texts(program.slow.payload, program.slow.schedule), remark)
        if texts is None:
            prose += 1
            print(f"{program.name:34} stated {remark.factor:6.2f}: in prose", flush=True)
            continue
        found = _measured(program, Form(texts.payload, texts.schedule))
        if isinstance(found, str):
            print(f"{program.name:34} stated {remark.factor:6.2f}: {found}", flush=True)
            continue
        slow, fast = found
        quotient = (remark.factor or 1.0) / min(slow / fast, MOST_FACTOR)
        quotients.append(quotient)
        times = f"{slow * 1e6:9.1f} us {fast * 1e6:9.1f} us"
        print(
            f"{program.name:34} stated {remark.factor:6.2f} measured {slow / fast:7.2f} {quotient:6.2f} {times}",
            flush=True,
        )
    within = sum(1 / WITHIN <= quotient <= WITHIN for quotient in quotients)
    print(f"{within} of {len(quotients)} hints with a text give what they state within {WITHIN}; {prose} are in prose")
    if quotients:
        print(f"half miss by less than {exp(median(abs(log(each)) for each in quotients)):.2f} times")


def _remark(program: SlowProgram) -> tcpx.Diagnostic | None:
    """The remark that names a right cause, one with a text before one in prose."""
    schedule = None if program.slow.schedule is None else tcpx.parse_schedule(program.slow.schedule)
    found = tcpx.remarks_of(program.slow.module(program.stored()), schedule, sizes=dict(program.sizes))
    right = [remark for remark in found if remark.cause in program.causes and remark.factor]
    texts = Texts(program.slow.payload, program.slow.schedule)
    return next((remark for remark in right if followed(texts, remark) is not None), next(iter(right), None))


def _measured(program: SlowProgram, after: Form) -> tuple[float, float] | str:
    """Seconds of both forms; or why the second one does not count."""
    stored = program.stored()
    try:
        kernels = [form.kernel(stored) for form in (program.slow, after)]
    except (tcpx.ParseError, tcpx.ScheduleError, tcpx.VerifyError) as refused:
        return f"the text is refused: {str(refused).splitlines()[0]}"
    return measured(program, kernels)


def measured(program: SlowProgram, kernels: Sequence[tcpx.Kernel]) -> tuple[float, float] | str:
    """Seconds of two kernels for one program; or that, and how far, their results differ."""
    given = [program.arguments() for _ in kernels]
    first, second = (_arrays(kernel(*arrays)) for kernel, arrays in zip(kernels, given, strict=True))
    for a, b in zip(first, second, strict=True):
        if not np.allclose(a, b, program.tolerance, program.tolerance, equal_nan=True):
            return f"the forms differ by up to {np.nanmax(np.abs(a - b)):.3g}"
    slow, fast = seconds_of([kernel.bind(*arrays) for kernel, arrays in zip(kernels, given, strict=True)])
    return slow, fast


def _arrays(returned: Array | tuple[Array, ...]) -> list[Array]:
    arrays = returned if isinstance(returned, tuple) else (returned,)
    return [np.array(each, dtype=np.float64) for each in arrays]
