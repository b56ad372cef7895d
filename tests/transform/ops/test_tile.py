"""tile: loops of every kind of tail, on every product, compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.interfaces import Structured
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
    Sizes,
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
    "a dim twice": "tile(mm, [m: 6, n: 8, m: 2])",
    "a dim twice, tail pad": "tile(mm, [n: 8, k: 4, m: 6, k: 3, m: 4], tail: pad)",
    "a dim twice, tail peel": "tile(mm, [n: 8, k: 4, m: 6, m: 4], tail: peel)",
    "larger than the extent": "tile(mm, [n: 1000, k: 1000])",
}


@pytest.mark.parametrize("payload", PRODUCTS)
@pytest.mark.parametrize("name", TILES)
def test_computes_the_same(name: str, payload: str) -> None:
    check(PAYLOADS[payload], MM + TILES[name])


@pytest.mark.parametrize("tail", ["none", "peel", "scalar"])
def test_a_padded_reduction_needs_neutral_operands(tail: str) -> None:
    check(INTEGERS, MM + f"tile(mm, [k: 2, m: 4], tail: pad)\ntile(mm, [k: 1], tail: {tail})")


@pytest.mark.parametrize("body", ["tile(mm, [k: 2], tail: pad)", "pad(mm, [k: 4])"])
def test_a_reduction_dim_that_an_operand_lacks_is_masked(body: str) -> None:
    """The zeros of the one would meet the infinities of the other."""
    payload = """func @f(%x: tensor<2x3xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
  %mm = tcp.contract(%x, %w) {lhs = ["m", "k"], rhs = ["n"], out = ["m", "n"]} : tensor<2x4xf32>
  tcp.return(%mm)
}
"""
    module = check(payload, MM + body).module
    assert "valid = [" in module.text()
    x, w = np.ones((2, 3), np.float32), np.array([np.inf, 1, 2, 3], np.float32)
    (found,) = evaluate_func(module, module.main, [x, w])
    assert np.array_equal(found, x @ np.broadcast_to(w, (3, 4)))


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


@pytest.mark.parametrize("payload", [RELU, INTEGERS])
def test_a_dim_that_stands_twice_is_tiled_twice(payload: str) -> None:
    once = check(payload, MM + "let j, i, ii = tile(mm, [n: 8, m: 6, m: 2])\nrequire mm.loops(m) == [i, ii]")
    twice = check(payload, MM + "tile(mm, [n: 8, m: 6])\ntile(mm, [m: 2])")
    assert once.module.text() == twice.module.text()
    once = check(payload, MM + "tile(mm, [n: 8, m: 6, m: 4], tail: pad)")
    twice = check(payload, MM + "tile(mm, [n: 8, m: 6])\ntile(mm, [m: 4])\npad(mm, [n: 8, m: 4])")
    assert once.module.text() == twice.module.text()


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
        (RELU, MM + "tile(mm, [m: 4, m: 2], num_threads: [2, 2])",
         "`num_threads` says how many tiles there are along each dim, of which one stands twice"),
        (RELU, MM + "tile(mm, [m: max(1, size(mm.n))], tail: pad)",
         "the tile size of `m` is known only when the kernel runs, so it cannot be padded to"),
        (SOFTMAX, 'tile(match one "y" in root, [d1: 4])',
         "`d1` of %y cannot be tiled: its reduction has no neutral element"),
    ],
)  # fmt: skip
def test_refused(payload: str, body: str, message: str) -> None:
    assert refusal(payload, body).message == message


@pytest.mark.parametrize("tiled", ["", "tile(mm, [k: 3])\n"])
@pytest.mark.parametrize("inner", ["tile(mm, [k: 1])", "tile(mm, [k: 2])", "tile(mm, [n: 1, k: 3], tail: pad)"])
def test_a_reduction_is_masked_where_operands_have_no_neutral_element(inner: str, tiled: str) -> None:
    body = f"{tiled}let i, j, k = tile(mm, [m: 3, n: 8, k: 4], tail: pad)\n{inner}"
    check(PAYLOADS["min_plus"].replace("add", "sub"), MM + body)
    check(PAYLOADS["min_plus"].replace("add", "sub"), f"{MM}{body}\nvectorize(j)")


@pytest.mark.parametrize("payload", PRODUCTS)
@pytest.mark.parametrize(
    "body",
    [
        "let i, j, k = tile(mm, [m: 3, n: 8, k: 2], tail: pad)",
        "let i, j = tile(mm, [m: 3, n: 8], tail: pad)\nlet k = tile(mm, [k: 2], tail: pad)",
        "let i, k, j = tile(mm, [m: 3, k: 2, n: 8], tail: pad)\nfuse(mm.start, into: j)",
    ],
)
def test_a_padded_reduction_starts_with_full_tiles(body: str, payload: str) -> None:
    check(PAYLOADS[payload], f"{MM}{body}\nvectorize(j)")


def test_the_handle_of_a_transpose_follows_its_tiles() -> None:
    body = 'let t = match one "t" in root\nlet j = tile(mm, [n: 8])\ntile(t in j, [d0: 2])'
    assert "t/d01" in check(PAYLOADS["transposed"], MM + body).module.text()


REPEATED = """func @f(%x: tensor<[M]x[N]xf32>, %b: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., N: 0..] {
  %two = tcp.fill {value = 2.0} : tensor<[M]x[N]xf32>
  %w = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x[N]xf32>
  %p = tcp.mul(%two, %x) : tensor<[M]x[N]xf32>
  %r = tcp.fma(%p, %two, %w) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""


@pytest.mark.parametrize("tail", ["none", "pad", "peel", "scalar"])
@pytest.mark.parametrize("outer", ["", "tile(r, [d0: 4])\n"])
def test_what_repeats_elements_is_made_in_the_loop(outer: str, tail: str) -> None:
    """A fill and a broadcast that an operation reads were buffers of its size: a chain took twice the time."""
    body = f'let r = match one "r" in root\n{outer}let i, j = tile(r, [d0: 2, d1: 16], tail: {tail})'
    tiled = check(REPEATED, body)
    assert {op.name for op in tiled.module.main.body.ops if isinstance(op, Structured)} == {"two", "p"}
    if tail in ("none", "pad"):
        fused = check(REPEATED, f'{body}\nfuse(match one "p" in root, into: j)' + "\nvectorize(j)" * (tail == "pad"))
        assert not any(isinstance(op, Structured) for op in fused.module.main.body.ops)


def test_the_handle_of_a_broadcast_follows_it() -> None:
    body = (
        'let r = match one "r" in root\nlet w = match one "w" in root\n'
        "let i, j = tile(r, [d0: 2, d1: 16], tail: pad)\ntile(w in i, [d1: 4])"
    )
    loops = [op for op in check(REPEATED, body).module.walk() if isinstance(op, Loop)]
    assert "w/d11" in {op.name for op in loops}


def test_a_fill_that_a_loop_makes_already_is_not_fused_into_it() -> None:
    body = 'let w = match one "w" in root\nlet i = tile(match one "r" in root, [d0: 2])\nfuse(w, into: i)'
    found = refusal(REPEATED, body)
    assert (found.message, found.fix) == ("%w is already in the loop r/d01", "leave this statement out")


@pytest.mark.parametrize("k", ["tile(mm, [k: 1])", "let kk = tile(mm, [k: 4], tail: pad)"])
def test_what_a_reduction_reads_may_repeat_elements(k: str) -> None:
    """Padding of the summed dim is 0, which a broadcast along it does not give."""
    payload = """func @f(%x: tensor<[M]x[K]xf32>, %b: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %w = tcp.broadcast(%b) {dims = [1]} : tensor<[K]x[N]xf32>
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""  # noqa: E501
    loop = "kk" if "kk" in k else "j"
    check(payload, f"{MM}let i, j = tile(mm, [m: 4, n: 16], tail: pad)\n{k}\nvectorize({loop})")


@pytest.mark.parametrize("condition", ["<= 8", "< 8", "== 8"])
@pytest.mark.parametrize("size", [8, 12])
@pytest.mark.parametrize("tail", ["none", "pad", "peel"])
def test_tiles_at_least_as_large_as_a_version(tail: str, size: int, condition: str) -> None:
    """The loop variable is 0 in this version only: the text, read again, says so too."""
    then, orelse = f"tile(y, [d0: {size}], tail: {tail})", "tile(y, [d0: 4])"
    body = f"specialize y when size(y.d0) {condition} {{ {then} }} else {{ {orelse} }}"
    sizes: list[Sizes] = [{"M": m, "N": 5} for m in (0, 1, 8, 9)]
    check(SOFTMAX, 'let y = match one "y" in root\n' + body, sizes, exact=False)


@pytest.mark.parametrize("tail", ["none", "peel", "scalar"])
@pytest.mark.parametrize("parallel", ["true", "false"])
def test_a_size_of_all_copies_is_not_what_one_version_knows(parallel: str, tail: str) -> None:
    body = "specialize r when size(r.d0) % 4 == 0 { } else { }\n"
    body += f"tile(r, [d0: max(1, ceildiv(size(r.d0), 2))], parallel: {parallel}, tail: {tail})"
    done = check(CHAIN, 'let r = match one "r" in root\n' + body, [{"M": m, "N": 3} for m in (0, 1, 2, 3, 4, 7, 8)])
    known, other = done.module.text().split("} else {")
    assert "step max(1, ceildiv(M, 2))" in known
    assert "step max(1, floordiv" not in known
    assert "floordiv" not in other


def test_a_scalar_tail_does_not_end_in_padding() -> None:
    body = 'let r = match one "r" in root\nlet o = pad(r, [d0: 13])\ntile(o, [d0: 7], tail: scalar)'
    found = refusal(CHAIN.replace("M: 0..", "M: 0..13"), body)
    assert found.message.endswith("the tail of r/d01~tail cannot step by 1: a tile in its body ends in padding")
    assert found.fix == "peel without `scalar`, or pad only the other dims"


EMPTY = """\
func @f(%x: tensor<0x64xf32>, %y: tensor<64x0xf32>, %z: tensor<0x8xf32>) -> (tensor<0x64xf32>, tensor<64x8xf32>) {
  %e = tcp.exp(%x) : tensor<0x64xf32>
  %mm = tcp.matmul(%y, %z) : tensor<64x8xf32>
  tcp.return(%e, %mm)
}
"""


@pytest.mark.parametrize("tail", ["", ", tail: pad", ", tail: peel", ", tail: scalar", ", tail: shift"])
def test_tiles_of_nothing_are_full(tail: str) -> None:
    """No iteration runs, so none is shorter: what is in the loop can be vectorized."""
    body = f"let e = match one elementwise in root\nlet i, _ = tile(e, [d0: 4, d1: 16]{tail})\nvectorize(i)"
    assert "vector<4x16xf32>" in check(EMPTY, body).module.text()


def test_products_of_nothing_are_vectorized() -> None:
    body = "let mm = match one contract in root\nlet i, _ = tile(mm, [m: 8, n: 8])\ntile(mm, [k: 2])\nvectorize(i)"
    assert "vector<8x2xf32>" in check(EMPTY, body).module.text()
