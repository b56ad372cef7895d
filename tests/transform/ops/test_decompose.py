"""decompose: a softmax as the operations it stands for."""

from __future__ import annotations

import pytest

from tests.transform.payloads import MM, RELU, SOFTMAX, check, refusal

Y = 'let y = match one "y" in root\n'


@pytest.mark.parametrize(
    "body",
    [
        "let d = decompose(y)",
        "let d = decompose(y)\nlet i = tile(d, [d0: 4])",
        "let i = tile(y, [d0: 4])\nlet d = decompose(y)\nlet j = tile(d, [d1: 8])",
        "let i = tile(y, [d0: 4], tail: pad)\nlet d = decompose(y)",
        "let i = tile(y, [d0: 4], tail: peel)\nlet d = decompose(y)",
    ],
)
def test_computes_the_same(body: str) -> None:
    done = check(SOFTMAX, Y + body, exact=False)
    assert not any(op.opcode == "tcp.softmax" for op in done.module.walk())


def test_refused() -> None:
    assert refusal(RELU, MM + "decompose(mm)").message == "%mm is not made of others"
