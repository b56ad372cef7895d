"""unroll: copies of a body, with carried values handed on."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.limits import DEEPEST_NEST
from tcpx.payload.diagnostics import Kind, VerifyError
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.memory import Prefetch
from tests.transform.payloads import MM, PAYLOADS, PRODUCTS, RELU, TWO_K, Sizes, check, refusal

SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 17, 0), (13, 17, 5), (12, 16, 4), (5, 7, 1))
)
LONG = """\
func @long(%x: tensor<2x1048576xf32>, %w: tensor<1048576x2xf32>) -> tensor<2x2xf32> {
  %mm = tcp.matmul(%x, %w) : tensor<2x2xf32>
  tcp.return(%mm)
}
"""
BODIES = {
    "disjoint tiles": (
        'let i = tile(mm, [m: 4])\nlet ii = tile(mm, [m: 1])\npeel(i)\nlet u = unroll(ii.copy("main"), factor: 2)'
    ),
    "a reduction": 'let k = tile(mm, [k: 4])\nlet kk = tile(mm, [k: 1])\npeel(k)\nlet u = unroll(kk.copy("main"))',
    "steps of two": 'let k = tile(mm, [k: 4])\nlet kk = tile(mm, [k: 2])\npeel(k)\nlet u = unroll(kk.copy("main"))',
    "in registers": (
        "let k = tile(mm, [k: 4])\nlet j, i = tile(mm, [n: 8, m: 6], tail: pad)\nlet kk = tile(mm, [k: 1])\npeel(k)\n"
        'let ii = i.copy("main")\nvectorize(ii)\nhoist_accumulator(mm.copy("main"), out_of: kk.copy("main"))\n'
        'let u = unroll(kk.copy("main"), factor: 2)'
    ),
}


@pytest.mark.parametrize("payload", PRODUCTS)
@pytest.mark.parametrize("name", BODIES)
def test_computes_the_same(name: str, payload: str) -> None:
    check(PAYLOADS[payload], MM + BODIES[name], SIZES)


def test_handles_denote_every_copy() -> None:
    check(TWO_K, MM + 'let j = tile(mm, [j: 1])\nlet u = unroll(j)\nrequire len(mm) == 3 "three"', SIZES)


STATIC = """\
func @static(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %mm = tcp.matmul(%x, %w) : tensor<8x32xf32>
  %r = tcp.exp(%mm) : tensor<8x32xf32>
  tcp.return(%r)
}
"""


@pytest.mark.parametrize("factor", ["", ", factor: 2"])
def test_a_loop_of_copies_alone_remains_a_position_and_is_no_loop_in_c(factor: str) -> None:
    text = f"""language 1
    schedule main(root: func) {{
      let mm = match one contract in root
      let i = tile(mm, [m: 4])
      unroll(i{factor})
      prefetch(mm.lhs, at: i)
      require i == mm.loop(m)
    }}"""
    source = tcpx.emit(tcpx.parse(STATIC), schedule=tcpx.parse_schedule(text), target="generic").c_source
    assert "/* mm/m1, once" in source
    assert "for (int64_t mm_m1 " not in source


LEFT = MM + (
    "let i, j = tile(mm, [m: 6, n: 8], tail: pad)\nlet kk = tile(mm, [k: 1])\n"
    "unroll(kk, factor: 4, explicit: false)\nvectorize(j)\nhoist_accumulator(mm, out_of: kk)"
)


@pytest.mark.parametrize("payload", PRODUCTS)
def test_the_compiler_makes_the_copies(payload: str) -> None:
    done = check(PAYLOADS[payload], LEFT, SIZES)
    (loop,) = [op for op in done.module.walk() if isinstance(op, Loop) and op.unrolled > 1]
    assert loop.unrolled == 4
    assert loop.var.step == 1


TILES = "let i, j = tile(mm, [m: 6, n: 8])\n"


def schedule(body: str) -> tcpx.Schedule:
    return tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{body}\n}}\n")


def test_the_loop_in_c_says_so_and_runs() -> None:
    kernel = tcpx.compile(tcpx.parse(RELU), schedule=schedule(LEFT))
    lines = [line.strip() for line in kernel.c_source.splitlines()]
    at = lines.index("#pragma GCC unroll 4")
    assert lines[at - 1].startswith("/* mm/k1 ")
    assert lines[at + 1].startswith("for (int64_t mm_k1 = 0; ")
    assert lines.count("#pragma GCC unroll 4") == 1
    for m, n, k in ((7, 17, 0), (13, 9, 3), (6, 8, 4), (1, 1, 9)):
        x = np.arange(m * k, dtype=np.float32).reshape(m, k) - 7
        w = np.arange(k * n, dtype=np.float32).reshape(k, n) % 5 - 2
        np.testing.assert_array_equal(kernel(x, w, np.ones(n, np.float32)), np.maximum(x @ w + 1, 0))


def test_a_loop_that_runs_once_is_none_to_unroll() -> None:
    text = MM + "let i, j = tile(mm, [m: 8, n: 32])\nlet k = tile(mm, [k: 16])\nunroll(k, factor: 2, explicit: false)"
    source = tcpx.emit(tcpx.parse(STATIC), schedule=schedule(text), target="generic").c_source
    assert "/* mm/k1, once" in source
    assert "#pragma GCC unroll" not in source


def test_peeled_loops_are_unrolled_too() -> None:
    done = check(RELU, MM + "let k = tile(mm, [k: 4])\nunroll(k, factor: 2, explicit: false)\npeel(k)", SIZES)
    assert [op.unrolled for op in done.module.walk() if isinstance(op, Loop) and "k1" in op.name] == [2, 2]


@pytest.mark.parametrize(
    ("given", "found"),
    [("", "no factor"), (", factor: 1", "1"), (", factor: 0", "0"), (", factor: 65", "65")],
)
def test_the_compiler_is_told_how_often(given: str, found: str) -> None:
    error = refusal(RELU, MM + f"let k = tile(mm, [k: 2])\nunroll(k{given}, explicit: false)")
    asked = f"the compiler cannot be asked to unroll mm/k1 {found} times"
    assert error.message == (asked if given else "the compiler is not told how often to unroll mm/k1")
    assert (error.required, error.found, error.fix) == ("a factor in 2..64", found, "factor: 4")


def test_asking_again_is_for_another_number() -> None:
    twice = (
        MM + "let k = tile(mm, [k: 2])\nunroll(k, factor: 4, explicit: false)\nunroll(k, factor: {}, explicit: false)"
    )
    error = refusal(RELU, twice.format(4))
    assert error.message == "the compiler is asked to unroll mm/k1 4 times already"
    assert (error.required, error.found) == ("another factor", "factor: 4")
    done = check(RELU, twice.format(8), SIZES)
    assert [op.unrolled for op in done.module.walk() if isinstance(op, Loop) and op.name == "mm/k1"] == [8]


def test_no_iteration_has_no_copies() -> None:
    empty = RELU.replace("[K]", "0").replace("K: 0.., ", "")
    error = refusal(empty, MM + "let k = tile(mm, [k: 8])\nunroll(k, factor: 2)")
    assert error.message == "unrolling mm/k1 changes nothing"
    assert (error.required, error.found, error.fix) == (
        "a loop of at least 2 iterations", "no iteration", "write `optional unroll(k, factor: 2)`",
    )  # fmt: skip


def test_the_place_of_a_carried_value_is_prefetched_once() -> None:
    even = RELU.replace("K: 0..", "K: 0.. multiple_of 8")
    body = TILES + "let k = tile(mm, [k: 4])\nprefetch(mm.out, at: k, for: write)\nunroll(k, factor: 2)"
    done = check(even, MM + body, [{"M": m, "N": n, "K": k} for m, n, k in ((7, 9, 16), (3, 0, 8), (5, 5, 0))])
    assert sum(isinstance(op, Prefetch) for op in done.module.walk()) == 1


def test_parallel_iterations_are_in_no_order() -> None:
    error = refusal(RELU, MM + "let i = tile(mm, [m: 4], parallel: true)\nunroll(i, factor: 4, explicit: false)")
    assert error.message == "the iterations of mm/m1 are in no order that copies could have"
    assert (error.required, error.found) == ("a sequential loop", "gml_st.parallel")
    error = refusal(RELU, MM + "let i = tile(mm, [m: 4])\nunroll(i, factor: 4, explicit: false)\nparallelize(i)")
    assert error.message == "the compiler is asked to unroll mm/m1"
    assert error.found == "4 iterations one after the other"


@pytest.mark.parametrize(
    ("op", "attribute", "message"),
    [
        ("for", "unrolled = 65", "the compiler is asked for a number of copies"),
        ("for", "unrolled = true", "the compiler is asked for a number of copies"),
        ("parallel", "unrolled = 2", "the iterations of a parallel loop are in no order"),
    ],
)
def test_payloads_that_say_otherwise_are_refused(op: str, attribute: str, message: str) -> None:
    text = f"""func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %out = tcp.empty : tensor<8xf32>
      %r = gml_st.{op} %i in 0 to 8 step 4 (%o = %out) {{{attribute}}} {{
        %t = gml_st.materialize(%x) tile [%i] [4] : tensor<4xf32>
        gml_st.yield(%t, %o) tile [%i] [4]
      }} : tensor<8xf32>
      tcp.return(%r)
    }}
    """
    with pytest.raises(VerifyError) as found:
        tcpx.parse(text)
    assert message in str(found.value)
    assert tcpx.parse(text.replace(attribute, "unrolled = 2").replace("parallel", "for")).main.name == "f"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("let k = tile(mm, [k: 2])\nunroll(k)", "the number of iterations of mm/k1 is known only when the kernel runs"),
        ("let k = tile(mm, [k: 2])\nunroll(k, factor: 3)", "3 does not divide the iterations of mm/k1"),
        ("let k = tile(mm, [k: 2])\nunroll(k, factor: 1)", "unrolling mm/k1 by 1 changes nothing"),
        ("let k = tile(mm, [k: 2])\nunroll(k, factor: 0)", "mm/k1 cannot be unrolled 0 times"),
        ("let k = tile(mm, [k: 2])\nunroll(k, factor: 1000000000)", "mm/k1 cannot be unrolled 1000000000 times"),
    ],
)
def test_refused(body: str, message: str) -> None:
    assert refusal(RELU, MM + body).message == message


def test_copies_of_copies_end_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcpx.payload.rewriter.MOST_OPERATIONS", 200)
    loops = "".join(f"let k{n} = tile(mm, [k: {4**n}])\n" for n in range(4, 0, -1))
    found = refusal(LONG, MM + loops + "".join(f"unroll(k{n}, factor: 4)\n" for n in range(1, 4)))
    assert found.message == "unrolling mm/k2 4 times makes too many operations"
    assert (found.required, found.fix) == ("a payload of at most 200", "a smaller factor")
    assert found.schedule is not None


def test_a_loop_of_the_schedule_cannot_grow_the_payload_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcpx.payload.rewriter.MOST_OPERATIONS", 100)
    found = refusal(LONG, MM + "for k in 1..1000 { tile(mm, [k: 2]) }")
    assert (found.message, found.kind) == ("the payload would have too many operations", Kind.DEFINITE)
    assert found.required == "at most 100"
    assert found.schedule is not None
    assert found.schedule.text.strip() == "for k in 1..1000 { tile(mm, [k: 2]) }"


def test_a_loop_of_the_schedule_cannot_nest_loops_without_end() -> None:
    found = refusal(LONG, MM + "for k in 1..1000 { tile(mm, [k: 2]) }")
    assert (found.message, found.kind) == ("the payload would be nested too deep", Kind.DEFINITE)
    assert found.required == f"at most {DEEPEST_NEST} loops and branches within one another"
    assert found.schedule is not None


def test_a_static_loop_of_many_iterations() -> None:
    found = refusal(LONG, MM + "let k = tile(mm, [k: 1])\nunroll(k)")
    assert (found.message, found.fix) == ("mm/k1 cannot be unrolled 1048576 times", "give a factor")


COMPILER = "for any number: the C compiler makes the copies"
WAY = 'after `tile(mm, [m: 16], tail: peel)`, a tile of `m` by 4 in `mm.copy("main")` has 4 iterations'
VERSION = "`specialize mm when size(mm.m) == 16 { .. } else { .. }` has a version with 4 iterations"


@pytest.mark.parametrize(
    ("statement", "message", "required", "found"),
    [
        ("unroll(i)", "the number of iterations of mm/m1 is known only when the kernel runs",
         "a number of iterations that is known now", "ceildiv(M, 4) iterations"),
        ("unroll(i, factor: 4)", "4 does not divide the iterations of mm/m1", "a multiple of 4 whole steps",
         "ceildiv(M, 4) steps of 4 over 0..M"),
    ],
)  # fmt: skip
def test_a_loop_of_symbolic_length_is_told_the_ways(statement: str, message: str, required: str, found: str) -> None:
    """All of which work."""
    tiled = "let i = tile(mm, [m: 4])\n"
    error = refusal(RELU, MM + tiled + statement)
    assert (error.message, error.required, error.found) == (message, required, found)
    assert error.fix == f"`unroll(i, factor: 4, explicit: false)` {COMPILER}"
    assert error.notes == (WAY, VERSION)
    written = f"{error.fix}".split("`")[1]
    check(RELU, MM + tiled + written, SIZES)
    check(RELU, f'{MM}tile(mm, [m: 16], tail: peel)\nlet i = tile(mm.copy("main"), [m: 4])\n{statement}', SIZES)
    version = VERSION.split("`")[1].replace("{ .. }", f"{{ {statement} }}", 1).replace("{ .. }", "{ }")
    check(RELU, MM + tiled + version, SIZES)


def test_an_inner_loop_of_symbolic_length_is_told_no_version() -> None:
    """The extent of the dim alone does not say how often it runs."""
    error = refusal(RELU, MM + "tile(mm, [m: 8])\nlet i = tile(mm, [m: 4])\nunroll(i)")
    assert error.notes == (WAY,)


def test_iterations_in_no_order_are_no_work_for_the_compiler() -> None:
    error = refusal(RELU, MM + "let i = tile(mm, [m: 4], parallel: true)\nunroll(i)")
    assert (error.fix, error.notes) == (None, (WAY, VERSION))
