"""unroll_and_jam: several iterations at once, in one loop inside."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.payload.ops.gml_st import Loop
from tests.transform.payloads import CHAIN, MM, PAYLOADS, PRODUCTS, RELU, check, check_kernels, refusal

R = 'let r = match one "r" in root\n'
TILES = "let i = tile(mm, [m: 4])\nlet ii = tile(mm, [m: 1])\nlet k = tile(mm, [k: 2])\npeel(i)\n"
MAIN = 'unroll_and_jam(ii.copy("main"), factor: 2)'
REGISTERS = (
    "let i = tile(mm, [m: 4], tail: peel)\n"
    'let ii, j = tile(mm.copy("main"), [m: 1, n: 16], tail: pad)\n'
    'let kk = tile(mm.copy("main"), [k: 1])\n'
    'vectorize(j)\nhoist_accumulator(mm.copy("main"), out_of: kk)\nunroll_and_jam(ii, factor: 4)'
)
ELEMENTS = (
    'let i = tile(r, [d0: 4], tail: peel)\nlet ii, j = tile(r.copy("main"), [d0: 1, d1: 3])\n'
    "unroll_and_jam(ii, factor: 2)"
)
CASES = {
    **{f"a reduction of {name}": (PAYLOADS[name], f"{MM}{TILES}{MAIN}") for name in PRODUCTS},
    "registers": (RELU, MM + REGISTERS),
    "elements": (CHAIN, R + ELEMENTS),
    "two loops inside": (RELU, MM + "let i = tile(mm, [m: 4])\nlet ii = tile(mm, [m: 1])\n"
                         "let j = tile(mm, [n: 3])\nlet k = tile(mm, [k: 2])\npeel(i)\n" + MAIN),
}  # fmt: skip
SIZES = [{"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (3, 4, 3), (4, 17, 0), (13, 17, 5), (8, 16, 4))]


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same(name: str) -> None:
    check(*CASES[name], sizes=SIZES if CASES[name][0] != CHAIN else ())


def test_kernels() -> None:
    check_kernels(CASES, SIZES)


def test_what_is_shared_is_read_once() -> None:
    text = f"language 1\nschedule main(root: func) {{\n{MM}{REGISTERS}\n}}"
    source = tcpx.emit(tcpx.parse(RELU), schedule=tcpx.parse_schedule(text), target="x86_avx512").c_source
    inner = source[source.index("/* mm/k1") :]
    body = inner[: inner.index("}")]
    assert body.count("_mm512_fmadd_ps(") == 4
    assert body.count("_mm512_maskz_loadu_ps(") == 1


def test_handles_denote_every_copy_and_the_one_loop() -> None:
    done = check(CHAIN.replace("[M]", "8").replace("M: 0.., ", ""),
                 R + "let i, j = tile(r, [d0: 1, d1: 3])\nlet u = unroll_and_jam(i, factor: 4)\n"
                 'require len(r) == 4 and len(j) == 1 and u == i "all"')  # fmt: skip
    assert [op.name for op in done.module.walk() if isinstance(op, Loop)] == ["r/d01", "r/d11"]


EIGHT = RELU.replace("[M]", "8").replace("M: 0.., ", "")


@pytest.mark.parametrize(
    ("payload", "body", "said"),
    [
        (EIGHT, f"{MM}let i, j = tile(mm, [m: 1, n: 4])\nunroll_and_jam(i, factor: 3)",
         ("3 does not divide the iterations of mm/m1", "a multiple of 3 whole steps", "8 steps of 1 over 0..8",
          "a loop with a step 3 times as long round it, peeled")),
        (RELU, f"{MM}let i, j = tile(mm, [m: 1, n: 4])\nunroll_and_jam(i, factor: 2)",
         ("2 does not divide the iterations of mm/m1", "a multiple of 2 whole steps", "M steps of 1 over 0..M",
          "a loop with a step 2 times as long round it, peeled")),
        (EIGHT, f"{MM}let i = tile(mm, [m: 1])\nunroll_and_jam(i, factor: 2)",
         ("there is no loop in mm/m1", "a loop in the body, whose copies become one", "no loop",
          "unroll(.., factor: 2)")),
        (EIGHT, f"{MM}let i, j = tile(mm, [m: 1, n: 4])\nunroll_and_jam(i, factor: 1)",
         ("mm/m1 does not run 1 iterations at once", "a factor in 2..64", "1", None)),
        (EIGHT.replace("[K]", "6").replace("K: 0.., ", ""),
         f"{MM}let k, i = tile(mm, [k: 1, m: 1])\nunroll_and_jam(k, factor: 2)",
         ("mm/m1~1 needs what mm/m1 computes", "loops that do not depend on each other", "the path %mm/m1 -> %mm/m1~1",
          None)),
    ],
)  # fmt: skip
def test_refusals(payload: str, body: str, said: tuple[str, str, str, str | None]) -> None:
    found = refusal(payload, body)
    assert (found.message, found.required, found.found, found.fix) == said
