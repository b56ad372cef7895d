"""fuse: producers, consumers and starts, into loops of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ops.gml_st import Loop
from tests.transform.payloads import (
    CHAIN,
    MM,
    RELU,
    ROWS,
    SOFTMAX,
    TRANSPOSED,
    Sizes,
    check,
    refusal,
)

R = 'let r = match one "r" in root\n'
S = 'let s = match one "s" in root\n'
P = 'let p = match one "p" in root\n'
Y = 'let y = match one "y" in root\n'
SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k}
    for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 17, 0), (13, 17, 5), (1, 1, 1), (12, 16, 4), (3, 8, 2))
)
CONSUMERS = {
    "into parallel loops": "let i, j = tile(mm, [m: 6, n: 8])\nfuse(r, into: j)",
    "into one loop": "let j = tile(mm, [n: 8])\nfuse(r, into: j)",
    "one after the other": S + "let j = tile(mm, [n: 8])\nfuse(s, into: j)\nfuse(r, into: j)",
    "behind an inner reduction": "let i, j = tile(mm, [m: 6, n: 8])\nlet k = tile(mm, [k: 2])\nfuse(r, into: j)",
    "inside a reduction": "let k = tile(mm, [k: 2])\nlet i, j = tile(mm, [m: 6, n: 8])\nfuse(r, into: j)",
    "start, then end": (
        "let k = tile(mm, [k: 2])\nlet i, j = tile(mm, [m: 6, n: 8])\nfuse(mm.start, into: j)\nfuse(r, into: j)"
    ),
    "end, then start": (
        "let k = tile(mm, [k: 2])\nlet i, j = tile(mm, [m: 6, n: 8])\nfuse(r, into: j)\nfuse(mm.start, into: j)"
    ),
    "inside, between parallel loops": (
        "let i = tile(mm, [m: 6])\nlet k = tile(mm, [k: 2])\nlet j = tile(mm, [n: 8])\n"
        "fuse(mm.start, into: j)\nfuse(r, into: j)"
    ),
    "on padded tiles": (
        "let k = tile(mm, [k: 2])\nlet i, j = tile(mm, [m: 6, n: 8], tail: pad)\n"
        "fuse(mm.start, into: j)\nfuse(r, into: j)"
    ),
    "what is kept of padded tiles": (
        "let k = tile(mm, [k: 2])\nlet i, j = tile(mm, [m: 6, n: 8], tail: pad)\n"
        "fuse(mm.start, into: j)\nfuse(r, into: j, padded: false)"
    ),
    "then peeled": "let i, j = tile(mm, [m: 6, n: 8])\nfuse(r, into: j)\npeel(i)\npeel(j)",
}
PRODUCERS = {
    "through a chain": "let i, j = tile(r, [d0: 6, d1: 8])\nfuse(mm, into: j)",
    "on padded tiles": "let i, j = tile(r, [d0: 6, d1: 8], tail: pad)\nfuse(mm, into: j)",
    "one after the other": S + "let i, j = tile(r, [d0: 6, d1: 8], tail: pad)\nfuse(s, into: j)\nfuse(mm, into: j)",
    "then tiled": "let i, j = tile(r, [d0: 6, d1: 8])\nfuse(mm, into: j)\nlet k = tile(mm, [k: 2])",
    "into a parallel loop": "let i = tile(r, [d0: 6], parallel: true)\nfuse(mm, into: i)",
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_consumers(name: str) -> None:
    check(RELU, MM + R + CONSUMERS[name], SIZES)


@pytest.mark.parametrize("name", PRODUCERS)
def test_producers(name: str) -> None:
    check(RELU, MM + R + PRODUCERS[name], SIZES)


@pytest.mark.parametrize(
    "body",
    [
        P + R + "let i = tile(p, [d0: 4])\nfuse(r, into: i)",
        P + R + "let i, j = tile(p, [d0: 4, d1: 16], tail: pad)\nfuse(r, into: j)",
        P + R + "let i, j = tile(r, [d0: 4, d1: 16], tail: pad)\nfuse(p, into: j)",
    ],
)
def test_chains(body: str) -> None:
    check(CHAIN, body)


@pytest.mark.parametrize(
    "body",
    [
        S + Y + "let i = tile(s, [d0: 4])\nfuse(y, into: i)",
        S + Y + "let i, j = tile(s, [d0: 4, d1: 8])\nfuse(y, into: j)",
        S + Y + "let j, i = tile(s, [d1: 8, d0: 4])\nfuse(s.start, into: i)\nfuse(y, into: i)",
        S + Y + "let i = tile(y, [d0: 4])\nfuse(s, into: i)",
    ],
)
def test_reductions_of_rows(body: str) -> None:
    check(ROWS, body)


@pytest.mark.parametrize(
    "body",
    [
        "if exists(mm.start) or exists(mm.init) { tile(mm, [m: 1000]) }\n"
        "let k = tile(mm, [k: 2])\nif exists(mm.start) and exists(mm.init) { fuse(mm.start, into: k) }",
        "let j = tile(mm, [n: 8])\nlet k = tile(mm, [k: 2])\nfuse(mm.start, into: k)",
        "let k = tile(mm, [k: 2])\nlet j = tile(mm, [n: 8])\nfuse(mm.start, into: j)",
    ],
)
def test_a_start_moves_to_the_first_step(body: str) -> None:
    check(TRANSPOSED, MM + body, SIZES)


GIVEN = """\
func @given(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>, %c: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %mm = tcp.matmul(%x, %w, init = %c) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""  # noqa: E501
SHARED = """\
func @shared(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %z = tcp.fill {value = 2.0} : tensor<[M]x[N]xf32>
  %mm = tcp.matmul(%x, %w, init = %z) : tensor<[M]x[N]xf32>
  %r = tcp.add(%mm, %z) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""


@pytest.mark.parametrize(("padded", "shape"), [("true", "6x8"), ("false", "[min(6, M - %mm/m1)]x[min(8, N - %mm/n1)]")])
def test_padding_is_computed_or_not(padded: str, shape: str) -> None:
    body = f"let i, j = tile(mm, [m: 6, n: 8], tail: pad)\nfuse(r, into: j, padded: {padded})"
    (line,) = (line for line in check(RELU, MM + R + body, SIZES).module.text().splitlines() if 'name "r"' in line)
    assert f": tensor<{shape}xf32>" in line


def test_a_start_that_is_used_elsewhere_too_is_made_again() -> None:
    check(SHARED, MM + "let k = tile(mm, [k: 2])\nlet j = tile(mm, [n: 8])\nfuse(mm.start, into: j)", SIZES)


def test_a_softmax_row_by_row() -> None:
    body = Y + "let d = decompose(y)\nlet i = tile(d, [d0: 4])\n"
    check(SOFTMAX, body + "fuse(match one reduce_max in root, into: i)", exact=False)
    check(SOFTMAX, body + "fuse(match one reduce_sum in root, into: i, recompute: true)", exact=False)
    done = check(SOFTMAX, body + "fuse(match one exp in root, into: i)", exact=False)
    (loop,) = (op for op in done.module.walk() if isinstance(op, Loop))
    assert {"tcp.exp", "tcp.reduce_sum", "tcp.broadcast"} <= {op.opcode for op in loop.walk()}


TWICE = """\
func @twice(%x: tensor<[M]x[N]xf32>, %y: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., N: 0..] {
  %p = tcp.sub(%x, %y) : tensor<[M]x[N]xf32>
  %e = tcp.mul(%p, %p) : tensor<[M]x[N]xf32>
  %r = tcp.max(%e, %p) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""


@pytest.mark.parametrize("tail", ["none", "pad"])
def test_what_is_used_twice_is_computed_once(tail: str) -> None:
    """Uses on the way into the loop are fused first, and uses of the same subset share it."""
    body = R + f'let i, j = tile(r, [d0: 4, d1: 8], tail: {tail})\nfuse(match one "p" in root, into: j)'
    done = check(TWICE, body, SIZES)
    (loop,) = (op for op in done.module.walk() if isinstance(op, Loop) and op.name == "r/d11")
    assert sorted(op.opcode for op in loop.body.ops if isinstance(op, Elementwise)) == ["tcp.max", "tcp.mul", "tcp.sub"]


RETURNED = CHAIN.replace(" -> tensor<[M]x[N]xf32>", " -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>)").replace(
    "return(%r)", "return(%r, %p)"
)


@pytest.mark.parametrize(
    ("payload", "body", "message"),
    [
        (RELU, MM + R + "let i = tile(mm, [m: 6])\nfuse(r, into: i)\nfuse(r, into: i)",
         "%r is already in the loop mm/m1"),
        (RELU, MM + R + 'let b = match one "bias" in root\nlet i = tile(b, [d0: 6])\nfuse(mm, into: i)',
         "the loop bias/d01 does not use %mm"),
        (ROWS, S + Y + "let i, j = tile(y, [d0: 4, d1: 4])\nfuse(s, into: j)",
         "%s reduces `d1`, which the loops step in tiles"),
        (RETURNED, R + 'let i = tile(r, [d0: 4])\nfuse(match one "p" in root, into: i)',
         "%p is also used outside the loop r/d01"),
        (CHAIN, P + 'let q = match one "q" in root\nlet i = tile(q, [d0: 4])\nlet e = tile(p, [d0: 2])\n'
         "fuse(q, into: e)", "%q does not follow the loop p/d01"),
        (RELU, MM + R + "let i = tile(mm, [m: 6], tail: peel)\nfuse(r, into: i)",
         "it is not clear which copy of %mm/m1 goes with %r"),
        (RELU, MM + R + 'let i = tile(mm, [m: 6], tail: peel)\nfuse(r, into: i.copy("main"))',
         "%r needs what several copies of a loop compute: mm/m1 and mm/m1~tail"),
        (RELU, MM + R + 'let i = tile(mm, [m: 6], tail: peel)\nfuse(r, into: i.copy("tail"))',
         "%r needs what several copies of a loop compute: mm/m1 and mm/m1~tail"),
        (RELU, MM + R + 'let k, i = tile(mm, [k: 2, m: 2])\nsplit(i, at: 4)\nfuse(r, into: i.copy("high"))',
         "%r needs what several copies of a loop compute: mm/m1 and mm/m1~high"),
        (CHAIN, P + 'let q = match one "q" in root\nlet i = tile(p, [d1: 4])\nsplit(i, at: 4)\n'
         'fuse(q, into: i.copy("high"))',
         "%q needs what several copies of a loop compute: p/d11 and p/d11~high"),
        (GIVEN, MM + "let k = tile(mm, [k: 2])\nfuse(mm.start, into: k)", "%mm has no start: its first value is given"),
        (RELU, MM + "let k = tile(mm, [k: 1])\nlet i, j = tile(mm, [m: 6, n: 8], tail: pad)\nfuse(mm.start, into: j)",
         "%mm/k1 (gml_st.for): mm/k1 may have no iteration, and its body has a tile of fixed size"),
    ],
)  # fmt: skip
def test_refused(payload: str, body: str, message: str) -> None:
    assert refusal(payload, body).message == message


LAYERS = """
func @f(%x: tensor<[M]x8xf32>, %w: tensor<8x16xf32>, %v: tensor<16x4xf32>) -> tensor<[M]x4xf32> symbols [M] {
  %h = tcp.matmul(%x, %w) : tensor<[M]x16xf32>
  %fc = tcp.matmul(%h, %v) : tensor<[M]x4xf32>
  %r = tcp.exp(%fc) : tensor<[M]x4xf32>
  tcp.return(%r)
}
"""
LAYER_NAMES = "".join(f'let {name} = match one "{name}" in root\n' for name in ("h", "fc", "r"))


def test_a_consumer_of_what_the_loop_does_not_yield() -> None:
    """The message calls the product as the payload does, and says which loop has tiles of it."""
    steps = f"{LAYER_NAMES}let i = tile(fc, [m: 4])\nfuse(h, into: i)\nlet j = tile(h, [n: 8])\n"
    wrong = refusal(LAYERS, f"{steps}fuse(r, into: j)")
    assert wrong.message == "%fc is not computed tile by tile in h/n1"
    assert wrong.required == "one yield per loop from the outermost loop down to the loop fused into"
    assert (wrong.found, wrong.fix) == ("tiles of %fc in fc/m1", "fuse into fc/m1")
    check(LAYERS, f"{steps}fuse(r, into: i)", [{"M": 9}], exact=False)


def test_promote_and_fuse_name_what_is_computed_at_once() -> None:
    steps = f"{LAYER_NAMES}let i = tile(fc, [m: 4])\nfuse(h, into: i)\n"
    wrong = refusal(LAYERS, f"{steps}promote(h.out, at: i)")
    assert (wrong.message, wrong.found) == ("no iteration of fc/m1 writes %h", "%fc")
    wrong = refusal(LAYERS, f"{steps}promote(fc.out, at: i)")
    assert wrong.message == "an iteration of fc/m1 writes %fc at once"


def test_the_last_copy_of_a_reduction_takes_a_consumer() -> None:
    check(RELU, MM + R + 'let i, k = tile(mm, [m: 6, k: 2])\npeel(k)\nfuse(r, into: k.copy("tail"))')


def test_a_slot_of_a_packed_operand_is_not_empty() -> None:
    """With K = 0 the reduction would run once for its start, and read a slot that is not there."""
    payload = RELU.replace("K: 0..", "K: 0.. multiple_of 4")
    assert payload != RELU
    body = MM + "let k, i = tile(mm, [k: 4, m: 1])\npack(mm.lhs, layout: [k/4, k%4])\nfuse(mm.start, into: k)"
    error = refusal(payload, body)
    assert error.message == "%mm/k1 (gml_st.for): mm/k1 may have no iteration, and its body has a tile of fixed size"
    assert error.required is not None
    assert error.required.endswith("a tile of %mm.lhs.t.1 (gml_st.materialize): a slot would be empty")
    assert error.found == "0 to K step 4"


@pytest.mark.parametrize(
    ("sizes", "body", "fault"),
    [
        ("K: 0..", "let a, b, c = tile(mm, [m: 4, k: 4, n: 4])\nlet k = tile(mm, [k: 8])\n"
         "pack(mm.rhs, [k/4, n, k%4], at: c)\npack(mm.lhs, [m, k/4, k%4], at: b)\nfuse(mm.start, into: k)",
         "mm.lhs/pack1 would fill nothing of %mm.lhs.buffer"),
        ("K: 0.. multiple_of 4", "let a, b, c = tile(mm, [m: 1, k: 8, n: 8], tail: pad)\nlet k = tile(mm, [k: 4])\n"
         "pack(mm.lhs, [m, k], at: b)\nfuse(mm.start, into: c)",
         "tile [%mm/m1, %mm.lhs/pack1 + %mm/k1] [1, min(4, min(8, K - %mm/k1) - %mm.lhs/pack1)] of %x would have "
         "no size"),
    ],
)  # fmt: skip
def test_an_iteration_of_nothing_finds_buffers_filled(sizes: str, body: str, fault: str) -> None:
    """With K = 0 the reduction would run once for its start, and read what no loop has packed."""
    error = refusal(RELU.replace("K: 0..", sizes), MM + body)
    assert error.message == "%mm/k1 (gml_st.for): mm/k1 may have no iteration, and its body has a tile of fixed size"
    assert error.required == f"at least one iteration, or operations on tiles that may be empty: {fault}"
    stated = RELU.replace("K: 0..", sizes.replace("0..", "4.."))
    check(stated, MM + body, [{"M": 3, "N": 9, "K": k} for k in (4, 8, 12)])


@pytest.mark.parametrize(
    "body", ["let i = tile(p, [d0: 4])", "let i = tile(p, [d1: 4])", "let j, i = tile(p, [d1: 3, d0: 2])"]
)
def test_a_consumer_that_nothing_uses(body: str) -> None:
    unused = CHAIN.replace(
        "  tcp.return(%r)", "  %t = tcp.transpose(%p) {permutation = [1, 0]} : tensor<[N]x[M]xf32>\n  tcp.return(%x)"
    )
    check(unused, P + f'let t = match one "t" in root\n{body}\nfuse(t, into: i)')


def test_a_consumer_behind_a_reduction_of_nothing() -> None:
    """With N = 0 the reduction runs once for its consumer, and must read nothing."""
    payload = ROWS.replace("N: 0..", "N: 0.. multiple_of 4").replace(
        "  tcp.return(%s)", "  %z = tcp.exp(%s) : tensor<[M]xf32>\n  tcp.return(%z)"
    )
    body = S + 'let z = match one "z" in root\nlet k = tile(s, [d1: 4])\nfuse(z, into: k)'
    done = check(payload, body, [{"M": m, "N": n} for m in (0, 3) for n in (0, 4, 8)], exact=False)
    assert "tile [0, %s/d11] [M, min(4, N - %s/d11)]" in done.module.text()


def test_a_consumer_does_not_sum_what_a_padded_tile_holds_behind_it() -> None:
    """There 0 is multiplied with what may be infinite."""
    body = MM + S + "let k = tile(mm, [k: 4])\npad(mm, [n: 8])\nfuse(s, into: k)"
    payload = """func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x5xf32>) -> tensor<[M]xf32> symbols [M: 0.., K: 1..] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x5xf32>
  %s = tcp.reduce_sum(%mm) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%s)
}
"""
    done = check(payload, body, [{"M": 3, "K": k} for k in (1, 4, 5)])
    x, w = np.full((3, 5), np.inf, np.float32), np.ones((5, 5), np.float32)
    np.testing.assert_array_equal(evaluate_func(done.module, done.module.main, [x, w])[0], np.full(3, np.inf))


def test_the_handle_of_a_broadcast_follows_it_into_the_loop() -> None:
    """What is pulled along, because an operation on the way reads it, is the same computation in the loop."""
    payload = """
func @f(%x: tensor<[M]x8xf32>, %b: tensor<8xf32>) -> tensor<[M]x8xf32> symbols [M] {
  %e = tcp.exp(%x) : tensor<[M]x8xf32>
  %t = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x8xf32>
  %s = tcp.add(%e, %t) : tensor<[M]x8xf32>
  %r = tcp.mul(%s, %x) : tensor<[M]x8xf32>
  tcp.return(%r)
}
"""
    names = "".join(f'let {n} = match one "{n}" in root\n' for n in "etsr")
    body = (
        names
        + "let i = tile({0}, [d0: 4])\nfuse({1}, into: i)\nrequire parent(t) == i and parent(s) == i and len(t) == 1"
    )
    check(payload, body.format("r", "e"))
    check(payload, body.format("e", "r"))


@pytest.mark.parametrize("parallel", ["false", "true"])
@pytest.mark.parametrize("into", ["m", "n"])
def test_a_sum_over_one_tile_is_there_where_the_tile_is_empty(parallel: str, into: str) -> None:
    """With N = 0 the loop over the dim that is reduced would not run, and nothing write the sum of nothing."""
    payload = """\
func @columns(%x: tensor<[N]x[M]xf32>) -> tensor<[M]xf32> symbols [M, N: 0..8] {
  %p = tcp.exp(%x) : tensor<[N]x[M]xf32>
  %r = tcp.reduce_sum(%p) {dims = [0]} : tensor<[M]xf32>
  tcp.return(%r)
}
"""
    order = "n, m" if into == "m" else "m, n"
    sizes = {"n": "d0: 8", "m": "d1: 4"}
    entries = ", ".join(sizes[name] for name in order.split(", "))
    body = P + R + f"let a, b = tile(p, [{entries}], parallel: {parallel})\nfuse(r, into: b)"
    check(payload, body, [{"M": m, "N": n} for m in (0, 1, 9) for n in (0, 1, 8)])


def test_data_movement_that_an_outer_loop_reads_is_on_the_way() -> None:
    """The loop over `n` reads the broadcast for the loop inside: the read goes in there, with what leads to it."""
    payload = """func @f(%b: tensor<2xf32>, %x: tensor<[M]x3xf32>) -> tensor<2x[M]xf32> symbols [M] {
  %e = tcp.exp(%b) : tensor<2xf32>
  %w = tcp.broadcast(%e) {dims = [1]} : tensor<3x2xf32>
  %y = tcp.contract(%x, %w) {lhs = ["m", "k"], rhs = ["k", "n"], out = ["n", "m"]} : tensor<2x[M]xf32>
  tcp.return(%y)
}
"""
    tiled = (
        'let y = match one "y" in root\nlet e = match one "e" in root\nlet n, m = tile(y, [n: 1, m: 4], tail: pad)\n'
    )
    check(payload, f"{tiled}fuse(e, into: m)", [{"M": m} for m in (0, 3, 9)], exact=False)
    used = payload.replace("-> tensor<2x[M]xf32>", "-> (tensor<2x[M]xf32>, tensor<3x2xf32>)").replace(
        "(%y)\n", "(%y, %w)\n"
    )
    assert refusal(used, f"{tiled}fuse(e, into: m)").message == "%w is also used outside the loop y/m1"


def test_data_movement_is_taken_along_by_what_it_leads_to() -> None:
    payload = """func @f(%v: tensor<16xf32>, %x: tensor<[M]x16xf32>) -> tensor<[M]x16xf32> symbols [M] {
  %b = tcp.broadcast(%v) {dims = [1]} : tensor<[M]x16xf32>
  %s = tcp.sub(%x, %b) : tensor<[M]x16xf32>
  %y = tcp.exp(%s) : tensor<[M]x16xf32>
  tcp.return(%y)
}
"""
    body = 'let y = match one "y" in root\nlet i = tile(y, [d0: 4])\nfuse(match one "b" in root, into: i)'
    check(payload, body, [{"M": m} for m in (0, 3, 9)])


def test_a_slot_that_is_not_there_is_not_filled() -> None:
    """With K = 0 the packed operand has no slot, and a loop that runs once for the start would fill one."""
    payload = """func @f(%w: tensor<[K]x8xf32>, %x: tensor<8x[K]xf32>) -> tensor<8x8xf32> symbols [K: 0..40] {
  %mm = tcp.matmul(%x, %w) : tensor<8x8xf32>
  tcp.return(%mm)
}
"""
    packed = (
        'let mm = match one "mm" in root\n'
        "specialize mm when size(mm.k) < 3 { tile(mm, [k: 5], tail: pad) } else { tile(mm, [k: 4], tail: pad) }\n"
        "let m = tile(mm, [m: 8])\nlet p = pack(mm.rhs, [k, n], filled_by: m)\n"
    )
    check(payload, packed, [{"K": k} for k in (0, 2, 9)])
    assert "may have no iteration" in refusal(payload, f"{packed}fuse(mm.start, into: p)").message


def test_a_tile_that_something_in_a_loop_reads_stays_what_it_is() -> None:
    """Nothing outside of the loops uses the sum any more, and the second fuse takes no place from the first."""
    text = """func @f(%x: tensor<[M]x7x5xf32>) -> (tensor<[M]x7x5xf32>, tensor<[M]x7x5xf32>) symbols [M] {
      %s = tcp.add(%x, %x) : tensor<[M]x7x5xf32>
      %r = tcp.exp(%s) : tensor<[M]x7x5xf32>
      %y = tcp.max(%s, %x) : tensor<[M]x7x5xf32>
      tcp.return(%r, %y)
    }
    """
    check(text, S + R + Y + "let i, j = tile(s, [d0: 4, d2: 2])\nfuse(y, into: i)\nfuse(r, into: j)")


SCAN = """\
func @scan(%x: tensor<[R]x[N]xf32>) -> tensor<[R]x[N]xf32> symbols [R: 0.., N: 0..] {
  %v, %t = tcp.cumsum(%x) {dim = 1} : tensor<[R]x[N]xf32>, tensor<[R]xf32>
  %c = tcp.add(%v, %x) : tensor<[R]x[N]xf32>
  tcp.return(%c)
}
"""
INTO_ROWS = 'let v = match one "v" in root\nlet c = match one "c" in root\nlet b = tile(c, [d0: 2])\nfuse(v, into: b)'


def test_a_scan_is_fused_along_its_other_dims() -> None:
    check(SCAN, INTO_ROWS, [{"R": r, "N": n} for r in (0, 1, 5) for n in (0, 1, 7)])


def test_a_part_of_a_scan_would_begin_anew() -> None:
    diagnostic = refusal(SCAN, INTO_ROWS.replace("d0: 2", "d1: 5"))
    assert diagnostic.message.endswith("this subset of the result is no box of iterations")
    assert diagnostic.required is not None
    assert diagnostic.required.endswith("from the first one on where they have an order")


READ_OUTSIDE = """\
func @read_outside(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>) symbols [M, N] {
  %p = tcp.exp(%x) : tensor<[M]x[N]xf32>
  %y = tcp.neg(%p) : tensor<[M]x[N]xf32>
  %z = tcp.abs(%p) : tensor<[M]x[N]xf32>
  tcp.return(%y, %z)
}
"""


@pytest.mark.parametrize(
    ("arguments", "scheduled"), [("recompute: true", "not p.scheduled"), ("keep: true", "p.scheduled")]
)
def test_what_is_computed_again_elsewhere_is_left_to_the_rest_of_the_schedule(arguments: str, scheduled: str) -> None:
    """`default.rest` left the original scalar: it counted as scheduled, although no step had changed or moved it."""
    body = 'let y = match one "y" in root\nlet p = match one "p" in root\nlet i = tile(y, [d0: 3])\n'
    body += f"fuse(p, into: i, {arguments})\nrequire {scheduled}\nrequire i.scheduled and y.scheduled\n"
    check(READ_OUTSIDE, body, exact=False)


ROWS_OF_A_LOOP = """\
func @f(%a: tensor<[M]x3xf32>, %b: tensor<[M]x3xf32>, %k: index as [K]) -> tensor<[M]x3xf32>
    symbols [M: 2.., K: 0..9] {{
  %p = tcp.exp(%a) : tensor<[M]x3xf32>
  %y = gml_st.for %i in {} step 1 (%d = %p) {{
    %r = gml_st.materialize({}) tile [{}, 0] [1, 3] : tensor<1x3xf32>
    %s = tcp.neg(%r) : tensor<1x3xf32>
    gml_st.yield(%s, %d) tile [{}, 0] [1, 3]
  }} : tensor<[M]x3xf32>
  %z = tcp.abs(%y) : tensor<[M]x3xf32>
  tcp.return(%z)
}}
"""
INTO = 'let i = parent(match one "s" in root)\nfuse(match one "{}" in root, into: i)'
OTHERS = "the loop i may not compute all that it carries to or from %{}: "


@pytest.mark.parametrize(
    ("loop", "fused", "message"),
    [
        (("1 to M", "%b", "%i", "%i"), "z", f"{OTHERS}its iterations may leave other elements as they are"),
        (("0 to M - 1", "%b", "%i", "%i"), "z", f"{OTHERS}its iterations may leave other elements as they are"),
        (("0 to K", "%b", "0", "0"), "z", f"{OTHERS}its iterations may leave other elements as they are"),
        (("1 to M", "%d", "%i", "%i"), "p", f"{OTHERS}its iterations may leave other elements as they are"),
        (("1 to M", "%d", "%i - 1", "%i"), "p", f"{OTHERS}an iteration reads other elements than it writes"),
    ],
)  # fmt: skip
def test_a_loop_of_the_payload_that_does_not_compute_all(loop: tuple[str, ...], fused: str, message: str) -> None:
    assert refusal(ROWS_OF_A_LOOP.format(*loop), INTO.format(fused)).message == message.format(fused)


def test_what_a_consumer_makes_is_not_what_the_next_iteration_reads() -> None:
    payload = ROWS_OF_A_LOOP.format("0 to M", "%d", "max(%i - 1, 0)", "%i")
    check(payload, INTO.format("z"), [{"M": 5, "K": 1}, {"M": 2, "K": 0}])


def test_a_loop_of_the_payload_that_may_have_no_iteration_takes_no_consumer() -> None:
    whole = (
        ROWS_OF_A_LOOP.format("0 to K", "%d", "0", "0").replace("[1, 3]", "[M, 3]").replace("tensor<1x", "tensor<[M]x")
    )
    error = refusal(whole, INTO.format("z"))
    assert error.message == "%i (gml_st.for): i may have no iteration, and its body has a tile of fixed size"
    check(whole.replace("0 to K", "0 to K + 1"), INTO.format("z"), [{"M": 5, "K": 1}, {"M": 2, "K": 0}])


def test_a_loop_that_starts_from_a_producer_does_not_keep_it() -> None:
    payload = """\
func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %p = tcp.exp(%a) : tensor<4xf32>
  %y = gml_st.for %i in 0 to 3 step 1 (%d = %p) {
    %s = tcp.add(%p, %d) : tensor<4xf32>
    gml_st.yield(%s, %d) full
  } : tensor<4xf32>
  %z = tcp.add(%y, %p) : tensor<4xf32>
  tcp.return(%z)
}
"""
    error = refusal(payload, INTO.format("p").replace("into: i", "into: i, keep: true"))
    assert error.message == "i needs %p before it has computed it"


ONE_ROW = """\
func @row(%x: tensor<1x[N]xf32>) -> tensor<1x[N]xf32> symbols [N: 0..] {
  %p = tcp.mul(%x, %x) : tensor<1x[N]xf32>
  %t = tcp.reshape(%p) : tensor<[N]xf32>
  %e = tcp.abs(%t) : tensor<[N]xf32>
  %y = tcp.add(%p, broadcast(%e, [1])) : tensor<1x[N]xf32>
  tcp.return(%y)
}
"""


def test_a_producer_is_computed_once_for_reads_of_the_only_row() -> None:
    """One reader reads the row of the loop, another the first, which is the same."""
    body = "let i = tile(match one add in root, [d0: 1])\nfuse(match one abs in root, into: i)\n"
    done = check(ONE_ROW, body + "fuse(match one mul in root, into: i)")
    assert len([op for op in done.module.walk() if op.opcode == "tcp.mul"]) == 1
