"""Tiles that are padded before, or joined, are read from where they lie, by vectors whose first lanes are others.

Every kernel runs between pages that may not be touched, too: see tests/guarded_calls.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse
from tests.optional_tools import require_cpu_of
from tests.transform.payloads import arguments

POOL = """\
func @pool(%x: tensor<[N]x[M]xDTYPE>) -> tensor<OUTxDTYPE> symbols [N: 0.., M: 0..] {
  %p = tcp.pad(%x) {value = LOWEST, low = [1, 1]} : tensor<WIDExDTYPE>
  %y = tcp.generic(%p) {iterators = [["i", "parallel"], ["j", "parallel"], ["a", "reduction", 3],
      ["b", "reduction", 3]], maps = [[STRIDE*i + a, STRIDE*j + b], [i, j]],
      combiner = "tcp.max"} ({ (%e: DTYPE, %acc: DTYPE):
    %next = tcp.max(%acc, %e) : DTYPE
    tcp.yield(%next)
  }) : tensor<OUTxDTYPE>
  tcp.return(%y)
}
"""
JOIN = """\
func @join(%x: tensor<[N]x[M]xDTYPE>, %w: tensor<[N]x5xDTYPE>, %z: tensor<[N]x[K]xDTYPE>)
    -> tensor<[N]x[M + K + 5]xDTYPE> symbols [N: 0.., M: 0.., K: 0..] {
  %j = tcp.concat(%x, %w, %z) {dim = 1} : tensor<[N]x[M + K + 5]xDTYPE>
  %y = tcp.add(%j, %j) : tensor<[N]x[M + K + 5]xDTYPE>
  tcp.return(%y)
}
"""
POOLED = "let i, j = tile(y, [i: 2, j: 16], tail: pad)\nlet a, b = tile(y, [a: 1, b: 1])\nvectorize(i)"
HALVES = {"OUT": "[ceildiv(N, 2)]x[ceildiv(M, 2)]", "WIDE": "[2*ceildiv(N, 2) + 1]x[2*ceildiv(M, 2) + 1]"}
PAYLOADS: Mapping[str, tuple[str, Mapping[str, str], str]] = {
    "pooling": (POOL, {"STRIDE*": "", "OUT": "[N]x[M]", "WIDE": "[N + 2]x[M + 2]"}, POOLED),
    "pooling with a stride": (POOL, {"STRIDE": "2"} | HALVES, POOLED),
    "joined": (JOIN, {}, "let i, j = tile(y, [d0: 2, d1: 16], tail: pad)\nvectorize(i)"),
}
LOWEST = {"f32": "-inf", "f64": "-inf", "f16": "-inf", "si8": "-128"}
IN_PLACE = {
    ("pooling", "x86_avx2"): {"f32", "f64"},
    ("pooling", "x86_avx512"): set(LOWEST),
    ("joined", "x86_avx2"): {"f32"},
    ("joined", "x86_avx512"): set(LOWEST),
}
"""What is read from where it lies, and not copied before: of windows with a stride, nothing; of three tiles of f64 on
AVX2, more vectors than are joined."""


def payload(name: str, dtype: str) -> str:
    text, words, _ = PAYLOADS[name]
    for word, value in (*words.items(), ("DTYPE", dtype), ("LOWEST", LOWEST[dtype])):
        text = text.replace(word, value)
    return text


@pytest.mark.parametrize("target", ["x86_avx2", "x86_avx512"])
@pytest.mark.parametrize("name", PAYLOADS)
def test_numbers_stay(name: str, target: str) -> None:
    require_cpu_of(tcpx.load_target(target))
    schedule = tcpx.parse_schedule(
        f'language 1\nschedule main(root: func) {{\nlet y = match one "y" in root\n{PAYLOADS[name][2]}\n}}'
    )
    modules = [parse(payload(name, dtype)) for dtype in LOWEST]
    kernels = [tcpx.compile(module, schedule, target=target) for module in modules]
    from_a_lane = re.compile(r"load\w*\(.*_lanes_from")
    in_place = {dtype for dtype, kernel in zip(LOWEST, kernels, strict=True) if from_a_lane.search(kernel.c_source)}
    assert in_place == IN_PLACE.get((name, target), set())
    for module, kernel in zip(modules, kernels, strict=True):
        for n, m, k in ((0, 3, 2), (1, 1, 0), (2, 16, 11), (5, 17, 33), (3, 47, 1), (1, 0, 7)):
            given = arguments(module, {"N": n, "M": m, "K": k})
            (wanted,) = evaluate_func(module, module.main, given)
            found = np.asarray(kernel(*given))
            assert found.dtype == wanted.dtype
            assert found.tobytes() == np.asarray(wanted).tobytes(), (module.main.name, wanted.dtype, n, m, k)


READ = """\
func @f(%x: tensor<[N]x6xf32>) -> vector<4x8xf32> symbols [N] {
  %v = vector.read(%x) tile [0, 0] [min(2, N), 6] {value = -inf, first = [1, 2]} : vector<4x8xf32>
  tcp.return(%v)
}
"""


def test_a_read_with_first_lanes_prints_and_evaluates() -> None:
    module = parse(READ)
    assert module.text() == READ
    for rows in (0, 1, 2, 3):
        x = np.arange(rows * 6, dtype=np.float32).reshape(rows, 6)
        wanted = np.full((4, 8), -np.inf, np.float32)
        wanted[1 : 1 + min(2, rows), 2:] = x[:2]
        np.testing.assert_array_equal(evaluate_func(module, module.main, [x])[0], wanted)


@pytest.mark.parametrize(
    ("old", "new", "message", "required", "found"),
    [
        ("[1, 2]}", "[1]}", "`first` has a number for each dim of the vector",
         "2 of them, of a subset of as many dims", "[1]"),
        ("[1, 2]}", "[1, 2, 0]}", "`first` has a number for each dim of the vector",
         "2 of them, of a subset of as many dims", "[1, 2, 0]"),
        ("vector<4x8xf32>", "vector<12xf32>", "`first` has a number for each dim of the vector",
         "1 of them, of a subset of as many dims", "[1, 2]"),
        ("[1, 2]}", "[1, 3]}", "the subset leaves the vector in dim 1",
         "elements 0 to 7 of %v: vector<4x8xf32>", "tile [1, 3] [min(2, N), 6]"),
        ("[1, 2]}", "[1, -1]}", "the subset leaves the vector in dim 1",
         "elements 0 to 7 of %v: vector<4x8xf32>", "tile [1, -1] [min(2, N), 6]"),
        ("first = [1, 2]", "first = 1", "the attribute `first` is of another kind", "a list of sizes", "first = 1"),
    ],
)  # fmt: skip
def test_first_lanes_are_checked(old: str, new: str, message: str, required: str, found: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(message)) as caught:
        parse(READ.replace(old, new))
    held = caught.value.diagnostic
    assert (held.message, held.required, held.found) == (f"%v (vector.read): {message}", required, found)
