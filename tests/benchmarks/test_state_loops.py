"""benchmarks.state_loops: programs with loops over state beside plain C."""

import re

from benchmarks.state_loops import FOLDER, PROGRAMS
from tcpx.payload.text.parser import parse


def test_each_program_has_a_payload_and_plain_loops_with_its_sizes() -> None:
    functions = set(re.findall(r"^void (\w+)\(", (FOLDER / "loops.c").read_text(encoding="utf-8"), re.MULTILINE))
    assert len(PROGRAMS) == len({program.name for program in PROGRAMS}) == len(list(FOLDER.glob("*.tcp"))) == 40
    assert {program.function for program in PROGRAMS} == functions
    for program in PROGRAMS:
        module = parse((FOLDER / f"{program.name}.tcp").read_text(encoding="utf-8"))
        assert {symbol.name for symbol in module.main.symbols} == set(program.sizes)
