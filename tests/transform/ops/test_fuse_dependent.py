"""fuse_dependent: a reduction joins the loop of the one that it depends on, whatever the numbers are."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import Kind
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse
from tests.transform.payloads import Array, check, refusal

HEAD = "func @f(%s: tensor<[M]x[N]xf32>) -> ({}) symbols [M: 0.., N: 0..] {{\n"
SHIFTED = """\
  %m = tcp.reduce_max(%s) {dims = [1]} : tensor<[M]xf32>
  %b = tcp.broadcast(%m) {dims = [0]} : tensor<[M]x[N]xf32>
  %d = tcp.sub(%s, %b) : tensor<[M]x[N]xf32>
"""
ROWS = "tensor<[M]xf32>"
SUM = (
    HEAD.format(f"{ROWS}, {ROWS}")
    + SHIFTED
    + """\
  %e = tcp.exp(%d) : tensor<[M]x[N]xf32>
  %l = tcp.reduce_sum(%e) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%m, %l)
}
"""
)
POWERS_OF_TWO = (
    HEAD.format(ROWS)
    + SHIFTED
    + """\
  %z = tcp.mul(%d, 1.5) : tensor<[M]x[N]xf32>
  %e = tcp.exp2(%z) : tensor<[M]x[N]xf32>
  %l = tcp.reduce_sum(%e) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%l)
}
"""
)
LEAST = """\
func @f(%s: tensor<[M]x[N]xf32>) -> tensor<[M]xf32> symbols [M: 0.., N: 0..] {
  %m = tcp.reduce_min(%s) {dims = [1]} : tensor<[M]xf32>
  %b = tcp.broadcast(%m) {dims = [0]} : tensor<[M]x[N]xf32>
  %d = tcp.sub(%b, %s) : tensor<[M]x[N]xf32>
  %e = tcp.exp(%d) : tensor<[M]x[N]xf32>
  %l = tcp.reduce_sum(%e) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%l)
}
"""
GREATEST = (
    HEAD.format(ROWS) + SHIFTED + "  %l = tcp.reduce_max(%d) {dims = [1]} : tensor<[M]xf32>\n  tcp.return(%l)\n}\n"
)
OF_SUMS = """\
func @f(%s: tensor<[M]x[N]xf32>) -> tensor<[M]xf32> symbols [M: 0.., N: 0..] {
  %m = tcp.reduce_sum(%s) {dims = [1]} : tensor<[M]xf32>
  %b = tcp.broadcast(%m) {dims = [0]} : tensor<[M]x[N]xf32>
  %d = tcp.add(%s, %b) : tensor<[M]x[N]xf32>
  %l = tcp.reduce_max(%d) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%l)
}
"""
MEAN = """\
func @f(%s: tensor<[M]x[N]xf32>, %v: tensor<[N]x3xf32>) -> (tensor<[M]xf32>, tensor<[M]x3xf32>)
    symbols [M: 0.., N: 0..] {
  %m = tcp.reduce_max(%s) {dims = [1]} : tensor<[M]xf32>
  %b = tcp.broadcast(%m) {dims = [0]} : tensor<[M]x[N]xf32>
  %d = tcp.sub(%s, %b) : tensor<[M]x[N]xf32>
  %e = tcp.exp(%d) : tensor<[M]x[N]xf32>
  %h = tcp.mul(%e, 0.5) : tensor<[M]x[N]xf32>
  %g = tcp.neg(%h) : tensor<[M]x[N]xf32>
  %l = tcp.reduce_sum(%e) {dims = [1]} : tensor<[M]xf32>
  %o = tcp.matmul(%g, %v) : tensor<[M]x3xf32>
  tcp.return(%l, %o)
}
"""


def _body(names: str, last: str, tiles: str = "", before: str = "") -> str:
    """Statements that fuse the loop of `last`, with what leads to it, into that of %m."""
    text = "".join(f'let {name} = match one "{name}" in root\n' for name in (*names.split(), last, "m"))
    text += f"{before}let jl = tile({last}, [d1: 3]{tiles})\n"
    text += "".join(f"fuse({name}, into: jl)\n" for name in reversed(names.split()))
    return text + f"let jm = tile(m, [d1: 3]{tiles})\nfuse_dependent(jl, into: jm)\n"


SUM_BODY = _body("d e", "l")
CASES = {
    "sum": (SUM, SUM_BODY),
    "padded": (SUM, _body("d e", "l", ", tail: pad")),
    "fused before": (
        SUM,
        _body("e", "l", before='let d = match one "d" in root\nfuse_elementwise([d, e])\n'),
    ),
    "scaled powers of two": (POWERS_OF_TWO, _body("d z e", "l")),
    "least": (LEAST, _body("d e", "l")),
    "maxima of differences": (GREATEST, _body("d", "l")),
    "two at once": (
        MEAN,
        "".join(f'let {name} = match one "{name}" in root\n' for name in "degholm")
        + "let jo = tile(o, [k: 3])\nlet jl = tile(l, [d1: 3])\nfuse_siblings(jo, into: jl)\n"
        "fuse(g, into: jl)\nfuse(h, into: jl)\nfuse(e, into: jl)\nfuse(d, into: jl)\n"
        "let jm = tile(m, [d1: 3])\nfuse_dependent(jl, into: jm)\n",
    ),
    "one after the other": (
        MEAN.replace(
            "  %h = tcp.mul(%e",
            "  %d2 = tcp.sub(%s, %b) : tensor<[M]x[N]xf32>\n  %e2 = tcp.exp(%d2) : tensor<[M]x[N]xf32>\n"
            "  %h = tcp.mul(%e2",
        ),
        "".join(
            f'let {name} = match one "{name}" in root\n' for name in ("d", "e", "d2", "e2", "g", "h", "o", "l", "m")
        )
        + "let jl = tile(l, [d1: 3])\nlet jo = tile(o, [k: 3])\nfor x in [g, h, e2, d2] { fuse(x, into: jo) }\n"
        "fuse(e, into: jl)\nfuse(d, into: jl)\nlet jm = tile(m, [d1: 3])\n"
        "fuse_dependent(jl, into: jm)\nfuse_dependent(jo, into: jm)\nassert(e == e2)\n",
    ),
    "rows in tiles": (
        SUM,
        "".join(f'let {name} = match one "{name}" in root\n' for name in "delm")
        + "let il, jl = tile(l, [d0: 2, d1: 3])\nfuse(e, into: jl)\nfuse(d, into: jl)\n"
        "let im, jm = tile(m, [d0: 2, d1: 3])\n",
    ),
}
NUMBERS = (
    [-inf] * 7,
    [-inf, -inf, -inf, -inf, 1, 2, 3],
    [inf, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, inf],
    [nan, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, nan, 0],
    [-inf, -inf, -inf, nan, 0, 1, 2],
    [-inf, -inf, -inf, -inf, inf, 1, 2],
    [-inf, -inf, -inf, -inf, -inf, -inf, -200],
    [-300, 0, 300, -300, -inf, 1, 2],
    [88, 89, 90, -90, 0, -0.0, 1],
)


@pytest.mark.parametrize("name", [name for name in CASES if name != "rows in tiles"])
def test_the_same_numbers(name: str) -> None:
    payload, body = CASES[name]
    check(payload, body, [{"M": m, "N": n} for m in (0, 1, 4) for n in (0, 1, 3, 8)], exact=False)


def _of_numbers(payload: str, body: str, rows: Array) -> None:
    """A kernel and the evaluator agree on rows of these numbers, and on parts of them."""
    module = parse(payload)
    made = check(payload, body, [{"M": 1, "N": 4}], exact=False).module
    kernel = tcpx.compile(parse(payload), tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{body}\n}}"))
    for given in (rows, rows[:, :1], rows[:, 3:], rows[:, :0]):
        arguments = [given, np.ones((given.shape[1], 3), np.float32)][: len(module.main.args)]
        wanted = evaluate_func(module, module.main, arguments)
        computed = kernel(*arguments)
        for found in (
            evaluate_func(made, made.main, arguments),
            computed if isinstance(computed, tuple) else [computed],
        ):
            for mine, right in zip(found, wanted, strict=True):
                np.testing.assert_allclose(mine.astype(np.float64), right.astype(np.float64), rtol=3e-6)


@pytest.mark.parametrize("name", ["sum", "padded", "scaled powers of two", "maxima of differences", "two at once"])
def test_rows_that_are_masked_infinite_or_nan(name: str) -> None:
    _of_numbers(*CASES[name], np.array(NUMBERS, np.float32))


def test_least_of_rows_that_are_masked_infinite_or_nan() -> None:
    _of_numbers(*CASES["least"], -np.array(NUMBERS, np.float32))


def test_the_handles_denote_the_one_loop() -> None:
    check(
        SUM,
        SUM_BODY + "assert(jl == jm)\nassert(parent(l) == jm)\nassert(parent(m) == jm)",
        [{"M": 2, "N": 5}],
        exact=False,
    )


ATTENTION = """\
func @f(%q: tensor<[H]x[M]x5xf32>, %k: tensor<[H]x[N]x5xf32>, %v: tensor<[H]x[N]x6xf32>) -> tensor<[H]x[M]x6xf32>
    symbols [H, M, N: 1..] {
  %s = tcp.contract(%q, %k) {lhs = ["h", "i", "c"], rhs = ["h", "j", "c"], out = ["h", "i", "j"]}
      : tensor<[H]x[M]x[N]xf32>
  %r = tcp.mul(%s, 0.25) : tensor<[H]x[M]x[N]xf32>
  %p = tcp.softmax(%r) {dim = 2} : tensor<[H]x[M]x[N]xf32>
  %o = tcp.contract(%p, %v) {lhs = ["h", "i", "j"], rhs = ["h", "j", "c"], out = ["h", "i", "c"]}
      : tensor<[H]x[M]x6xf32>
  tcp.return(%o)
}
"""
BLOCKS = """\
let o = match one "o" in root
let r = match one "r" in root
let s = match one "s" in root
let y = decompose(match one "p" in root)
sink(y, behind: o)
let e = producer(o.lhs)
let d = producer(e.operand)
let m = producer(producer(d.rhs).operand)
let l = producer(producer(producer(y.rhs).operand).operand)
let h, i = tile(y, [d0: 1, d1: 4])
for x in [o, l, m] { fuse(x, into: i) }
let jo = tile(o, [j: 3])
let jl = tile(l, [d2: 3])
fuse_siblings(jo, into: jl)
for x in [e, d] { fuse(x, into: jl) }
let jm = tile(m, [d2: 3])
fuse_dependent(jl, into: jm)
for x in [r, s] { fuse(x, into: jm) }
"""


def test_attention_over_blocks_of_keys() -> None:
    sizes = [{"H": 2, "M": m, "N": n} for m in (1, 9) for n in (1, 3, 10)]
    made = check(ATTENTION, BLOCKS + "assert(parent(s) == jm)\nassert(parent(y) == i)", sizes, exact=False)
    assert "tensor<[N]" not in made.module.text().split("gml_st.for", 1)[1].replace("tensor<[H]x[N]", "")


def test_kernels_of_attention() -> None:
    schedule = tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{BLOCKS}\n}}")
    kernel, random = tcpx.compile(parse(ATTENTION), schedule), np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, n, c), np.float32) for n, c in ((9, 5), (10, 5), (10, 6)))
    s = (q @ k.swapaxes(1, 2) * 0.25).astype(np.float64)
    p = np.exp(s - s.max(2, keepdims=True))
    np.testing.assert_allclose(
        np.asarray(kernel(q, k, v), np.float64), p / p.sum(2, keepdims=True) @ v, rtol=1e-5, atol=1e-6
    )


def _refused(payload: str, body: str) -> tuple[str, str | None, str | None]:
    found = refusal(payload, body)
    return found.message, found.required, found.found


def test_a_running_sum_is_no_divisor() -> None:
    payload = OF_SUMS.replace("%d = tcp.add(%s, %b)", "%d = tcp.div(%s, %b)")
    assert _refused(payload, _body("d", "l")) == (
        "nothing says by how much %d changes when %m goes on",
        "sums with %m, exponentials of these, and what is linear in them",
        "`tcp.div` of it",
    )


def test_squares_of_differences_do_not_separate() -> None:
    payload = SUM.replace("%e = tcp.exp(%d)", "%e = tcp.mul(%d, %d)")
    message, _, found = _refused(payload, SUM_BODY)
    assert message == "nothing says by how much %e changes when %m goes on"
    assert found == "`tcp.mul` of it"


def test_products_with_what_has_more_dims_do_not_separate() -> None:
    payload = SUM.replace("%e = tcp.exp(%d)", "%e = tcp.mul(%d, %s)")
    assert _refused(payload, SUM_BODY)[2] == "`tcp.mul` of it and of a tile of %s, which has more dims"


def test_sums_of_differences_are_no_multiple() -> None:
    payload = OF_SUMS.replace("%l = tcp.reduce_max(%d)", "%l = tcp.reduce_sum(%d)")
    assert _refused(payload, _body("d", "l")) == (
        "what %l has reduced does not change as what it reduces does",
        "a combiner that `tcp.add` distributes over",
        "`tcp.add`",
    )


def test_what_is_not_nothing_where_all_is_masked() -> None:
    payload = SUM.replace("%e = tcp.exp(%d)", "%t = tcp.neg(%b) : tensor<[M]x[N]xf32>\n  %e = tcp.exp(%t)")
    body = 'let t = match one "t" in root\n' + SUM_BODY.replace("fuse(d, into: jl)", "fuse(t, into: jl)")
    assert _refused(payload, body) == (
        "%l may add something where all of %m so far is -inf",
        "0 of elements that are -inf",
        "an unknown number",
    )


def test_what_is_not_final_is_not_stored() -> None:
    payload = SUM.replace("tcp.return(%m, %l)", "tcp.return(%m, %e)").replace(
        f"({ROWS}, {ROWS})", f"({ROWS}, tensor<[M]x[N]xf32>)"
    )
    body = 'let e = match one "e" in root\nlet d = match one "d" in root\nlet m = match one "m" in root\n'
    body += "let je = tile(e, [d1: 3])\nfuse(d, into: je)\nlet jm = tile(m, [d1: 3])\nfuse_dependent(je, into: jm)"
    message, required, _ = _refused(payload, body)
    assert (message, required) == (
        "%e is stored before %m is known",
        "reductions of what depends on it",
    )


def test_what_lies_between_is_fused_before() -> None:
    body = SUM_BODY.replace("fuse(d, into: jl)\n", "")
    found = refusal(SUM, body)
    assert found.message == "%b stands between m/d11 and l/d11"
    assert found.required == "all that leads from the one to the other in l/d11"
    assert found.fix == "`fuse` of %d into l/d11 before"


def test_loops_that_need_nothing_of_each_other() -> None:
    payload = SUM.replace("%e = tcp.exp(%d)", "%e = tcp.exp(%s)")
    body = 'let e = match one "e" in root\nlet l = match one "l" in root\nlet m = match one "m" in root\n'
    body += "let jl = tile(l, [d1: 3])\nfuse(e, into: jl)\nlet jm = tile(m, [d1: 3])\n"
    found = refusal(payload, body + "fuse_dependent(jl, into: jm)")
    assert (found.message, found.fix) == ("l/d11 needs nothing that m/d11 computes", "`fuse_siblings`")
    found = refusal(SUM, SUM_BODY.replace("fuse_dependent(jl, into: jm)", "fuse_dependent(jm, into: jl)"))
    assert found.message == "m/d11 needs nothing that l/d11 computes"


def test_a_reduction_of_a_part_of_its_result() -> None:
    payload, body = CASES["rows in tiles"]
    found = refusal(payload, body + "fuse_dependent(il, into: im)")
    assert found.message == "%m is not reduced by one operation of m/d01"
    assert found.fix == "`fuse_dependent` before what is in the loop is tiled"


def test_what_may_rise_and_fall() -> None:
    assert _refused(OF_SUMS, _body("d", "l")) == (
        "%m may rise and fall",
        "a running result that goes one way, as a maximum does",
        "tcp.reduce_sum",
    )
    rising = SUM.replace("%d = tcp.sub(%s, %b)", "%d = tcp.add(%s, %b)")
    assert _refused(rising, SUM_BODY)[2] == "`tcp.exp` of what may rise: what was lost to 0 would be missing"


CUBE = """\
func @f(%s: tensor<[M]x[N]x2xf32>) -> tensor<[M]xf32> symbols [M: 0.., N: 0..] {
  %m = tcp.reduce_max(%s) {dims = [1, 2]} : tensor<[M]xf32>
  %b = tcp.broadcast(%m) {dims = [0]} : tensor<[M]x[N]x2xf32>
  %d = tcp.sub(%s, %b) : tensor<[M]x[N]x2xf32>
  %e = tcp.exp(%d) : tensor<[M]x[N]x2xf32>
  %t = tcp.reduce_sum(%e) {dims = [2]} : tensor<[M]x[N]xf32>
  %l = tcp.reduce_sum(%t) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%l)
}
"""
CUBE_BODY = _body("d e t", "l")


def test_a_reduction_on_the_way() -> None:
    sizes = [{"M": m, "N": n} for m in (0, 1, 4) for n in (0, 1, 3, 8)]
    check(CUBE, CUBE_BODY, sizes, exact=False)
    products = CUBE.replace("%t = tcp.reduce_sum", "%t = tcp.reduce_prod")
    assert _refused(products, CUBE_BODY)[0] == "what %t has reduced does not change as what it reduces does"
    sums = CUBE.replace("%e = tcp.exp(%d)", "%e = tcp.neg(%d)").replace("%l = tcp.reduce_sum", "%l = tcp.reduce_max")
    assert _refused(sums, CUBE_BODY)[2] == "`tcp.add`"
    begun = CUBE.replace("%s: tensor<[M]x[N]x2xf32>", "%s: tensor<[M]x[N]x2xf32>, %z: tensor<[M]x[N]xf32>")
    begun = begun.replace("tcp.reduce_sum(%e)", "tcp.reduce_sum(%e, init = %z)")
    assert _refused(begun, CUBE_BODY)[2] == "`tcp.reduce_sum`, which begins with a tile of %z"


def test_results_of_each_block_are_no_accumulators() -> None:
    payload = CUBE.replace(
        "  %t = tcp.reduce_sum(%e)",
        "  %z = tcp.fill {value = 0.0} : tensor<[M]x[N]xf32>\n  %t = tcp.reduce_sum(%e, init = %z)",
    )
    payload = payload.replace("tcp.return(%l)", "tcp.return(%t)").replace(
        "-> tensor<[M]xf32>", "-> tensor<[M]x[N]xf32>"
    )
    payload = "".join(line for line in payload.splitlines(keepends=True) if "%l =" not in line)
    assert _refused(payload, _body("d e", "t"))[2] == "`tcp.reduce_sum`, which begins with a tile of %t"


def test_a_running_result_is_no_index() -> None:
    payload = """\
func @f(%s: tensor<[M]x[N]xsi64>, %table: tensor<9x[N]xf32>) -> tensor<[M]xf32> symbols [M, N] {
  %m = tcp.reduce_max(%s) {dims = [1]} : tensor<[M]xsi64>
  %g = tcp.gather(%table, %m) {dim = 0, out_of_range = "clamp"} : tensor<[M]x[N]xf32>
  %l = tcp.reduce_sum(%g) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%l)
}
"""
    assert _refused(payload, _body("", "l"))[0] == "nothing says by how much %g changes when %m goes on"


def test_casts_that_round_are_no_sums() -> None:
    payload = SUM.replace(
        "%d = tcp.sub(%s, %b)",
        "%h = tcp.cast(%b) : tensor<[M]x[N]xbf16>\n  %w = tcp.cast(%h) : tensor<[M]x[N]xf32>\n  %d = tcp.sub(%s, %w)",
    )
    assert _refused(payload, _body("h w d e", "l"))[2] == "`tcp.cast` of it"


def test_elements_that_the_maximum_does_not_see() -> None:
    payload = CUBE.replace("{dims = [1, 2]}", '{dims = [1, 2], valid = [["d2", 1]]}')
    assert _refused(payload, CUBE_BODY)[0] == "%l may add something where all of %m so far is -inf"


def test_what_begins_elsewhere() -> None:
    payload = GREATEST.replace(
        "  %l = tcp.reduce_max(%d)",
        "  %z = tcp.fill {value = inf} : tensor<[M]xf32>\n  %l = tcp.reduce_max(%d, init = %z)",
    )
    assert _refused(payload, _body("d", "l")) == (
        "%l goes on from what is no part of it",
        "a loop that begins with -inf",
        "%z: tcp.fill",
    )


def test_scans_do_not_separate() -> None:
    payload = SUM.replace(
        "%l = tcp.reduce_sum(%e) {dims = [1]} : tensor<[M]xf32>",
        "%c, %l = tcp.cumsum(%e) {dim = 1} : tensor<[M]x[N]xf32>, tensor<[M]xf32>",
    )
    assert (
        refusal(payload, _body("d e", "c").replace("let m", "let m").replace("[d1: 3]", "[d1: 3]")).kind
        is Kind.SILENCEABLE
    )


BY_HAND = """\
func @f(%s: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xf32>) symbols [M: 0.., N: 0..] {
  %ms = tcp.fill {value = -inf} : tensor<[M]xf32>
  %m = gml_st.for %i in 0 to N step 3 (%md = %ms) {
    %t = gml_st.materialize(%s) tile [0, %i] [M, min(3, N - %i)] : tensor<[M]x[min(3, N - %i)]xf32>
    %m1 = tcp.reduce_max(%t, init = %md) {dims = [1]} : tensor<[M]xf32>
    gml_st.yield(%m1, %md) tile [0] [M]
  } : tensor<[M]xf32>
  %ls = tcp.fill {value = 0.0} : tensor<[M]xf32>
  %l = gml_st.for %j in 0 to N step 3 (%ld = %ls) {
    %u = gml_st.materialize(%s) tile [0, %j] [M, min(3, N - %j)] : tensor<[M]x[min(3, N - %j)]xf32>
    %b = tcp.broadcast(%m) {dims = [0]} : tensor<[M]x[min(3, N - %j)]xf32>
    %d = tcp.sub(%u, %b) : tensor<[M]x[min(3, N - %j)]xf32>
    %e = tcp.exp(%d) : tensor<[M]x[min(3, N - %j)]xf32>
    %l1 = tcp.reduce_sum(%e, init = %ld) {dims = [1]} : tensor<[M]xf32>
    gml_st.yield(%l1, %ld) tile [0] [M]
  } : tensor<[M]xf32>
  tcp.return(%m, %l)
}
"""
LOOPS = 'let m = match one "m1" in root\nlet l = match one "l1" in root\nfuse_dependent(parent(l), into: parent(m))'


def test_loops_written_by_hand() -> None:
    check(BY_HAND, LOOPS, [{"M": m, "N": n} for m in (0, 1, 4) for n in (0, 1, 3, 8)], exact=False)
    twice = BY_HAND.replace(
        "    gml_st.yield(%l1, %ld)",
        "    %n = tcp.neg(%l1) : tensor<[M]xf32>\n    gml_st.yield(%n, %ld) tile [0] [M]\n    gml_st.yield(%l1, %ld)",
    )
    assert refusal(twice, LOOPS).kind is Kind.SILENCEABLE
