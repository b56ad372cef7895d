"""Sums of products as matrix products: what their definitions say, but for the order of the additions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tcpx
from tcpx.payload.ops import generic, sums_of_products
from tcpx.payload.ops.sums_of_products import sum_of_products
from tests.payload.test_batched_body import CASES, INTEGERS, Array, draw, numbers

WINDOWS = {
    "strides, dilation and channels": ("[n, ci, 2*oh + 3*kh, 2*ow + kw]", "[co, ci, kh, kw]", (2, 3, 14, 9)),
    "backwards": ("[n, ci, 2*oh - 3*kh + 6, ow - kw + 2]", "[co, ci, kh, kw]", (2, 3, 13, 8)),
    "depthwise": ("[n, co, oh + kh, ow + kw]", "[co, kh, kw]", (2, 5, 6, 6)),
    "one factor without a summed dim": ("[n, ci, oh + kh, ow]", "[co, kh, kw]", (2, 3, 6, 4)),
    "a fixed row": ("[n, ci, oh + kh, 1]", "[co, ow, ci, kh, kw]", (2, 3, 6, 2)),
}
EXTENTS = {"n": 2, "co": 5, "oh": 4, "ow": 4, "ci": 3, "kh": 3, "kw": 3}
BODIES = {
    "mul and add": "    %p = tcp.mul(%e, %f) : f32\n    %s = tcp.add(%p, %acc) : f32\n",
    "fma": "    %s = tcp.fma(%f, %e, %acc) : f32\n",
    "computed": "    %g = tcp.abs(%e) : f32\n    %p = tcp.mul(%g, %f) : f32\n    %s = tcp.add(%acc, %p) : f32\n",
}


def windows(name: str, body: str, start: bool) -> tuple[tcpx.Module, list[Array]]:
    first, second, shape = WINDOWS[name]
    dims = [d for d in EXTENTS if d != "ci" or "ci" in first + second]
    weights = [EXTENTS[d] for d in second.strip("[]").split(", ")]
    rng = np.random.default_rng(0)
    shapes = (shape, weights, (2, 5, 4, 4))[: 2 + start]
    arrays: list[Array] = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    kinds = {d: "reduction" if d in ("ci", "kh", "kw") else "parallel" for d in dims}
    iterators = ", ".join(f'["{d}", "{kinds[d]}", {EXTENTS[d]}]' for d in dims)
    types = [f"tensor<{'x'.join(map(str, a.shape))}xf32>" for a in arrays]
    formals = ", ".join(f"%x{k}: {held}" for k, held in enumerate(types))
    text = (
        f"func @f({formals}) -> tensor<2x5x4x4xf32> {{\n"
        f"  %y = tcp.generic(%x0, %x1{', init = %x2' if start else ''}) {{iterators = [{iterators}], "
        f'maps = [{first}, {second}, [n, co, oh, ow]], combiner = "tcp.add"}} ({{ (%e: f32, %f: f32, %acc: f32):\n'
        f"{BODIES[body]}    tcp.yield(%s)\n  }}) : tensor<2x5x4x4xf32>\n  tcp.return(%y)\n}}\n"
    )
    return tcpx.parse(text), arrays


@pytest.mark.parametrize("elements", [1, 100, 1 << 24])
@pytest.mark.parametrize(("name", "body", "start"), [*product(WINDOWS, BODIES, (False, True))])
def test_windows_are_matrix_products(
    name: str, body: str, start: bool, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, arrays = windows(name, body, start)
    monkeypatch.setattr(sums_of_products, "ELEMENTS", elements)
    wanted = tcpx.evaluate(module, *arrays)
    monkeypatch.setattr(generic.LoopNest, "run", None)
    found = tcpx.evaluate(module, *arrays, in_order=False)
    assert isinstance(found, np.ndarray)
    assert isinstance(wanted, np.ndarray)
    np.testing.assert_allclose(numbers(found), numbers(wanted), rtol=1e-5, atol=1e-4)


def test_what_does_not_reduce_is_rounded_alike() -> None:
    """Random bodies: equal integers, equal parallel results, and sums of floats but for their order."""
    matched = 0
    for seed in range(CASES):
        drawn = draw(seed)
        module = tcpx.parse(drawn.text)
        found, wanted = (tcpx.evaluate(module, *drawn.arrays, in_order=given) for given in (False, True))
        assert isinstance(found, np.ndarray)
        assert isinstance(wanted, np.ndarray)
        assert found.dtype == wanted.dtype
        if drawn.seen & INTEGERS.keys() or not drawn.seen & {"f32", "f64"} or "add" not in drawn.seen:
            np.testing.assert_array_equal(numbers(found), numbers(wanted), err_msg=drawn.text)
        else:
            np.testing.assert_allclose(numbers(found), numbers(wanted), rtol=1e-5, atol=1e-5, err_msg=drawn.text)
            matched += 1
    assert matched > 20


def test_integers_wrap_around_or_are_exact() -> None:
    rng = np.random.default_rng(0)
    for dtype, limit in ((np.int32, 100), (np.int32, 1 << 30), (np.int64, 1 << 20), (np.int64, 1 << 60)):
        a, b = rng.integers(-limit, limit, (7, 31), dtype), rng.integers(-limit, limit, (31, 5), dtype)
        wanted = np.zeros((7, 5), dtype)
        for k in range(31):
            wanted += np.outer(a[:, k], b[k])
        np.testing.assert_array_equal(sum_of_products(a, "ik", b, "kj", "ij"), wanted)
        np.testing.assert_array_equal(sum_of_products(a, "ik", b, "kj", "ji"), wanted.T)


@pytest.mark.parametrize("lhs", [(3, 0), (0, 4), (3, 4)])
def test_without_elements_a_sum_is_0(lhs: tuple[int, int]) -> None:
    found = sum_of_products(np.ones(lhs, np.float32), "ik", np.ones((lhs[1], 2), np.float32), "kj", "ij")
    np.testing.assert_array_equal(found, np.full((lhs[0], 2), lhs[1], np.float32))


def test_a_zero_times_infinity_is_no_number_where_a_factor_is_repeated() -> None:
    module = tcpx.parse(
        "func @f(%x: tensor<2x3xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {\n"
        '  %z = tcp.contract(%x, %y) {lhs = ["i", "k"], rhs = ["i"], out = ["i"]} : tensor<2xf32>\n'
        "  tcp.return(%z)\n}\n"
    )
    x = np.array([[1, -1, 0], [1e38, 1e38, 1e38]], np.float32)
    found = tcpx.evaluate(module, x, np.array([np.inf, 0], np.float32))
    np.testing.assert_array_equal(found, np.array([np.nan, 0], np.float32))
