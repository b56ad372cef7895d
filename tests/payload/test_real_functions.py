"""Real functions: the C of every target beside wider arithmetic, over whole dtypes; f64 beside mpmath."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import mpmath
import numpy as np
import pytest

import tcpx
from tcpx.payload.types import ScalarType, bf16, f16, f32, f64
from tests.optional_tools import GCC_SANITIZERS
from tests.payload.real_functions import (
    FORMATS,
    FUNCTIONS,
    SCHEDULE,
    TARGETS,
    Array,
    Function,
    Goal,
    Worst,
    kernel,
    module,
    patterns,
    worst,
)

UNARY = tuple(function for function in FUNCTIONS if function.arity == 1)
BINARY = tuple(function for function in FUNCTIONS if function.arity == 2)
EVERY = 997
EXACT: Mapping[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: max(x, 0) + mpmath.log1p(mpmath.exp(-abs(x))),
    "hardsigmoid": lambda x: min(max(x + 3, 0), 6) / 6,
    "hardswish": lambda x: max(x, -3) * min(max(x + 3, 0), 6) / 6,
}


def check(found: dict[tuple[str, str], Worst], functions: tuple[Function, ...], dtype: ScalarType) -> None:
    """No error is greater than it may be."""
    most = {function.opcode: function.most(dtype) for function in functions}
    wrong = [f"{op} on {target}: {w.ulps:.3g} ulp at {w.at}" for (op, target), w in found.items() if w.ulps > most[op]]
    assert not wrong, "\n".join(wrong)


def alone(arrays: Iterator[Array]) -> Iterator[tuple[Array, ...]]:
    return ((array,) for array in arrays)


@pytest.mark.parametrize("target", TARGETS)
def test_f32_at_every_997th_pattern(target: str) -> None:
    check(worst(UNARY, f32, alone(patterns(f32, EVERY)), (target,)), UNARY, f32)


def pairs(dtype: ScalarType, count: int, seed: int = 19) -> Iterator[tuple[Array, Array]]:
    """Pairs of which the power is a number, for bases of all sizes, next to 1 and below 0; and pairs of any bits."""
    random = np.random.default_rng(seed)
    fraction, least, most = FORMATS[dtype]
    bases = [np.exp2(random.uniform(least - fraction, most, count)), random.uniform(0.5, 2, count)]
    bases.append(1 + np.ldexp(random.uniform(-1, 1, count), -random.integers(1, fraction + 1, count)))
    for base in bases:
        x = base.astype(dtype.numpy)
        with np.errstate(all="ignore"):
            exponent = random.uniform(least - fraction - 2, most + 1, count)
            yield x, (exponent / np.log2(x, dtype=np.float64)).astype(dtype.numpy)
    yield bases[1].astype(dtype.numpy), random.uniform(-15, 15, count).astype(dtype.numpy)
    whole = random.integers(-50, 50, count).astype(dtype.numpy)
    yield -bases[1].astype(dtype.numpy), whole
    bits = [random.integers(0, 1 << dtype.bits, count, dtype=np.uint64).astype(f"u{dtype.bytes}") for _ in range(2)]
    yield bits[0].view(dtype.numpy), bits[1].view(dtype.numpy)


@pytest.mark.parametrize("dtype", [f64, f32, f16, bf16], ids=str)
def test_powers(dtype: ScalarType) -> None:
    check(worst(BINARY, dtype, pairs(dtype, 40_000), TARGETS), BINARY, dtype)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("dtype", [f64, f32], ids=str)
def test_many_powers(dtype: ScalarType) -> None:
    for seed in range(20):
        check(worst(BINARY, dtype, pairs(dtype, 1 << 20, seed), TARGETS), BINARY, dtype)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.opcode)
def test_f32_at_all_patterns(function: Function, part: int) -> None:
    check(worst((function,), f32, alone(patterns(f32, 8, part)), TARGETS), (function,), f32)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_halves_at_all_patterns(dtype: ScalarType) -> None:
    check(worst(UNARY, dtype, alone(patterns(dtype)), TARGETS), UNARY, dtype)


def drawn(count: int) -> Array:
    """Numbers of all sizes, and those between which functions change their ways."""
    random = np.random.default_rng(11)
    bits = random.integers(0, 1 << 64, count, dtype=np.uint64).view(np.float64)
    near = [random.uniform(-end, end, count) for end in (1, 5, 50, 750)]
    small = 10.0 ** random.uniform(-30, 2, count) * random.choice([-1, 1], count)
    edges = [0, 5e-324, 2.0**-1022, 1, 2, np.sqrt(0.5), 709.7827128933840, 745.2, 1e300, np.inf]
    return np.concatenate([bits, *near, small, edges, np.negative(edges), [np.nan], 1 + near[0] * 2.0**-20])


def test_f64_beside_mpmath() -> None:
    x = drawn(150)
    results = {target: kernel(UNARY, f64, target)(x) for target in TARGETS}
    found = {(function.opcode, target): Worst() for function in UNARY for target in TARGETS}
    for k, function in enumerate(UNARY):
        goal = Goal(exact(function, x), f64)
        for target in TARGETS:
            value = np.asarray(results[target][k])
            found[function.opcode, target].join(goal.ulps(value), [x], value)
    check(found, UNARY, f64)


def exact(function: Function, *args: Array) -> Array:
    """Rounded to long double; what mpmath has no real value for, as NumPy has it."""
    with np.errstate(all="ignore"):
        wide = function.wide(*(a.astype(np.longdouble) for a in args)).astype(np.longdouble)
    for k, numbers in enumerate(zip(*args, strict=True)):
        if np.isfinite(wide[k]) and wide[k] != 0 and all(map(np.isfinite, numbers)):
            with mpmath.workprec(128):
                of = EXACT.get(function.opcode) or getattr(mpmath, function.opcode)
                value = of(*(mpmath.mpf(float(a)) for a in numbers))
                mantissa, exponent = mpmath.frexp(value)
                high = float(mantissa)
                low = float(mantissa - high)
            wide[k] = np.ldexp(np.longdouble(high) + np.longdouble(low), int(exponent))
    return wide


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
        check(worst(functions, dtype, ((b.astype(dtype.numpy),) for b in blocks), (target,)), functions, dtype)


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
