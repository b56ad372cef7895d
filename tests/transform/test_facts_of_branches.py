"""What a branch says of sizes, and what a loop says of its iterations, holds there and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tests.transform.payloads import MM, Sizes, check, refusal

PRODUCT = """func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  %e = tcp.exp(%mm) : tensor<[M]x[N]xf32>
  tcp.return(%e)
}
"""  # noqa: E501
SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((1, 17, 0), (5, 3, 0), (5, 3, 7), (0, 1, 4), (3, 2, 1))
)
E = 'let e = match one "e" in root\n'


@pytest.mark.parametrize("inner", ["[k: 2]", "[k: 4]", "[m: 2, k: 3]"])
@pytest.mark.parametrize("fused", ["mm.start", "e"])
def test_an_inner_loop_has_an_iteration_where_the_outer_one_is_given_one(fused: str, inner: str) -> None:
    """Nothing is left to sum, and the first value and what comes behind the sum are still computed."""
    body = f"{MM}{E}tile(mm, [k: 4])\ntile(mm, {inner})\nfuse({fused}, into: mm.loop(k))"
    check(PRODUCT, body, SIZES, exact=False)


PAIR = """func @f(%x: tensor<[M]x[N]xf32>, %y: tensor<[M]x[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>) symbols [M: 0.., N: 0..] {
  %a = tcp.add(%x, %y) : tensor<[M]x[N]xf32>
  %b = tcp.mul(%x, %y) : tensor<[M]x[N]xf32>
  tcp.return(%a, %b)
}
"""  # noqa: E501
VERSIONS = """let a = match one "a" in root
let b = match one "b" in root
specialize a when size(a.d0) <= 8 { } else { tile(a, [d1: 6]) }
"""


@pytest.mark.parametrize(
    "size", ['size(a.copy("when 0").d0)', 'footprint(a.copy("when 0").lhs)', 'size(a.copy("when 0").lhs)']
)
def test_a_size_of_one_copy_is_not_bounded_by_its_branch_elsewhere(size: str) -> None:
    body = f"{VERSIONS}let s = {size}\ntile(b, [d0: max(1, s)])\n"
    assert refusal(PAIR, body + "pad(b, [d0: 8])").message == "`d0` of %b may be larger than 8"
    check(PAIR, body, [{"M": m, "N": 3} for m in (0, 1, 8, 9)])


def test_in_the_branch_it_is() -> None:
    body = """let b = match one "b" in root
specialize b when size(b.d0) <= 8 { tile(b, [d0: max(1, size(b.d0))])
pad(b, [d0: 8]) } else { tile(b, [d1: 6]) }
"""
    check(PAIR, body, [{"M": m, "N": 3} for m in (0, 1, 8, 9)])


def test_a_size_that_depends_on_a_loop_outside_of_it() -> None:
    body = """let a = match one "a" in root
let b = match one "b" in root
tile(a, [d0: 4])
tile(b, [d0: 8])
let s = size(a.d0)
"""
    for use in ("tile(b, [d0: max(1, s)])", "split(b.loop(d0), at: 4 * s)"):
        found = refusal(PAIR, body + use)
        assert found.message.startswith("the size depends on the loop a/d01, and %b")
        assert found.required == "a size that is known where the operation stands"


def test_a_division_that_a_branch_makes_plain_is_none_elsewhere() -> None:
    """C rounds a negative quotient up; in the first version it is known not to be negative."""
    payload = """func @f(%x: tensor<[M]x[N]xf32>, %y: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0..2000, N: 0..2000] {
  %a = tcp.add(%x, %y) : tensor<[M]x[N]xf32>
  tcp.return(%a)
}
"""  # noqa: E501
    step = "max(1, min(size(a.d1) + 1, (size(a.d0) - size(a.d1)) / 4 + 2))"
    schedule = f"""language 1
schedule s(root: func) {{
  let a = match one "a" in root
  specialize a when size(a.d0) >= 16 and size(a.d1) <= 16 {{ tile(a, [d0: {step}]) }} else {{
    let i = tile(a, [d0: {step}])
    pack(a.lhs, [d0, d1], at: i)
    pack(a.rhs, [d0, d1], at: i)
  }}
}}
"""
    kernel = tcpx.compile(tcpx.parse(payload), tcpx.parse_schedule(schedule), target="generic", sanitize=True)
    for m, n in ((999, 1000), (20, 7), (3, 5)):
        x, y = np.full((m, n), 2, np.float32), np.full((m, n), 3, np.float32)
        np.testing.assert_array_equal(kernel(x, y), x + y)


@pytest.mark.parametrize("extent", ["N", "min(N, 8)", "floordiv(N, 2)", "max(0, N - 2)"])
@pytest.mark.parametrize("condition", ["size(y.i) == 4", "size(y.i) >= 8 and size(y.i) < 9"])
@pytest.mark.parametrize("tiles", ["[j: 16]", "[i: 4]"])
def test_a_size_that_a_branch_leaves_one_value_is_a_number_there(tiles: str, condition: str, extent: str) -> None:
    """All tiles are full: they become vectors."""
    payload = f"""func @f(%x: tensor<[N]x16xf32>) -> tensor<[{extent}]x16xf32> symbols [N: 0..] {{
  %y = tcp.generic(%x) {{iterators = [["i", "parallel"], ["j", "parallel"]], maps = [[i, j], [i, j]]}} ({{ (%a: f32):
    %s = tcp.mul(%a, %a) : f32
    tcp.yield(%s)
  }}) : tensor<[{extent}]x16xf32>
  tcp.return(%y)
}}
"""
    then = f"let loop = tile(y, {tiles})\nvectorize(loop)"
    body = f'let y = match one "y" in root\nspecialize y when {condition} {{\n{then}\n}} else {{ tile(y, [i: 3]) }}'
    check(payload, body, [{"N": n} for n in (0, 2, 4, 6, 8, 9, 10, 17)])


BRANCHES = """\
func @f(%x: tensor<[N]x4xf32>) -> tensor<[N]x4xf32> symbols [N: 0..40] {
  %c = tcp.call @g(%x) : tensor<[N]x4xf32>
  %b = tcp.call @g(%c) : tensor<[N]x4xf32>
  tcp.return(%b)
}

func @g(%x: tensor<[M]x4xf32>) -> tensor<[M]x4xf32> symbols [M: 0..40] {
  %l = gml_st.for %i in 0 to M step 3 (%d = %x) {
    %m = gml_st.materialize(%x) tile [%i, 0] [min(3, M - %i), 4] : tensor<[min(3, M - %i)]x4xf32>
    %s = gml_st.if M < 4 {
      %five = tcp.fill {value = 5.0} : tensor<[min(3, M - %i)]x4xf32>
      tcp.yield(%five)
    } else {
      tcp.yield(%m)
    } : tensor<[min(3, M - %i)]x4xf32>
    %k = gml_st.for %j in 0 to min(3, M - %i) step 4 (%e = %s) {
      %n = gml_st.materialize(%m) tile [%j, 0] [min(3, M - %i) - %j, 4] : tensor<[min(3, M - %i) - %j]x4xf32>
      %t = gml_st.if M >= 5 {
        %w = tcp.add(%n, %n) : tensor<[min(3, M - %i) - %j]x4xf32>
        tcp.yield(%w)
      } else {
        tcp.yield(%n)
      } : tensor<[min(3, M - %i) - %j]x4xf32>
      gml_st.yield(%t, %e) tile [%j, 0] [min(3, M - %i) - %j, 4]
    } : tensor<[min(3, M - %i)]x4xf32>
    gml_st.if M < 3 {
      gml_st.yield(%s, %d) tile [%i, 0] [min(3, M - %i), 4]
    } else {
      gml_st.yield(%k, %d) tile [%i, 0] [min(3, M - %i), 4]
    }
  } : tensor<[M]x4xf32>
  tcp.return(%l)
}
"""


def test_sizes_in_a_branch_may_be_simpler_than_those_round_it() -> None:
    check(BRANCHES.partition("\n\n")[2], "print(root)", [{"M": m} for m in (0, 1, 2, 3, 4, 5, 7)])
    for step in ("clone", "inline"):
        body = f'let c = match one call "c" in root\n{step}(c)'
        check(BRANCHES, body, [{"N": n} for n in (0, 1, 2, 3, 4, 5, 7)])


def test_what_stands_around_a_version_that_nothing_takes_is_known_in_it() -> None:
    """K is a multiple of 4 and M is 1: K is not M, and in the version for that the loop still has one iteration."""
    text = """func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  tcp.assert {any = [mod(K, 4) == 0], message = "a multiple"}
  %r = gml_st.if M == 1 {
    %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
    %e = tcp.exp(%mm) : tensor<[M]x[N]xf32>
    tcp.yield(%e)
  } else {
    %o = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
    tcp.yield(%o)
  } : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""  # noqa: E501
    body = f"{MM}{E}tile(mm, [m: 3], parallel: true)\nspecialize [mm, e] when size(mm.k) == size(mm.m) {{ }} else {{ }}"
    sizes = [{"M": m, "N": n, "K": k} for m, n, k in ((1, 17, 0), (1, 3, 4), (5, 3, 4), (0, 1, 8))]
    check(text, body, sizes, exact=False)
