"""Handles name computations for good: taken at the start, they name the right loops and operations at every step."""

from __future__ import annotations

import pytest

import tcpx
from tests.end_to_end.payloads import LINEAR

STATIC = """\
func @static(%x: tensor<22x64xf32>, %w: tensor<64x32xf32>) -> tensor<22x32xf32> {
  %mm = tcp.matmul(%x, %w) : tensor<22x32xf32>
  tcp.return(%mm)
}
"""


def printed(payload: str, body: str) -> list[tuple[str, ...]]:
    """What the print statements of a schedule show, by statement: the lines, indentation aside."""
    text = f"language 1\nschedule main(root: func) {{\n{body}\n}}"
    run = tcpx.apply_schedule(tcpx.parse(payload), tcpx.parse_schedule(text), target="x86_avx2")
    shown: dict[int, list[str]] = {}
    for line in run.trace.output:
        shown.setdefault(line.location.line, []).extend(part.strip() for part in line.text.splitlines())
    return [tuple(lines) for lines in shown.values()]


CASES: dict[str, tuple[str, str, list[tuple[str, ...]]]] = {
    "peel": (
        STATIC,
        "let mm = match one contract in root\nlet i = tile(mm, [m: 6])\nprint(mm); print(i)\npeel(i)\nprint(mm); print(i)\n"
        "print(i.copy(\"tail\"))\nbufferize(root)\nprint(mm); print(i)\nprint(i.copy(\"tail\"))",
        [],
    ),
    "split": (
        STATIC,
        "let mm = match one contract in root\nlet i = tile(mm, [m: 2])\nsplit(i, at: 12)\nprint(mm); print(i)\n"
        "bufferize(root)\nprint(mm)\nprint(i.copy(\"low\"))\nprint(i.copy(\"high\"))",
        [],
    ),
    "unroll": (
        STATIC,
        "let mm = match one contract in root\nlet i = tile(mm, [m: 2])\nlet k = tile(mm, [k: 16])\nunroll(k, factor: 2)\n"
        "print(mm); print(k)\nbufferize(root)\nprint(mm)\nprint(mm.copy(\"1\"))\nprint(k)",
        [],
    ),
    "specialize": (
        LINEAR,
        "let mm = match one contract in root\nlet last = epilogue(mm)\nspecialize [mm, last] when size(mm.m) < 4 {\n"
        "let j = tile(mm, [n: 8])\nprint(mm); print(j)\n} else {\nlet i = tile(last, [d0: 6])\nfuse(mm, into: i)\nprint(mm); print(i)\n}\n"
        "print(mm)\nbufferize(root)\nprint(mm)\nprint(last)",
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_handles_follow(case: str) -> None:
    payload, body, wanted = CASES[case]
    found = printed(payload, body)
    assert found == wanted
