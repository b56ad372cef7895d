"""transpose_result: the order of the dims of a result, and what is transposed back."""

from __future__ import annotations

import pytest

from tests.transform.payloads import (
    CHAIN,
    INTEGERS,
    MIN_PLUS,
    MM,
    RELU,
    SOFTMAX,
    TRANSPOSED,
    TWO_K,
    Sizes,
    check,
    refusal,
)

SIZES: tuple[Sizes, ...] = (
    {"H": 3, "M": 5, "N": 4, "K": 7},
    {"H": 0, "M": 5, "N": 4, "K": 2},
    {"H": 2, "M": 1, "N": 9, "K": 0},
)
HEADS = """\
func @heads(%x: tensor<[H]x[M]x[K]xf32>, %w: tensor<[H]x[K]x[N]xf32>, %z: tensor<[M]x[N]x[H]xf32>) -> tensor<[M]x[N]x[H]xf32> symbols [H: 0.., M: 0.., K: 0.., N: 0..] {
  %mm = tcp.contract(%x, %w, init = %z) {lhs = ["h", "m", "k"], rhs = ["h", "k", "n"], out = ["m", "n", "h"]} : tensor<[M]x[N]x[H]xf32>
  %r = tcp.add(%mm, %z) : tensor<[M]x[N]x[H]xf32>
  tcp.return(%r)
}
"""  # noqa: E501


@pytest.mark.parametrize("first", ["[h]", "[h, n, m]", "[n]", "[m, h]"])
def test_any_order(first: str) -> None:
    done = check(HEADS, MM + f"let t = transpose_result(mm, {first})\ntile(t, [d0: 2, d2: 3])\ntile(mm, [k: 2])", SIZES)
    assert "tcp.generic" not in done.module.text()


def test_an_init_is_transposed_too() -> None:
    text = check(HEADS, MM + "transpose_result(mm, [h])", SIZES).module.text()
    assert "%mm.init = tcp.transpose(%z) {permutation = [2, 0, 1]} : tensor<[H]x[M]x[N]xf32>" in text
    assert "%mm.turned = tcp.transpose(%mm.1) {permutation = [1, 2, 0]} : tensor<[M]x[N]x[H]xf32>" in text


@pytest.mark.parametrize("payload", [RELU, TRANSPOSED, TWO_K, INTEGERS])
def test_of_the_nearest_class(payload: str) -> None:
    text = check(payload, MM + "let t = transpose_result(mm, [n])\nrequire mm.is_a(contract)").module.text()
    assert 'out = ["n", "m"]' in text


def test_what_no_class_says_is_a_generic() -> None:
    check(MIN_PLUS, MM + "transpose_result(mm, [n])\ntile(mm, [n: 4, m: 3, k: 2])")
    check(RELU, 'let s = match one "s" in root\nlet t = transpose_result(s, [d1])\ntile(s, [d0: 2])')


ROWS = """\
func @rows(%x: tensor<[M]x[N]xf32>, %w: tensor<[M]x[N]xf32>) -> tensor<[M]xf32> symbols [M: 0.., N: 0..] {
  %p = tcp.mul(%x, %w) : tensor<[M]x[N]xf32>
  %q = tcp.sub(%p, %w) : tensor<[M]x[N]xf32>
  %r = tcp.mul(%q, %p) : tensor<[M]x[N]xf32>
  %s = tcp.reduce_sum(%r) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%s)
}
"""
ROW_SIZES: tuple[Sizes, ...] = ({"M": 5, "N": 7}, {"M": 0, "N": 3}, {"M": 2, "N": 0}, {"M": 1, "N": 1})


def test_readers_read_in_the_new_order() -> None:
    turned = "transpose_result({0}, [d1], readers: true)\nrequire t{0} == {0}\n"
    steps = "".join(f'let {x} = match one "{x}" in root\nlet t{x} = {turned.format(x)}' for x in "pqr")
    more = 'let s = match one "s" in root\ntile(s, [d0: 2, d1: 3])\nfuse(r, into: s.loop(d1))\n'
    assert "tcp.transpose" not in check(ROWS, steps + more, ROW_SIZES).module.text()


VIEWS = {
    "pad": "tcp.pad(%p) {value = 0.0, low = [1, 0]} : tensor<[M + 2]x[N]xf32>",
    "reverse": "tcp.reverse(%p) {dims = [0]} : tensor<[M]x[N]xf32>",
    "concat": "tcp.concat(%p, %p) {dim = 1} : tensor<[M]x[2*N]xf32>",
    "reshape": "tcp.reshape(%p) : tensor<[M]x1x[N]xf32>",
    "norm": "tcp.layer_norm(%p) {dims = [1], epsilon = 1.0} : tensor<[M]x[N]xf32>",
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_and_composites_pass_it_on(name: str) -> None:
    rows = VIEWS[name].rpartition("tensor<")[2].split("x")[0]
    payload = f"""\
func @rows(%x: tensor<[M]x[N]xf32>) -> tensor<{rows}xf32> symbols [M: 1.., N: 1..] {{
  %p = tcp.relu(%x) : tensor<[M]x[N]xf32>
  %v = {VIEWS[name]}
  %s = tcp.reduce_max(%v) {{dims = {[1, 2] if name == "reshape" else [1]}}} : tensor<{rows}xf32>
  tcp.return(%s)
}}
"""
    step = 'let p = match one "p" in root\nlet t = transpose_result(p, [d1], readers: true)\nrequire t == p'
    text = check(payload, step, ({"M": 5, "N": 7}, {"M": 1, "N": 3}, {"M": 2, "N": 1}), exact=False).module.text()
    assert "tcp.transpose" not in text


def test_what_cannot_read_otherwise_reads_the_transpose() -> None:
    payload = ROWS.replace("-> tensor<[M]xf32>", "-> (tensor<[M]xf32>, tensor<[M]x[N]xf32>)").replace(
        "tcp.return(%s)", "tcp.return(%s, %r)"
    )
    step = (
        'let r = match one "r" in root\nlet t = transpose_result(r, [d1], readers: true)\nrequire t.is_a(transpose)\n'
    )
    text = check(payload, step, ROW_SIZES).module.text()
    assert text.count("%r.turned") == 2
    assert "reduce_sum(%r.turned" not in text


def test_names_in_a_generic_are_its_own() -> None:
    payload = CHAIN.replace("%p", "%e0")
    text = check(payload, 'let x = match one "q" in root\ntranspose_result(x, [d1])').module.text()
    assert "%e0.1: f32" in text


def test_there_and_back() -> None:
    done = check(RELU, MM + "transpose_result(mm, [n])\ntranspose_result(mm, [m])\nspecialize(mm, to: matmul)")
    assert "tcp.matmul(%x, %w)" in done.module.text()


def test_tiles_are_transposed_as_they_are_computed() -> None:
    body = """let t = transpose_result(mm, [h])
    let r = match one "r" in root
    let j, i = tile(r, [d0: 4, d2: 4])
    fuse(mm, into: i)
    """
    check(HEADS, MM + body, SIZES)


def test_a_list_that_a_function_gives() -> None:
    body = "let t = transpose_result(mm, without(dims(mm.out), dims(mm.lhs)))\nrequire mm.is_a(contract)"
    assert 'out = ["n", "m"]' in check(RELU, MM + body).module.text()


@pytest.mark.parametrize(
    ("payload", "body", "message", "required", "found"),
    [
        (RELU, MM + "transpose_result(mm, [m])", "[m] is no new order of the dims of %mm's result",
         "some of m, n, each once, that are not its first", "m"),
        (RELU, MM + "transpose_result(mm, [n, n])", "[n, n] is no new order of the dims of %mm's result",
         "some of m, n, each once, that are not its first", "n, n"),
        (RELU, MM + "transpose_result(mm, [k])", "[k] is no new order of the dims of %mm's result",
         "some of m, n, each once, that are not its first", "k"),
        (RELU, MM + "transpose_result(mm, [])", "[] is no new order of the dims of %mm's result",
         "some of m, n, each once, that are not its first", "no dims"),
        (SOFTMAX, 'transpose_result(match one "y" in root, [d1])', "%y has no iteration dims",
         "a structured operation", "tcp.softmax"),
        (RELU, MM + "let j, i, kk = tile(mm, [m: 4, n: 8, k: 1], tail: pad)\nvectorize(kk)\ntranspose_result(mm, [n])",
         "%mm is not on tensors any more", "an operation on tensors", "vector<4x8xf32>"),
        (RELU, MM + "transpose_result(mm, pow2(1, 4))", "`order` of `transpose_result` does not fit",
         "list of dim", "[1, 2, 4]"),
    ],
)  # fmt: skip
def test_refused(payload: str, body: str, message: str, required: str, found: str) -> None:
    refused = refusal(payload, body)
    assert (refused.message, refused.required, refused.found) == (message, required, found)
