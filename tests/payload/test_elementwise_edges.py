"""Elementwise operations that are exact: on edge values the evaluator is NumPy, and the C of every target is the
evaluator, to the bit; a NaN is a NaN. Scalars and vectors, and under the sanitizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.types import SCALARS, ScalarType, bf16, f16, f32, f64, i1
from tests.optional_tools import GCC_SANITIZERS, require_cpu_of

Array = npt.NDArray[Any]
FLOATS = (f64, f32, f16, bf16)
INTEGERS = tuple(t for t in SCALARS.values() if t.is_integer)
NUMBERS = (*FLOATS, *INTEGERS)
SCHEDULE = """
language 1
schedule s(root: func) {
  for y in match any elementwise in root {
    let i = tile(y, [d0: LANES], tail: pad)
    vectorize(i)
  }
}
"""


@dataclass(frozen=True)
class Case:
    """An operation, the NumPy function it is, and the dtypes it has; `result` where it is another one."""

    opcode: str
    function: Callable[..., Array]
    dtypes: Sequence[ScalarType]
    arity: int = 1
    result: str = ""


def in_f32(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function; of f16 and bf16 in f32, rounded at the end."""

    def call(*args: Array) -> Array:
        half = args[0].dtype in (f16.numpy, bf16.numpy)
        made = function(*(a.astype(np.float32) for a in args)) if half else function(*args)
        return np.asarray(made).astype(args[0].dtype)

    return call


def round_away(a: Array) -> Array:
    """Halves away from 0, in long double, where a half is added without rounding."""
    wide = a.astype(np.longdouble)
    return np.copysign(np.floor(np.abs(wide) + 0.5), wide).astype(a.dtype)


def clamp(a: Array, low: Array, high: Array) -> Array:
    """A zero that is equal to a bound stays."""
    above = np.where((low > a) | (low != low), low, a)
    return np.where((high < above) | (high != high), high, above)


def floordiv(a: Array, b: Array) -> Array:
    """Of floats, the floor of the quotient."""
    return np.floor_divide(a, b) if a.dtype.kind in "iu" else np.floor(a / b)


def left_of(function: Callable[..., Array]) -> Callable[..., Array]:
    """What a division leaves: of integers all of a where b is 0."""
    return lambda a, b: np.where(b == 0, a, function(a, b)) if a.dtype.kind in "iu" else function(a, b)


BITCASTS = {64: "f64 si64 ui64", 32: "f32 si32 ui32", 16: "f16 bf16 si16 ui16", 8: "si8 ui8"}
CASES = (
    Case("neg", np.negative, NUMBERS),
    Case("abs", np.abs, NUMBERS),
    Case("sqrt", np.sqrt, FLOATS),
    Case("floor", np.floor, FLOATS),
    Case("sign", lambda a: np.where(a == 0, a, np.sign(a)), NUMBERS),
    Case("relu", lambda a: np.where(a < 0, np.zeros_like(a), a), NUMBERS),
    Case("reciprocal", in_f32(lambda a: 1 / a), FLOATS),
    Case("rsqrt", in_f32(lambda a: 1 / np.sqrt(a)), FLOATS),
    Case("ceil", np.ceil, FLOATS),
    Case("trunc", np.trunc, FLOATS),
    Case("round_away", round_away, FLOATS),
    Case("isnan", np.isnan, FLOATS, 1, "i1"),
    Case("isinf", np.isinf, FLOATS, 1, "i1"),
    Case("clamp", clamp, NUMBERS, 3),
    Case("floordiv", in_f32(floordiv), NUMBERS, 2),
    Case("mod", in_f32(left_of(np.mod)), NUMBERS, 2),
    Case("rem", in_f32(left_of(np.fmod)), NUMBERS, 2),
    Case("less", np.less, NUMBERS, 2, "i1"),
    Case("less_equal", np.less_equal, NUMBERS, 2, "i1"),
    Case("greater", np.greater, NUMBERS, 2, "i1"),
    Case("greater_equal", np.greater_equal, NUMBERS, 2, "i1"),
    Case("equal", np.equal, (*NUMBERS, i1), 2, "i1"),
    Case("not_equal", np.not_equal, (*NUMBERS, i1), 2, "i1"),
    Case("not", np.invert, (*INTEGERS, i1)),
    Case("and", np.bitwise_and, (*INTEGERS, i1), 2),
    Case("or", np.bitwise_or, (*INTEGERS, i1), 2),
    Case("xor", np.bitwise_xor, (*INTEGERS, i1), 2),
    Case("shift_left", np.left_shift, INTEGERS, 2),
    Case("shift_right", np.right_shift, INTEGERS, 2),
)


def edges(dtype: ScalarType) -> Array:
    """Zeros, ones, halves, limits, infinities, NaN; of integers every amount of a shift up to beyond the width."""
    if dtype == i1:
        return np.array([False, True])
    if dtype.is_float:
        whole = 2.0 ** {2: 9, 4: 22, 8: 51}[dtype.bytes]
        near_half = float(np.nextafter(np.float32(0.5), np.float32(0))) if dtype == f32 else 0.499999999999999944
        sizes = [
            0.0,
            0.5,
            near_half,
            0.75,
            1.0,
            1.5,
            2.5,
            3.0,
            7.25,
            whole - 0.5,
            whole + 0.5,
            2 * whole,
            np.inf,
            np.nan,
        ]
        tiny = np.array([1], f"u{dtype.bytes}").view(dtype.numpy)
        return np.concatenate([np.array([*sizes, *(-x for x in sizes)]).astype(dtype.numpy), tiny, np.negative(tiny)])
    low, high = int(dtype.minimum), int(dtype.maximum)
    found = {0, 1, 2, 3, 5, dtype.bits - 1, dtype.bits, dtype.bits + 1, 100, low, low + 1, high, high - 1, high // 3}
    found |= {-1, -2, -7, -dtype.bits} if low < 0 else set()
    return np.array(sorted(x for x in found if low <= x <= high), dtype.numpy)


@cache
def operands(dtype: ScalarType, arity: int = 3) -> tuple[Array, ...]:
    """Every combination of edges, of three operands some, then random bits."""
    random = np.random.default_rng(7)
    combinations = np.array(list(product(range(len(edges(dtype))), repeat=arity))).T
    chosen = random.permutation(combinations.shape[1])[:3000]
    patterns = [np.frombuffer(random.bytes(200 * dtype.bytes), dtype.numpy) for _ in range(arity)]
    if dtype == i1:
        patterns = [random.integers(0, 2, 200).astype(np.bool_) for _ in range(arity)]
    return tuple(np.concatenate([edges(dtype)[c[chosen]], p]) for c, p in zip(combinations, patterns, strict=True))


def cases(dtype: ScalarType) -> list[Case]:
    """The operations of a dtype."""
    found = [case for case in CASES if dtype in case.dtypes]
    others = BITCASTS.get(dtype.bits, "").split()
    return [*found, *(Case("bitcast", lambda a, t=t: a.view(SCALARS[t].numpy), [dtype], 1, t) for t in others)]


def module(dtype: ScalarType) -> tcpx.Module:
    """One function with all operations of a dtype."""
    lines, names, types = list[str](), list[str](), list[str]()
    for number, case in enumerate(cases(dtype)):
        given = ", ".join(f"%{name}" for name in "abc"[: case.arity])
        types.append(f"tensor<[N]x{case.result or dtype}>")
        names.append(f"%y{number}")
        lines.append(f"  {names[-1]} = tcp.{case.opcode}({given}) : {types[-1]}\n")
    arguments = ", ".join(f"%{name}: tensor<[N]x{dtype}>" for name in "abc")
    body = "".join([*lines, f"  tcp.return({', '.join(names)})\n"])
    return tcpx.parse(f"func @f({arguments}) -> ({', '.join(types)}) symbols [N] {{\n{body}}}")


def same(found: Array, wanted: Array) -> Array:
    """Where two arrays have the same bits, or NaN both."""
    equal = found.view(f"u{found.itemsize}") == wanted.view(f"u{wanted.itemsize}")
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return equal | (found != found) & (wanted != wanted)


def check(dtype: ScalarType, found: Any, wanted: Any) -> None:
    """All results agree."""
    for case, x, y in zip(cases(dtype), found, wanted, strict=True):
        assert x.dtype == y.dtype, (case.opcode, x.dtype, y.dtype)
        (wrong,) = np.nonzero(np.logical_not(same(x, y)))
        where = [[str(a[k]) for a in operands(dtype)[: case.arity]] + [str(x[k]), str(y[k])] for k in wrong[:5]]
        assert not where, f"tcp.{case.opcode} of {dtype}: operands, found, wanted: {where}"


DTYPES = (*NUMBERS, i1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_evaluator_is_numpy(dtype: ScalarType) -> None:
    given = operands(dtype)
    with np.errstate(all="ignore"):
        wanted = [np.asarray(case.function(*given[: case.arity])) for case in cases(dtype)]
    check(dtype, tcpx.evaluate(module(dtype), *given), wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("target", ["generic", "x86_avx2", "x86_avx512"])
def test_c_is_the_evaluator(target: str, dtype: ScalarType) -> None:
    """In vectors, a part of one at the end; and one at a time."""
    machine = tcpx.load_target(target)
    require_cpu_of(machine)
    payload, given = module(dtype), operands(dtype)
    wanted = tcpx.evaluate(payload, *given)
    vectors = tcpx.parse_schedule(SCHEDULE.replace("LANES", "lanes(dtype(y.out))"))
    scalars = tcpx.parse_schedule("language 1\nschedule s(root: func) { print(root) }")
    requests = [tcpx.CompileRequest(payload, schedule) for schedule in (vectors, scalars)]
    for kernel in tcpx.compile_many(requests, target=machine):
        check(dtype, kernel(*given), wanted)


@GCC_SANITIZERS.needed
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_sanitizers_find_nothing(dtype: ScalarType) -> None:
    payload, given = module(dtype), operands(dtype)
    kernel = tcpx.compile(payload, target="generic", sanitize=True)
    check(dtype, kernel(*given), tcpx.evaluate(payload, *given))
