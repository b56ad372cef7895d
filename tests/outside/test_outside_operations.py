"""Operations from a file outside of the package go through every transform, and give what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_module
from tests.outside import operations  # noqa: F401  (registers them)

Shape = tuple[int, ...]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A function of one argument, with the operation as %v; its sizes; what NumPy says; schedules by what they do."""

    payload: str
    wanted: Callable[[Array], Sequence[Array]]
    shapes: Sequence[Shape]
    schedules: Mapping[str, str]
    dtype: type[np.generic] = np.float32
    tolerance: float = 0.0
    special: Sequence[float] = field(default=())


MATRIX = "func @f(%x: tensor<[M]x[N]xf32>) -> ({types}) symbols [M, N] {{\n"
PRODUCER = "  %p = tcp.mul(%x, %x) : tensor<[M]x[N]xf32>\n"


def _reduction(opcode: str, dim: int, results: Sequence[str], consumer: str = "") -> str:
    kept = "[N]" if dim == 0 else "[M]"
    types = [f"tensor<{kept}x{dtype}>" for dtype in results]
    names = [f"%v{k}" for k in range(len(results))]
    head = MATRIX.format(types=", ".join(types))
    body = f"  {', '.join(names)} = {opcode}(%p) {{dim = {dim}}} : {', '.join(types)}\n"
    behind = f"  %c = tcp.add(%v{len(names) - 1}, %v{len(names) - 1}) : {types[-1]}\n"
    return f"{head}{PRODUCER}{body}{behind}  tcp.return({', '.join([*names[:-1], '%c'])})\n}}\n"


def _twice_last(values: Sequence[Array]) -> list[Array]:
    return [*values[:-1], values[-1] + values[-1]]


def _argmax(dim: int) -> Callable[[Array], Sequence[Array]]:
    def wanted(x: Array) -> Sequence[Array]:
        square = x * x
        return _twice_last([np.max(square, dim), np.argmax(square, dim)])

    return wanted


def _logsumexp(x: Array) -> Sequence[Array]:
    square = (x * x).astype(np.float64)
    largest = np.max(square, 1, initial=-np.inf)
    at = np.where(np.isinf(largest), 0, largest)
    return _twice_last([largest, np.sum(np.exp(square - at[:, None]), 1)])


def _moments(x: Array) -> Sequence[Array]:
    square = (x * x).astype(np.float64)
    count = np.full(len(x), float(x.shape[1]))
    mean = np.sum(square, 1) / np.maximum(count, 1)
    return _twice_last([count, mean, np.sum((square - mean[:, None]) ** 2, 1)])


def _schedules(kept: str, reduced: str) -> Mapping[str, str]:
    both = f"let a, b = tile(v, [{kept}: 3, {reduced}: 5])\n"
    return {
        "as it is": "",
        "tiled": f"let a = tile(v, [{kept}: 3])",
        "reduction tiled": f"let b = tile(v, [{reduced}: 5])",
        "start fused": both + "fuse(v.start, into: b)",
        "threads": f"let a = tile(v, [{kept}: 2], parallel: true)",
        "producer fused": both + "fuse(p, into: b)",
        "consumer fused": both + "fuse(c, into: a)",
        "consumer fused behind the reduction": both + "fuse(c, into: b)",
        "fused as a producer": "let t = tile(c, [d0: 3])\nfuse(v, into: t, recompute: true)",
        "fused as a consumer": f"let t = tile(p, [{kept}: 3])\nfuse(v, into: t)",
        "parts": f"let r, z = split_reduction(v, dim: {reduced}, parts: 3, parallel: true)",
        "vectorized": f"let a, b = tile(v, [{kept}: 4, {reduced}: 8], tail: peel)\n"
        f'vectorize(v.copy("main").loop({reduced}))',
        "padded": f"let a, b = tile(v, [{kept}: 3, {reduced}: 5], tail: pad)",
        "padded twice": f"let a, b = tile(v, [{kept}: 3, {reduced}: 7], tail: pad)\ntile(v, [{reduced}: 4], tail: pad)",
        "padded and vectorized": f"let a, b = tile(v, [{kept}: 3, {reduced}: 20], tail: pad)\nvectorize(a)",
        "padded and vectorized twice": f"let a, b = tile(v, [{kept}: 3, {reduced}: 20], tail: pad)\n"
        f"let e = tile(v, [{reduced}: 7], tail: pad)\nvectorize(a)",
        "padded and carried": f"let a, b = tile(v, [{kept}: 3, {reduced}: 20], tail: pad)\nvectorize(a)\n"
        "hoist_accumulator(v, out_of: b)",
        "a row at a time": f"let a, b = tile(v, [{kept}: 1, {reduced}: 24], tail: pad)\nvectorize(a)\n"
        "hoist_accumulator(v, out_of: b)",
        "padded for threads": f"let a = tile(v, [{kept}: 2], parallel: true, tail: pad)\n"
        f"let b = tile(v, [{reduced}: 17], tail: pad)\nvectorize(a)",
        "producer fused and padded": f"let a, b = tile(v, [{kept}: 3, {reduced}: 20], tail: pad)\n"
        "fuse(p, into: b)\nvectorize(a)",
        "generalized and padded": f"let g = generalize(v)\nlet a, b = tile(g, [{kept}: 3, {reduced}: 5], tail: pad)\n"
        "vectorize(b)",
        "generalized": f"let g = generalize(v)\nlet a, b = tile(g, [{kept}: 3, {reduced}: 5])",
    }


def _cumsum(dim: int) -> str:
    kept = "[N]" if dim == 0 else "[M]"
    types = f"tensor<[M]x[N]xf32>, tensor<{kept}xf32>"
    return (
        MATRIX.format(types=types)
        + PRODUCER
        + f"  %v0, %v1 = outside.cumsum(%p) {{dim = {dim}}} : {types}\n"
        + "  %c = tcp.add(%v0, %x) : tensor<[M]x[N]xf32>\n  tcp.return(%c, %v1)\n}\n"
    )


def _summed(dim: int) -> Callable[[Array], Sequence[Array]]:
    def wanted(x: Array) -> Sequence[Array]:
        sums = np.add.accumulate(x * x, dim, dtype=np.float32)
        last = np.take(sums, -1, dim) if x.shape[dim] else np.zeros(x.shape[1 - dim], np.float32)
        return [sums + x, last]

    return wanted


def _scans(kept: str, stepped: str) -> Mapping[str, str]:
    both = f"let a, b = tile(v, [{kept}: 3, {stepped}: 5])\n"
    return {
        "as it is": "",
        "tiled": f"let a = tile(v, [{kept}: 3])",
        "tiled in its order": f"let b = tile(v, [{stepped}: 5])",
        "steps outermost": f"let b, a = tile(v, [{stepped}: 5, {kept}: 3])",
        "start fused": both + "fuse(v.start, into: b)",
        "threads": f"let a = tile(v, [{kept}: 2], parallel: true)",
        "peeled": f"let a, b = tile(v, [{kept}: 4, {stepped}: 4], tail: peel)",
        "padded": f"let a = tile(v, [{kept}: 4], tail: pad)",
        "producer fused": both + "fuse(p, into: b)",
        "consumer fused": both + "fuse(c, into: b)",
        "fused as a producer": f"let t = tile(c, [{kept}: 3])\nfuse(v, into: t, recompute: true)",
        "fused as a consumer": f"let t = tile(p, [{kept}: 3])\nfuse(v, into: t)",
        "vectorized": both + 'fuse(p, into: b)\npeel(b)\npeel(a)\nvectorize(v.copy("main").loop(' + stepped + "))",
        "a step at a time": f"let a, b = tile(v, [{kept}: 16, {stepped}: 1])\nfuse(p, into: b)\npeel(a)\n"
        f'vectorize(v.copy("main").loop({stepped}))',
        "padded and vectorized": f"let a = tile(v, [{kept}: 16], tail: pad)\nlet b = tile(v, [{stepped}: 1])\n"
        "fuse(p, into: b)\nvectorize(b)",
        "generalized and vectorized": f"let g = generalize(v)\nlet a, b = tile(g, [{kept}: 20, {stepped}: 3])\n"
        f'fuse(p, into: b)\npeel(b)\npeel(a)\nvectorize(g.copy("main").loop({stepped}))',
        "generalized": f"let g = generalize(v)\nlet a, b = tile(g, [{kept}: 3, {stepped}: 5])",
    }


SORT = """func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %p = tcp.mul(%x, %x) : tensor<[M]x[N]xf32>
  %v = outside.row_sort(%p) : tensor<[M]x[N]xf32>
  %c = tcp.add(%v, %x) : tensor<[M]x[N]xf32>
  tcp.return(%c)
}
"""
POOL = """func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[ceildiv(M, 2)]x[ceildiv(N, 2)]xf32> symbols [M, N] {
  %w = tcp.pad(%x) {value = -inf, low = [1, 1]} : tensor<[2*ceildiv(M, 2) + 1]x[2*ceildiv(N, 2) + 1]xf32>
  %p = tcp.add(%w, %w) : tensor<[2*ceildiv(M, 2) + 1]x[2*ceildiv(N, 2) + 1]xf32>
  %v = outside.max_pool(%p) {stride = 2, size = [3, 3]} : tensor<[ceildiv(M, 2)]x[ceildiv(N, 2)]xf32>
  %c = tcp.add(%v, %v) : tensor<[ceildiv(M, 2)]x[ceildiv(N, 2)]xf32>
  tcp.return(%c)
}
"""


def _pooled(x: Array) -> Sequence[Array]:
    m, n = (-(-extent // 2) for extent in x.shape)
    wide = np.full((2 * m + 1, 2 * n + 1), -np.inf, np.float32)
    wide[1 : 1 + x.shape[0], 1 : 1 + x.shape[1]] = x + x
    shown = [wide[a : a + 2 * m - 1 : 2, b : b + 2 * n - 1 : 2] for a in range(3) for b in range(3) if m and n]
    made = np.max(shown, 0) if shown else np.zeros((m, n), np.float32)
    return [made + made]


ROWS = ((7, 33), (3, 8), (1, 1), (0, 4), (16, 64))
CASES: Mapping[str, Case] = {
    "argmax over the last dim": Case(
        _reduction("outside.argmax", 1, ("f32", "si64")), _argmax(1), ROWS, _schedules("d0", "d1"), special=(np.nan, 1)
    ),
    "argmax over the first dim": Case(
        _reduction("outside.argmax", 0, ("f32", "si64")),
        _argmax(0),
        ROWS[:3],
        _schedules("d1", "d0"),
        special=(np.nan,),
    ),
    "logsumexp": Case(
        _reduction("outside.logsumexp", 1, ("f32", "f32")),
        _logsumexp,
        (*ROWS, (3, 0)),
        _schedules("d0", "d1"),
        tolerance=1e-4,
    ),
    "moments": Case(
        _reduction("outside.moments", 1, ("f32", "f32", "f32")),
        _moments,
        (*ROWS, (3, 0)),
        _schedules("d0", "d1"),
        tolerance=1e-4,
    ),
    "iota": Case(
        "func @f(%x: tensor<[M]x[N]xsi32>) -> tensor<[M]x[N]xsi32> symbols [M: 0..1000, N: 0..1000] {\n"
        "  %v = outside.iota() {dim = 1} : tensor<[M]x[N]xsi32>\n"
        "  %c = tcp.add(%v, %x) : tensor<[M]x[N]xsi32>\n  tcp.return(%c)\n}\n",
        lambda x: [x + np.arange(x.shape[1])],
        ROWS,
        {
            "as it is": "",
            "tiled": "let a, b = tile(v, [d0: 3, d1: 5])",
            "threads": "let a, b = tile(v, [d0: 3, d1: 5], parallel: true)",
            "consumer fused": "let a, b = tile(v, [d0: 3, d1: 5])\nfuse(c, into: b)",
            "fused as a producer": "let a, b = tile(c, [d0: 3, d1: 5])\nfuse(v, into: b)",
            "vectorized": 'let a, b = tile(v, [d0: 3, d1: 20], tail: peel)\nvectorize(v.copy("main").loop(d1))',
            "fused and vectorized": "let a, b = tile(c, [d0: 3, d1: 20], tail: peel)\n"
            'fuse(v, into: c.copy("main").loop(d1), recompute: true)\nvectorize(c.copy("main").loop(d1))',
        },
        dtype=np.int32,
    ),
    "cumsum over the last dim": Case(_cumsum(1), _summed(1), (*ROWS, (3, 0)), _scans("d0", "d1"), tolerance=1e-5),
    "cumsum over the first dim": Case(_cumsum(0), _summed(0), (*ROWS, (3, 0)), _scans("d1", "d0"), tolerance=1e-5),
    "row sort": Case(
        SORT,
        lambda x: [np.sort(x * x, 1) + x],
        (*ROWS, (3, 0)),
        {
            "as it is": "",
            "tiled": "let a = tile(v, [d0: 3])",
            "threads": "let a = tile(v, [d0: 3], parallel: true)",
            "padded": "let a = tile(v, [d0: 4], tail: pad)",
            "producer fused": "let a = tile(v, [d0: 3])\nfuse(p, into: a)",
            "consumer fused": "let a = tile(v, [d0: 3])\nfuse(c, into: a)",
            "fused as a producer": "let a = tile(c, [d0: 3])\nfuse(v, into: a)",
            "fused as a consumer": "let a = tile(p, [d0: 3])\nfuse(v, into: a)",
            "decomposed": "let d = decompose(v)\nlet a, b = tile(d, [i: 3, j: 5])",
        },
        special=(np.nan, 1, 1),
    ),
    "max pooling": Case(
        POOL,
        _pooled,
        ROWS,
        {
            "as it is": "",
            "tiled": "let a, b = tile(v, [i: 3, j: 5])",
            "every dim tiled": "let a, b, k, l = tile(v, [i: 3, j: 5, a: 2, b: 2])",
            "threads": "let a, b = tile(v, [i: 3, j: 5], parallel: true)",
            "padded": "let a, b = tile(v, [i: 4, j: 8], tail: pad)",
            "producer fused": "let a, b = tile(v, [i: 3, j: 5])\nfuse(p, into: b)",
            "consumer fused": "let a, b = tile(v, [i: 3, j: 5])\nfuse(c, into: b)",
            "fused as a producer": "let a, b = tile(c, [d0: 3, d1: 5])\nfuse(v, into: b)",
            "vectorized": "let a, b = tile(v, [i: 2, j: 8], tail: pad)\nvectorize(b)",
        },
    ),
    "two results": Case(
        "func @f(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>) symbols [M, N] {\n"
        "  %p = tcp.mul(%x, %x) : tensor<[M]x[N]xf32>\n"
        "  %v, %w = outside.ordered(%x, %p) : tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>\n"
        "  %c = tcp.add(%v, %w) : tensor<[M]x[N]xf32>\n  tcp.return(%c, %w)\n}\n",
        lambda x: [x + x * x, np.maximum(x, x * x)],
        ROWS,
        {
            "as it is": "",
            "tiled": "let a, b = tile(v, [d0: 3, d1: 5])",
            "threads": "let a, b = tile(v, [d0: 3, d1: 5], parallel: true)",
            "producer fused": "let a, b = tile(v, [d0: 3, d1: 5])\nfuse(p, into: b)",
            "consumer fused": "let a, b = tile(v, [d0: 3, d1: 5])\nfuse(c, into: b)",
            "fused as a producer": "let a, b = tile(c, [d0: 3, d1: 5])\nfuse(v, into: b, recompute: true)",
            "fused as a consumer": "let a, b = tile(p, [d0: 3, d1: 5])\nfuse(v, into: b)",
            "vectorized": "let a, b = tile(v, [d0: 3, d1: 20], tail: peel)\n"
            'fuse(p, into: v.copy("main").loop(d1), recompute: true)\nvectorize(v.copy("main").loop(d1))',
            "padded": "let a, b = tile(v, [d0: 3, d1: 20], tail: pad)\nvectorize(b)",
        },
    ),
}


def _argument(case: Case, shape: Shape) -> Array:
    random = np.random.default_rng(sum(shape) + 1)
    given = random.integers(-6, 6, shape) if case.dtype is np.int32 else random.standard_normal(shape).round(1)
    x = given.astype(case.dtype)
    for value in case.special:
        if x.size:
            x.reshape(-1)[random.integers(x.size)] = value
    return x


def _schedule(case: Case, steps: str) -> str:
    names = {"v": "%v", "p": "%p", "c": "%c"}
    first = "v0" if "%v0" in case.payload else "v"
    lets = [
        f'let {name} = match one "{first if name == "v" else name}" in root'
        for name in names
        if f"%{first if name == 'v' else name} " in case.payload
        or f"%{first if name == 'v' else name}," in case.payload
    ]
    return "language 1\nschedule s(root: func) {\n" + "\n".join([*lets, steps]) + "\n}\n"


def _agree(found: Array, wanted: Array, tolerance: float) -> bool:
    if tolerance == 0:
        return bool(np.array_equal(found, wanted, equal_nan=True))
    return bool(np.allclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True))


@pytest.mark.parametrize("name", CASES)
def test_prints_and_evaluates(name: str) -> None:
    case = CASES[name]
    module = parse(case.payload)
    assert print_module(parse(print_module(module))) == print_module(module)
    for shape in case.shapes:
        x = _argument(case, shape)
        for found, wanted in zip(evaluate_func(module, module.main, [x]), case.wanted(x), strict=True):
            assert _agree(found, wanted, case.tolerance), shape


RUNS = [
    (name, schedule, threads)
    for name, case in CASES.items()
    for schedule in case.schedules
    for threads in ((1, 2) if "threads" in schedule or schedule == "parts" else (1,))
]


@pytest.mark.parametrize(("name", "schedule", "threads"), RUNS)
def test_compiles_under_schedules(name: str, schedule: str, threads: int) -> None:
    case = CASES[name]
    program = tcpx.parse_schedule(_schedule(case, case.schedules[schedule]))
    kernel = tcpx.compile(tcpx.parse(case.payload), schedule=program, threads=threads)
    for shape in case.shapes:
        x = _argument(case, shape)
        made = kernel(x)
        for found, wanted in zip(made if isinstance(made, tuple) else (made,), case.wanted(x), strict=True):
            assert _agree(np.asarray(found), wanted, case.tolerance), shape


@pytest.mark.parametrize("target", ["x86_avx512", "x86_avx2"])
def test_lanes_are_combined_once_behind_the_loop(target: str) -> None:
    """In shuffles, with no exponential of a scalar."""
    case = CASES["logsumexp"]
    program = tcpx.parse_schedule(_schedule(case, case.schedules["padded and carried"]))
    source = tcpx.emit(tcpx.parse(case.payload), schedule=program, target=target).c_source
    loop, behind = source.split("/* v0/d11")[1].split("\n    }\n", 1)
    assert "expf(" not in loop + behind
    assert "unpack" not in loop
    assert "unpack" in behind
