"""What people write who come from NumPy, PyTorch, MLIR, Halide, TVM, Exo or C, and what they are told.

A block of a file in `newcomers/` is a title, a text, and what it gives: `=== TITLE`, the text, `--- ` and the errors.
A statement stands in the function or schedule of the first block. `--update-golden` writes what is printed now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tcpx.payload.diagnostics import Diagnostic, Direction
from tests.diagnostics.case import Case, corners
from tests.diagnostics.follow import Fix, follow

FOLDER = Path(__file__).parent / "newcomers"
STATEMENT = "STATEMENT"


def blocks(name: str) -> Iterator[tuple[str, str, str]]:
    """The title, the text and the output of each block of a file."""
    for block in re.split(r"^=== ", (FOLDER / name).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, rest = block.partition("\n")
        text, _, output = rest.partition("\n---\n")
        yield title, text, output.rstrip()


def case_of(name: str, text: str, around: str) -> Case:
    """A payload, or a schedule for the payload that lies beside it; a statement stands in what is around."""
    is_whole = re.match(r"language|func|def|module|import|schedule|sequence|from", text) is not None
    whole = text if is_whole and f"{text}\n" not in around else around.replace(STATEMENT, text.replace("\n", "\n  "))
    if name == "payloads.txt":
        return Case(payload=whole)
    return Case(payload=(FOLDER / "mlp.tcp").read_text(encoding="utf-8"), schedule=whole)


def outcome(case: Case, problem: Diagnostic | None) -> str:
    """The error, and whether its fix helps."""
    if problem is None:
        return "no error"
    placed = Case(
        case.payload, case.schedule, payload_place=corners(problem.payload), schedule_place=corners(problem.schedule)
    )
    if problem.fix is not None and not isinstance(problem.fix, Direction):
        assert follow(Fix.of(problem, "", placed)) == "", problem.render()
    return problem.render()


@pytest.mark.parametrize("name", ["payloads.txt", "schedules.txt"])
def test_each_is_told_what_to_write(name: str, update_golden: bool) -> None:
    lines: list[str] = []
    known = list(blocks(name))
    _, around, _ = known[0]
    for title, text, output in known:
        is_first = text == around
        case = case_of(name, text, around)
        found = "" if is_first else outcome(case, next(iter(case.problems()), None))
        assert is_first or update_golden or found == output, title
        lines += [f"=== {title}", text, "---", found, ""]
    if update_golden:
        (FOLDER / name).write_text("\n".join(lines), encoding="utf-8")
