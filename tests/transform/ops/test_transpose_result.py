"""transpose_result: the order of the dims of a result, and what is transposed back."""

from __future__ import annotations

import re

import pytest

from tests.transform.layout_graphs import BETWEEN, CALLED
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
HEAD_OF_IMAGES = """\
func @f(%x: tensor<32x7x7xf32>) -> tensor<7x7x32xf32> {
  %y = tcp.relu(%x) : tensor<32x7x7xf32>
"""
ROW_SIZES: tuple[Sizes, ...] = ({"M": 5, "N": 7}, {"M": 0, "N": 3}, {"M": 2, "N": 0}, {"M": 1, "N": 1})


def test_readers_read_in_the_new_order() -> None:
    turned = "transpose_result({0}, [d1], readers: true)\nrequire t{0} == {0}\n"
    steps = "".join(
        f'let {x} = match one "{x}" in root\nlet t{x} = {turned.format(x)}' for x in "pq"
    )  # %r follows from both
    more = 'let r = match one "r" in root\nlet s = match one "s" in root\n'
    more += "tile(s, [d0: 2, d1: 3])\nfuse(r, into: s.loop(d1))\n"
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


OTHERS = {
    "pad": "  %r = tcp.pad(%y) {value = 0.0, low = [0, 1, 1]} : tensor<32x9x9xf32>\n",
    "pooling": """  %r = tcp.pooling(%y) {dims = [1, 2], window = [2, 3], strides = [2, 1], kind = "max"} :
      tensor<32x3x5xf32>
""",
    "reduction": """  %c = tcp.reduce_sum(%y) {dims = [1]} : tensor<32x7xf32>
  %e = tcp.relu(%c) : tensor<32x7xf32>
  %r = tcp.reshape(%e) : tensor<32x1x7xf32>
""",
    "resize": """  %i = tcp.iota {dim = 0} : tensor<14xsi32>
  %p = tcp.floordiv(%i, 2) : tensor<14xsi32>
  %r = tcp.gather(%y, %p) {dim = 2, out_of_range = "clamp"} : tensor<32x7x14xf32>
""",
    "depthwise": """  %r = tcp.convolution(%y, %v) {input = ["c", "h+p", "w+q"], filter = ["c", "p", "q"],
      out = ["c", "h", "w"]} :
      tensor<32x6x5xf32>
""",
    "stored operand": """  %k = tcp.fill {value = 2.0} : tensor<32x7x7xf32>
  %r = tcp.mul(%y, %k) : tensor<32x7x7xf32>
""",
}


@pytest.mark.parametrize("name", sorted({**BETWEEN, **OTHERS}.keys() - {"transposes of the payload"}))
def test_the_order_goes_on(name: str) -> None:
    """What follows is in the new order up to the last reduction, and keeps its class."""
    middle = {**BETWEEN, **OTHERS}[name]
    shape = middle.rpartition("tensor<")[2].partition(">")[0] if name in OTHERS else "32x7x7xf32"
    payload = (
        "func @f(%x: tensor<32x7x7xf32>, %v: tensor<32x2x3xf32>) -> tensor<f32> {\n"
        f"  %y = tcp.relu(%x) : tensor<32x7x7xf32>\n{middle}"
        f"  %q = tcp.reduce_max(%r) {{dims = [0, 1, 2]}} : tensor<f32>\n"
        f"  %z = tcp.relu(%q) : tensor<f32>\n  tcp.return(%z)\n}}\n{CALLED if name == 'call' else ''}"
    )
    steps = 'let y = match one "y" in root\nlet t = transpose_result(y, [d1, d2], readers: true)\nrequire t == y'
    text = check(payload, steps, [{}], exact=False).module.text()
    assert "tcp.transpose" not in text
    opcodes = {*re.findall(r"= (tcp\.[a-z_]+)", middle)} - {"tcp.reduce_sum", "tcp.gather"}  # they read by maps
    assert {opcode for opcode in opcodes if opcode not in text} == set()
    channels, *places = shape.removesuffix("xf32").split("x")
    before = re.split(r"\n  %q[. ]", text)[0]
    assert before.rpartition("tensor<")[2].startswith(f"{'x'.join([*places, channels])}xf32>")


def test_a_transpose_of_the_payload_goes() -> None:
    steps = 'let y = match one "y" in root\ntranspose_result(y, [d1, d2], readers: true)'
    payload = HEAD_OF_IMAGES + BETWEEN["transposes of the payload"].rpartition("  %r")[0] + "  tcp.return(%e)\n}\n"
    assert "tcp.transpose" not in check(payload, steps, [{}]).module.text()


def test_what_is_read_in_another_order_stops_it() -> None:
    """An operand that has the order of the payload is not transposed: its reader reads both by maps."""
    payload = HEAD_OF_IMAGES.replace("7x7x32", "32x7x7") + (
        "  %a = tcp.add(%y, %x) : tensor<32x7x7xf32>\n  %b = tcp.relu(%a) : tensor<32x7x7xf32>\n  tcp.return(%b)\n}\n"
    )
    steps = 'let y = match one "y" in root\nlet t = transpose_result(y, [d1, d2], readers: true)\nrequire t == y'
    text = check(payload, steps, [{}]).module.text()
    assert "maps = [[d1, d2, d0], [d0, d1, d2], [d0, d1, d2]]" in text
    assert "%b = tcp.relu(%a.1) : tensor<32x7x7xf32>" in text


CALLS = HEAD_OF_IMAGES.replace("7x7x32", "32x7x7") + (
    "  %a = tcp.call @g(%y) : tensor<32x7x7xf32>\n  %b = tcp.call @g(%x) : tensor<32x7x7xf32>\n"
    f"  %c = tcp.add(%a, %b) : tensor<32x7x7xf32>\n  tcp.return(%c)\n}}\n{CALLED}"
)
TURN = 'let y = match one "y" in root\nlet t = transpose_result(y, [d1, d2], readers: true)\n'


def test_calls_in_two_orders_run_two_functions() -> None:
    """One of two calls passes what has the order of the payload: it has a copy of the function."""
    text = check(CALLS, TURN, [{}]).module.text()
    assert re.search(r"%a = tcp.call @g\(%y\S*\) : tensor<7x7x32xf32>", text)
    assert "%b = tcp.call @g.1(%x) : tensor<32x7x7xf32>" in text
    assert "func @g(%x: tensor<7x7x32xf32>) -> tensor<7x7x32xf32>" in text
    assert "func @g.1(%x: tensor<32x7x7xf32>) -> tensor<32x7x7xf32>" in text
    assert "tcp.transpose" not in text


def test_an_operation_of_both_functions() -> None:
    """A handle denotes it in both; a call says in which."""
    handles = 'let r = match one "r" in root\nlet b = match one "b" in root\n'
    text = check(CALLS, handles + TURN + "tile(r in b, [d0: 4])", [{}]).module.text()
    first, second = text.index("func @g("), text.index("func @g.1(")
    assert "gml_st.for" not in text[first:second]
    assert "gml_st.for" in text[second:]


def test_calls_in_one_order_run_one_function() -> None:
    text = check(CALLS.replace("@g(%x)", "@g(%a)"), TURN, [{}]).module.text()
    assert re.findall(r"@g\S*\(", text) == ["@g("] * 3
    assert "func @g(%x: tensor<7x7x32xf32>)" in text


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
