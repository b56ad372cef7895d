"""Hand-written payloads, compiled, against the evaluator; every array between guard pages."""

from __future__ import annotations

import numpy as np
import pytest

from tcpx.emit_c.kernel import Kernel, KernelRequest, build_kernel, build_many
from tcpx.target import load_target
from tests.emit_c.payloads import (
    AXPY,
    BRANCHES,
    COPY,
    GENERIC,
    MATMUL,
    MEMORY,
    MEMORY_CONSTANTS,
    Array,
    lanes_of,
    module,
    reference,
)
from tests.guard_pages import run_guarded

LENGTHS = (0, 1, 3, 4, 5, 17, 64)


def uniform(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def check(
    kernel: Kernel, payload_text: str, *arrays: Array, lanes: int = 4, constants: dict[str, Array] | None = None
) -> None:
    wanted = reference(module(payload_text, lanes, constants), *arrays)
    given = kernel(*arrays)
    for results in (given if isinstance(given, tuple) else (given,), run_guarded(kernel, *arrays)):
        for result, expected in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(result, expected)


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    texts = {"copy": COPY, "axpy": AXPY, "matmul": MATMUL, "branches": BRANCHES}
    made = build_many([KernelRequest(module(text)) for text in texts.values()], GENERIC)
    return dict(zip(texts, made, strict=True))


@pytest.mark.parametrize("n", LENGTHS)
def test_copy_keeps_nan_and_infinity(kernels: dict[str, Kernel], n: int) -> None:
    x = uniform(n)
    x[1::3] = np.nan
    x[2::3] = np.inf
    check(kernels["copy"], COPY, x)


@pytest.mark.parametrize("n", LENGTHS)
def test_masked_tail(kernels: dict[str, Kernel], n: int) -> None:
    check(kernels["axpy"], AXPY, uniform(n), uniform(n) + 1)


@pytest.mark.parametrize("sizes", [(0, 3, 4), (1, 0, 5), (2, 3, 4), (3, 5, 7), (5, 1, 1), (4, 4, 0), (7, 11, 13)])
def test_carried_accumulators_and_row_guards(kernels: dict[str, Kernel], sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    check(kernels["matmul"], MATMUL, uniform(m, k), uniform(k, n))


@pytest.mark.parametrize("sizes", [(0, 4), (3, 0), (5, 1), (4, 4), (3, 9)])
def test_branches_and_filled_lanes(kernels: dict[str, Kernel], sizes: tuple[int, int]) -> None:
    check(kernels["branches"], BRANCHES, uniform(*sizes))


@pytest.mark.parametrize("threads", [1, 2])
def test_stack_workspace_and_constants(threads: int) -> None:
    kernel = build_kernel(module(MEMORY, constants=MEMORY_CONSTANTS), GENERIC, threads)
    assert [slot.name for slot in kernel.signature.constants] == ["w/1", "v"]
    assert kernel.workspace_bytes({"M": 3}) == 256 + 64 * 3
    for m in (1, 2, 9):
        check(kernel, MEMORY, uniform(m, 8), constants=MEMORY_CONSTANTS)


def test_parallel_loop_on_two_threads() -> None:
    kernel = build_kernel(module(MATMUL), GENERIC, threads=2)
    assert "#pragma omp parallel for num_threads(2) schedule(static)" in kernel.c_source
    for m in (0, 1, 5, 32):
        check(kernel, MATMUL, uniform(m, 9), uniform(9, 10))


def test_widest_target_of_this_machine() -> None:
    target = load_target("native")
    lanes = lanes_of(target)
    texts = (AXPY, MATMUL, BRANCHES)
    axpy, matmul, branches = build_many([KernelRequest(module(text, lanes)) for text in texts], target)
    check(axpy, AXPY, uniform(37), uniform(37), lanes=lanes)
    check(matmul, MATMUL, uniform(5, 4), uniform(4, 21), lanes=lanes)
    check(branches, BRANCHES, uniform(5, 21), lanes=lanes)
