"""hoist_accumulator: an accumulator carried in registers."""

from __future__ import annotations

import pytest

from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.types import VectorType
from tests.transform.payloads import MM, PAYLOADS, PRODUCTS, RELU, Sizes, check, refusal

SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 17, 0), (13, 17, 5), (1, 1, 1), (12, 16, 4))
)
TILED = "let j, i = tile(mm, [n: 8, m: 6], tail: pad)\nlet k = tile(mm, [k: 1])\n"
BEFORE = {
    "plain": "",
    "a reduction loop outside": "let kc = tile(mm, [k: 2])\n",
}


@pytest.mark.parametrize("payload", PRODUCTS)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("start", ["", "fuse(mm.start, into: i)\n"], ids=["start outside", "start inside"])
def test_computes_the_same(start: str, before: str, payload: str) -> None:
    fused = start if before != "plain" else ""
    body = BEFORE[before] + TILED + fused + "vectorize(i)\nhoist_accumulator(mm, out_of: k)"
    done = check(PAYLOADS[payload], MM + body, SIZES)
    inner = [op for op in done.module.walk() if isinstance(op, Loop)][-1]
    assert [type(d.type) for d in inner.destinations] == [VectorType]


def test_with_an_epilogue() -> None:
    body = 'fuse(match one "r" in root, into: i)\nvectorize(i)\nhoist_accumulator(mm, out_of: k)'
    check(RELU, MM + "let kc = tile(mm, [k: 2])\n" + TILED + body, SIZES)


@pytest.mark.parametrize("hoisted", [("j",), ("k", "j")], ids=["outer", "inner then outer"])
def test_out_of_two_loops(hoisted: tuple[str, ...]) -> None:
    body = "let m, n = tile(mm, [m: 4, n: 8], tail: pad)\nlet j, k = tile(mm, [j: 1, k: 1])\nvectorize(n)\n"
    body += "".join(f"hoist_accumulator(mm, out_of: {loop})\n" for loop in hoisted)
    done = check(PAYLOADS["two_k"], MM + body, SIZES)
    inner = [op for op in done.module.walk() if isinstance(op, Loop)][-2:]
    assert [type(d.type) for loop in inner for d in loop.destinations] == [VectorType] * 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (TILED + "hoist_accumulator(mm, out_of: k)",
         "the destination %mm of mm/k1 cannot be carried in registers"),
        (TILED + "let rows = tile(mm, [m: 2])\nvectorize(i)\nhoist_accumulator(mm, out_of: rows)",
         "mm/m2 steps `m` of %mm, which is not a reduction dim"),
        ("let j, i, k = tile(mm, [n: 8, m: 6, k: 1], tail: pad)\nlet part = tile(mm, [n: 5])\npad(mm, [n: 8])\n"
         "vectorize(k)\nhoist_accumulator(mm, out_of: part)",
         "mm/n2 steps `n` of %mm, which is not a reduction dim"),
        (TILED + "vectorize(i)\nhoist_accumulator(mm, out_of: i)",
         "mm/m1 steps `m` of %mm, which is not a reduction dim"),
        (TILED + "vectorize(i)\nhoist_accumulator(mm, out_of: k)\nhoist_accumulator(mm, out_of: k)",
         "mm/k1 carries the accumulator of %mm in registers already"),
    ],
)  # fmt: skip
def test_refused(body: str, message: str) -> None:
    assert refusal(RELU, MM + body).message == message


def test_a_parallel_loop_carries_nothing() -> None:
    """A loop of one iteration is parallel, and may be a reduction."""
    body = TILED + "let one = tile(mm, [k: 4], tail: pad)\n"
    body += "vectorize(one)\nlet p = parallelize(one)\nhoist_accumulator(mm, out_of: p)"
    found = refusal(RELU, MM + body)
    assert found.message == "mm/k2 is parallel: its iterations hand no value to the next"
    assert found.fix == "hoist before `parallelize`, or do without `parallel`"
