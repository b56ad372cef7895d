"""Windows at the ends of rows: taps in the padding are no instructions; results are those of NumPy tap by tap."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.target import load_target
from tests.optional_tools import require_cpu_of
from tests.window_cases import WindowCase

LAST = (0, 2, 3, 1)
"""Channels lie innermost."""


def case(
    extents: tuple[int, int],
    kernel: tuple[int, int],
    low: tuple[int, int],
    high: tuple[int, int],
    channels: tuple[int, int] = (17, 33),
    *,
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    depthwise: bool = False,
    symbolic: bool = False,
) -> WindowCase:
    """A convolution whose filter is stored. With `depthwise`, each of the first number of channels is alone."""
    inner, features = channels
    own = (inner, 1, 1) if depthwise else (1, inner, features)
    weights = (1, 2, 0) if depthwise else (2, 3, 1, 0)
    return WindowCase(
        "conv", ("f32", "f32"), extents, kernel, strides, dilations, low, high, own, LAST, weights, LAST,
        is_depthwise=depthwise, is_symbolic=symbolic, epilogue="neg", is_stored=True, seed=extents[0],
    )  # fmt: skip


CASES = [
    case((7, 7), (3, 3), (1, 1), (1, 1)),
    case((5, 13), (3, 3), (1, 1), (1, 1)),
    case((4, 9), (3, 5), (0, 2), (2, 1)),
    case((9, 11), (3, 3), (1, 1), (1, 1), strides=(2, 2)),
    case((8, 8), (3, 3), (2, 2), (2, 2), dilations=(2, 2)),
    case((6, 7), (5, 3), (2, 1), (2, 1), (3, 40)),
    case((2, 3), (3, 3), (3, 3), (3, 3)),
    case((2, 2), (7, 7), (3, 3), (3, 3), (9, 8)),
    case((7, 6), (1, 3), (0, 1), (0, 1)),
    case((7, 6), (3, 1), (1, 0), (1, 0)),
    case((7, 7), (3, 3), (1, 1), (1, 1), symbolic=True),
    case((7, 7), (7, 7), (3, 3), (3, 3), (19, 19), depthwise=True),
    case((14, 14), (5, 5), (2, 2), (2, 2), (16, 16), depthwise=True),
    case((9, 27), (7, 7), (3, 3), (3, 3), (33, 33), depthwise=True),
    case((3, 5), (5, 5), (4, 4), (4, 1), (16, 16), depthwise=True),
    case((11, 9), (5, 5), (2, 2), (2, 2), (20, 20), strides=(2, 2), depthwise=True),
    case((9, 8), (5, 5), (4, 4), (4, 4), (8, 8), dilations=(2, 2), depthwise=True),
    case((7, 7), (5, 5), (2, 2), (2, 2), (16, 16), depthwise=True, symbolic=True),
]


@pytest.mark.parametrize(("target", "threads"), [("x86_avx512", 1), ("x86_avx2", 2)])
def test_numbers(target: str, threads: int) -> None:
    require_cpu_of(load_target(target))
    given = [one.arguments() for one in CASES]
    modules = [tcpx.parse(one.text, constants=Constants({"w": w})) for one, (_, w) in zip(CASES, given, strict=True)]
    requests = [tcpx.CompileRequest(module, name=f"f{k}") for k, module in enumerate(modules)]
    kernels = tcpx.compile_many(requests, target=target, threads=threads)
    for one, kernel, (x, w) in zip(CASES, kernels, given, strict=True):
        np.testing.assert_array_equal(kernel(x), one.expected([x, w]), err_msg=one.text)


def pooling(
    kind: str, extents: tuple[int, ...], kernel: tuple[int, ...], strides: tuple[int, ...], padding: int, **more: Any
) -> WindowCase:
    """A pooling of channels that lie outermost: rows are read."""
    rank, order = len(extents), tuple(range(len(extents) + 2))
    own = (1,) * rank, (padding,) * rank, (padding,) * rank, (1, 3, 1), order, order, order
    dtypes = more.pop("dtypes", ("f32", "f32"))
    return WindowCase(kind, dtypes, extents, kernel, strides, *own, **more)


POOLINGS = [
    pooling("max", (11, 75), (3, 3), (2, 2), 1),
    pooling("max", (6, 66), (2, 2), (2, 2), 0, epilogue="neg"),
    pooling("max", (7, 35), (3, 3), (1, 1), 1, epilogue="bias"),
    pooling("max", (2, 1), (3, 3), (2, 2), 1),
    pooling("max", (9, 71), (5, 5), (2, 2), 2),
    pooling("max", (3, 40), (5, 5), (1, 1), 2),
    pooling("max", (9, 40), (3, 3), (2, 2), 1, is_symbolic=True),
    pooling("max", (9, 70), (3, 3), (2, 2), 1, dtypes=("si32", "si32")),
    pooling("min", (8, 39), (2, 3), (1, 2), 1, dtypes=("f64", "f64")),
    pooling("sum", (5, 67), (2, 2), (2, 2), 0),
    pooling("average", (8, 38), (3, 3), (2, 2), 1),
    pooling("max", (77,), (4,), (2,), 1),
    pooling("max", (5, 6, 37), (2, 3, 3), (1, 2, 2), 1),
]


@pytest.mark.parametrize(("target", "threads"), [("x86_avx512", 1), ("x86_avx2", 2)])
def test_poolings_of_rows(target: str, threads: int) -> None:
    require_cpu_of(load_target(target))
    modules = [tcpx.parse(one.text) for one in POOLINGS]
    requests = [tcpx.CompileRequest(module, name=f"f{k}") for k, module in enumerate(modules)]
    kernels = tcpx.compile_many(requests, target=target, threads=threads)
    for one, kernel in zip(POOLINGS, kernels, strict=True):
        given = one.arguments()
        found, wanted = np.asarray(kernel(*given), np.float64), np.asarray(one.expected(given), np.float64)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6, err_msg=one.text)


def products(one: WindowCase, w: npt.NDArray[np.float32]) -> int:
    """How many products of vectors the C has."""
    module = tcpx.parse(one.text, constants=Constants({"w": w}))
    return tcpx.emit(module, target="x86_avx512").c_source.count("_mm512_fmadd_ps(")


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        (case((7, 7), (3, 3), (1, 1), (1, 1), (64, 64)), 4 * (6 + 7 + 6)),  # 4 vectors of channels
        (case((7, 7), (3, 3), (0, 0), (0, 0), (64, 64)), 4 * 5),  # a loop over taps: there is no padding
        (case((28, 28), (3, 3), (1, 1), (1, 1), (64, 64)), 4 * 7 * 3),  # a loop at both ends and between
        (case((7, 7), (7, 7), (3, 3), (3, 3), (16, 16), depthwise=True), 4 + 5 + 6 + 7 + 6 + 5 + 4),
        (case((14, 14), (3, 3), (1, 1), (1, 1), (16, 16), depthwise=True), 13 + 14 + 13),
    ],
)
def test_taps_in_the_padding_are_no_instructions(one: WindowCase, wanted: int) -> None:
    assert products(one, one.arguments()[1]) == wanted


EXPLICIT = """\
func @f(%x: tensor<1x7x7x16xf32>) -> tensor<1x7x7xCxf32> {
  %w = tcp.const {constant = "w"} : tensor<SHAPExf32>
  %p = tcp.pad(%x) {value = 0.0, low = [0, 1, 1, 0]} : tensor<1x9x9x16xf32>
  %y = tcp.convolution(%p, %w) {input = ["b", "h+k", "w+l", "c"], filter = FILTER, out = ["b", "h", "w", "d"]}
      : tensor<1x7x7xCxf32>
  tcp.return(%y)
}
"""
DENSE = EXPLICIT.replace("SHAPE", "3x3x16x48").replace("C", "48").replace("FILTER", '["k", "l", "c", "d"]')
ALONE = (
    EXPLICIT.replace("SHAPE", "3x3x16").replace("C", "16").replace("FILTER", '["k", "l", "c"]').replace('"d"', '"c"')
)


@pytest.mark.parametrize("text", [DENSE, ALONE])
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_padding_times_what_is_not_finite_is_nan(text: str, number: float) -> None:
    """A `tcp.pad` before the windows is multiplied: 0 * inf is NaN."""
    w = np.ones((3, 3, 16, 48) if text is DENSE else (3, 3, 16), np.float32)
    w[1, 0] = number
    kernel = tcpx.compile(tcpx.parse(text, constants={"w": w}), target="x86_avx2")
    found = np.asarray(kernel(np.ones((1, 7, 7, 16), np.float32)))
    assert np.isnan(found[0, :, 0]).all()
    assert np.array_equal(np.isnan(found[0, :, 1:]).all(), np.isnan(number))
