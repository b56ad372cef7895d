"""scan_in_lanes: one row of a scan in vectors. Every kernel runs between pages that may not be touched."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_module
from tcpx.payload.verifier import verify_module
from tcpx.target import load_target
from tcpx.transform.language.loader import Program
from tcpx.verification.vector_rows.meaning import numpy_dtype
from tests.guard_pages import run_guarded
from tests.optional_tools import require_cpu_of
from tests.transform.payloads import refusal, run

ROWS = """\
func @rows(%x: tensor<[M]x[N]xDTYPE>) -> (tensor<[M]x[N]xDTYPE>, tensor<[M]xDTYPE>) symbols [M: 0.., N: 0..] {
  %c, %all = tcp.OPCODE(%x) {dim = 1FLAG} : tensor<[M]x[N]xDTYPE>, tensor<[M]xDTYPE>
  tcp.return(%c, %all)
}
"""
RUNNING = """\
func @running(%x: tensor<[N]xf32>) -> (tensor<[N]xf32>, tensor<f32>) symbols [N: 0..] {
  %c, %all = tcp.generic(%x) {iterators = [["i", "sequential"]], maps = [[i], [i], []], neutral = [0.0]} ({
      (%e: f32, %before: f32):
    %half = tcp.mul(%before, %e) : f32
    %after = tcp.add(%half, %e) : f32
    tcp.yield(%after, %after)
  }) : tensor<[N]xf32>, tensor<f32>
  tcp.return(%c, %all)
}
"""
STEPS = """\
scan_in_lanes(c, d1, reassociate: true)
tile(c, [d0: ROWS], tail: pad)
let i = tile(c, [d1: VECTORS * lanes(c)], tail: pad)
optional peel(i)
vectorize(i)
optional hoist_accumulator(c, out_of: i)
"""
CASES = (
    ("cumsum", "f32", "", 1, 4),
    ("cumsum", "f32", ", exclusive = true", 3, 1),
    ("cummax", "f64", "", 1, 2),
    ("cumprod", "si32", "", 1, 2),
    ("cumsum", "bf16", "", 1, 1),
    ("cummin", "si8", ", exclusive = true", 1, 1),
)
SIZES = ((0, 5), (3, 0), (1, 1), (3, 17), (6, 64), (3, 131))


def rows(opcode: str, dtype: str, flag: str = "") -> str:
    return ROWS.replace("OPCODE", opcode).replace("DTYPE", dtype).replace("FLAG", flag)


def scheduled(steps: str) -> Program:
    return tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\nlet c = match one scan in root\n{steps}\n}}\n")


@pytest.mark.parametrize("name", ["generic", "x86_avx2", "x86_avx512"])
def test_numbers(name: str) -> None:
    target = load_target(name)
    require_cpu_of(target)
    has = {row.result.dtype for row in target.rows if row.name.startswith("behind_1_") and row.result is not None}
    cases = [case for case in CASES if case[1] in has]
    assert len(cases) >= 4
    modules = [parse(rows(op, dtype, flag)) for op, dtype, flag, *_ in cases]
    requests = [
        tcpx.CompileRequest(module, scheduled(STEPS.replace("ROWS", str(step)).replace("VECTORS", str(vectors))))
        for module, (*_, step, vectors) in zip(modules, cases, strict=True)
    ]
    random = np.random.default_rng(5)
    for (op, dtype, *_), module, kernel in zip(cases, modules, tcpx.compile_many(requests, target=target), strict=True):
        for m, n in SIZES:
            x = random.integers(-3, 3, (m, n)).astype(numpy_dtype(dtype))
            for found, wanted in zip(run_guarded(kernel, x), tcpx.evaluate(module, x), strict=True):
                np.testing.assert_array_equal(found, wanted, err_msg=f"{op} {dtype} {m}x{n}")


def test_nan_and_infinity_stay_where_they_are() -> None:
    module = parse(rows("cummax", "f32"))
    kernel = tcpx.compile(
        module, scheduled(STEPS.replace("ROWS", "1").replace("VECTORS", "2").replace(", reassociate: true", ""))
    )
    x = np.array([[1, -np.inf, 3, 2, np.inf, 0, np.nan, 5] * 5], np.float32)
    for found, wanted in zip(kernel(x), tcpx.evaluate(module, x), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_vector_is_scanned_in_as_many_shuffles_as_its_number_of_lanes_has_bits() -> None:
    steps = STEPS.replace("ROWS", "1").replace("VECTORS", "4")
    source = tcpx.compile(parse(rows("cumsum", "f32")), scheduled(steps), target="x86_avx512").c_source
    loop = source[source.index("c_d11 += 64") :].split("\n    }\n")[0]
    assert loop.count("_mm512_alignr_epi32(") == 4 * 4
    assert loop.count("_mm512_loadu_ps(") == loop.count("_mm512_storeu_ps(") == 4


@pytest.mark.parametrize(("dtype", "in_lanes"), [("si32", True), ("f32", False)])
def test_the_default_schedule_keeps_the_order_where_it_rounds(dtype: str, in_lanes: bool) -> None:
    source = tcpx.compile(parse(rows("cumsum", dtype)), target="x86_avx512").c_source
    assert ("_mm512_alignr_epi32(" in source) is in_lanes


def test_the_text_has_the_lanes() -> None:
    steps = "let c = match one scan in root\nscan_in_lanes(c, d1, reassociate: true)"
    found = run(rows("cumsum", "f32"), steps, on=load_target("x86_avx512"))
    text = print_module(found.module)
    assert 'lanes = ["d1", 16]' in text
    assert print_module(parse(text)) == text
    with pytest.raises(VerifyError, match="lanes lie along a parallel dim"):
        verify_module(parse(RUNNING.replace("neutral = [0.0]", 'neutral = [0.0], lanes = ["i", 16]')))


@pytest.mark.parametrize(
    ("payload", "step", "message", "required", "found"),
    [
        (rows("cumsum", "f32"), "scan_in_lanes(c, d0)",
         "`d0` of %c is no dim along which iterations go on from one another",
         "one of d1", "d0 is parallel, d1 is sequential"),
        (rows("cumsum", "f32"), "scan_in_lanes(c, d1)", "%c is rounded in its order",
         "integers, the largest or the smallest, or leave to round in another order", "tcp.cumsum of f32"),
        (rows("cummax", "f32").replace("dim = 1", "dim = 0").replace("tensor<[M]xf32>", "tensor<[N]xf32>"),
         "scan_in_lanes(c, d0)", "elements along `d0` of %c do not lie side by side",
         "`d0` as the last dim of each operand and result that has it", "`operand` by [d0, d1]"),
        (RUNNING, "scan_in_lanes(c, i)", "iterations of `i` of %c cannot be combined in groups",
         "one sequential dim, and a class that declares its combiner associative (`is_associative`)", "tcp.generic"),
    ],
)  # fmt: skip
def test_what_it_refuses(payload: str, step: str, message: str, required: str, found: str) -> None:
    refused = refusal(payload, f"let c = match one op in root\n{step}")
    assert (refused.message, refused.required, refused.found) == (message, required, found)
