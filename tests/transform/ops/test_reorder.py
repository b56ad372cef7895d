"""reorder: the loops of a nest in another order."""

from __future__ import annotations

import pytest

from tcpx.payload.ops.gml_st import Loop
from tests.transform.payloads import CHAIN, MM, PAYLOADS, PRODUCTS, RELU, check, check_kernels, refusal, run

R, Q = 'let r = match one "r" in root\n', 'let q = match one "q" in root\n'
CASES = {
    "elements": (CHAIN, f"{R}let i, j = tile(r, [d0: 3, d1: 5])\nreorder([j, i])"),
    "with a producer": (CHAIN, f"{R}{Q}let i, j = tile(r, [d0: 3, d1: 5])\nfuse(q, into: j)\nreorder([j, i])"),
    "then vectors": (CHAIN, f"{R}let j, i = tile(r, [d1: 16, d0: 2], tail: pad)\nreorder([i, j])\nvectorize(j)"),
    "peeled": (CHAIN, f'{R}let i = tile(r, [d0: 4], tail: peel)\nlet j = tile(r.copy("main"), [d1: 3])\n'
               'reorder([j, i.copy("main")])'),
    "a grid": (CHAIN, f"{R}let i, j = tile(r, [d0: 3, d1: 5], parallel: true)\nreorder([j, i])"),
    "one parallel loop": (CHAIN, f"{R}let i = tile(r, [d0: 3], parallel: true)\nlet j = tile(r, [d1: 5])\n"
                          "reorder([j, i])"),
    **{f"{name}: the sum outside": (PAYLOADS[name], f"{MM}let k, i = tile(mm, [k: 2, m: 3])\nreorder([i, k])")
       for name in PRODUCTS},
    "three loops": (RELU, f"{MM}let k, i, j = tile(mm, [k: 2, m: 3, n: 4])\nreorder([j, i, k])"),
    "the inner two of three": (RELU, f"{MM}let i, k, j = tile(mm, [m: 3, k: 2, n: 4])\nreorder([j, k])"),
    "two sums": (PAYLOADS["two_k"], f"{MM}let k, j = tile(mm, [k: 2, j: 1])\nreorder([j, k])"),
}  # fmt: skip
SIZES = [{"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (3, 0, 3), (4, 17, 0), (13, 17, 5))]


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same(name: str) -> None:
    check(*CASES[name])


def test_kernels() -> None:
    check_kernels(CASES, SIZES)


@pytest.mark.parametrize(
    ("name", "nest"),
    [("elements", ["r/d11", "r/d01"]), ("three loops", ["mm/n1", "mm/m1", "mm/k1"]),
     ("the inner two of three", ["mm/m1", "mm/n1", "mm/k1"])],
)  # fmt: skip
def test_the_order(name: str, nest: list[str]) -> None:
    done = run(*CASES[name])
    assert [op.name for op in done.module.walk() if isinstance(op, Loop)][: len(nest)] == nest


def test_handles_stay_with_their_loops() -> None:
    body = CASES["three loops"][1]
    check(RELU, body + '\nrequire mm.loop(k) == k and mm.loop(n) == j "theirs"\npeel(j)\nlet kk = tile(mm, [k: 1])')


NEST = f"{MM}let i, k = tile(mm, [m: 4, k: 2])\n"


@pytest.mark.parametrize(
    ("payload", "body", "said"),
    [
        (RELU, NEST + "reorder([k, i])",
         ("%mm is not written by mm/k1 alone, in tiles that are one for each of its iterations",
          "a destination that the inner loop goes on from or writes from nothing, without gaps",
          "%mm.start, which mm/k1 goes on from")),
        (CHAIN, f"{R}let i, j = tile(r, [d0: 3, d1: 5])\nreorder([i, j])",
         ("the loops stand in this order", "another order", "r/d01, r/d11")),
        (CHAIN, f"{R}let i, j = tile(r, [d0: 3, d1: 5])\nreorder([j])",
         ("one loop has no order", "two loops or more, each once and directly in the one before", "r/d11")),
        (RELU, f"{MM}let i, k, j = tile(mm, [m: 3, k: 2, n: 4])\nreorder([j, i])",
         ("mm/n1 is not directly in the loop before it", "two loops or more, each once and directly in the one before",
          "mm/n1, mm/m1")),
        (CHAIN, f"{R}let i = tile(r, [d0: 6])\nlet j = tile(r, [d0: 2])\nreorder([j, i])",
         ("the range of r/d02 depends on r/d01", "bounds that do not depend on %r/d01, or rise by whole steps with it",
          "%r/d02")),
        (CHAIN, f"{R}{Q}let i = tile(r, [d0: 3])\nfuse(q, into: i)\nlet j = tile(r, [d1: 5])\nreorder([j, i])",
         ("r/d01 has more in it than one loop", "a loop whose body is another loop", "%q")),
    ],
)  # fmt: skip
def test_refusals(payload: str, body: str, said: tuple[str, str, str]) -> None:
    found = refusal(payload, body)
    assert (found.message, found.required, found.found) == said


def test_what_is_written_twice_stays_in_its_order() -> None:
    text = """func @f(%x: tensor<4x[K]xsi32>, %w: tensor<[K]x[N]xsi32>) -> tensor<4x[N]xsi32> symbols [N: 1..13, K] {
  %v2 = tcp.matmul(%x, %w) : tensor<4x[N]xsi32>
  %v3 = tcp.matmul(%x, %w) : tensor<4x[N]xsi32>
  tcp.return(%v2)
}
"""
    both = 'let v2 = match one "v2" in root\nlet v3 = match one "v3" in root\nlet i = tile(v2, [n: 1])\n'
    both += "let j = tile(v3, [n: 1])\nfuse_siblings(i, into: j)\nlet m = tile(v2, [m: 16], tail: shift)\n"
    found = refusal(text, both + "reorder([m, j])")
    assert found.message == "%v3 is not written by v3/m1 alone, in tiles that are one for each of its iterations"
    assert found.found == "%v3, which is written to another one, too"


def nest(read: str, inner: str = "1 to M", outer: str = "1 to N", write: str = "%i, %j") -> str:
    """Two loops that hand all of their destination on; the inner one reads one element and writes another."""
    return f"""\
func @f(%x: tensor<[N]x[M]xf32>) -> tensor<[N]x[M]xf32> symbols [N: 2..13, M: 2..] {{
  %r = gml_st.for %i in {outer} (%d = %x) {{
    %s = gml_st.for %j in {inner} (%e = %d) {{
      %a = gml_st.materialize(%e) tile [{read}] [1, 1] : tensor<1x1xf32>
      %b = gml_st.materialize(%x) tile [{write}] [1, 1] : tensor<1x1xf32>
      %v = tcp.sub(%a, %b) : tensor<1x1xf32>
      gml_st.yield(%v, %e) tile [{write}] [1, 1]
    }} : tensor<[N]x[M]xf32>
    gml_st.yield(%s, %d) tile [0, 0] [N, M]
  }} : tensor<[N]x[M]xf32>
  tcp.return(%r)
}}
"""


V = 'let v = match one "v" in root\nlet j = parent(v)\nlet i = parent(j)\nreorder([j, i])'
GRIDS = [{"N": n, "M": m} for n in (2, 3, 9) for m in (2, 5, 13)]
NESTS = {
    "up": nest("%i - 1, %j"),
    "left": nest("%i, %j - 1"),
    "up and left": nest("%i - 1, %j - 1"),
    "down and right": nest("%i - 1 + 1, %j", "0 to M - 1", "0 to N - 1", "%i + 1, %j"),
    "steps": nest("%i - 1, %j", "1 to M step 2", "1 to N step 3"),
    "far to the left": nest("%i, 0"),
    "written alone, perhaps never": nest("0, %j", outer="1 to N - 1", write="0, %j").replace("(%e) tile", "(%x) tile"),
    "a triangle": nest("%i - 1, %j", "0 to %i").replace("M: 2..", "M: 13.."),
    "a band": nest("%i - 1, %j - %i", "%i to M + %i - 1", write="%i, %j - %i + 1"),
    "a band of steps": nest("%i - 2, %j - 2 * %i", "2 * %i to M + 2 * %i step 2", "2 to N step 2", "%i, %j - 2 * %i"),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTS)
def test_what_iterations_hand_on(name: str) -> None:
    least = 13 if "M: 13" in NESTS[name] else 2
    check(NESTS[name], V, [sizes for sizes in GRIDS if sizes["M"] >= least])


@pytest.mark.parametrize("read", ["%i - 1, %j + 1", "%i + 1, %j - 1"])
def test_what_would_come_before_what_it_depends_on(read: str) -> None:
    found = refusal(nest(read, "1 to M - 1", "1 to N - 1"), V)
    assert found.message == "iterations of i and j depend on each other"
    assert found.found == "tile [%i, %j] [1, 1]"


def test_what_the_inner_loop_begins_anew() -> None:
    payload = """\
func @f(%x: tensor<[N]xf32>, %w: tensor<[N]x[N]xf32>) -> tensor<2x[N]xf64> symbols [N: 1..] {
  %v = tcp.vecmat(%x, %w) : tensor<[N]xf64>
  %b = tcp.broadcast(%v) {dims = [1]} : tensor<2x[N]xf64>
  tcp.return(%b)
}
"""
    body = 'let v = match one "v" in root\nlet b = match one "b" in root\nlet j, k, jj = tile(v, [n: 2, k: 8, n: 3])\n'
    error = refusal(payload, body + "fuse(b, into: jj)\nreorder([k, j])\n")
    assert error.message == "v/k1 begins %v anew in each iteration of v/n1"
    assert (error.required, error.found) == ("destinations that v/n1 has, too", "%v, which nothing in v/n1 reads")


def test_a_skewed_loop_is_parallel_only_where_that_is_proved() -> None:
    text = """func @f(%x: tensor<[M]x3x[M]xf32>) -> tensor<[M]x3x[M]xf32> symbols [M: 1..] {
  %r = tcp.sigmoid(%x) : tensor<[M]x3x[M]xf32>
  tcp.return(%r)
}
"""
    steps = (
        'let r = match one "r" in root\n'
        "let i, j, k = tile(r, sizes: [d2: 16, d1: max(1, ceildiv(size(r.d1), 2)), d0: 8], parallel: {})\n"
        "let s = skew(k, factor: 2)\nreorder([s, j])\n"
    )
    check(text, steps.format("false"), sizes=[{"M": m} for m in (1, 2, 17)])
    found = refusal(text, steps.format("true"))
    assert found.message == "nothing proves that iterations of r/d01 write different elements in this order"
    assert found.required == "a parallel loop whose iterations write a tile each, or a sequential loop"
    assert found.found == "a yield to tile [0, 0, 0] [M, 3, min(16, M - %r/d21)]"
