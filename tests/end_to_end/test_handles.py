"""Handles name computations for good: taken at the start, they name the right loops and operations at every step."""

from __future__ import annotations

import pytest

import tcpx
from tests.end_to_end.payloads import LINEAR

STATIC = """\
func @static(%x: tensor<22x64xf32>, %w: tensor<64x32xf32>) -> tensor<22x32xf32> {
  %mm = tcp.matmul(%x, %w) : tensor<22x32xf32>
  tcp.return(%mm)
}
"""


def printed(payload: str, body: str) -> list[str]:
    """What the print statements of a schedule show, by statement: the lines, indentation aside."""
    text = f'language 1\nimport "lib/gemm.tcps" as gemm\nschedule main(root: func) {{\n{body}\n}}'
    run = tcpx.apply_schedule(tcpx.parse(payload), tcpx.parse_schedule(text), target="x86_avx2")
    shown: dict[int, list[str]] = {}
    for line in run.trace.output:
        shown.setdefault(line.location.line, []).extend(part.strip() for part in line.text.splitlines())
    return ["; ".join(lines) for lines in shown.values()]


SCHEDULES: dict[str, tuple[str, str]] = {
    "peel": (
        STATIC,
        """\
        let mm = match one contract in root
        let i = tile(mm, [m: 6])
        print(mm)
        print(i)
        peel(i)
        print(mm)
        print(i)
        print(i.copy("tail"))
        bufferize(root)
        print(mm)
        print(i)
        print(i.copy("tail"))
        """,
    ),
    "split": (
        STATIC,
        """\
        let mm = match one contract in root
        let i = tile(mm, [m: 2])
        split(i, at: 12)
        print(mm)
        print(i)
        bufferize(root)
        print(mm)
        print(i.copy("low"))
        print(i.copy("high"))
        """,
    ),
    "unroll": (
        STATIC,
        """\
        let mm = match one contract in root
        let i = tile(mm, [m: 2])
        let k = tile(mm, [k: 16])
        unroll(k, factor: 2)
        print(mm)
        print(k)
        bufferize(root)
        print(mm)
        print(mm.copy("1"))
        print(k)
        """,
    ),
    "specialize": (
        LINEAR,
        """\
        let mm = match one contract in root
        let last = epilogue(mm)
        specialize [mm, last] when size(mm.m) < 4 {
        let j = tile(mm, [n: 8])
        print(mm)
        print(j)
        } else {
        let i = tile(last, [d0: 6])
        fuse(mm, into: i)
        print(mm)
        print(i)
        }
        print(mm)
        bufferize(root)
        print(mm)
        print(last)
        """,
    ),
    "packed_gemm": (
        LINEAR,
        """\
        let mm = match one contract in root
        let last = epilogue(mm)
        let jc, ic = gemm.packed_gemm(mm, last)
        print(mm)
        print(mm.loop(k))
        print(last)
        bufferize(root)
        print(mm)
        print(last)
        """,
    ),
}
SHOWN: dict[str, list[str]] = {
    "peel": [
        "mm = tcp.matmul",
        "for mm/m1 in 0 to 22 step 6; mm = tcp.matmul",
        "mm = tcp.matmul; mm~tail = tcp.matmul",
        "for mm/m1 in 0 to 18 step 6; mm = tcp.matmul; for mm/m1~tail in 18 to 22 step 6; mm~tail = tcp.matmul",
        "for mm/m1~tail in 18 to 22 step 6; mm~tail = tcp.matmul",
        "mm = tcp.add; mm~tail = tcp.add",
        (
            "for mm/m1 in 0 to 18 step 6; for mm/m in 0 to 6 step 1; for mm/n in 0 to 32 step 1; "
            "for mm/k in 0 to 64 step 1; mm.9 = tcp.mul; mm = tcp.add; for mm/m1~tail in 18 to 22 step 6; "
            "for mm~tail/m in 0 to 4 step 1; for mm~tail/n in 0 to 32 step 1; "
            "for mm~tail/k in 0 to 64 step 1; mm~tail.6 = tcp.mul; mm~tail = tcp.add"
        ),
        (
            "for mm/m1~tail in 18 to 22 step 6; for mm~tail/m in 0 to 4 step 1; "
            "for mm~tail/n in 0 to 32 step 1; for mm~tail/k in 0 to 64 step 1; mm~tail.6 = tcp.mul; "
            "mm~tail = tcp.add"
        ),
    ],
    "split": [
        "mm = tcp.matmul; mm~high = tcp.matmul",
        "for mm/m1 in 0 to 12 step 2; mm = tcp.matmul; for mm/m1~high in 12 to 22 step 2; mm~high = tcp.matmul",
        "mm = tcp.add; mm~high = tcp.add",
        (
            "for mm/m1 in 0 to 12 step 2; for mm/m in 0 to 2 step 1; for mm/n in 0 to 32 step 1; "
            "for mm/k in 0 to 64 step 1; mm.9 = tcp.mul; mm = tcp.add"
        ),
        (
            "for mm/m1~high in 12 to 22 step 2; for mm~high/m in 0 to 2 step 1; "
            "for mm~high/n in 0 to 32 step 1; for mm~high/k in 0 to 64 step 1; mm~high.6 = tcp.mul; "
            "mm~high = tcp.add"
        ),
    ],
    "unroll": [
        "mm = tcp.matmul; mm~1 = tcp.matmul",
        "for mm/k1 in 0 to 64 step 32; mm = tcp.matmul; mm~1 = tcp.matmul",
        "mm = tcp.add; mm~1 = tcp.add",
        "mm~1 = tcp.add",
        (
            "for mm/k1 in 0 to 64 step 32; for mm/m in 0 to 2 step 1; for mm/n in 0 to 32 step 1; "
            "for mm/k in 0 to 16 step 1; mm.12 = tcp.mul; mm = tcp.add; for mm~1/m in 0 to 2 step 1; "
            "for mm~1/n in 0 to 32 step 1; for mm~1/k in 0 to 16 step 1; mm~1.6 = tcp.mul; mm~1 = tcp.add"
        ),
    ],
    "specialize": [
        "mm~when0 = tcp.matmul",
        "for mm/n1 in 0 to N step 8; mm~when0 = tcp.matmul",
        "mm = tcp.matmul",
        "for r/d01 in 0 to M step 6; mm = tcp.matmul; bb = tcp.broadcast; s = tcp.add; zb = tcp.broadcast; r = tcp.max",
        "mm~when0 = tcp.matmul; mm = tcp.matmul",
        "mm~when0 = tcp.add; mm = tcp.add",
        "r~when0 = tcp.max; r = tcp.max",
    ],
    "packed_gemm": [
        "mm = tcp.matmul",
        "for mm/k2 in 0 to min(1024, K - %mm/k1) step 1; mm = tcp.matmul",
        "r = tcp.max",
        "copies %mm.rhs.t: tensor<[min(1024, K - %mm/k1)]x24xf32> for gml_st.yield",
        "mm = tcp.matmul",
        "r = tcp.max",
    ],
}


@pytest.mark.parametrize("case", SCHEDULES)
def test_handles_follow(case: str) -> None:
    assert printed(*SCHEDULES[case]) == SHOWN[case]
