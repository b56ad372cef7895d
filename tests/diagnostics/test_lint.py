"""The rules for diagnostics, and what the page makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.diagnostics.ledger import Record
from tests.diagnostics.lint import problems
from tests.diagnostics.messages import messages, unprovoked
from tests.diagnostics.page import page

STEP = (
    "tcpx/transform/ops/tile.py", "tcpx/interp/steps.py", "tcpx/interp/statements.py", "tcpx/api.py", "tests",
)  # fmt: skip
GOOD = Record(
    error="ScheduleError",
    kind="error",
    message="the tile size of `n` is 3 for %mm",
    required="a multiple of 4",
    found="3",
    rendered="error: ...",
    has_schedule=True,
    has_payload=True,
    stack=STEP,
)


def test_a_whole_diagnostic_is_fine() -> None:
    assert list(problems(GOOD)) == []
    assert GOOD.template == "the tile size of `..` is N for %.."
    assert GOOD.place == "tcpx/transform/ops/tile.py"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"required": ""}, "does not say what is required"),
        ({"found": ""}, "does not say what was found"),
        ({"has_schedule": False}, "has no place in the schedule"),
        ({"has_payload": False}, "has no place in the payload"),
        ({"found": "a value of NoneType"}, "names a Python class: `NoneType`"),
        ({"found": "<tcpx.Loop object at 0x12>"}, "shows a Python repr: `<tcpx.Loop object`"),
        ({"found": "SymbolSize(name='n')"}, "shows a Python repr: `SymbolSize(name=`"),
        ({"found": "['a', 'b']"}, "shows a Python repr: `['`"),
        ({"message": "%y (tcp.exp): no tile", "found": "tcp.exp"}, "found is only what the message names: `tcp.exp`"),
        ({"message": "tcp.exp: no tile", "found": "tcp.exp"}, "found is only what the message names: `tcp.exp`"),
        ({"found": "a multiple of 4"}, "found is what is required"),
        ({"message": "invalid size"}, "says that something is wrong, not why"),
        ({"error": "ParseError", "has_schedule": False, "has_payload": False}, "has no place in the text"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], problem: str) -> None:
    assert list(problems(replace(GOOD, **changes))) == [problem]


@pytest.mark.parametrize("error", ["ArgumentError", "CompileError"])
def test_what_has_no_place_by_nature(error: str) -> None:
    assert list(problems(replace(GOOD, error=error, has_schedule=False, has_payload=False))) == []


def test_the_page_has_each_message_once_with_its_shortest_example() -> None:
    longer = replace(GOOD, message="the tile size of `m` is 5 for %y", rendered="error: ... and more")
    text = page([longer, GOOD])
    assert text.count("### ") == 1
    assert "## Transforms" in text
    assert "\nerror: ...\n" in text


def test_messages_are_found_in_the_source() -> None:
    """Most of them: those that a function is given are not."""
    found = list(messages())
    assert len(found) > 800
    known = next(m for m in found if m.text == "the condition holds in more than .. ways")
    record = replace(GOOD, message="the condition holds in more than 64 ways")
    assert known not in unprovoked([record])
    assert known in unprovoked([])
