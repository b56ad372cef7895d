"""Hints of remarks can be followed: the remark is gone, and the results are the same."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import pytest

import tcpx
from benchmarks.slow_programs.follow import Texts, followed
from benchmarks.slow_programs.programs import Array, SlowProgram, slow_programs
from tcpx.payload.diagnostics import Direction

TARGET: Final = "x86_avx512"
"""Nothing is run on it: remarks are a model's."""
MOST_STEPS: Final = 6
"""Hints that a reader follows one after the other."""
FOLLOWED: Final = {
    "padding": 6,
    "recomputation": 7,
    "element_copy": 5,
    "constant_work": 7,
    "scalar": 8,
    "fallback": 4,
    "dot_product": 6,
    "below_limit": 13,
}
"""How many slow programs have a remark that is gone where its hint is followed, by their main causes; more are
welcome."""


def remarks(program: SlowProgram, texts: Texts) -> list[tcpx.Diagnostic]:
    module = tcpx.parse(texts.payload, constants=program.stored())
    schedule = None if texts.schedule is None else tcpx.parse_schedule(texts.schedule)
    found = tcpx.remarks_of(module, schedule, sizes=dict(program.sizes), target=TARGET)
    return [remark for remark in found if remark.factor]


def texts_of(program: SlowProgram) -> Texts:
    return Texts(program.slow.payload, program.slow.schedule)


def remark_on(program: SlowProgram) -> tcpx.Diagnostic | None:
    """The remark that names a right cause."""
    found = remarks(program, texts_of(program))
    return next((remark for remark in found if remark.cause in program.causes), None)


def subject(remark: tcpx.Diagnostic) -> tuple[str, str]:
    return remark.message.split("`")[1], remark.cause


@cache
def mended(name: str) -> Texts | None:
    """The texts of a program after its hint; None where the hint is prose or refused, or the remark stays."""
    (program,) = slow_programs(name)
    remark = remark_on(program)
    texts = followed(texts_of(program), remark) if remark is not None else None
    if remark is None or texts is None:
        return None
    try:
        stays = subject(remark) in map(subject, remarks(program, texts))
    except tcpx.ScheduleError:
        return None  # another statement needs what the hint leaves out
    return None if stays else texts


@pytest.mark.parametrize("cause", FOLLOWED)
def test_most_hints_of_slow_programs_can_be_followed(cause: str) -> None:
    """Text that can be written as it stands, after which the remark is gone."""
    names = [program.name for program in slow_programs(f"{cause}/*")]
    stays = [name for name in names if mended(name) is None]
    assert len(names) - len(stays) >= FOLLOWED[cause], f"no hint to follow, or the remark stays: {', '.join(stays)}"


@pytest.mark.parametrize("program", slow_programs(), ids=lambda program: program.name)
def test_the_results_are_the_same_where_a_hint_is_followed(program: SlowProgram) -> None:
    texts = mended(program.name)
    if texts is None:
        return  # the test above counts those
    found, expected = (results(each, program) for each in (texts, texts_of(program)))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, program.tolerance, program.tolerance)


@pytest.mark.parametrize("program", slow_programs(), ids=lambda program: program.name)
def test_no_hint_leads_back(program: SlowProgram) -> None:
    """Hints that are followed one after the other come to an end, and never to a text that was there before."""
    texts = texts_of(program)
    known = [texts]
    while (remark := _first_text(remarks(program, texts))) is not None:
        following = followed(texts, remark)
        assert following is not None
        assert following not in known, remark.render()
        known.append(texts := following)
        assert len(known) <= MOST_STEPS, remark.render()


def _first_text(found: list[tcpx.Diagnostic]) -> tcpx.Diagnostic | None:
    return next((remark for remark in found if not isinstance(remark.fix, Direction)), None)


def results(texts: Texts, program: SlowProgram) -> list[Array]:
    """What a kernel computes of the arguments of a program."""
    module = tcpx.parse(texts.payload, constants=program.stored())
    schedule = None if texts.schedule is None else tcpx.parse_schedule(texts.schedule)
    returned = tcpx.compile(module, schedule, target="x86_avx2")(*program.arguments())
    return [np.asarray(each, np.float64) for each in (returned if isinstance(returned, tuple) else (returned,))]
