"""coalesce of loops: a loop and the one in it as one over the product of their iterations."""

from __future__ import annotations

import pytest

from tcpx.payload.ops.gml_st import Loop
from tests.transform.payloads import CHAIN, MM, PAYLOADS, RELU, check, check_kernels, refusal, run

R, Q = 'let r = match one "r" in root\n', 'let q = match one "q" in root\n'
GRID = f"{R}let i, j = tile(r, [d0: 3, d1: 5])\n"
CASES = {
    "elements": (CHAIN, f"{GRID}coalesce(i)"),
    "with a producer": (CHAIN, f"{R}{Q}let i, j = tile(r, [d0: 3, d1: 5])\nfuse(q, into: j)\ncoalesce(i)"),
    "parallel": (CHAIN, f"{R}let i, j = tile(r, [d0: 3, d1: 5], parallel: true)\ncoalesce(i)"),
    "then parallel": (CHAIN, f"{GRID}coalesce(i)\nparallelize(i)"),
    "one of two parallel": (CHAIN, f"{R}let i = tile(r, [d0: 3], parallel: true)\nlet j = tile(r, [d1: 5])\n"
                            "coalesce(i)"),
    "padded, then vectors": (CHAIN, f"{R}let i, j = tile(r, [d0: 2, d1: 16], tail: pad)\ncoalesce(i)\nvectorize(i)"),
    "peeled": (CHAIN, f'{R}let i = tile(r, [d0: 4], tail: peel)\nlet j = tile(r.copy("main"), [d1: 3])\n'
               'coalesce(i.copy("main"))'),
    "then tiled": (CHAIN, f"{GRID}coalesce(i)\nlet k = tile(r, [d1: 2])"),
    "three loops": (RELU, f"{MM}let i, j, k = tile(mm, [m: 3, n: 4, k: 2])\ncoalesce(j)"),
    "the sum outside": (RELU, f"{MM}let k, i, j = tile(mm, [k: 2, m: 3, n: 4])\ncoalesce(i)"),
    "all three": (RELU, f"{MM}let k, i, j = tile(mm, [k: 2, m: 3, n: 4])\ncoalesce(k)\ncoalesce(k)"),
    "two sums": (PAYLOADS["two_k"], f"{MM}let k, j = tile(mm, [k: 2, j: 1])\ncoalesce(k)"),
}  # fmt: skip
REFUSED = ("three loops",)
SIZES = [{"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (3, 0, 3), (4, 17, 0), (13, 17, 5))]


@pytest.mark.parametrize("name", [name for name in CASES if name not in REFUSED])
def test_computes_the_same(name: str) -> None:
    check(*CASES[name])


def test_kernels() -> None:
    check_kernels({name: case for name, case in CASES.items() if name not in REFUSED}, SIZES)


@pytest.mark.parametrize(
    ("name", "loops", "parallel"),
    [("elements", 1, False), ("parallel", 1, True), ("then parallel", 1, True), ("one of two parallel", 1, False),
     ("the sum outside", 2, False), ("all three", 1, False)],
)  # fmt: skip
def test_there_is_one_loop(name: str, loops: int, parallel: bool) -> None:
    found = [op for op in run(*CASES[name]).module.walk() if isinstance(op, Loop)]
    assert [op.is_parallel for op in found] == [parallel] * loops
    assert str(found[-1].var.step) == "1"


def test_the_inner_handle_ends() -> None:
    found = refusal(CHAIN, f"{GRID}coalesce(i)\npeel(j)")
    assert "it became one loop with r/d01" in f"{found.message} {found.found} {found.notes}"


@pytest.mark.parametrize(
    ("payload", "body", "said"),
    [
        (RELU, CASES["three loops"][1],
         ("%mm is not written by mm/k1 alone, in tiles that are one for each of its iterations",
          "a destination that the inner loop goes on from or writes from nothing, without gaps",
          "%mm.start, which mm/k1 goes on from")),
        (CHAIN, f"{R}let i = tile(r, [d0: 6])\nlet j = tile(r, [d0: 2])\ncoalesce(i)",
         ("the range of r/d02 depends on r/d01", "bounds without %r/d01", "%r/d02")),
        (CHAIN, f"{R}{Q}let i = tile(r, [d0: 3])\nfuse(q, into: i)\nlet j = tile(r, [d1: 5])\ncoalesce(i)",
         ("r/d01 has more in it than one loop", "a loop whose body is another loop", "%q")),
        (CHAIN, f"{R}let i = tile(r, [d0: 3])\ncoalesce(i)",
         ("there is no loop in r/d01", "a loop whose body is another loop", "%r")),
    ],
)  # fmt: skip
def test_refusals(payload: str, body: str, said: tuple[str, str, str]) -> None:
    found = refusal(payload, body)
    assert (found.message, found.required, found.found) == said
