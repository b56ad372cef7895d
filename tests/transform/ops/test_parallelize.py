"""parallelize: iterations at once, where none touches what another writes."""

from __future__ import annotations

import pytest

from tests.transform.payloads import MM, PAYLOADS, PRODUCTS, RELU, check, refusal


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
