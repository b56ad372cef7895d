"""Real functions, and the error of the C of a target in units of the last place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import erf, inf
from typing import Any

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
    Function("softplus", lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))),
    Function("hardsigmoid", lambda x: np.clip(x + 3, 0, 6) / 6),
    Function("pow", np.power, f64_ulps=2, arity=2),
    Function("hardswish", lambda x: np.maximum(x, -3) * (np.clip(x + 3, 0, 6) / 6)),
)


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
