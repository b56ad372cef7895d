"""parallelize: iterations at once, where none touches what another writes."""

from __future__ import annotations

import pytest

from tests.transform.payloads import MM, PAYLOADS, PRODUCTS, RELU, check, check_kernels, refusal


@pytest.mark.parametrize("payload", PRODUCTS)
@pytest.mark.parametrize(
    "body",
    [
        "let i = tile(mm, [m: 4])\nlet p = parallelize(i)",
        "let k, i = tile(mm, [k: 2, m: 4])\nlet p = parallelize(i)",
        "let i = tile(mm, [m: 4], tail: pad)\nlet p = parallelize(i)\nlet k = tile(mm, [k: 2])",
    ],
)
def test_computes_the_same(body: str, payload: str) -> None:
    done = check(PAYLOADS[payload], MM + body)
    assert [op.name for op in done.module.walk() if op.opcode == "gml_st.parallel"] == ["mm/m1"]


@pytest.mark.parametrize("payload", PRODUCTS)
@pytest.mark.parametrize(
    "body",
    [
        "let i, j = tile(mm, [m: 4, n: 4])\nparallelize(i)\nparallelize(j)",
        "let i, j = tile(mm, [m: 4, n: 4])\nparallelize(j)\nparallelize(i)",
        "let i, j = tile(mm, [m: 4, n: 4], parallel: true)",
    ],
)
def test_a_grid_of_two_loops(body: str, payload: str) -> None:
    done = check(PAYLOADS[payload], MM + body)
    assert [op.name for op in done.module.walk() if op.opcode == "gml_st.parallel"] == ["mm/m1", "mm/n1"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("let k = tile(mm, [k: 2])\nparallelize(k)", "iterations of mm/k1 write one subset of %mm"),
        ("let i = tile(mm, [m: 2], parallel: true)\nparallelize(i)", "mm/m1 is parallel already"),
        ("let i = tile(mm, [m: 2], parallel: true)\nlet k, j = tile(mm, [k: 2, n: 2])\nparallelize(j)",
         "mm/n1 and mm/m1 would be parallel loops in each other"),
        ("let i = tile(mm, [m: 4], parallel: true)\nlet j = tile(mm, [m: 2])\nparallelize(j)",
         "mm/m2 and mm/m1 would be parallel loops in each other"),
        ("let k, j, i = tile(mm, [k: 1, n: 8, m: 6], tail: pad)\nlet kk = tile(mm, [k: 1])\nvectorize(i)\n"
         "hoist_accumulator(mm, out_of: kk)\nparallelize(kk)",
         "mm/k2 carries %mm from iteration to iteration"),
    ],
)  # fmt: skip
def test_refused(body: str, message: str) -> None:
    assert refusal(RELU, MM + body).message == message


LOOP = """\
func @f(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {{
  %y = gml_st.for %i in 0 to 4 step 1 (%d = %a) {{
    {}
    gml_st.yield(%r, %d) tile [%i, 0] [1, 3]
  }} : tensor<4x3xf32>
  tcp.return(%y)
}}
"""
READS = "iterations of i read subsets of %d that others may write"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%s = tcp.neg(%d) : tensor<4x3xf32>\n%r = gml_st.materialize(%s) tile [0, 0] [1, 3] : tensor<1x3xf32>", READS),
        ("%r = gml_st.materialize(%a) tile [0, 0] [1, 3] : tensor<1x3xf32>\n%s = tcp.neg(%r) : tensor<1x3xf32>\n"
         "gml_st.yield(%s, %d) tile [3 - %i, 0] [1, 3]", "iterations of i write one subset of %d twice"),
    ],
)  # fmt: skip
def test_a_loop_of_the_payload_is_refused(body: str, message: str) -> None:
    statement = 'parallelize(parent(match one "s" in root))'
    assert refusal(LOOP.format(body), statement).message == message


def rows(read: str, write: str = "%i, %j", outer: str = "1 to N") -> str:
    """Two loops that hand all of their destination on; the inner one reads one element and writes another."""
    return f"""\
func @f(%x: tensor<[N]x[M]xf32>) -> tensor<[N]x[M]xf32> symbols [N: 2.., M: 2..] {{
  %r = gml_st.for %i in {outer} (%d = %x) {{
    %s = gml_st.for %j in 1 to M (%e = %d) {{
      %a = gml_st.materialize(%e) tile [{read}] [1, 1] : tensor<1x1xf32>
      %v = tcp.mul(%a, %a) : tensor<1x1xf32>
      gml_st.yield(%v, %e) tile [{write}] [1, 1]
    }} : tensor<[N]x[M]xf32>
    gml_st.yield(%s, %d) tile [0, 0] [N, M]
  }} : tensor<[N]x[M]xf32>
  tcp.return(%r)
}}
"""


V = 'let v = match one "v" in root\nparallelize(parent(parent(v)))'
ROWS = {
    "left": rows("%i, %j - 1"),
    "the first column": rows("%i, 0"),
    "a row that none writes": rows("0, %j"),
    "columns": rows("%j - 1, %i", "%j, %i", "1 to M").replace("%j in 1 to M", "%j in 1 to N"),
    "every other row, from the next": rows("%i + 1, %j", outer="0 to N - 1 step 2"),
}


@pytest.mark.parametrize("name", ROWS)
def test_iterations_have_a_part_of_what_they_hand_on(name: str) -> None:
    sizes = [{"N": n, "M": m} for n in (2, 3, 9) for m in (2, 5)]
    done = check(ROWS[name], V, sizes)
    assert [op.name for op in done.module.walk() if op.opcode == "gml_st.parallel"] == ["i"]


def test_kernels_of_rows() -> None:
    check_kernels({name: (text, V) for name, text in ROWS.items()}, [{"N": 9, "M": 5}, {"N": 2, "M": 17}])


@pytest.mark.parametrize("read", ["%i - 1, %j", "%i - 1, %j - 1"])
def test_what_another_iteration_writes(read: str) -> None:
    found = refusal(rows(read), V)
    assert found.message == "iterations of i write one subset of %d"
