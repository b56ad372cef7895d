"""How a place is shown: the line, or a part of a long one, with carets that a terminal has room for."""

from __future__ import annotations

import pytest

from tcpx.payload.diagnostics import Location

LINE = "".join(f"word{k:03} " for k in range(60))


def test_a_long_span_is_underlined_at_its_beginning() -> None:
    shown, carets = Location("f", 1, 9, 1, 100, LINE[:100]).caret().splitlines()
    assert shown.endswith(LINE[:100])
    assert carets.count("^") == 60
    assert carets.index("^") == shown.index("word001")


@pytest.mark.parametrize("column", [1, 9, 41, 233, 473])
def test_of_a_long_line_the_part_round_the_place_is_shown(column: int) -> None:
    place = Location("f", 7, column, 7, column + 7, LINE)
    shown, carets = place.caret().splitlines()
    assert max(len(shown), len(carets)) <= 125
    start = carets.index("^")
    assert shown[start : start + 7] == place.span
    assert carets.count("^") == 7
    assert shown.startswith("    7 | ...") == (column > 40)
    assert shown.endswith("...") == (column < 400)


def test_a_span_of_several_lines_is_underlined_to_the_end_of_the_first() -> None:
    shown, carets = Location("f", 1, 5, 3, 2, "let x = tile(mm,").caret().splitlines()
    assert shown.endswith("let x = tile(mm,")
    assert carets.count("^") == len("x = tile(mm,")


def test_an_end_behind_the_line_has_a_caret() -> None:
    _, carets = Location("f", 1, 4, 1, 5, "let").caret().splitlines()
    assert carets.endswith("|    ^")


def test_control_characters_are_shown_as_pictures() -> None:
    shown, carets = Location("f", 1, 3, 1, 4, "sc\x00hed\x1b[0mule\t1").caret().splitlines()
    assert shown == "    1 | sc\u2400hed\u241b[0mule\t1"
    assert carets.index("^") == shown.index("\u2400")
