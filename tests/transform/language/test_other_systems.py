"""Transforms by the names of other systems: what is told to write exists, and checks."""

from __future__ import annotations

import re

import pytest

from tcpx.transform.declaration import transforms
from tcpx.transform.language import program_of_text
from tcpx.transform.language.builtins import FUNCTIONS, METHODS
from tcpx.transform.language.checker import check_program
from tcpx.transform.language.other_systems import OTHER_SYSTEMS

AROUND = """\
language 1
schedule s(root: func) {{
  let mm = match one "mm" in root
  let x = match one "x" in root
  let pc, i, kk = tile(mm, [m: 60, n: 16, k: 1])
  print(pc)
  print(x)
  print(kk)
  print(i)
  {0}
}}
"""


QUESTIONS = ("x.", "producer", "users", "parent(", "len(")


def found(statement: str) -> list[tuple[str, str | None]]:
    """The messages of the checker on a statement, with their fixes."""
    return [(d.message, d.fix) for d in check_program(program_of_text(AROUND.format(statement))) if d.is_error]


@pytest.mark.parametrize("name", OTHER_SYSTEMS)
def test_what_is_told_checks(name: str) -> None:
    assert name not in {*transforms(), *FUNCTIONS, *METHODS}
    fix = OTHER_SYSTEMS[name]
    assert found(f"{name}(mm)") == [(f"there is no transform, sequence or function `{name}`", fix)]
    for code in re.findall(r"`([^`]+)`", fix):
        if "(" in code:
            assert found(f"let all = {code}" if code.startswith(QUESTIONS) else code) == []


def test_a_misspelling_is_still_one() -> None:
    assert found("tlie(mm, [m: 4])") == [("there is no transform, sequence or function `tlie`", "did you mean `tile`?")]
