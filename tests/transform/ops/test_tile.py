"""tile: loops of every kind of tail, on every product, compute the same."""

from __future__ import annotations

import pytest

from tcpx.payload.ops.gml_st import Loop
from tests.transform.payloads import (
    CHAIN,
    INTEGERS,
    MM,
    PAYLOADS,
    PRODUCTS,
    RELU,
    ROWS,
    SOFTMAX,
    check,
    refusal,
    run,
)

TILES = {
    "m": "tile(mm, [m: 6])",
    "n, m": "tile(mm, [n: 8, m: 6])",
    "k": "tile(mm, [k: 2])",
    "k, m, n": "tile(mm, [k: 2, m: 6, n: 8])",
    "tail pad": "tile(mm, [n: 8, m: 6], tail: pad)",
    "tail peel": "tile(mm, [n: 8, k: 2], tail: peel)",
    "tail scalar": "tile(mm, [m: 6, k: 2], tail: scalar)",
    "parallel": "tile(mm, [m: 6, n: 8], parallel: true)",
    "of a size known at run time": "tile(mm, [m: max(1, ceildiv(size(mm.m), 2))])",
    "larger than the extent": "tile(mm, [n: 1000, k: 1000])",
}


@pytest.mark.parametrize("payload", PRODUCTS)
@pytest.mark.parametrize("name", TILES)
def test_computes_the_same(name: str, payload: str) -> None:
    check(PAYLOADS[payload], MM + TILES[name])


@pytest.mark.parametrize("tail", ["none", "peel", "scalar"])
def test_a_padded_reduction_needs_neutral_operands(tail: str) -> None:
    check(INTEGERS, MM + f"tile(mm, [k: 2, m: 4], tail: pad)\ntile(mm, [k: 1], tail: {tail})")


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        (CHAIN, 'tile(match one "q" in root, [d1: 8, d0: 3], tail: pad)'),
        (ROWS, 'tile(match one "s" in root, [d1: 8, d0: 3], tail: pad)'),
        (ROWS, 'tile(match one "s" in root, [d1: 8], tail: peel)'),
    ],
)
def test_other_classes(payload: str, body: str) -> None:
    check(payload, body)


def test_a_softmax_is_tiled_along_its_rows() -> None:
    check(SOFTMAX, 'tile(match one "y" in root, [d0: 4])', exact=False)


def test_loops_stand_in_the_order_written() -> None:
    done = run(RELU, MM + 'let i, j = tile(mm, [m: 6, n: 8])\nrequire parent(j) == i and mm.loop(n) == j "nest"')
    assert [op.name for op in done.module.walk() if isinstance(op, Loop)] == ["mm/m1", "mm/n1"]


@pytest.mark.parametrize(
    ("payload", "body", "message"),
    [
        (RELU, MM + "tile(mm, [q: 2])", "%mm has no dim `q`"),
        (RELU, MM + "tile(mm, [m: 0])", "the tile size of `m` is not positive"),
        (RELU, MM + "tile(mm, [m: 2 ** 50])", "the tile size of `m` is too large"),
        (
            RELU,
            MM + "tile(mm, [m: align_up(max(1, size(mm.m)), 9223372036854775807)])",
            "the tile size of `m` is too large",
        ),
        (RELU, MM + "tile(mm, [m: size(mm.n)])", "the tile size of `m` is not known to be positive"),
        (RELU, MM + "tile(mm, [k: 2], parallel: true)",
         "`k` is a reduction dim and cannot be tiled in parallel: iterations add into one result"),
        (RELU, MM + "tile(mm, [m: max(1, size(mm.n))], tail: pad)",
         "the tile size of `m` is known only when the kernel runs, so it cannot be padded to"),
        (SOFTMAX, 'tile(match one "y" in root, [d1: 4])',
         "`d1` of %y cannot be tiled: its reduction has no neutral element"),
    ],
)  # fmt: skip
def test_refused(payload: str, body: str, message: str) -> None:
    assert refusal(payload, body).message == message


def test_padding_a_reduction_is_refused_where_operands_have_no_neutral_element() -> None:
    found = refusal(PAYLOADS["min_plus"], MM + "tile(mm, [k: 2], tail: pad)")
    assert found.message == "%mm (tcp.generic): padding a reduction dim needs a neutral element for each operand"
