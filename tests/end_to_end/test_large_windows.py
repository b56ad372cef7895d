"""Poolings of large windows: one dim is combined after the others, with the same result as NumPy tap by tap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.target import load_target
from tests.optional_tools import require_cpu_of
from tests.window_cases import WindowCase

FIRST, LAST = (0, 1, 2, 3), (0, 2, 3, 1)
"""Channels outermost and innermost."""


def case(
    kind: str, order: tuple[int, ...], extents: tuple[int, ...], kernel: tuple[int, ...], **more: Any
) -> WindowCase:
    """A pooling of 19 channels, padded by half a window unless `padding` says otherwise."""
    rank = len(extents)
    low, high = more.pop("padding", (tuple(k // 2 for k in kernel),) * 2)
    given = {"strides": (1,) * rank, "dilations": (1,) * rank, "dtypes": ("f32", "f32"), "seed": sum(kernel)} | more
    return WindowCase(
        kind, extents=extents, kernel=kernel, low=low, high=high, channels=(1, 19, 1),
        order=order, weights=order, results=order, **given,
    )  # fmt: skip


CASES = [
    one
    for order in (FIRST, LAST)
    for one in (
        case("max", order, (13, 41), (5, 5)),
        case("max", order, (9, 35), (9, 9)),
        case("min", order, (11, 37), (3, 7), dtypes=("f64", "f64")),
        case("max", order, (12, 39), (7, 5), dtypes=("si32", "si32"), epilogue="neg"),
        case("sum", order, (10, 38), (6, 4), padding=((0, 0), (0, 0)), epilogue="residual"),
        case("average", order, (14, 35), (5, 5), epilogue="bias"),
        case("max", order, (23, 67), (5, 5), strides=(2, 2)),
        case("max", order, (19, 43), (5, 3), strides=(1, 2), dilations=(2, 3)),
        case("max", order, (8, 33), (5, 5), padding=((1, 0), (3, 2)), is_ceil=True, strides=(2, 2)),
        case("max", order, (3, 2), (5, 5)),
        case("max", order, (1, 1), (7, 7)),
        case("max", order, (9, 35), (5, 5), is_symbolic=True),
        case("max", order, (9, 35), (5, 5), has_init=True),
    )
] + [
    case("max", (0, 1, 2, 3, 4), (5, 6, 37), (3, 5, 5)),
    case("max", (0, 2, 3, 4, 1), (5, 6, 17), (3, 3, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("target", "threads"), [("x86_avx512", 1), ("x86_avx2", 2)])
def test_numbers(target: str, threads: int) -> None:
    require_cpu_of(load_target(target))
    requests = [tcpx.CompileRequest(tcpx.parse(one.text), name=f"f{k}") for k, one in enumerate(CASES)]
    kernels = tcpx.compile_many(requests, target=target, threads=threads)
    for one, kernel in zip(CASES, kernels, strict=True):
        for call in one.calls():
            given = call.arguments()
            found, wanted = np.asarray(kernel(*given), np.float64), np.asarray(call.expected(given), np.float64)
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6, err_msg=call.text)


@pytest.mark.parametrize("order", [FIRST, LAST])
def test_numbers_that_are_not_finite(order: tuple[int, ...]) -> None:
    """A maximum of windows with NaN is NaN, whichever dim is combined first."""
    one = case("max", order, (13, 41), (5, 5))
    module = tcpx.parse(one.text)
    x = one.arguments()[0]
    x.flat[::97], x.flat[::53], x.flat[::41] = np.nan, np.inf, -np.inf
    kernel = tcpx.compile(module, target="x86_avx2")
    np.testing.assert_array_equal(kernel(x), tcpx.evaluate(module, x))


@pytest.mark.parametrize(
    ("order", "kernel", "is_separable"),
    [(FIRST, (5, 5), True), (LAST, (5, 5), True), (LAST, (2, 2), False), (LAST, (1, 9), False)],
)
def test_separable_where_it_is_less_work(order: tuple[int, ...], kernel: tuple[int, int], is_separable: bool) -> None:
    text = case("max", order, (56, 56), kernel).text
    assert ("y.first" in tcpx.emit(tcpx.parse(text), target="x86_avx2").c_source) == is_separable
