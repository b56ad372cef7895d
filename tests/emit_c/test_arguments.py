"""Calling a kernel: what is accepted, what is copied, and the exact message for everything else."""

from __future__ import annotations

import array
import pickle
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tcpx
from tcpx.emit_c.kernel import Kernel, KernelRequest, build_many
from tcpx.payload.diagnostics import ArgumentError, VerifyError
from tests.emit_c.payloads import AXPY, BRANCHES, GENERIC, MATMUL, MEMORY, MEMORY_CONSTANTS, Array, module
from tests.emit_c.refusals import MISFITS, OUT_ERRORS, X, f32, ones

BF16 = """
func @bf16(%x: buffer<[N]x2xbf16, strides [2, 1], space argument>, %r: buffer<[2*N]xbf16, strides [1], space result>)
    symbols [N: 2..8 multiple_of 2] {results = 1} {
  gml_st.for %i in 0 to 2*N {
    %v = vector.read(%x) tile [floordiv(%i, 2), mod(%i, 2)] [1, 1] drop [0, 1] {row = "load_bf16"} : bf16
    vector.write(%v, %r) tile [%i] [1] drop [0] {row = "store_bf16"}
  }
  tcp.return
}
"""


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    texts = {"axpy": AXPY, "matmul": MATMUL, "branches": BRANCHES, "bf16": BF16, "memory": MEMORY}
    requests = [KernelRequest(module(text, constants=MEMORY_CONSTANTS)) for text in texts.values()]
    return dict(zip(texts, build_many(requests, GENERIC), strict=True))


@pytest.fixture
def axpy(kernels: dict[str, Kernel]) -> Kernel:
    return kernels["axpy"]


@pytest.fixture
def matmul(kernels: dict[str, Kernel]) -> Kernel:
    return kernels["matmul"]


class Foreign:
    """An array of another library."""

    def __init__(self, held: Array) -> None:
        self.held = held

    def __dlpack__(self, **options: Any) -> object:
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.held.__dlpack_device__()


WANTED = f32(3.5, 6.0, 8.5)


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x,
        lambda x: np.repeat(x, 3)[::3],
        lambda x: x[::-1].copy()[::-1],
        lambda x: x.astype(">f4"),
        lambda x: np.frombuffer(b"\0" + x.tobytes(), dtype=np.uint8)[1:].view(np.float32),
        lambda x: x.view(type("Subclass", (np.ndarray,), {})),
        lambda x: array.array("f", x.tolist()),
        memoryview,
        Foreign,
        lambda x: np.frombuffer(x.tobytes(), dtype=np.float32),
    ],
    ids=[
        "plain",
        "strided",
        "reversed",
        "big_endian",
        "misaligned",
        "subclass",
        "array",
        "memoryview",
        "dlpack",
        "read_only",
    ],
)
def test_inputs_that_are_taken(axpy: Kernel, convert: Callable[[Array], object]) -> None:
    x = f32(1, 2, 3)
    np.testing.assert_array_equal(np.asarray(axpy(convert(x), ones(3))), WANTED)
    np.testing.assert_array_equal(x, f32(1, 2, 3))


def test_transposed_inputs_are_copied(matmul: Kernel) -> None:
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(20, dtype=np.float32).reshape(4, 5)
    np.testing.assert_array_equal(np.asarray(matmul(a.T.copy().T, np.asfortranarray(b))), a @ b)


def test_one_array_may_be_several_inputs(axpy: Kernel) -> None:
    x = f32(1, 2, 3)
    np.testing.assert_array_equal(np.asarray(axpy(x, x)), 3.5 * x)


def test_two_byte_floats(kernels: dict[str, Kernel]) -> None:
    x = np.arange(8, dtype=ml_dtypes.bfloat16).reshape(4, 2)
    result = np.asarray(kernels["bf16"](x))
    assert result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result, x.ravel())


def test_out_is_reused(axpy: Kernel, kernels: dict[str, Kernel]) -> None:
    out = np.empty(3, dtype=np.float32)
    assert axpy(f32(1, 2, 3), ones(3), out=out) is out
    assert axpy(f32(1, 2, 3), ones(3), out=(out,)) is out
    np.testing.assert_array_equal(out, WANTED)
    pair = (np.empty(2, dtype=np.float32), np.empty(2, dtype=np.float32))
    given = kernels["branches"](ones(2, 4), out=pair)
    assert isinstance(given, tuple)
    assert given[0] is pair[0]
    assert given[1] is pair[1]


MATMUL_ERRORS: dict[str, tuple[Callable[[], tuple[object, ...]], str]] = {
    **MISFITS,
    "list": (
        lambda: ([[1.0]], ones(1, 1)),
        "argument `a` does not fit tensor<[M]x[K]xf32>\n"
        "  required: a NumPy array, or an object with DLPack or the buffer protocol\n"
        "  found: list\n  fix: np.asarray(.., np.float32)",
    ),
    "masked": (
        lambda: (np.ma.masked_array(ones(1, 1)), ones(1, 1)),
        "argument `a` does not fit tensor<[M]x[K]xf32>\n"
        "  required: a NumPy array, or an object with DLPack or the buffer protocol\n"
        "  found: MaskedArray\n  fix: .filled(0)",
    ),
    "dtype": (
        lambda: (ones(2, 3), np.ones((3, 4))),
        "argument `b` does not fit tensor<[K]x[N]xf32>\n"
        "  required: dtype float32\n  found: dtype float64\n  fix: .astype(np.float32)",
    ),
}


@pytest.mark.parametrize("case", MATMUL_ERRORS)
def test_inputs_that_are_refused(matmul: Kernel, case: str) -> None:
    arguments, message = MATMUL_ERRORS[case]
    with pytest.raises(ArgumentError) as caught:
        matmul(*arguments())
    assert str(caught.value) == f"definite error: {message}"


@pytest.mark.parametrize(("rows", "found"), [(0, "0"), (10, "10"), (3, "3")])
def test_sizes_out_of_range(kernels: dict[str, Kernel], rows: int, found: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        kernels["bf16"](np.zeros((rows, 2), dtype=ml_dtypes.bfloat16))
    message = f"the size `N` is out of its range\n  required: 2..8, a multiple of 2\n  found: {found}"
    assert str(caught.value) == f"definite error: {message}"


def test_a_static_extent_that_differs(kernels: dict[str, Kernel]) -> None:
    with pytest.raises(ArgumentError) as caught:
        kernels["bf16"](np.zeros((4, 3), dtype=ml_dtypes.bfloat16))
    message = "argument `x` does not fit tensor<[N]x2xbf16>\n  required: 2 in dim 1\n  found: 3, shape (4, 3)"
    assert str(caught.value) == f"definite error: {message}"


@pytest.mark.parametrize("case", OUT_ERRORS)
def test_outputs_that_are_refused(axpy: Kernel, case: str) -> None:
    out, required, found = OUT_ERRORS[case]
    with pytest.raises(ArgumentError) as caught:
        axpy._call((X, ones(3)), out)
    message = f"argument `r` does not fit tensor<[N]xf32>\n  required: {required}\n  found: {found}"
    assert str(caught.value) == f"definite error: {message}"


def test_arguments_by_name(axpy: Kernel) -> None:
    wanted = axpy(X, ones(3))
    out = ones(3)
    for found in (axpy(x=X, y=ones(3)), axpy(y=ones(3), x=X), axpy(X, y=ones(3)), axpy(y=ones(3), x=X, out=out)):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    np.testing.assert_array_equal(out, np.asarray(wanted))


NAMED_ERRORS: dict[str, tuple[tuple[Array, ...], dict[str, Any], str, str]] = {
    "unknown": ((X,), {"z": X}, "@axpy has no argument `z`", "1 array by position, z"),
    "twice": ((X,), {"x": X, "y": X}, "@axpy is given `x` by position and by name", "1 array by position, x, y"),
    "missing": ((), {"y": X}, "@axpy is not given `x`", "y"),
    "too many": ((X, X, X), {"y": X}, "@axpy is given `y` by position and by name", "3 arrays by position, y"),
    "a list": ((), {"x": [1.0], "y": X}, "argument `x` does not fit tensor<[N]xf32>", "list"),
}


@pytest.mark.parametrize("case", NAMED_ERRORS)
def test_arguments_by_name_that_are_refused(axpy: Kernel, case: str) -> None:
    arrays, named, message, found = NAMED_ERRORS[case]
    with pytest.raises(ArgumentError) as caught:
        axpy(*arrays, **named)
    assert (caught.value.diagnostic.message, caught.value.diagnostic.found) == (message, found)


def test_what_no_memory_holds(matmul: Kernel) -> None:
    with pytest.raises(ArgumentError) as caught:
        matmul(np.broadcast_to(np.float32(1), (1 << 20, 1 << 24)), ones(1, 1))
    assert caught.value.diagnostic.required == "memory for a contiguous copy"
    with pytest.raises(ArgumentError) as caught:
        matmul(ones(1 << 24, 0), ones(0, 1 << 22))
    found = caught.value.diagnostic
    assert found.message == "the results of @matmul do not fit into memory"
    assert str(found.required).endswith(f" for M = {1 << 24}, K = 0, N = {1 << 22}")
    with pytest.raises(ArgumentError, match="the results of @matmul do not fit into memory"):
        matmul.bind(ones(1 << 24, 0), ones(0, 1 << 22))


def test_dtypes_need_not_be_the_same_object(axpy: Kernel) -> None:
    out = pickle.loads(pickle.dumps(np.zeros(3, np.float32)))
    assert axpy(X, ones(3), out=out) is out
    np.testing.assert_array_equal(out, WANTED)
    noted = np.dtype(np.float32, metadata={"unit": "m"})
    np.testing.assert_array_equal(axpy(X.astype(noted), ones(3), out=np.zeros(3, noted)), WANTED)


def test_number_of_outputs(axpy: Kernel, kernels: dict[str, Kernel]) -> None:
    with pytest.raises(ArgumentError, match=r"`out` of @axpy is 1 array\(s\)\n  required: .*\n  found: 2 object\(s\)"):
        axpy(X, ones(3), out=(ones(3), ones(3)))
    with pytest.raises(ArgumentError, match=r"`out` of @branches is 2 array\(s\)"):
        kernels["branches"](ones(2, 4), out=ones(2))


def test_outputs_that_overlap_each_other(kernels: dict[str, Kernel]) -> None:
    out = ones(3)
    with pytest.raises(ArgumentError, match="memory that overlaps `r`"):
        kernels["branches"](ones(2, 4), out=(out[:2], out[1:]))


def test_part_of_an_array_beside_the_input_is_accepted(axpy: Kernel) -> None:
    both = np.concatenate([X, np.zeros(3, dtype=np.float32)])
    axpy(both[:3], ones(3), out=both[3:])
    np.testing.assert_array_equal(both[3:], WANTED)


@pytest.mark.parametrize("n", [0, 4], ids=["in_c", "in_numpy"])
def test_sizes_that_overflow(matmul: Kernel, n: int) -> None:
    with pytest.raises(ArgumentError) as caught:
        matmul(ones(1 << 60, 0), ones(0, n))
    assert str(caught.value) == (
        "definite error: the sizes of @matmul overflow\n"
        "  required: arrays of less than 2**63 bytes each, and at most 2**47 elements along a dim\n"
        f"  found: M = {1 << 60}, K = 0, N = {n}"
    )


def test_a_size_that_no_argument_tells() -> None:
    text = "func @f(%r: buffer<[N]xf32, strides [1], space result>) symbols [N] {results = 1} { tcp.return }"
    with pytest.raises(VerifyError, match="the size `N` follows from no argument"):
        build_many([KernelRequest(module(text))], GENERIC)


def test_calls_at_the_same_time_have_their_own_workspace(kernels: dict[str, Kernel]) -> None:
    kernel, wrong = kernels["memory"], list[int]()

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).uniform(-1, 1, (400, 8)).astype(np.float32)
        wanted = np.asarray(kernel(x)).tobytes()
        wrong.extend(seed for _ in range(50) if np.asarray(kernel(x)).tobytes() != wanted)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_repr_and_attributes(axpy: Kernel) -> None:
    assert repr(axpy) == (
        "<Kernel @axpy(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> (%r: tensor<[N]xf32>) for generic, 1 thread(s)>"
    )
    assert axpy.library_path.suffix == ".so"
    assert axpy.target is GENERIC
    assert axpy.trace is None


def test_a_number_of_a_wider_dtype_is_rounded_by_the_caller() -> None:
    text = "func @f(%x: tensor<f32>) -> tensor<f32> {\n  %y = tcp.neg(%x) : tensor<f32>\n  tcp.return(%y)\n}"
    kernel = tcpx.compile(tcpx.parse(text), target="generic")
    with pytest.raises(ArgumentError) as caught:
        kernel(np.float64(0.1))
    assert caught.value.diagnostic.fix == "np.float32(..)"
    with pytest.raises(ArgumentError) as of_none:
        kernel(None)
    assert (of_none.value.diagnostic.found, of_none.value.diagnostic.fix) == ("None", None)
    assert kernel(np.float32(0.1)) == np.float32(-0.1)
    with pytest.raises(ArgumentError) as of_a_text:
        tcpx.load(text)
    assert of_a_text.value.diagnostic.fix == "tcpx.parse(text)"
