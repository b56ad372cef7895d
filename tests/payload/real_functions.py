"""Real functions, and the error of the C of a target in units of the last place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from math import erf, inf
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt

import tcpx
from tcpx.payload.types import ScalarType, bf16, f16, f32, f64
from tests.optional_tools import require_cpu_of

Array = npt.NDArray[Any]
TARGETS = ("generic", "x86_avx2", "x86_avx512")
BLOCK = 1 << 18
SCHEDULE = """
language 1
schedule s(root: func) {
  for y in match any elementwise in root {
    let i = tile(y, [d0: lanes(dtype(y.out))], tail: pad)
    vectorize(i)
  }
}
"""
FORMATS: Mapping[ScalarType, tuple[int, int, int]] = {
    f64: (52, -1022, 1024),
    f32: (23, -126, 128),
    f16: (10, -14, 16),
    bf16: (7, -126, 128),
}
"""Fraction bits, the exponents of the least normal number and of the power of two next to the greatest."""


@dataclass(frozen=True)
class Function:
    """An operation, what it is in arithmetic of NumPy that is wider, and the errors that it may have in f32 and f64."""

    opcode: str
    wide: Callable[..., Array]
    ulps: float = 4.0
    f64_ulps: float = 4.0
    arity: int = 1

    def most(self, dtype: ScalarType) -> float:
        """The error that it may have; of f16 and bf16 one more rounding."""
        return self.f64_ulps if dtype == f64 else self.ulps if dtype == f32 else 0.6


FUNCTIONS = (
    Function("exp", np.exp, f64_ulps=2),
    Function("exp2", np.exp2),
    Function("expm1", np.expm1),
    Function("log", np.log, f64_ulps=2),
    Function("log2", np.log2),
    Function("log10", np.log10),
    Function("log1p", np.log1p),
    Function("tanh", np.tanh, f64_ulps=2),
    Function("erf", np.vectorize(erf, otypes=[np.float64]), f64_ulps=2),
    Function("sigmoid", lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x)))),
    Function("sin", np.sin, f64_ulps=2),
    Function("cos", np.cos, f64_ulps=2),
    Function("tan", np.tan),
    Function("asin", np.arcsin),
    Function("acos", np.arccos),
    Function("atan", np.arctan),
    Function("atan2", np.arctan2, arity=2),
    Function("sinh", np.sinh),
    Function("cosh", np.cosh),
    Function("asinh", np.arcsinh),
    Function("acosh", np.arccosh),
    Function("atanh", np.arctanh),
    Function("softplus", lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))),
    Function("hardsigmoid", lambda x: np.clip(x + 3, 0, 6) / 6),
    Function("pow", np.power, f64_ulps=2, arity=2),
    Function("hardswish", lambda x: np.maximum(x, -3) * (np.clip(x + 3, 0, 6) / 6)),
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


def module(functions: Sequence[Function], dtype: ScalarType) -> tcpx.Module:
    """One function with all of some operations."""
    type_ = f"tensor<[N]x{dtype}>"
    names = [f"%r{k}" for k in range(len(functions))]
    lines = [
        f"  {name} = tcp.{function.opcode}({'%x, %y' if function.arity == 2 else '%x'}) : {type_}\n"
        for name, function in zip(names, functions, strict=True)
    ]
    arguments = ", ".join(f"{name}: {type_}" for name in ("%x", "%y")[: max(f.arity for f in functions)])
    results = ", ".join([type_] * len(functions))
    body = "".join([*lines, f"  tcp.return({', '.join(names)})\n"])
    return tcpx.parse(f"func @real_{dtype}({arguments}) -> ({results}) symbols [N] {{\n{body}}}\n")


@cache
def kernel(functions: tuple[Function, ...], dtype: ScalarType, target: str) -> Callable[..., Sequence[Array]]:
    """All of some operations in vectors; one result is a sequence, too."""
    machine = tcpx.load_target(target)
    require_cpu_of(machine)
    made = tcpx.compile(module(functions, dtype), tcpx.parse_schedule(SCHEDULE), target=machine)

    def call(*args: Array) -> Sequence[Array]:
        found = made(*args)
        return [np.asarray(value) for value in (found if isinstance(found, tuple) else (found,))]

    return call


def patterns(dtype: ScalarType, step: int = 1, first: int = 0) -> Iterator[Array]:
    """Every `step`-th bit pattern of a dtype of at most 32 bits, in blocks."""
    for start in range(first, 1 << dtype.bits, BLOCK * step):
        end = min(1 << dtype.bits, start + BLOCK * step)
        yield np.arange(start, end, step, dtype=np.uint64).astype(f"u{dtype.bytes}").view(dtype.numpy)


NEXT_TO_PI = 1.623525327812912e23
"""An f32 that lies 1.5e-8 from a multiple of pi / 2: what is left of it takes many bits."""
EDGES = (
    NEXT_TO_PI,
    *(
        -104,
        -87.33654475,
        88.72283905,
        -149,
        -126,
        128,
        -40,
        0.6,
        0.346573590,
        1,
        3,
        4,
        9,
        17,
        60,
        87,
        2.0**-24,
        2.0**17,
    ),
    1e-38,
)
"""Where ways of computing change, in f32: logarithms of the least and greatest numbers, and what expansions compare."""


def near_edges(count: int) -> Iterator[Array]:
    """So many patterns of f32 on each side of each edge, of its negative, and of 0."""
    for edge in (0.0, -0.0, *EDGES, *(-edge for edge in EDGES)):
        here = int(np.float32(edge).view(np.uint32))
        yield np.arange(max(0, here - count), here + count, dtype=np.uint64).astype(np.uint32).view(np.float32)


class Goal:
    """Right results in wider arithmetic, and the error of others in units of the last place."""

    def __init__(self, wanted: Array, dtype: ScalarType) -> None:
        fraction, least, most = FORMATS[dtype]
        self.end = np.ldexp(wanted.dtype.type(1), most)
        _, exponent = np.frexp(wanted)
        self.scale = np.ldexp(wanted.dtype.type(1), fraction - np.maximum(exponent - 1, least))
        self.wanted = np.clip(wanted, -self.end, self.end)
        self.is_nan = np.isnan(wanted)
        self.is_zero = wanted == 0
        self.is_negative = np.signbit(wanted)

    def ulps(self, found: Array) -> Array:
        """The error: of an infinity that of the power of two next to the greatest number, infinite where just one
        is NaN and where a zero has the other sign."""
        wide = np.clip(found.astype(self.wanted.dtype), -self.end, self.end)
        error = np.abs(wide - self.wanted) * self.scale
        error[self.is_nan] = 0
        error[np.isnan(wide) != self.is_nan] = inf
        error[self.is_zero & (np.signbit(wide) != self.is_negative)] = inf
        return error


@dataclass
class Worst:
    """The greatest error so far, and where."""

    ulps: float = -1.0
    at: str = ""

    def join(self, errors: Array, args: Sequence[Array], found: Array) -> None:
        """Take in the errors of some results."""
        k = int(np.argmax(errors))
        if errors[k] > self.ulps:
            self.ulps, self.at = float(errors[k]), f"{', '.join(repr(a[k]) for a in args)}: {found[k]!r}"


def worst(
    functions: tuple[Function, ...], dtype: ScalarType, blocks: Iterator[tuple[Array, ...]], targets: Sequence[str]
) -> dict[tuple[str, str], Worst]:
    """The greatest errors by operation and target, beside wider arithmetic of NumPy."""
    found = {(function.opcode, target): Worst() for function in functions for target in targets}
    wide = np.dtype(np.longdouble if dtype == f64 else np.float64)
    for args in blocks:
        results = {target: kernel(functions, dtype, target)(*args) for target in targets}
        with np.errstate(all="ignore"):
            for k, function in enumerate(functions):
                goal = Goal(function.wide(*(a.astype(wide) for a in args[: function.arity])), dtype)
                for target in targets:
                    value = np.asarray(results[target][k])
                    found[function.opcode, target].join(goal.ulps(value), args, value)
    return found


def alone(arrays: Iterator[Array]) -> Iterator[tuple[Array, ...]]:
    return ((array,) for array in arrays)


def pairs(dtype: ScalarType, count: int, seed: int = 19) -> Iterator[tuple[Array, Array]]:
    """Pairs of which the power is a number, for bases of all sizes, next to 1 and below 0; and pairs of any bits, which
    are points in all quadrants."""
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


def drawn(count: int) -> Array:
    """Numbers of all sizes, and those between which functions change their ways."""
    random = np.random.default_rng(11)
    bits = random.integers(0, 1 << 64, count, dtype=np.uint64).view(np.float64)
    near = [random.uniform(-end, end, count) for end in (1, 5, 50, 750)]
    small = 10.0 ** random.uniform(-30, 2, count) * random.choice([-1, 1], count)
    edges = [0, 5e-324, 2.0**-1022, 1, 2, np.sqrt(0.5), 709.7827128933840, 745.2, 1e300, np.inf]
    return np.concatenate([bits, *near, small, edges, np.negative(edges), [np.nan], 1 + near[0] * 2.0**-20])


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


def beside_mpmath(x: Array, targets: Sequence[str]) -> dict[tuple[str, str], Worst]:
    """The greatest errors of unary functions of f64 by operation and target, beside mpmath."""
    results = {target: kernel(UNARY, f64, target)(x) for target in targets}
    found = {(function.opcode, target): Worst() for function in UNARY for target in targets}
    for k, function in enumerate(UNARY):
        goal = Goal(exact(function, x), f64)
        for target in targets:
            value = np.asarray(results[target][k])
            found[function.opcode, target].join(goal.ulps(value), [x], value)
    return found


SOME = {"powers": 40_000, "numbers": 150, "edges": 4000}
"""How many are drawn of a kind of pair, of a kind of f64, and how many are next to each edge."""


def sampled(dtype: ScalarType, targets: Sequence[str]) -> dict[tuple[str, str], Worst]:
    """The greatest errors at what CI computes: every 997th pattern of f32 and those next to edges, all of f16 and bf16,
    some of f64, and pairs."""
    powers = worst(BINARY, dtype, pairs(dtype, SOME["powers"]), targets)
    if dtype == f64:
        return {**beside_mpmath(drawn(SOME["numbers"]), targets), **powers}
    blocks = patterns(dtype) if dtype != f32 else chain(patterns(f32, EVERY), near_edges(SOME["edges"]))
    return {**worst(UNARY, dtype, alone(blocks), targets), **powers}
