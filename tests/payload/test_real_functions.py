"""Real functions: the C of every target beside wider arithmetic, over whole dtypes; f64 beside mpmath."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import tcpx
from tcpx.payload.types import ScalarType, bf16, f16, f32, f64
from tests.optional_tools import GCC_SANITIZERS
from tests.payload.accuracy import ALL, PAGE, SAMPLED, differences, page, recorded
from tests.payload.real_functions import (
    BINARY,
    FUNCTIONS,
    SCHEDULE,
    TARGETS,
    UNARY,
    Function,
    Worst,
    alone,
    drawn,
    kernel,
    module,
    pairs,
    patterns,
    sampled,
    worst,
)

COORDINATES = tuple(function for function in UNARY if function.opcode in ("asin", "acos", "atan"))
HYPERBOLIC = tuple(f for f in UNARY if f.opcode in ("sinh", "cosh", "asinh", "acosh", "atanh"))
ANGLES = tuple(function for function in BINARY if function.opcode == "atan2")


def check(found: Mapping[tuple[str, str], Worst], dtype: ScalarType, at: str | None = SAMPLED) -> None:
    """No error is greater than it may be, nor than docs/accuracy.md says of what is computed."""
    most = {function.opcode: function.most(dtype) for function in FUNCTIONS}
    wrong = [f"{op} on {target}: {w.ulps:.3g} ulp at {w.at}" for (op, target), w in found.items() if w.ulps > most[op]]
    assert not wrong, "\n".join(wrong)
    assert at is None or differences(found, dtype, at) == []


@pytest.mark.parametrize(
    ("dtype", "targets"),
    [
        *(pytest.param(f32, (target,), id=f"f32-{target}") for target in TARGETS),
        *(pytest.param(dtype, TARGETS, id=str(dtype)) for dtype in (f64, f16, bf16)),
    ],
)
def test_at_samples(dtype: ScalarType, targets: Sequence[str]) -> None:
    """Every 997th pattern of f32, all of f16 and bf16, f64 beside mpmath; pairs of which powers are taken."""
    check(sampled(dtype, targets), dtype)


def test_page_is_as_it_is_written() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(recorded())


def test_other_errors_are_told() -> None:
    """Greater ones, and where the page says more than is measured."""
    found = {("exp", "generic"): Worst(recorded()[f32, SAMPLED, "exp", "generic"] + 0.2, "here")}
    assert [line.split(":")[0] for line in differences(found, f32, SAMPLED)] == ["exp of f32 on generic"]
    found = {("exp", "generic"): Worst(0.1, "here")}
    assert "make accuracy" in differences(found, f32, SAMPLED)[0]
    assert differences(found, f32, ALL) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("dtype", [f64, f32], ids=str)
def test_many_powers(dtype: ScalarType) -> None:
    for seed in range(20):
        check(worst(BINARY, dtype, pairs(dtype, 1 << 20, seed), TARGETS), dtype, ALL)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.opcode)
def test_f32_at_all_patterns(function: Function, part: int) -> None:
    check(worst((function,), f32, alone(patterns(f32, 8, part)), TARGETS), f32, ALL)


@pytest.mark.parametrize("target", TARGETS)
def test_angles_next_to_multiples_of_half_a_right_angle(target: str) -> None:
    """Of what is left of these and of others near them no bit is lost (Muller, Elementary Functions, section 9.3)."""
    functions = tuple(function for function in UNARY if function.opcode in ("sin", "cos", "tan"))
    multiples = np.arange(1, 4000) * (np.pi / 4)
    worst_angles = np.ldexp(np.array([16367173.0, 15464681.0, 8426641.0]), [72, 19, 3])
    for dtype, most in ((f32, 2.0**17), (f64, 2.0**21)):  # from these on, angles are large
        ends = np.nextafter(dtype.numpy.type(most), np.array([0, np.inf], dtype.numpy))
        edges = np.array([0.0, -0.0, most, -most, *ends, *-ends, np.inf, -np.inf, np.nan])
        blocks = [multiples, -multiples * 2.0**20, multiples * 20, multiples * 400, worst_angles, edges]
        check(worst(functions, dtype, ((b.astype(dtype.numpy),) for b in blocks), (target,)), dtype, None)


@GCC_SANITIZERS.needed
def test_the_sanitizers_find_nothing() -> None:
    """In vectors: no integer overflows, no shift is past the width."""
    for dtype in (f32, f64):
        with np.errstate(over="ignore"):
            x = drawn(50).astype(dtype.numpy)
        schedule = tcpx.parse_schedule(SCHEDULE)
        made = tcpx.compile(module(UNARY, dtype), schedule, target="generic", sanitize=True)
        for found, wanted in zip(made(x), kernel(UNARY, dtype, "generic")(x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype == f32 else 1e-13, atol=0)


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_angles_of_coordinates(dtype: ScalarType) -> None:
    """Of the unit circle at its ends, at 1/2, where the way of computing changes, and beyond 1; of points of all sizes
    next to the diagonals, and of every pair of zeros, infinities, NaN and numbers."""
    random = np.random.default_rng(3)
    unit = random.uniform(-1, 1, 4000)
    blocks = [unit, 1 - unit * 1e-4, 1 - 10.0 ** random.uniform(-16, 0, 4000), 0.5 + unit * 1e-5, 3 / unit]
    check(worst(COORDINATES, dtype, ((np.append(b, -b).astype(dtype.numpy),) for b in blocks), TARGETS), dtype, None)

    numbers = [0, 5e-324, 1e-310, 1e-40, 0.5, 1, 2, 3e38, 1e300, np.inf, np.nan]
    with np.errstate(over="ignore"):
        special = np.append(numbers, np.negative(numbers)).astype(dtype.numpy)
        slopes, scales = random.uniform(0.5, 2, 4000), 10.0 ** random.uniform(-320, 308, 4000)
        sloping = (slopes * scales).astype(dtype.numpy), np.copysign(scales, unit).astype(dtype.numpy)
    every = special.repeat(special.size), np.tile(special, special.size)
    check(worst(ANGLES, dtype, iter([every, sloping]), TARGETS), dtype, None)


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_hyperbolic_functions(dtype: ScalarType) -> None:
    """Next to where results are infinite, to 1, of numbers of all sizes, and of zeros, infinities and NaN."""
    random = np.random.default_rng(5)
    unit = random.uniform(-1, 1, 4000)
    ends = np.log(2) * (128 if dtype == f32 else 1024) + unit * 2
    small = 10.0 ** random.uniform(-16, 0, 4000)
    special = np.array([0, 5e-324, 1e-310, 1e-40, 0.5, 1, 2, 3e38, 1e300, np.inf, np.nan])
    with np.errstate(over="ignore"):
        blocks = [
            np.append(b, -b).astype(dtype.numpy)
            for b in (ends, 1 + small, 1 - small, 2 * unit, unit / small, unit * 1e-12 / small, special)
        ]
    check(worst(HYPERBOLIC, dtype, alone(iter(blocks)), TARGETS), dtype, None)
