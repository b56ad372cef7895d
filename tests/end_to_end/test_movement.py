"""Operations that move elements, without a schedule: any rank, dtype and size, and none is left with a remark."""

from __future__ import annotations

import random
from itertools import permutations
from math import ceil

import numpy as np
import pytest

import tcpx
from tcpx.target import Target

DTYPES = ("f64", "f32", "f16", "bf16", "si64", "si32", "si16", "si8", "ui8", "i1")


def transpose(shape: tuple[int, ...], permutation: tuple[int, ...], dtype: str, symbolic: bool) -> str:
    names = [f"[D{k}]" if symbolic else str(n) for k, n in enumerate(shape)]
    given = f"tensor<{'x'.join([*names, dtype])}>"
    made = f"tensor<{'x'.join([*(names[k] for k in permutation), dtype])}>"
    symbols = f" symbols [{', '.join(f'D{k}' for k in range(len(shape)))}]" if symbolic else ""
    return (
        f"func @f(%x: {given}) -> {made}{symbols} {{\n"
        f"  %y = tcp.transpose(%x) {{permutation = {list(permutation)}}} : {made}\n  tcp.return(%y)\n}}\n"
    )


def drawn_transposes(count: int) -> list[tuple[str, dict[str, int]]]:
    """Payloads of every rank up to 5, with the sizes of their symbols."""
    draw = random.Random(22)
    found: list[tuple[str, dict[str, int]]] = []
    for number in range(count):
        rank = 2 + number % 4
        shape = tuple(draw.choice((0, 1, 2, 3, 5, 7, 16, 17, 33, 40)) if rank < 4 or k % 2 else 3 for k in range(rank))
        permutation = draw.choice(list(permutations(range(rank))))
        symbolic = draw.random() < 0.3
        text = transpose(shape, permutation, DTYPES[number % len(DTYPES)], symbolic)
        found.append((text, {f"D{k}": n for k, n in enumerate(shape)} if symbolic else {}))
    return found


FUSED = """\
func @f(%x: tensor<[N]x37xf32>, %b: tensor<[N]xf32>) -> tensor<37x[N]xf32> symbols [N] {
  %y = tcp.transpose(%x) {permutation = [1, 0]} : tensor<37x[N]xf32>
  %e = tcp.neg(%y) : tensor<37x[N]xf32>
  %bias = tcp.broadcast(%b) {dims = [1]} : tensor<37x[N]xf32>
  %z = tcp.add(%e, %bias) : tensor<37x[N]xf32>
  tcp.return(%z)
}
"""
OPERATIONS = ("add", "max", "sub", "min")
CHAIN = [
    f"  %z{k} = tcp.{OPERATIONS[k % 4]}(%z{k - 1 or ''}, {('%bias', '%y')[k % 2]}) : tensor<37x[N]xf32>\n"
    for k in range(1, 17)
]
LONG = FUSED.replace("%z)", "%z16)").replace("  tcp.return", "".join(CHAIN) + "  tcp.return")
"""A transpose and more operations after it than are computed in registers."""
CASES = [(LONG, {"N": 5}), (LONG, {"N": 53}), (FUSED, {"N": 0}), (FUSED, {"N": 53}), *drawn_transposes(44)]
PER_CHUNK = 6


@pytest.mark.parametrize("chunk", range(ceil(len(CASES) / PER_CHUNK)))
def test_numbers(target: Target, chunk: int) -> None:
    cases = CASES[PER_CHUNK * chunk : PER_CHUNK * (chunk + 1)]
    texts = list(dict.fromkeys(text for text, _ in cases))
    requests = [tcpx.CompileRequest(tcpx.parse(text), name=f"f{number}") for number, text in enumerate(texts)]
    kernels = dict(zip(texts, tcpx.compile_many(requests, target=target, threads=1 + chunk % 2), strict=True))
    for text, sizes in cases:
        module, kernel = tcpx.parse(text), kernels[text]
        assert not [remark for remark in kernel.remarks if not remark.factor], f"{text}{kernel.remarks}"
        arrays = tcpx.random_inputs(module, sizes=sizes)
        np.testing.assert_array_equal(kernel(*arrays), tcpx.evaluate(module, *arrays), err_msg=text)


def test_a_long_epilogue_is_written_once_for_a_block(target: Target) -> None:
    """Written out for each of 32 rows, in several versions, it had more operations than a payload may have."""
    text = FUSED.replace("f32", "f16").replace("37", "[N]").replace("neg", "sigmoid")
    kernel = tcpx.compile(tcpx.parse(text), target=target)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    assert len(kernel.c_source) < 500_000


FAR = """\
language 1
import "lib/movement.tcps" as movement
schedule s(root: func) {
  let y = match one transpose in root
  movement.far_blocks(y)
}
"""


@pytest.mark.parametrize(("permutation", "threads"), [((1, 0), 2), ((2, 0, 1), 1)])
def test_large_results_are_written_past_the_caches(target: Target, permutation: tuple[int, ...], threads: int) -> None:
    """They begin anywhere in a cache line, and are right where sizes are odd or nothing."""
    module = tcpx.parse(transpose((0,) * len(permutation), permutation, "f32", symbolic=True))
    kernel = tcpx.compile(module, tcpx.parse_schedule(FAR), target=target, threads=threads)
    assert ("_mm_sfence" in kernel.c_source) == (target.name != "generic")
    for sizes in ((0, 5, 3), (1, 1, 1), (33, 17, 48), (64, 32, 65), (40, 3, 96)):
        arrays = tcpx.random_inputs(module, sizes={f"D{k}": n for k, n in enumerate(sizes[: len(permutation)])})
        wanted = arrays[0].transpose(permutation)
        room = np.zeros(wanted.size + 32, np.float32)
        for lead in (0, 3, 4):
            out = room[lead : lead + wanted.size].reshape(wanted.shape)
            kernel(*arrays, out=out)
            np.testing.assert_array_equal(out, wanted)
            assert not room[lead + wanted.size :].any()
