"""The whole path gives the right numbers: digits, and every product that `packed_gemm` takes, on every target."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tcpx
from tcpx import ArgumentError, Kernel
from tcpx.target import Target
from tests.end_to_end.payloads import (
    MIN_PLUS,
    PACKED,
    PRODUCTS,
    SIZES,
    TRANSPOSED,
    TWO_K_SYMBOLIC,
    Array,
    arguments,
    check_product,
    digits_reference,
    load_digits,
)
from tests.guard_pages import run_guarded
from tests.tolerance import assert_close

BATCHES = (0, 1, 2, 7, 64, 1000)


def images(batch: int) -> Array:
    """Pixels in 0..1 in steps of 1/16, as the data has them."""
    return (np.random.default_rng(batch).integers(0, 17, (batch, 64)) / 16).astype(np.float32)


def test_digits_at_any_batch(kernels: dict[str, Kernel]) -> None:
    module, _ = load_digits()
    for batch in BATCHES:
        x = images(batch)
        wanted = digits_reference(module, x)
        plain = np.asarray(kernels["digits"](x))
        assert_close(plain, wanted, f"batch {batch}")
        (guarded,) = run_guarded(kernels["digits"], x)
        np.testing.assert_array_equal(guarded, plain)
        if batch <= 64:
            assert_close(np.asarray(tcpx.evaluate(module, x)), wanted, f"evaluator, batch {batch}")


@pytest.mark.parametrize(
    "rearrange",
    [np.asfortranarray, lambda x: np.repeat(x, 2, axis=0)[::2], lambda x: x[::-1].copy()[::-1]],
    ids=["columns first", "every second row", "backwards"],
)
def test_digits_on_non_contiguous_input(kernels: dict[str, Kernel], rearrange: Callable[[Array], Array]) -> None:
    x = images(7)
    given = rearrange(x)
    assert not given.flags.c_contiguous
    np.testing.assert_array_equal(np.asarray(kernels["digits"](given)), np.asarray(kernels["digits"](x)))


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(kernels: dict[str, Kernel], name: str) -> None:
    module = tcpx.parse(PRODUCTS[name])
    for m, n, k in SIZES:
        check_product(name, kernels[name], arguments(module, {"M": m, "N": n, "K": k}))


def test_an_empty_sum_still_gets_its_epilogue(kernels: dict[str, Kernel]) -> None:
    x, w = np.ones((3, 0), np.float32), np.ones((0, 70), np.float32)
    bias = np.arange(-35, 35, dtype=np.float32)
    found = np.asarray(kernels["linear"](x, w, bias))
    np.testing.assert_array_equal(found, np.maximum(np.broadcast_to(bias, (3, 70)), 0))
    np.testing.assert_array_equal(np.asarray(kernels["min_plus"](x, w)), np.full((3, 70), np.inf, np.float32))


def test_nan_and_infinity_pass(kernels: dict[str, Kernel]) -> None:
    x, w, bias = arguments(tcpx.parse(PRODUCTS["linear"]), {"M": 7, "N": 65, "K": 9})
    x[2, 3], x[4, 1] = np.nan, np.inf
    w[1] = 1
    found = np.asarray(kernels["linear"](x, w, bias))
    assert np.isnan(found[2]).all()
    assert np.isposinf(found[4]).all()
    others = [k for k in range(7) if k not in (2, 4)]
    assert np.isfinite(found[others]).all()


Parts = tuple[str, str | None, str | None, str | None]
REFUSED: dict[str, tuple[Callable[[Array], object], Parts]] = {
    "width": (
        lambda x: x[:, :63],
        ("argument `x` does not fit tensor<[B]x64xf32>", "64 in dim 1", "63, shape (3, 63)", None),
    ),
    "dtype": (
        lambda x: x.astype(np.float64),
        ("argument `x` does not fit tensor<[B]x64xf32>", "dtype float32", "dtype float64", ".astype(np.float32)"),
    ),
    "rank": (
        lambda x: x[0],
        ("argument `x` does not fit tensor<[B]x64xf32>", "rank 2", "rank 1, shape (64,)", None),
    ),
    "no array": (
        lambda x: "pixels",
        (
            "argument `x` does not fit tensor<[B]x64xf32>",
            "a NumPy array, or an object with DLPack or the buffer protocol",
            "str",
            "make an array of numbers of it: np.asarray(.., np.float32) does not",
        ),
    ),
}


def parts_of(error: tcpx.TcpxError) -> Parts:
    found = error.diagnostic
    return found.message, found.required, found.found, found.fix


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_arguments_are_named(kernels: dict[str, Kernel], case: str) -> None:
    make, wanted = REFUSED[case]
    with pytest.raises(ArgumentError) as caught:
        kernels["digits"](make(images(3)))
    assert parts_of(caught.value) == wanted


def test_sizes_that_disagree_are_named(kernels: dict[str, Kernel]) -> None:
    x, w = np.ones((3, 5), np.float32), np.ones((6, 4), np.float32)
    with pytest.raises(ArgumentError) as caught:
        kernels["matmul"](x, w)
    wanted = ("argument `w` does not fit tensor<[K]x[N]xf32>", "[K] = 5 in dim 0", "6, shape (6, 4)", None)
    assert parts_of(caught.value) == wanted


def test_a_generic_over_another_semiring_is_a_contract() -> None:
    module = tcpx.parse(MIN_PLUS)
    schedule = tcpx.parse_schedule(
        "language 1\nschedule main(root: func) {\nlet mm = match one contract in root\n"
        "let k, n = tile(mm, [k: 4, n: 4])\nlet p = pack(mm.rhs, [n, k], at: k)\n}"
    )
    text = tcpx.apply_schedule(module, schedule).module.text()
    assert "maps = [[m, k], [n, k], [m, n]]" in text
    assert "tcp.transpose" not in text.split("tcp.generic")[1]


def test_a_packed_contract_reads_what_is_stored() -> None:
    run = tcpx.apply_schedule(tcpx.parse(TRANSPOSED), tcpx.parse_schedule(PACKED), target="x86_avx512")
    assert 'rhs = ["k", "n"]' in run.module.text()


def test_a_second_reduction_dim_of_any_size(target: Target) -> None:
    kernel = tcpx.compile(tcpx.parse(TWO_K_SYMBOLIC), tcpx.parse_schedule(PACKED), target=target)
    random = np.random.default_rng(4)
    for m, k, j, n in ((7, 3, 0, 5), (7, 0, 3, 5), (7, 5, 4, 70), (13, 2, 9, 3)):
        x, w = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k, j), (k, j, n)))
        np.testing.assert_array_equal(np.asarray(kernel(x, w)), np.einsum("mkj,kjn->mn", x, w))
