"""Lanes of a scan along a dim that is parallel: each iteration of the sequential dim is vectors, which go on from those
of the one before, in registers where `hoist_accumulator` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.types import dtype_of
from tests.guard_pages import run_guarded
from tests.optional_tools import require_cpu_of
from tests.transform.payloads import check, refusal

Array = npt.NDArray[np.generic]

SUMS = """\
func @sums(%x: tensor<[M]x[N]xDTYPE>) -> (tensor<[M]x[N]xDTYPE>, tensor<[N]xDTYPE>) symbols [M: 0.., N: 0..] {
  %v, %w = tcp.generic(%x) {iterators = [["i", "sequential"], ["j", "parallel"]],
      maps = [[i, j], [i, j], [j]], neutral = [0]} ({ (%e: DTYPE, %before: DTYPE):
    %sum = tcp.add(%before, %e) : DTYPE
    tcp.yield(%sum, %sum)
  }) : tensor<[M]x[N]xDTYPE>, tensor<[N]xDTYPE>
  tcp.return(%v, %w)
}
"""
RECURRENCE = """\
func @recurrence(%a: tensor<2x[M]x[N]xDTYPE>, %b: tensor<2x[N]xDTYPE>, %h: tensor<2x[N]xDTYPE>)
    -> (tensor<2x[M]x[N]xDTYPE>, tensor<2x[N]xDTYPE>) symbols [M: 0.., N: 0..] {
  %start = tcp.empty : tensor<2x[M]x[N]xDTYPE>
  %v, %w = tcp.generic(%a, %b, init = (%start, %h)) {iterators = [["n", "parallel"], ["i", "sequential"],
      ["j", "parallel"]], maps = [[n, i, j], [n, j], [n, i, j], [n, j]],
      neutral = [0]} ({ (%e: DTYPE, %f: DTYPE, %before: DTYPE):
    %gated = tcp.mul(%before, %f) : DTYPE
    %next = tcp.add(%gated, %e) : DTYPE
    tcp.yield(%before, %next)
  }) : tensor<2x[M]x[N]xDTYPE>, tensor<2x[N]xDTYPE>
  tcp.return(%v, %w)
}
"""
ROWS = SUMS.replace('["i", "sequential"], ["j", "parallel"]', '["i", "parallel"], ["j", "sequential"]')
ROWS = ROWS.replace("[i, j], [j]]", "[i, j], [i]]").replace("tensor<[N]x", "tensor<[M]x")
STEPS = {
    "a step at a time": "let j = tile(v, [j: WIDTH], tail: pad)\nlet i = tile(v, [i: 1])\nvectorize(i)",
    "several steps": 'let j, i = tile(v, [j: WIDTH, i: 3], tail: peel)\nvectorize(v.copy("main").loop(i))',
    "in registers": "let j = tile(v, [j: WIDTH], tail: pad)\nlet i = tile(v, [i: 2])\npeel(i)\n"
    'let whole = v.copy("main").loop(i)\nvectorize(whole)\nhoist_accumulator(v.copy("main"), out_of: whole)',
    "on two threads": "let j = tile(v, [j: WIDTH], tail: pad, parallel: true)\nlet i = tile(v, [i: 1])\nvectorize(i)",
}


def _sums(x: Array) -> Sequence[Array]:
    made = np.add.accumulate(x, 0, dtype=x.dtype)
    return made, made[-1] if len(x) else np.zeros(x.shape[1], x.dtype)


def _recurrence(a: Array, b: Array, h: Array) -> Sequence[Array]:
    before, made = h.copy(), np.zeros_like(a)
    for i in range(a.shape[1]):
        made[:, i] = before
        before = np.add(np.multiply(before, b), a[:, i])
    return made, before


CASES: Mapping[str, tuple[str, Callable[..., Sequence[Array]], Callable[[int, int], Sequence[tuple[int, ...]]]]] = {
    "sums": (SUMS, _sums, lambda m, n: [(m, n)]),
    "recurrence": (RECURRENCE, _recurrence, lambda m, n: [(2, m, n), (2, n), (2, n)]),
}


def _schedule(steps: str, width: int = 16) -> tcpx.Schedule:
    text = f'let v = match one "v" in root\n{steps}'.replace("WIDTH", str(width))
    return tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{text}\n}}\n")


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "si8"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", ["generic", "x86_avx2", "x86_avx512"])
def test_lanes_of_a_scan(target: str, case: str, dtype: str, steps: str) -> None:
    """At sizes of less than a vector, of whole ones and of some more, and of nothing."""
    require_cpu_of(tcpx.load_target(target))
    text, wanted, shapes = CASES[case]
    module = tcpx.parse(text.replace("DTYPE", dtype))
    kernel = tcpx.compile(module, _schedule(STEPS[steps]), target=target, threads=2)
    draw = np.random.default_rng(0)
    for m, n in ((5, 7), (4, 32), (1, 37), (0, 3), (6, 0)):
        given = [
            draw.integers(-3, 4, shape).astype(dtype_of(module.main.inputs[0].type).numpy) for shape in shapes(m, n)
        ]
        for found, right in zip(run_guarded(kernel, *given), wanted(*given), strict=True):
            assert np.array_equal(found, right)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("case", CASES)
def test_the_payload_computes_the_same_and_is_read_again_as_it_is_printed(case: str, steps: str) -> None:
    sizes = [{"M": m, "N": n} for m, n in ((5, 7), (4, 32), (1, 37), (0, 3))]
    check(
        CASES[case][0].replace("DTYPE", "f32"),
        f'let v = match one "v" in root\n{STEPS[steps].replace("WIDTH", "16")}',
        sizes,
    )


def test_nothing_is_left_to_the_compiler() -> None:
    """The state is a register, and each step adds a vector to it."""
    module = tcpx.parse(
        SUMS.replace("DTYPE", "f32").replace("[M]x[N]", "[M]x64").replace("[N]x", "64x").replace(", N: 0..", "")
    )
    steps = "let j = tile(v, [j: 16])\nlet i = tile(v, [i: 1])\nvectorize(i)\nhoist_accumulator(v, out_of: i)"
    source = tcpx.compile(module, _schedule(steps), target="x86_avx512").c_source
    loop = source[source.index("/* v/i1") :]
    assert loop.count("_mm512_add_ps") == loop.count("_mm512_loadu_ps") == loop.count("_mm512_storeu_ps") - 1 == 1


ROW_STEPS = {
    "whole tiles": 'let i, j = tile(v, [i: 8, j: 8], tail: peel)\nvectorize(v.copy("main").loop(j))',
    "padded": "let i, j = tile(v, [i: 16, j: 6], tail: pad)\nvectorize(j)",
    "in registers": 'let i, j = tile(v, [i: 8, j: 5], tail: peel)\nlet whole = v.copy("main").loop(j)\n'
    'vectorize(whole)\nhoist_accumulator(v.copy("main"), out_of: whole)',
    "on two threads": "let i = tile(v, [i: 4], tail: pad, parallel: true)\nlet j = tile(v, [j: 16], tail: pad)\n"
    "vectorize(j)",
}
OF_ROWS = {"sums": ROWS, "largest": ROWS.replace("tcp.add", "tcp.max").replace("[0]}", "[-inf]}")}


@pytest.mark.parametrize("steps", ROW_STEPS)
@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.parametrize("target", ["generic", "x86_avx2", "x86_avx512"])
def test_rows_are_added_up_in_their_order(target: str, name: str, steps: str) -> None:
    """Lanes lie across rows, so that sums of floats are those of a loop; of some rows, of few, and of none."""
    require_cpu_of(tcpx.load_target(target))
    kernel = tcpx.compile(
        tcpx.parse(OF_ROWS[name].replace("DTYPE", "f32")), _schedule(ROW_STEPS[steps]), target=target, threads=2
    )
    draw, combine = np.random.default_rng(0), np.add if name == "sums" else np.maximum
    for m, n in ((19, 21), (8, 8), (3, 5), (16, 1), (0, 3), (6, 0)):
        x = draw.standard_normal((m, n)).astype(np.float32)
        made, total = run_guarded(kernel, x)
        wanted = combine.accumulate(x, 1)
        assert np.array_equal(made, wanted)
        assert np.array_equal(total, wanted[:, -1] if n else np.full(m, 0 if name == "sums" else -np.inf, np.float32))


@pytest.mark.parametrize("steps", ROW_STEPS)
def test_the_payload_of_rows_computes_the_same(steps: str) -> None:
    sizes = [{"M": m, "N": n} for m, n in ((5, 7), (9, 3), (0, 3), (3, 0))]
    check(ROWS.replace("DTYPE", "f32"), f'let v = match one "v" in root\n{ROW_STEPS[steps]}', sizes)


def test_rows_are_turned_in_registers() -> None:
    """A tile of 8 rows takes one vector operation for each column, and no scalar one."""
    program = _schedule("let i, j = tile(v, [i: 8, j: 8])\nvectorize(j)\nhoist_accumulator(v, out_of: j)")
    text = ROWS.replace("DTYPE", "f32").replace("[M]x[N]", "64x64").replace("[M]x", "64x")
    source = tcpx.emit(tcpx.parse(text.replace(" symbols [M: 0.., N: 0..]", "")), program, target="x86_avx2").c_source
    loop = source[source.index("/* v/j1") :].split("\n    }\n")[0]
    assert [loop.count(f"_mm256_{name}_ps") for name in ("loadu", "add", "storeu")] == [8, 8, 8]
    assert "float v" not in loop


def test_of_one_row_a_scan_stays_a_loop_in_memory() -> None:
    text = ROWS.replace("DTYPE", "f32").replace("[M]", "1").replace("M: 0.., ", "")
    steps = 'let j = tile(v, [j: 8], tail: peel)\nvectorize(v.copy("main").loop(j))'
    found = refusal(text, f'let v = match one "v" in root\n{steps}')
    assert found.message == "`vectorize` changes nothing here"
