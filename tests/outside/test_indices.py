"""Operations whose elements say where others are read and written, from outside of the package and in the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_module
from tests.guard_pages import run_guarded
from tests.outside import operations  # noqa: F401  (registers them)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A function with the operation as %v, its producers and consumer; what NumPy says of (values, indices)."""

    payload: str
    wanted: Callable[[Array, Array, Array], Array]
    schedules: Mapping[str, str]


GATHER = """
func @f(%x: tensor<[V]x[D]xf32>, %ix: tensor<[N]xsi64> in 0 to V, %z: tensor<[N]x[D]xf32>) -> tensor<[N]x[D]xf32>
    symbols [V, D, N] {
  %p = tcp.mul(%x, %x) : tensor<[V]x[D]xf32>
  %v = OPERATION : tensor<[N]x[D]xf32>
  %c = tcp.add(%v, %z) : tensor<[N]x[D]xf32>
  tcp.return(%c)
}
"""
COLUMNS = """
func @f(%x: tensor<[D]x[V]xf32>, %ix: tensor<[N]xsi32> in 0 to V, %z: tensor<[D]x[N]xf32>) -> tensor<[D]x[N]xf32>
    symbols [V, D, N] {
  %p = tcp.mul(%x, %x) : tensor<[D]x[V]xf32>
  %v = outside.gather(%p, %ix) {axis = 1} : tensor<[D]x[N]xf32>
  %c = tcp.add(%v, %z) : tensor<[D]x[N]xf32>
  tcp.return(%c)
}
"""
SCATTER = """
func @f(%x: tensor<[N]x[D]xf32>, %ix: tensor<[N]xsi64> in 0 to V, %z: tensor<[V]x[D]xf32>) -> tensor<[V]x[D]xf32>
    symbols [V, D, N] {
  %p = tcp.mul(%x, %x) : tensor<[N]x[D]xf32>
  %v = OPERATION : tensor<[V]x[D]xf32>
  %c = tcp.add(%v, %z) : tensor<[V]x[D]xf32>
  tcp.return(%c)
}
"""
GENERIC_GATHER = """tcp.generic(%p, %ix) {iterators = [["d0", "parallel"], ["d1", "parallel"]],
      maps = [[in1, d1], [d0], [d0, d1]]} ({ (%a: f32, %i: si64):
    tcp.yield(%a)
  })"""
GENERIC_SCATTER = """tcp.generic(%p, %ix, init = %z) {iterators = [["i", "reduction"], ["j", "parallel"]],
      maps = [[i, j], [i], [in1, j]], combiner = "tcp.add"} ({ (%a: f32, %i: si64, %acc: f32):
    %s = tcp.add(%acc, %a) : f32
    tcp.yield(%s)
  })"""


def _gathering(rows: str, columns: str) -> Mapping[str, str]:
    both = f"let a, b = tile(v, [{rows}: 3, {columns}: 5])\n"
    return {
        "as it is": "",
        "tiled": both,
        "threads": f"let a, b = tile(v, [{rows}: 3, {columns}: 5], parallel: true)",
        "padded": f"let a, b = tile(v, [{rows}: 4, {columns}: 8], tail: pad)",
        "peeled": f"let a, b = tile(v, [{rows}: 4, {columns}: 8], tail: peel)",
        "table fused": f"let b = tile(v, [{columns}: 5])\nfuse(p, into: b)",
        "consumer fused": both + "fuse(c, into: b)",
        "fused as a producer": "let a, b = tile(c, [d0: 3, d1: 5])\nfuse(v, into: b, recompute: true)",
        "vectorized": f"let a, b = tile(v, [{rows}: 4, {columns}: 16], tail: pad)\nvectorize(b)",
        "vectorized without a tail": f"let a, b = tile(v, [{rows}: 4, {columns}: 16], tail: peel)\n"
        f'vectorize(v.copy("main").loop({columns}))',
        "fused and vectorized": "let a, b = tile(c, [d0: 2, d1: 16], tail: pad)\n"
        "fuse(v, into: b, recompute: true)\nvectorize(b)",
        "generalized": f"let g = generalize(v)\nlet a, b = tile(g, [{rows}: 3, {columns}: 5])",
    }


SCATTERING = {
    "as it is": "",
    "tiled": "let a, b = tile(v, [i: 3, j: 5])",
    "columns on threads": "let a = tile(v, [j: 5], parallel: true)",
    "padded": "let a, b = tile(v, [i: 4, j: 8], tail: pad)",
    "peeled": "let a, b = tile(v, [j: 8, i: 4], tail: peel)",
    "producer fused": "let a, b = tile(v, [j: 5, i: 3])\nfuse(p, into: b)",
    "consumer fused": "let a = tile(v, [j: 5])\nfuse(c, into: a)",
    "fused as a producer": "let a = tile(c, [d1: 5])\nfuse(v, into: a)",
    "fused as a consumer": "let a = tile(p, [d1: 5])\nfuse(v, into: a)",
    "in a vectorized loop": "let a, b = tile(v, [j: 16, i: 4], tail: pad)\nfuse(p, into: b)\nvectorize(b)",
    "generalized": "let g = generalize(v)\nlet a, b = tile(g, [i: 3, j: 5])",
}


def _added(x: Array, ix: Array, z: Array, start: Array) -> Array:
    made = start.copy()
    np.add.at(made, ix, x * x)
    return made + z


CASES: Mapping[str, Case] = {
    "gather rows": Case(
        GATHER.replace("OPERATION", "outside.gather(%p, %ix) {axis = 0}"),
        lambda x, ix, z: (x * x)[ix] + z,
        _gathering("d0", "d1"),
    ),
    "gather columns": Case(COLUMNS, lambda x, ix, z: (x * x)[:, ix] + z, _gathering("d0", "d1")),
    "gather in a generic": Case(
        GATHER.replace("OPERATION", GENERIC_GATHER), lambda x, ix, z: (x * x)[ix] + z, _gathering("d0", "d1")
    ),
    "scatter-add": Case(
        SCATTER.replace("OPERATION", "outside.scatter_add(%p, %ix, init = %z)"),
        lambda x, ix, z: _added(x, ix, z, z),
        SCATTERING,
    ),
    "scatter-add to nothing": Case(
        SCATTER.replace("OPERATION", "outside.scatter_add(%p, %ix)"),
        lambda x, ix, z: _added(x, ix, z, np.zeros_like(z)),
        SCATTERING,
    ),
    "scatter-add in a generic": Case(
        SCATTER.replace("OPERATION", GENERIC_SCATTER), lambda x, ix, z: _added(x, ix, z, z), SCATTERING
    ),
}
SIZES = ((7, 5, 11), (3, 16, 8), (1, 33, 4), (0, 4, 0), (5, 0, 3), (9, 40, 1), (4, 8, 0))
RUNS = [
    (name, schedule)
    for name, case in CASES.items()
    for schedule in case.schedules
    if not (schedule == "generalized" and "tcp.generic" in case.payload)
]


def _arguments(payload: str, v: int, d: int, n: int) -> list[Array]:
    """Random arguments of whole numbers, which are added in any order."""
    random = np.random.default_rng(v + d + n)
    sizes = {"V": v, "D": d, "N": n}
    module = parse(payload)
    made: list[Array] = []
    for value in module.main.inputs:
        shape = tuple(sizes[str(extent)] for extent in value.type.shape)  # type: ignore[union-attr]
        whole = random.integers(0, max(v, 1), shape) if value.name == "ix" else random.integers(-9, 9, shape)
        made.append(whole.astype(value.type.dtype.numpy))  # type: ignore[union-attr]
    return made


def _schedule(case: Case, steps: str) -> tcpx.Program:
    lets = [f'let {name} = match one "{name}" in root' for name in "vpc"]
    return tcpx.parse_schedule("language 1\nschedule s(root: func) {\n" + "\n".join([*lets, steps]) + "\n}\n")


@pytest.mark.parametrize("name", CASES)
def test_prints_and_evaluates(name: str) -> None:
    case = CASES[name]
    module = parse(case.payload)
    assert print_module(parse(print_module(module))) == print_module(module)
    for sizes in SIZES:
        given = _arguments(case.payload, *sizes)
        assert np.array_equal(evaluate_func(module, module.main, given)[0], case.wanted(*given)), sizes


@pytest.mark.parametrize(("name", "schedule"), RUNS)
def test_compiles_under_schedules(name: str, schedule: str) -> None:
    case = CASES[name]
    kernel = tcpx.compile(
        tcpx.parse(case.payload),
        schedule=_schedule(case, case.schedules[schedule]),
        threads=2 if "threads" in schedule else 1,
    )
    for sizes in SIZES:
        given = _arguments(case.payload, *sizes)
        assert np.array_equal(run_guarded(kernel, *given)[0], case.wanted(*given)), sizes
