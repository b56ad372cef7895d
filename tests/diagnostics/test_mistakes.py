"""Simple mistakes, each with the title of its error.

A file in `mistakes/` has a text in a line and the title in the next, indented. A statement of a payload or of a
schedule stands in a function or schedule of its own; in `pairs.txt` a payload and steps, or a whole schedule, stand
beside each other. `--update-golden` writes the titles anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.diagnostics.case import Case

FOLDER: Final = Path(__file__).parent / "mistakes"
ARGUMENTS: Final = (
    "%x: tensor<[N]x8xf32>, %w: tensor<8x4xf32>, %z: tensor<[N]x4xf64>, %i: tensor<8xsi64>, %c: i1, %s: f32"
)
MLP: Final = (FOLDER.parent / "newcomers" / "mlp.tcp").read_text(encoding="utf-8")
LEAST: Final = 400
"""So many mistakes are told at least."""


def case_of(kind: str, text: str) -> Case:
    """The payload or schedule that a text stands in."""
    match kind:
        case "functions":
            return Case(payload=text)
        case "statements":
            func = f"func @f({ARGUMENTS}) -> tensor<[N]x8xf32> symbols [N: 1..64]"
            return Case(payload=f"{func} {{\n  {text}\n  tcp.return(%x)\n}}\n")
        case "pairs":
            payload, _, steps = text.partition(" ||| ")
            whole = steps if steps.startswith("language") else f"language 1\nschedule s(root: func) {{\n{steps}\n}}\n"
            return Case(payload=payload or MLP, schedule=whole)
        case _:
            found = 'let mm = match one matmul in root\nlet r = match one "r" in root'
            return Case(payload=MLP, schedule=f"language 1\nschedule s(root: func) {{\n{found}\n{text}\n}}\n")


def table(kind: str) -> list[tuple[str, str]]:
    lines = (FOLDER / f"{kind}.txt").read_text(encoding="utf-8").splitlines()
    return [(text, title.strip()) for text, title in zip(lines[::2], lines[1::2], strict=True)]


@pytest.mark.filterwarnings("ignore::tcpx.ScheduleWarning")
@pytest.mark.parametrize("kind", ["functions", "statements", "steps", "pairs"])
def test_each_mistake_is_told(kind: str, update_golden: bool) -> None:
    found = [(text, case_of(kind, text).problems()) for text, _ in table(kind)]
    told = [(text, problems[0].message if problems else "no error") for text, problems in found]
    if update_golden:
        lines = "".join(f"{text}\n    {title}\n" for text, title in told)
        (FOLDER / f"{kind}.txt").write_text(lines, encoding="utf-8")
    assert told == table(kind)
    assert all(title != "no error" for _, title in told)


def test_there_are_many() -> None:
    assert sum(len(table(kind)) for kind in ("functions", "statements", "steps", "pairs")) >= LEAST
