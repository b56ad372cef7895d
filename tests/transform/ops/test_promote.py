"""promote: what an iteration writes, in a buffer of its own."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcpx
from tcpx.payload.ops.memory import Empty
from tests.transform.payloads import MM, PAYLOADS, PRODUCTS, RELU, check, refusal, run

SUMS = "let j = tile(mm, [n: 8])\nlet k = tile(mm, [k: 2])\nlet i = tile(mm, [m: 4])\nfuse(mm.start, into: i)\n"
INNER = MM + SUMS + "promote(mm.out, at: j)"


def owned(text: str) -> list[str]:
    """What is made in memory of its own."""
    return re.findall(r"(%\S+) = tcp.empty \{own = true\}", text)


@pytest.mark.parametrize("payload", ["relu", "transposed", "integers", "min_plus"])
@pytest.mark.parametrize(
    "body",
    [
        INNER,
        INNER.replace("[n: 8]", "[n: 8], parallel: true"),
        INNER.replace("let i = tile(mm, [m: 4])", "let i = tile(mm, [m: 4], tail: pad)"),
        INNER + "\npeel(i)",
        INNER + "\nlet l = tile(mm, [n: 3])",
        INNER + "\nparallelize(j)",
    ],
)
def test_computes_the_same(body: str, payload: str) -> None:
    assert len(owned(check(PAYLOADS[payload], body).module.text())) >= 1


def test_an_epilogue_on_the_last_step() -> None:
    done = check(RELU, MM + SUMS + "fuse(epilogue(mm), into: i)\npromote(mm.out, at: j)")
    assert owned(done.module.text()) == ["%mm.own"]


@pytest.mark.parametrize("payload", PRODUCTS)
def test_in_a_grid(payload: str) -> None:
    tiles = "let j, l = tile(mm, [n: 8, m: 8], parallel: true)\nlet k, i = tile(mm, [k: 2, m: 4])\n"
    start = "fuse(mm.start, into: i)\n" if payload != "two_k" else ""
    check(PAYLOADS[payload], MM + tiles + start + "optional promote(mm.out, at: l)")


@pytest.mark.parametrize(
    ("body", "message", "required", "found", "fix"),
    [
        (
            SUMS + "promote(s.out, at: j)",
            "no iteration of mm/n1 writes %s",
            "the result of an operation in the loop that it yields",
            "%mm",
            None,
        ),
        (
            "let j = tile(mm, [n: 8])\npromote(mm.out, at: j)",
            "an iteration of mm/n1 writes %mm at once",
            "a loop in mm/n1 that computes it in several steps",
            "tcp.matmul",
            None,
        ),
        (
            "let j, k = tile(mm, [n: 8, k: 2])\npromote(mm.out, at: j)",
            "mm/k1 goes on from what is there before",
            "a loop that computes %mm from the start",
            "%mm.start at first",
            "fuse the start of the sums into mm/k1",
        ),
        (
            SUMS + "promote(mm.out, at: k)",
            "mm/m1 goes on from what is there before",
            "a loop that computes %mm from the start",
            "what an iteration of mm/k1 leaves to the next",
            "promote in a loop round mm/k1",
        ),
        (
            SUMS + "peel(k)\npromote(mm.out, at: j)",
            "mm/k1~tail goes on from what is there before",
            "a loop that computes %mm from the start",
            "what mm/k1 computes",
            "promote before the loop is peeled or split",
        ),
        (
            "let j = tile(mm, [n: 8])\n"
            "specialize mm when size(mm.m) > 4 { tile(mm, [k: 2]) } else { tile(mm, [k: 3]) }\npromote(mm.out, at: j)",
            "%mm is computed in branches, of which an iteration of mm/n1 takes one",
            "a loop in mm/n1 that computes it in several steps",
            "gml_st.if",
            "promote before `specialize`",
        ),
        (
            "let j, l = tile(mm, [n: 16, m: 8], parallel: true)\ntile(mm, [k: 2])\npromote(mm.out, at: j)",
            "mm/n1 and mm/m1 are a grid: what runs in parallel is an iteration of both",
            "the innermost loop of the grid",
            "mm/n1",
            "promote in mm/m1",
        ),
        (
            SUMS + "bufferize(root)\npromote(mm.out, at: j)",
            "the body of mm/n1 is on buffers",
            "a loop that yields what it computes",
            "vector.write",
            "do this before `bufferize`",
        ),
        (
            SUMS + "promote(mm.out, at: j)\npromote(mm.out, at: j)",
            "%mm is promoted in mm/n1 already",
            "a result without a buffer of its own",
            "one in memory of its own",
            None,
        ),
    ],
)
def test_refused(body: str, message: str, required: str, found: str, fix: str | None) -> None:
    wrong = refusal(RELU, MM + 'let s = match one "s" in root\n' + body)
    assert (wrong.message, wrong.required, wrong.found, wrong.fix) == (message, required, found, fix)


GIVEN = """\
func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>, %c: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32>
    symbols [M: 0.., K: 0.., N: 0..] {
  %z = START : tensor<[M]x[N]xf32>
  %mm = tcp.matmul(%x, %w, init = %z) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""


@pytest.mark.parametrize("start", ["tcp.fill {value = 2.0}", "tcp.max(%c, %c)"])
@pytest.mark.parametrize("parallel", ["true", "false"])
def test_a_first_value_that_is_computed_there(start: str, parallel: str) -> None:
    """What an iteration goes on from is a part of the result that nothing has written yet."""
    tiles = f"let j = tile(mm, [n: 8], parallel: {parallel})\nlet k, i = tile(mm, [k: 2, m: 4])\n"
    done = check(GIVEN.replace("START", start), MM + tiles + "fuse(mm.start, into: i)\npromote(mm.out, at: j)")
    assert owned(done.module.text()) == ["%mm.own"]


def test_a_first_value_from_outside_is_refused() -> None:
    payload = GIVEN.replace("  %z = START : tensor<[M]x[N]xf32>\n", "").replace("init = %z", "init = %c")
    wrong = refusal(payload, MM + "let j, k = tile(mm, [n: 8, k: 2])\npromote(mm.out, at: j)")
    assert (wrong.message, wrong.found) == ("mm/k1 goes on from what is there before", "%c at first")
    assert wrong.fix == "add %c to the sums when they are done, instead of starting from it"


def test_a_padded_tile() -> None:
    tiles = "let j = tile(mm, [n: 8], tail: pad)\nlet k, i = tile(mm, [k: 2, m: 4])\n"
    done = check(RELU, MM + tiles + "fuse(mm.start, into: i)\npromote(mm.out, at: j)")
    assert "%mm.own = tcp.empty {own = true} : tensor<[M]x8xf32>" in done.module.text()


def test_a_sum_that_is_cast_on_its_last_step() -> None:
    payload = RELU.replace("-> tensor<[M]x[N]xf32> sym", "-> tensor<[M]x[N]xf64> sym").replace(
        "tcp.return(%r)", "%wide = tcp.cast(%r) : tensor<[M]x[N]xf64>\n  tcp.return(%wide)"
    )
    body = MM + 'let wide = match one "wide" in root\n' + SUMS + "fuse(wide, into: i)\npromote(wide.out, at: j)"
    assert owned(check(payload, body).module.text()) == ["%wide.own"]


PRODUCT = """\
func @f(%a: tensor<[M]x48xf32>, %b: tensor<48x32xf32>) -> tensor<[M]x32xf32> symbols [M: 0..64] {
  %mm = tcp.matmul(%a, %b) : tensor<[M]x32xf32>
  tcp.return(%mm)
}
"""
SCHEDULE = """\
language 1
schedule s(root: func) {
  let mm   = match one contract in root
  let j    = tile(mm, [n: 16], parallel: true)
  let k    = tile(mm, [k: 16])
  let i    = tile(mm, [m: 4], tail: pad)
  fuse(mm.start, into: i)
  let kk   = tile(mm, [k: 1])
  vectorize(i)
  hoist_accumulator(mm, out_of: kk)
  promote(mm.out, at: j)
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_write_the_result_once(threads: int) -> None:
    kernel = tcpx.compile(tcpx.parse(PRODUCT), tcpx.parse_schedule(SCHEDULE), target="x86_avx2", threads=threads)
    stores = re.findall(r"_mm\w+_storeu_ps\((\w+)", kernel.c_source)
    assert stores
    assert "out" not in stores
    assert len(re.findall(r"memcpy\(out .*\);", kernel.c_source)) == threads  # printed for one thread, too
    workspace = kernel.report({"M": 64}).workspace_bytes
    assert workspace is not None
    assert workspace >= threads * 64 * 16 * 4
    random = np.random.default_rng(3)
    for rows in (0, 1, 7, 64):
        a, b = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((rows, 48), (48, 32)))
        np.testing.assert_array_equal(kernel(a, b), a @ b)


def test_without_it_the_sums_are_in_the_result() -> None:
    schedule = tcpx.parse_schedule(SCHEDULE.replace("promote(mm.out, at: j)", ""))
    kernel = tcpx.compile(tcpx.parse(PRODUCT), schedule, threads=2)
    assert set(re.findall(r"_mm\w+_storeu_ps\((\w+)", kernel.c_source)) == {"out"}


def test_the_copy_is_a_remark() -> None:
    done = run(RELU, MM + SUMS + "promote(mm.out, at: j)\nbufferize(root)")
    remarks = done.module.main.attributes["remarks"]
    assert isinstance(remarks, tuple)
    assert any(str(r).startswith("copies %mm.") and str(r).endswith("because it is promoted") for r in remarks)


def test_an_attribute_that_is_wrong() -> None:
    text = "func @f() -> tensor<4xf32> {\n  %x = tcp.empty {own = 3} : tensor<4xf32>\n  tcp.return(%x)\n}\n"
    with pytest.raises(tcpx.TcpxError) as caught:
        tcpx.parse(text)
    diagnostic = caught.value.diagnostic
    assert (diagnostic.message, diagnostic.required, diagnostic.found) == (
        "%x (tcp.empty): the attribute `own` is of another kind",
        "true, or false, which is the same as left out",
        "own = 3",
    )
    made = Empty.of(tcpx.parse(PRODUCT).main.returned[0].type)
    assert not made.attributes
