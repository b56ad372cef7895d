"""The examples of docs/language.md: schedules check, expressions have the value that stands behind them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tcpx

PAGE = (Path(__file__).parents[1] / "docs" / "language.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SCHEDULES = [text for _, text in BLOCKS if text.startswith("language ")]
VALUES = [line.split("//") for kind, text in BLOCKS if kind == "values" for line in text.splitlines()]
PAYLOAD = """\
func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tcp.exp(%x) : tensor<4xf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize("text", SCHEDULES)
def test_schedule(text: str) -> None:
    assert tcpx.check(tcpx.parse_schedule(text)) == ()
    assert tcpx.format_schedule(text).split() == text.split()


@pytest.mark.parametrize(("expression", "value"), VALUES, ids=lambda text: text.strip())
def test_value(expression: str, value: str) -> None:
    schedule = tcpx.parse_schedule(
        f"language 1\nschedule s(root: func) {{\n  require ({expression}) == ({value})\n  print(root)\n}}"
    )
    tcpx.apply_schedule(tcpx.parse(PAYLOAD), schedule, target="x86_avx512")


def test_there_are_examples() -> None:
    assert len(SCHEDULES) >= 7
    assert len(VALUES) >= 16
