"""benchmarks.slow_programs: the tables are complete."""

from collections import Counter

import tcpx
from benchmarks.slow_programs.fast_programs import LIMIT, fast_programs
from benchmarks.slow_programs.programs import CAUSES, slow_programs


def test_each_slow_program_has_two_forms_that_parse_a_known_cause_and_a_factor() -> None:
    programs = slow_programs()
    assert max(Counter(program.name for program in programs).values()) == 1
    for program in programs:
        assert program.name.split("/")[0] == program.causes[0], program.name
        assert set(program.causes) <= set(CAUSES), program.name
        assert program.slow != program.fast, program.name
        assert max(program.factors.values()) >= 2.0, program.name
        mains = [form.module(program.stored()).main for form in program.forms]
        assert [str(a.type) for a in mains[0].args] == [str(a.type) for a in mains[1].args], program.name
        assert {symbol.name for symbol in mains[0].symbols} == set(program.sizes), program.name
        for form in program.forms:
            if form.schedule is not None:
                assert tcpx.parse_schedule(form.schedule) is not None


def test_each_cause_has_programs() -> None:
    assert {program.causes[0] for program in slow_programs()} == set(CAUSES)


def test_two_hundred_fast_programs_parse_and_were_within_the_limit() -> None:
    programs = list(fast_programs())
    assert len({program.name for program in programs}) == len(programs) == 200
    for program in programs:
        assert 0.0 < program.ratio <= LIMIT, program.name
        assert program.texts, program.name
        module = tcpx.parse(program.payload)
        assert {symbol.name for symbol in module.main.symbols} == set(program.symbols), program.name
        if program.schedule is not None:
            assert tcpx.parse_schedule(program.schedule) is not None
