"""Arguments and results whose rows lie any distance apart: right, not copied, and nothing is written between rows."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx import ArgumentError, Kernel
from tcpx.emit_c.arguments import ArgumentCheck
from tcpx.target import Target
from tests.guard_pages import run_guarded

Array = npt.NDArray[Any]

PRODUCT = """\
func @product(%x: tensor<[M]x[K]xf32> strided, %w: tensor<[K]x[N]xf32> strided) -> tensor<[M]x[N]xf32> strided
    symbols [M, N, K] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
STATIC = (
    PRODUCT.replace("@product", "@static")
    .replace(" symbols [M, N, K]", "")
    .replace("[M]", "13")
    .replace("[N]", "17")
    .replace("[K]", "9")
)
BATCH = """\
func @batch(%x: tensor<[B]x[M]x[K]xf32> strided, %w: tensor<[B]x[K]x[N]xf32> strided)
    -> tensor<[B]x[M]x[N]xf32> strided symbols [B, M, N, K] {
  %mm = tcp.contract(%x, %w) {lhs = ["b", "m", "k"], rhs = ["b", "k", "n"], out = ["b", "m", "n"]}
      : tensor<[B]x[M]x[N]xf32>
  tcp.return(%mm)
}
"""
LAYER = """\
func @layer(%x: tensor<[M]x[K]xf32> strided, %w: tensor<[K]x[N]xf32>, %b: tensor<[N]xf32>,
            %r: tensor<[M]x[N]xf32> strided) -> (tensor<[M]x[N]xf32> strided, tensor<[M]xf32>) symbols [M, N, K] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  %bias = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x[N]xf32>
  %sum = tcp.add(%mm, %bias) : tensor<[M]x[N]xf32>
  %y = tcp.add(%sum, %r) : tensor<[M]x[N]xf32>
  %total = tcp.reduce_sum(%y) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%y, %total)
}
"""
HALVES = """\
func @halves(%x: tensor<[M]x[N]xbf16> strided) -> tensor<[M]x[N]xf32> strided symbols [M, N] {
  %y = tcp.cast(%x) : tensor<[M]x[N]xf32>
  tcp.return(%y)
}
"""
FLAT = """\
func @flat(%x: tensor<[M]x4xf32> strided) -> (tensor<[4*M]xf32>, tensor<2x[2*M]xf32> strided) symbols [M] {
  %f = tcp.reshape(%x) : tensor<[4*M]xf32>
  %h = tcp.reshape(%x) : tensor<2x[2*M]xf32>
  tcp.return(%f, %h)
}
"""
HANDED_ON = """\
func @handed_on(%x: tensor<[M]x3xf32> strided) -> tensor<[M]x3xf32> strided symbols [M] { tcp.return(%x) }
"""
TEXTS = (PRODUCT, STATIC, BATCH, LAYER, HALVES, FLAT, HANDED_ON)
SIZES = ((0, 4, 3), (4, 0, 3), (3, 5, 0), (1, 1, 1), (5, 7, 3), (33, 70, 13), (127, 61, 95))
FILLER = 7


@pytest.fixture(scope="module")
def strided(target: Target) -> dict[str, Kernel]:
    """The payloads of this file, by name."""
    made = tcpx.compile_many([tcpx.CompileRequest(tcpx.parse(text)) for text in TEXTS], target=target)
    return {kernel.signature.name: kernel for kernel in made}


def integers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def spread(array: Array, gap: int = 3) -> Array:
    """The same numbers as a block of a larger array of `FILLER`, `gap` elements behind each row."""
    larger = np.full([n + gap for n in array.shape], FILLER, dtype=array.dtype)
    inner = larger[tuple(slice(1, n + 1) for n in array.shape)]
    inner[...] = array
    return inner


def assert_only_inside(block: Array) -> None:
    """What lies round a block that `spread` made is as it was."""
    larger = np.asarray(block.base).copy()
    larger[tuple(slice(1, n + 1) for n in block.shape)] = FILLER
    assert (larger == FILLER).all()


def check(kernel: Kernel, given: Sequence[Array], expected: Array) -> None:
    """Contiguous, in blocks, with and without `out`, bound, and at the edge of memory."""
    blocks = [spread(a) for a in given]
    out = spread(np.zeros_like(expected))
    assert kernel(*blocks, out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert_only_inside(out)
    out[...] = FILLER
    assert kernel.bind(*blocks, out=out)() is out
    np.testing.assert_array_equal(out, expected)
    assert_only_inside(out)
    np.testing.assert_array_equal(kernel(*blocks), expected)
    np.testing.assert_array_equal(kernel(*given), expected)
    (found,) = run_guarded(kernel, *given)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products(strided: dict[str, Kernel], sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    x, w = integers(1, m, k), integers(2, k, n)
    check(strided["product"], (x, w), x @ w)


def test_static_sizes(strided: dict[str, Kernel]) -> None:
    x, w = integers(1, 13, 9), integers(2, 9, 17)
    check(strided["static"], (x, w), x @ w)


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_batches(strided: dict[str, Kernel], batch: int) -> None:
    x, w = integers(1, batch, 5, 9), integers(2, batch, 9, 19)
    check(strided["batch"], (x, w), x @ w)


def test_dims_in_another_order_and_repeated(strided: dict[str, Kernel]) -> None:
    x, w, out = integers(1, 5, 3, 9), integers(2, 9, 19), np.zeros((5, 3, 19), np.float32)
    heads, same = x.transpose(1, 0, 2), np.broadcast_to(w, (3, 9, 19))
    strided["batch"](heads, same, out=out.transpose(1, 0, 2))
    np.testing.assert_array_equal(out, x @ w)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_layer_with_two_results(strided: dict[str, Kernel], sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    x, w, b, r = integers(1, m, k), integers(2, k, n), integers(3, n), integers(4, m, n)
    y = x @ w + b + r
    out = (spread(np.zeros((m, n), np.float32)), np.zeros(m, np.float32))
    strided["layer"](x[::-1], spread(w), b, spread(r)[::-1], out=out)
    np.testing.assert_array_equal(out[0], y[::-1])
    np.testing.assert_array_equal(out[1], y.sum(axis=1)[::-1])
    assert_only_inside(out[0])
    for found, expected in zip(run_guarded(strided["layer"], x, w, b, r), (y, y.sum(axis=1)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_two_byte_floats(strided: dict[str, Kernel]) -> None:
    x = integers(1, 7, 21).astype(tcpx.argument_dtypes(tcpx.parse(HALVES))["x"])
    check(strided["halves"], (x,), x.astype(np.float32))


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_other_shapes_of_strided_arrays_are_copies(strided: dict[str, Kernel], rows: int) -> None:
    x = integers(1, rows, 4)
    out = (np.zeros(4 * rows, np.float32), spread(np.zeros((2, 2 * rows), np.float32)))
    strided["flat"](spread(x), out=out)
    np.testing.assert_array_equal(out[0], x.reshape(-1))
    np.testing.assert_array_equal(out[1], x.reshape(2, -1))
    assert_only_inside(out[1])


def test_the_copy_of_another_shape_is_a_remark() -> None:
    schedule = tcpx.parse_schedule("language 1\nschedule s(root: func) { bufferize(root) }")
    run = tcpx.apply_schedule(tcpx.parse(FLAT), schedule)
    assert run.module.main.attributes["remarks"] == (
        "copies %x: tensor<[M]x4xf32> for %f (tcp.reshape), because the rows of %x are strided",
        "copies %x: tensor<[M]x4xf32> for %h (tcp.reshape), because the rows of %x are strided",
    )


def test_an_argument_handed_on(strided: dict[str, Kernel]) -> None:
    x = integers(1, 5, 3)
    check(strided["handed_on"], (x,), x)


def test_nothing_is_copied(strided: dict[str, Kernel]) -> None:
    x, w = spread(np.ones((512, 512), np.float32)), spread(np.ones((512, 8), np.float32))
    out = spread(np.ones((512, 8), np.float32))
    assert allocated(strided["product"], (x, w), out) < x.nbytes // 16
    plain = tcpx.compile(tcpx.parse(PRODUCT.replace(" strided", "")), target="generic")
    assert allocated(plain, (x, w), np.empty((512, 8), np.float32)) >= x.nbytes


def allocated(kernel: Kernel, given: tuple[Array, ...], out: Array) -> int:
    """The most bytes that a second call holds at once, as far as Python and NumPy allocate them."""
    kernel(*given, out=out)
    tracemalloc.start()
    try:
        kernel(*given, out=out)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


TAKEN: dict[str, Callable[[Array], Array]] = {
    "block": spread,
    "every_second_row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "one_row_repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    "one_column": lambda x: x[:, :1],
    "one_row": lambda x: x[:1, ::2][:, :1],
}
COPIED: dict[str, Callable[[Array], Array]] = {
    "transposed": np.asfortranarray,
    "every_second_column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "one_element_repeated": lambda x: np.broadcast_to(x[0, 0], x.shape),
    "rows_backwards": lambda x: x[::-1],
    "columns_backwards": lambda x: x[:, ::-1],
    "misaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape),
    "rows_not_of_whole_elements": lambda x: np.ndarray(x.shape, x.dtype, bytes(1000), strides=(42, 4)),
    "other_byte_order": lambda x: spread(x.astype(">f4")),
}


@pytest.mark.parametrize(("case", "copies"), [*((c, False) for c in TAKEN), *((c, True) for c in COPIED)])
def test_what_is_copied(strided: dict[str, Kernel], case: str, copies: bool) -> None:
    kernel = strided["product"]
    x = {**TAKEN, **COPIED}[case](integers(1, 6, 9))
    w = integers(2, x.shape[1], 17)
    assert (ArgumentCheck(kernel.signature).adapt(0, x) is not x) == copies
    np.testing.assert_array_equal(kernel(x, w), x @ w)


X, W = integers(1, 4, 3), integers(2, 3, 5)
ROWS = "neighbours of the innermost dim side by side, and strides >= 0 of whole elements"
REFUSED: dict[str, tuple[Callable[[], Array], str, str]] = {
    "transposed": (lambda: np.zeros((5, 4), np.float32).T, ROWS, "strides (4, 16) of bytes"),
    "columns": (lambda: np.zeros((4, 10), np.float32)[:, ::2], ROWS, "strides (40, 8) of bytes"),
    "backwards": (lambda: np.zeros((4, 5), np.float32)[::-1], ROWS, "strides (-20, 4) of bytes"),
    "shape": (lambda: np.zeros((9, 9), np.float32)[:4, :4], "[N] = 5 in dim 1", "4, shape (4, 4)"),
    "misaligned": (
        lambda: np.zeros(97, np.uint8)[1:].view(np.float32).reshape(4, 6)[:, :5],
        "memory aligned to 4 bytes",
        "an array that is not aligned",
    ),
    "repeated": (
        lambda: np.lib.stride_tricks.as_strided(np.zeros(5, np.float32), (4, 5), (0, 4)),
        "a place of its own for every element",
        "strides (0, 4) of bytes",
    ),
    "overlapping_rows": (
        lambda: np.lib.stride_tricks.as_strided(np.zeros(17, np.float32), (4, 5), (16, 4)),
        "a place of its own for every element",
        "strides (16, 4) of bytes",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_outputs_that_are_refused(strided: dict[str, Kernel], case: str) -> None:
    make, required, found = REFUSED[case]
    with pytest.raises(ArgumentError) as caught:
        strided["product"](X, W, out=make())
    assert str(caught.value) == (
        f"definite error: argument `out` does not fit tensor<[M]x[N]xf32>\n  required: {required}\n  found: {found}"
    )


def test_a_contiguous_kernel_says_how_to_write_to_rows() -> None:
    plain = tcpx.compile(tcpx.parse(PRODUCT.replace(" strided", "")), target="generic")
    with pytest.raises(ArgumentError) as caught:
        plain(X, W, out=spread(np.zeros((4, 5), np.float32)))
    assert str(caught.value) == (
        "definite error: argument `out` does not fit tensor<[M]x[N]xf32>\n"
        "  required: a contiguous array in row-major order\n  found: strides (32, 4) of bytes\n"
        "  fix: compile with `strided=True`"
    )


def test_blocks_of_one_matrix(strided: dict[str, Kernel]) -> None:
    whole = np.zeros((9, 9), np.float32)
    whole[:4, :3], whole[4:7, 3:8] = X, W
    strided["product"](whole[:4, :3], whole[4:7, 3:8], out=whole[:4, 3:8])
    np.testing.assert_array_equal(whole[:4, 3:8], X @ W)
    with pytest.raises(ArgumentError) as caught:
        strided["product"](whole[:4, :3], whole[4:7, 3:8], out=whole[2:6, 4:9])
    assert str(caught.value) == (
        "definite error: argument `out` does not fit tensor<[M]x[N]xf32>\n"
        "  required: memory of its own: a kernel reads its inputs while it writes its outputs\n"
        "  found: memory that overlaps `w`\n  fix: pass another array as `out`, or none"
    )


def test_compile_with_strides(target: Target) -> None:
    plain = tcpx.parse(PRODUCT.replace(" strided", ""))
    kernel = tcpx.compile(plain, target=target, strided=True)
    assert str(kernel.signature) == str(tcpx.compile(tcpx.parse(PRODUCT), target=target).signature)
    assert kernel.c_source == tcpx.compile(tcpx.parse(PRODUCT), target=target).c_source
    assert "strided" not in plain.text()
    assert kernel.c_source == tcpx.emit(plain, target=target, strided=True).c_source


def test_c_checks_strides() -> None:
    kernel = tcpx.compile(tcpx.parse(HANDED_ON), target="generic")
    x, out = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32)
    addresses = [x.ctypes.data, out.ctypes.data]
    codes = [kernel.call_raw(addresses, [4, *strides], 0) for strides in ((3, 3), (-3, 3), (3, -1), (3, 1 << 62))]
    assert codes == [0, 1, 1, 2]


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(target: Target, threads: int) -> None:
    kernel = tcpx.compile(tcpx.parse(PRODUCT), target=target, threads=threads)
    x, w = integers(1, 300, 290), integers(2, 290, 310)
    check(kernel, (x, w), x @ w)
