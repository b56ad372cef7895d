"""tile with `tail: shift` and with `num_threads`: the last tile over the one before, and tiles shared out evenly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import tcpx
from tcpx.payload.ops.gml_st import Loop
from tests.transform.payloads import CHAIN, MM, PAYLOADS, RELU, SOFTMAX, check, check_kernels, refusal, run

LONG = CHAIN.replace("[M: 0.., N: 0..]", "[M: 3.., N: 16..]").replace("tcp.sub", "tcp.add")
STATE = """\
func @state(%h: inout tensor<[N]xf32>) -> %h: tensor<[N]xf32> symbols [N: 8..] {
  %q = tcp.add(%h, %h) : tensor<[N]xf32>
  %r = tcp.mul(%q, %q) : tensor<[N]xf32>
  tcp.return(%r)
}
"""
Q, R = 'let q = match one "q" in root\n', 'let r = match one "r" in root\n'
SHIFTED: Mapping[str, tuple[str, str]] = {
    "static tiles": (LONG, f"{R}let i, j = tile(r, [d0: 1, d1: 16], tail: shift)\nvectorize(j)"),
    "both dims": (LONG, f"{R}let i, j = tile(r, [d0: 3, d1: 7], tail: shift)"),
    "a producer that could be in place": (LONG, f"{Q}let i, j = tile(q, [d0: 2, d1: 16], tail: shift)"),
    "with a producer": (LONG, f"{R}{Q}let j = tile(r, [d1: 16], tail: shift)\nfuse(q, into: j)"),
    "shorter than a tile": (CHAIN, f"{R}let i, j = tile(r, [d0: 4, d1: 5], tail: shift)"),
    "tiles of tiles": (LONG, f"{R}let j = tile(r, [d1: 11], tail: shift)\nlet k = tile(r, [d1: 4], tail: shift)"),
    "peeled": (LONG, f"{R}let j = tile(r, [d1: 16], tail: shift)\npeel(j)"),
    "a product": (RELU, f"{MM}let i = tile(mm, [m: 4], tail: shift)\nlet k = tile(mm, [k: 2])"),
    "rows of a softmax": (SOFTMAX, 'let y = match one "y" in root\nlet i = tile(y, [d0: 4], tail: shift)'),
}  # fmt: skip
SIZES = [{"M": m, "N": n, "K": 5} for m, n in ((3, 16), (4, 17), (7, 33), (5, 16))]


@pytest.mark.parametrize("name", SHIFTED)
def test_shifted_tiles(name: str) -> None:
    payload, body = SHIFTED[name]
    check(payload, body, SIZES if payload == LONG else (), exact=payload != SOFTMAX)


def test_kernels_of_shifted_tiles() -> None:
    check_kernels({k: v for k, v in SHIFTED.items() if v[0] != SOFTMAX}, SIZES)


@pytest.mark.parametrize("name", ["q", "r"])
def test_what_is_changed_in_place_is_changed_once(name: str) -> None:
    text = f'language 1\nschedule main(root: func) {{ let i = tile(match one "{name}" in root, [d0: 8], tail: shift) }}'
    kernel = tcpx.compile(tcpx.parse(STATE), schedule=tcpx.parse_schedule(text), target="native")
    for n in (8, 9, 21):
        state = np.arange(n, dtype=np.float32)
        kernel(state)
        np.testing.assert_array_equal(state, (2 * np.arange(n, dtype=np.float32)) ** 2)


def test_no_tile_is_masked() -> None:
    text = f"language 1\nschedule main(root: func) {{\n{SHIFTED['static tiles'][1]}\n}}"
    source = tcpx.emit(tcpx.parse(LONG), schedule=tcpx.parse_schedule(text), target="x86_avx512").c_source
    assert "mask_storeu" not in source
    assert "int64_t r_d11_size = tcpx_size_min(r_d11, N - 16);" in source


SHARED: Mapping[str, tuple[str, str]] = {
    "a grid": (CHAIN, f"{R}let i, j = tile(r, [d0: 1, d1: 4], num_threads: [2, 3])"),
    "rows": (RELU, f"{MM}let i = tile(mm, [m: 2], num_threads: [2])\nlet k = tile(mm, [k: 2])"),
    "padded": (SOFTMAX.replace("[M]", "7").replace("M: 0.., ", ""), 'let y = match one "y" in root\n'
               "let i = tile(y, [d0: 2], num_threads: [2], tail: pad)"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_tiles_that_are_shared_out(name: str) -> None:
    payload, body = SHARED[name]
    done = check(payload, body, exact=name != "padded")
    outer = [op for op in done.module.main.body.ops if isinstance(op, Loop)]
    assert all(op.is_parallel for op in outer[:1])


def test_kernels_of_shared_tiles() -> None:
    check_kernels(
        {k: v for k, v in SHARED.items() if k != "padded"}, [{"M": 7, "N": 17, "K": 5}, {"M": 0, "N": 3, "K": 1}]
    )


@pytest.mark.parametrize(("size", "count", "step"), [(1, 2, 7), (4, 2, 8), (4, 5, 4), (1, 20, 1), (16, 1, 16)])
def test_tiles_are_equal_and_multiples(size: int, count: int, step: int) -> None:
    done = run(
        SOFTMAX.replace("[M]", "13").replace("M: 0.., ", ""),
        f'let i = tile(match one "y" in root, [d0: {size}], num_threads: [{count}])',
    )
    (loop,) = [op for op in done.module.walk() if isinstance(op, Loop)]
    assert loop.var.step == step
    assert loop.is_parallel


@pytest.mark.parametrize(
    ("payload", "body", "said"),
    [
        (RELU, f"{MM}let k = tile(mm, [k: 4], tail: shift)",
         ("the last tile of `k` of %mm cannot be shifted over the one before: both compute some elements",
          "tiles that are computed of operands alone, one after the other", "reduction dim `k`", "tail: pad")),
        (RELU, f"{MM}let k = tile(mm, [k: 4])\nlet i = tile(mm, [m: 4], tail: shift)",
         ("the last tile of `m` of %mm cannot be shifted over the one before: both compute some elements",
          "tiles that are computed of operands alone, one after the other", "an `init`, which it adds to",
          "tail: pad")),
        (CHAIN, f"{R}let i = tile(r, [d1: 4], tail: shift, parallel: true)",
         ("the last tile of `d1` of %r cannot be shifted over the one before: both compute some elements",
          "tiles that are computed of operands alone, one after the other", "`parallel: true`", "tail: pad")),
        (CHAIN, f"{R}let i = tile(r, [d1: 4], tail: shift)\nparallelize(i)",
         ("iterations of r/d11 write one subset of %r", "disjoint subsets, proved from offset and step",
          "tile [0, min(%r/d11, max(0, N - 4))] [M, min(4, N)]", "tile a parallel dim instead of a reduction")),
        (CHAIN, f"{R}let i = tile(r, [d1: 4], num_threads: [2, 2])",
         ("`num_threads` says how many tiles there are along each dim", "a number of at least 1 for each of d1",
          "[2, 2]", None)),
        (CHAIN, f"{R}let i = tile(r, [d1: 4], num_threads: [0])",
         ("`num_threads` says how many tiles there are along each dim", "a number of at least 1 for each of d1",
          "[0]", None)),
        (CHAIN, f"{R}let i = tile(r, [d1: max(1, size(r.d1))], num_threads: [2])",
         ("the tile of `d1` is known only when the kernel runs, and nothing is rounded up to it",
          "a size that is a number now, beside `num_threads`", "max(1, N)", "[d1: 1]")),
        (RELU, f"{MM}let k = tile(mm, [k: 1], num_threads: [2])",
         ("`k` is a reduction dim and cannot be tiled in parallel: iterations add into one result", "a parallel dim",
          "reduction dim `k`", "write `split_reduction(mm, k, parts: 4, parallel: true)`")),
    ],
)  # fmt: skip
def test_refusals(payload: str, body: str, said: tuple[str, str, str, str | None]) -> None:
    found = refusal(payload, body)
    assert (found.message, found.required, found.found, found.fix) == said


def test_a_sum_of_shifted_tiles_counts_no_element_twice() -> None:
    body = 'let e = match one "y" in root\nlet j = tile(e, [d1: 5], tail: shift)\nfuse(match one "s" in root, into: j)'
    found = refusal(PAYLOADS["rows"], body)
    assert found.message == "the loop y/d11 does not step its producer in disjoint tiles"
