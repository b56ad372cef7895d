"""Every elementwise operation on edge values: overflow, division by 0, the least integer by -1, shifts past the width,
floats beyond integers, signs of remainders, NaN, -0.0. Those that are exact are NumPy's in the evaluator, and in the C
of every target the evaluator's, to the bit; a NaN is a NaN. Scalars and vectors, and under the sanitizers.

Functions that are approximated are compared where what they give is special: how near they are is measured elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.types import SCALARS, ScalarType, bf16, f16, f32, f64, i1
from tests.nets.structures import uses_of
from tests.optional_tools import GCC_SANITIZERS, require_cpu_of

Array = npt.NDArray[Any]
FLOATS = (f64, f32, f16, bf16)
INTEGERS = tuple(t for t in SCALARS.values() if t.is_integer)
NUMBERS = (*FLOATS, *INTEGERS)
DTYPES = (*NUMBERS, i1)
TINY = {d: 4 * float(ml_dtypes.finfo(d.numpy).smallest_normal) if d.is_float else 0.0 for d in DTYPES}
HUGE = {d: float(ml_dtypes.finfo(d.numpy).max) if d.is_float else 0.0 for d in DTYPES}
"""Below and above which rounding decides whether what is approximated is 0 or an infinity."""
VECTORS = """
language 1
schedule s(root: func) {
  for y in match any elementwise in root {
    let i = tile(y, [d0: lanes(dtype(y.out))], tail: pad)
    vectorize(i)
  }
}
"""
SCALARS_ALONE = "language 1\nschedule s(root: func) { print(root) }"
"""Without a schedule they would be vectors, too."""


@dataclass(frozen=True)
class Case:
    """An operation, the NumPy function it is, and the dtypes it has; `result` where it is another one."""

    opcode: str
    function: Callable[..., Array] | None
    dtypes: Sequence[ScalarType]
    arity: int = 1
    result: str = ""
    given: str = "abc"
    """The arguments it is called with: `t` are truth values."""
    is_exact: bool = True

    @property
    def names(self) -> str:
        return self.given[: self.arity]


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


def integer_power(a: Array, b: Array) -> Array:
    """With Python's integers, modulo two to the width; of a negative exponent, a fraction towards 0."""
    modulus = 1 << 8 * a.itemsize
    powers = [
        pow(x, n, modulus) if n >= 0 else int(x in (1, -1)) * (-1 if x < 0 and n % 2 else 1) % modulus
        for x, n in zip(a.tolist(), b.tolist(), strict=True)
    ]
    return np.array(powers, f"u{a.itemsize}").view(a.dtype)


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
    Case("add", np.add, (*NUMBERS, i1), 2),
    Case("sub", np.subtract, NUMBERS, 2),
    Case("mul", np.multiply, (*NUMBERS, i1), 2),
    Case("div", in_f32(np.divide), FLOATS, 2),
    Case("max", np.maximum, (*NUMBERS, i1), 2),
    Case("min", np.minimum, (*NUMBERS, i1), 2),
    Case("round", in_f32(np.rint), FLOATS),
    Case("select", np.where, (*NUMBERS, i1), 3, given="tbc"),
    Case("fma", None, (f64, f32), 3),  # of f16 and bf16, vectors round twice: docs/roadmap.md
    Case("scale2", None, FLOATS, 2),
    Case("pow", integer_power, INTEGERS, 2),
    Case("pow", np.power, FLOATS, 2, is_exact=False),
)
CONVERSIONS = ("bitcast", "cast")
UNSPECIFIED = {
    "max": lambda a, b: (a == 0) & (b == 0),  # the sign of a zero
    "min": lambda a, b: (a == 0) & (b == 0),
    "multiply_add": lambda a, b, c: ~np.isfinite(c),  # the product may be rounded, to an infinity
    "scale2": lambda a, b: ~np.isfinite(b) | (b != np.trunc(b)),  # whole numbers alone
}
"""Where an operation may give anything, by its operands."""


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
    found += [Case("bitcast", lambda a, t=t: a.view(SCALARS[t].numpy), [dtype], 1, t) for t in others]
    found += [Case("cast", None, [dtype], 1, str(other)) for other in DTYPES]
    return [*found, *(case for case in declared() if dtype in case.dtypes)]


@cache
def declared() -> tuple[Case, ...]:
    """The elementwise operations that the table does not have, of operands and results of one dtype."""
    known, found = {*CONVERSIONS, *(case.opcode for case in CASES)}, list[Case]()
    for opcode, cls in tcpx.ops().items():
        name = opcode.rpartition(".")[2]
        if issubclass(cls, Elementwise) and opcode.startswith("tcp.") and name not in known:
            same = [dtypes[0] for dtypes in uses_of(cls)[1] if len({*dtypes}) == 1]
            assert same, f"{opcode} has several dtypes: write a Case"
            found.append(Case(name, None, same, len(cls.signature.operand_names), is_exact=False))
    return tuple(found)


def arguments(dtype: ScalarType) -> tuple[Array, ...]:
    """Edges three times, and truth values."""
    given = operands(dtype)
    return (*given, np.random.default_rng(3).integers(0, 2, len(given[0])).astype(np.bool_))


def called(case: Case, given: Sequence[Array]) -> list[Array]:
    """The arguments of an operation."""
    return [given["abct".index(name)] for name in case.names]


def module(dtype: ScalarType) -> tcpx.Module:
    """One function with all operations of a dtype."""
    lines, names, types = list[str](), list[str](), list[str]()
    for number, case in enumerate(cases(dtype)):
        given = ", ".join(f"%{name}" for name in case.names)
        types.append(f"tensor<[N]x{case.result or dtype}>")
        names.append(f"%y{number}")
        lines.append(f"  {names[-1]} = tcp.{case.opcode}({given}) : {types[-1]}\n")
    head = ", ".join(f"%{name}: tensor<[N]x{dtype if name != 't' else i1}>" for name in "abct")
    body = "".join([*lines, f"  tcp.return({', '.join(names)})\n"])
    return tcpx.parse(f"func @f({head}) -> ({', '.join(types)}) symbols [N] {{\n{body}}}")


def same(found: Array, wanted: Array) -> Array:
    """Where two arrays have the same bits, or NaN both."""
    equal = found.view(f"u{found.itemsize}") == wanted.view(f"u{wanted.itemsize}")
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return equal | (found != found) & (wanted != wanted)


def check(dtype: ScalarType, given: Sequence[Array], found: Any, wanted: Any) -> None:
    """All results agree, where they are specified."""
    for case, x, y in zip(cases(dtype), found, wanted, strict=True):
        assert x.dtype == y.dtype, (case.opcode, x.dtype, y.dtype)
        read = called(case, given)
        agrees = same(x, y)
        if case.opcode in UNSPECIFIED:
            with np.errstate(invalid="ignore"):
                agrees |= UNSPECIFIED[case.opcode](*read)
        if not case.is_exact:
            agrees |= np.isfinite(y) & (y != 0)
            agrees |= (y == 0) & (x == 0) | (np.abs(x) < TINY[dtype]) | np.isinf(y) & (np.abs(x) >= HUGE[dtype])
        (wrong,) = np.nonzero(np.logical_not(agrees))
        where = [[str(a[k]) for a in read] + [str(x[k]), str(y[k])] for k in wrong[:5]]
        assert not where, f"tcp.{case.opcode} of {dtype}: operands, found, wanted: {where}"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_evaluator_is_numpy(dtype: ScalarType) -> None:
    given = arguments(dtype)
    found = tcpx.evaluate(module(dtype), *given)
    with np.errstate(all="ignore"):
        functions = [(case.function, called(case, given)) for case in cases(dtype)]
        wanted = [
            np.asarray(function(*read)) if function is not None else have
            for (function, read), have in zip(functions, found, strict=True)
        ]
    check(dtype, given, found, wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("target", ["generic", "x86_avx2", "x86_avx512"])
def test_c_is_the_evaluator(target: str, dtype: ScalarType) -> None:
    """In vectors, a part of one at the end; and one at a time."""
    machine = tcpx.load_target(target)
    require_cpu_of(machine)
    compare(machine, dtype, arguments(dtype))


def compare(machine: tcpx.Target, dtype: ScalarType, given: Sequence[Array]) -> None:
    """The C of a target is the evaluator."""
    payload = module(dtype)
    wanted = tcpx.evaluate(payload, *given)
    requests = [tcpx.CompileRequest(payload, tcpx.parse_schedule(text)) for text in (VECTORS, SCALARS_ALONE)]
    for kernel in tcpx.compile_many(requests, target=machine):
        check(dtype, given, kernel(*given), wanted)


def check_sanitized(dtype: ScalarType, schedule: str) -> None:
    """The C of generic, with what the sanitizers add, is the evaluator."""
    payload, given = module(dtype), arguments(dtype)
    kernel = tcpx.compile(payload, tcpx.parse_schedule(schedule), target="generic", sanitize=True)
    check(dtype, given, kernel(*given), tcpx.evaluate(payload, *given))


@GCC_SANITIZERS.needed
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_sanitizers_find_nothing(dtype: ScalarType) -> None:
    check_sanitized(dtype, SCALARS_ALONE)


@GCC_SANITIZERS.needed
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_sanitizers_find_nothing_in_vectors(dtype: ScalarType) -> None:
    check_sanitized(dtype, VECTORS)


REDUCTIONS = ("reduce_max", "reduce_min", "reduce_argmax", "reduce_argmin", "reduce_any", "reduce_all")
EXACT_OF_INTEGERS = ("reduce_sum", "reduce_prod")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reductions_of_edges(dtype: ScalarType) -> None:
    """NaN, infinities and zeros of both signs in every place of three; the first of several goes before."""
    given = np.stack(operands(dtype), axis=1)
    lines, names, types = list[str](), list[str](), list[str]()
    for opcode in (*REDUCTIONS, *(EXACT_OF_INTEGERS if dtype.is_integer else ())):
        own = {"reduce_any": i1, "reduce_all": i1}.get(opcode, dtype)
        if dtype == i1 and opcode.startswith("reduce_arg"):
            continue
        results = [f"%{opcode}{k}" for k in range(2 if "arg" in opcode else 1)]
        made = [f"tensor<[N]x{own}>", "tensor<[N]xsi64>"][: len(results)]
        lines.append(f"  {', '.join(results)} = tcp.{opcode}(%x) {{dims = [1]}} : {', '.join(made)}\n")
        names, types = [*names, *results], [*types, *made]
    body = "".join([*lines, f"  tcp.return({', '.join(names)})\n"])
    payload = tcpx.parse(f"func @f(%x: tensor<[N]x3x{dtype}>) -> ({', '.join(types)}) symbols [N] {{\n{body}}}")
    wanted = tcpx.evaluate(payload, given)
    for target in ("generic", "native"):
        for name, x, y in zip(names, tcpx.compile(payload, target=target)(given), wanted, strict=True):
            agrees = same(x, y) | ((x == 0) & (y == 0))
            assert agrees.all(), (
                f"{name} of {dtype}, {target}: {given[~agrees][:5]}, {x[~agrees][:5]}, {y[~agrees][:5]}"
            )
