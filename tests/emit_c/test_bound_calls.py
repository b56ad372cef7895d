"""Calls bound to arrays: what they run on, what is refused with which words, and what stays alive."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.emit_c.kernel import BoundCall, Kernel, KernelRequest, build_many
from tcpx.payload.diagnostics import ArgumentError
from tests.emit_c.payloads import AXPY, BRANCHES, GENERIC, MATMUL, MEMORY, MEMORY_CONSTANTS, Array, module
from tests.emit_c.refusals import MISFITS, OUT_ERRORS, X, f32, ones
from tests.guard_pages import run_guarded

NOTHING_IN = """
func @nothing_in(%r: buffer<3xf32, strides [1], space result>) {results = 1} {
  %v = tcp.const {value = 2.5, row = "literal"} : f32
  gml_st.for %i in 0 to 3 {
    vector.write(%v, %r) tile [%i] [1] drop [0] {row = "store_f32"}
  }
  tcp.return
}
"""
STRIDED = """
func @strided(%x: tensor<[M]x[N]xf32> strided, %y: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> strided
    symbols [M, N] {
  %s = tcp.sub(%x, %y) : tensor<[M]x[N]xf32>
  tcp.return(%s)
}
"""


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    texts = {"axpy": AXPY, "matmul": MATMUL, "branches": BRANCHES, "memory": MEMORY, "nothing_in": NOTHING_IN}
    requests = [KernelRequest(module(text, constants=MEMORY_CONSTANTS)) for text in texts.values()]
    made = dict(zip(texts, build_many(requests, GENERIC), strict=True))
    return made | {"strided": tcpx.compile(tcpx.parse(STRIDED), target=GENERIC)}


@pytest.fixture
def axpy(kernels: dict[str, Kernel]) -> Kernel:
    return kernels["axpy"]


def random(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def test_a_call_reads_what_is_in_the_arrays_by_then(axpy: Kernel) -> None:
    x, y, out = f32(1, 2, 3), ones(3), np.zeros(3, np.float32)
    bound = axpy.bind(x, y, out=out)
    np.testing.assert_array_equal(out, 0)
    assert bound() is out
    np.testing.assert_array_equal(out, f32(3.5, 6, 8.5))
    x[1], y[2] = 4, 0
    assert bound() is out
    np.testing.assert_array_equal(out, f32(3.5, 11, 7.5))
    assert bound.out is out
    assert bound.kernel is axpy
    assert bound.arrays[0] is x
    assert bound.arrays[1] is y


def test_outputs_are_allocated_once(axpy: Kernel, kernels: dict[str, Kernel]) -> None:
    bound = axpy.bind(f32(1, 2, 3), ones(3))
    assert bound() is bound() is bound.out
    np.testing.assert_array_equal(np.asarray(bound.out), f32(3.5, 6, 8.5))
    nothing = kernels["nothing_in"].bind()
    np.testing.assert_array_equal(np.asarray(nothing()), f32(2.5, 2.5, 2.5))


def test_several_outputs(kernels: dict[str, Kernel]) -> None:
    x, out = random(1, 5, 7), (ones(5), ones(5))
    bound = kernels["branches"].bind(x, out=out)
    found = bound()
    assert found is bound.out
    assert isinstance(found, tuple)
    assert found[0] is out[0]
    assert found[1] is out[1]
    for one, other in zip(found, kernels["branches"](x), strict=True):
        np.testing.assert_array_equal(one, other)


def test_read_only_inputs_are_taken(axpy: Kernel) -> None:
    x = f32(1, 2, 3)
    x.flags.writeable = False
    np.testing.assert_array_equal(np.asarray(axpy.bind(x, x)()), 3.5 * x)


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (1, 1, 1), (5, 7, 3), (13, 11, 17)], ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_odd_sizes_between_guard_pages(sizes: tuple[int, int, int], threads: int) -> None:
    (kernel,) = build_many([KernelRequest(module(MATMUL))], GENERIC, threads)
    m, n, k = sizes
    a, b = random(2, m, k), random(3, k, n)
    (found,) = run_guarded(kernel, a, b, bound=True)
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found, np.asarray(kernel(a, b)))


def test_strided_arrays_between_guard_pages(kernels: dict[str, Kernel]) -> None:
    x, y = random(4, 5, 7), random(5, 5, 7)
    (found,) = run_guarded(kernels["strided"], x, y, bound=True)
    np.testing.assert_array_equal(found, x - y)


def test_a_workspace_and_constants_between_guard_pages(kernels: dict[str, Kernel]) -> None:
    x = random(6, 9, 8)
    (found,) = run_guarded(kernels["memory"], x, bound=True)
    np.testing.assert_array_equal(found, np.asarray(kernels["memory"](x)))


def misaligned(n: int) -> Array:
    return np.frombuffer(bytes(4 * n + 1), dtype=np.uint8)[1:].view(np.float32)


ARRAY = "a NumPy array, or an object with DLPack or the buffer protocol"
ROWS = "a contiguous array in row-major order"
INPUT_ERRORS: dict[str, tuple[Callable[[], object], str, str, str]] = {
    "list": (lambda: [1.0, 2.0, 3.0], ARRAY, "list", "np.asarray(.., np.float32)"),
    "masked": (lambda: np.ma.masked_array(ones(3)), ARRAY, "MaskedArray", ".filled(0)"),
    "dtype": (lambda: np.ones(3), "dtype float32", "dtype float64", ".astype(np.float32)"),
    "byte order": (lambda: ones(3).astype(">f4"), "dtype float32", "dtype >f4", ".astype(np.float32)"),
    "strides": (
        lambda: ones(6)[::2],
        ROWS,
        "strides (8,) of bytes",
        "np.ascontiguousarray(..)",
    ),
    "misaligned": (lambda: misaligned(3), "memory aligned to 4 bytes", "an array that is not aligned", ".copy()"),
}


@pytest.mark.parametrize("case", INPUT_ERRORS)
def test_inputs_that_a_call_would_copy_are_refused(axpy: Kernel, case: str) -> None:
    make, required, found, fix = INPUT_ERRORS[case]
    given: Any = make()
    with pytest.raises(ArgumentError) as caught:
        axpy.bind(ones(3), given)
    assert str(caught.value) == (
        f"definite error: argument `y` cannot be bound as it is\n  required: {required}\n  found: {found}\n  fix: {fix}"
    )


def test_a_block_is_refused_where_the_kernel_takes_no_strides(kernels: dict[str, Kernel]) -> None:
    with pytest.raises(ArgumentError) as caught:
        kernels["strided"].bind(ones(5, 9)[:, 1:8], ones(5, 9)[:, 1:8])
    assert str(caught.value) == (
        "definite error: argument `y` cannot be bound as it is\n"
        "  required: a contiguous array in row-major order\n  found: strides (36, 4) of bytes\n"
        "  fix: np.ascontiguousarray(..), or compile with `strided=True`"
    )
    with pytest.raises(ArgumentError) as caught:
        kernels["strided"].bind(ones(7, 5).T, ones(5, 7))
    assert str(caught.value) == (
        "definite error: argument `x` cannot be bound as it is\n"
        "  required: neighbours of the innermost dim side by side, and strides >= 0 of whole elements\n"
        "  found: strides (4, 20) of bytes\n  fix: np.ascontiguousarray(..)"
    )


@pytest.mark.parametrize("case", MISFITS)
def test_inputs_that_do_not_fit_are_refused_as_in_a_call(kernels: dict[str, Kernel], case: str) -> None:
    arguments, message = MISFITS[case]
    with pytest.raises(ArgumentError) as caught:
        kernels["matmul"].bind(*arguments())
    assert str(caught.value) == f"definite error: {message}"


@pytest.mark.parametrize("case", OUT_ERRORS)
def test_outputs_are_refused_as_in_a_call(axpy: Kernel, case: str) -> None:
    given, required, found = OUT_ERRORS[case]
    out: Any = given
    with pytest.raises(ArgumentError) as caught:
        axpy.bind(X, ones(3), out=out)
    message = f"argument `r` does not fit tensor<[N]xf32>\n  required: {required}\n  found: {found}"
    assert str(caught.value) == f"definite error: {message}"


@pytest.mark.parametrize("n", [0, 4], ids=["in_c", "in_numpy"])
def test_sizes_that_overflow(kernels: dict[str, Kernel], n: int) -> None:
    def bind() -> BoundCall:
        return kernels["matmul"].bind(ones(1 << 60, 0), ones(0, n))

    refused: Callable[[], object] = bind if n else bind()
    with pytest.raises(ArgumentError) as caught:
        refused()
    assert str(caught.value) == (
        "definite error: the sizes of @matmul overflow\n"
        "  required: arrays of less than 2**63 bytes each, and at most 2**47 elements along a dim\n"
        f"  found: M = {1 << 60}, K = 0, N = {n}"
    )


def test_a_bound_array_cannot_be_resized(kernels: dict[str, Kernel]) -> None:
    x, y, out = ones(3), ones(3), ones(3)
    block = ones(5, 9)
    bound = [kernels["axpy"].bind(x, y, out=out), kernels["strided"].bind(block[:, :7], ones(5, 7))]
    for array in (x, y, out, block):
        with pytest.raises(ValueError, match="cannot resize"):
            array.resize(1 << 20)
        with pytest.raises(ValueError, match="cannot resize"):
            array.resize(1 << 20, refcheck=False)
    for call in bound:
        call()


def test_what_was_bound_can_be_resized_again(axpy: Kernel) -> None:
    whole, out = ones(4), ones(3)
    bound = axpy.bind(whole[:3], ones(3), out=out)
    made = bound.out
    assert isinstance(made, np.ndarray)
    for array in (whole, made):
        with pytest.raises(ValueError, match="cannot resize"):
            array.resize(1 << 20, refcheck=False)
    del bound
    for array in (whole, made):
        array.resize(8, refcheck=False)
        assert array.shape == (8,)


def test_arrays_are_bound_by_name(axpy: Kernel) -> None:
    np.testing.assert_array_equal(axpy.bind(y=ones(3), x=X)(), axpy(X, ones(3)))
    with pytest.raises(ArgumentError, match="@axpy is not given `y`"):
        axpy.bind(x=X)


def test_kernel_and_arrays_live_as_long_as_the_bound_call() -> None:
    (kernel,) = build_many([KernelRequest(module(MEMORY, constants=MEMORY_CONSTANTS))], GENERIC)
    x = random(7, 4, 8)
    wanted = np.asarray(kernel(x))
    bound = kernel.bind(x)
    held = weakref.ref(x)
    del kernel, x
    gc.collect()
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(bound()), wanted)
    assert held() is not None
    del bound
    gc.collect()
    assert held() is None


def in_threads(work: Callable[[int], None]) -> None:
    failed: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the test
            failed.append(error)

    workers = [threading.Thread(target=guarded, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for error in failed:
        raise error


def test_bound_calls_at_the_same_time_have_their_own_workspace(kernels: dict[str, Kernel]) -> None:
    kernel = kernels["memory"]

    def work(seed: int) -> None:
        x = random(seed, 400, 8)
        wanted, bound = np.asarray(kernel(x)).copy(), kernel.bind(x)
        for _ in range(50):
            np.testing.assert_array_equal(np.asarray(bound()), wanted)

    in_threads(work)


def test_one_bound_call_in_several_threads(kernels: dict[str, Kernel]) -> None:
    """The last row is summed in place: only calls with outputs of their own agree on it."""
    x = random(8, 400, 8)
    wanted, bound = np.asarray(kernels["memory"](x)), kernels["memory"].bind(x)

    def work(number: int) -> None:
        for _ in range(50):
            assert bound() is bound.out, number

    in_threads(work)
    np.testing.assert_array_equal(np.asarray(bound.out)[:-1], wanted[:-1])
    np.testing.assert_array_equal(np.asarray(bound()), wanted)


def test_repr(axpy: Kernel, kernels: dict[str, Kernel]) -> None:
    assert repr(axpy.bind(ones(3), ones(3))) == "<BoundCall of @axpy on arrays of shapes (3,), (3,)>"
    assert repr(kernels["nothing_in"].bind()).endswith("on no arrays>")
