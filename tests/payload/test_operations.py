"""Each named operation against plain NumPy, and against the scalar loops of its generalized form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from tcpx.payload.builder import Builder
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.evaluator import Array, evaluate_func
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.contract import Contract, Matmul
from tcpx.payload.ops.elementwise import Add, Cast, Div, Fma, Max, Min, Mul, Round, Sub
from tcpx.payload.ops.exponential import Exp, Scale2
from tcpx.payload.ops.generic import generalize
from tcpx.payload.ops.movement import Broadcast, Fill, Transpose
from tcpx.payload.ops.normalization import Softmax
from tcpx.payload.ops.reduce import ReduceMax, ReduceSum
from tcpx.payload.ops.select import Less, Select
from tcpx.payload.ops.views import Pad, Reshape
from tcpx.payload.text.parser import parse
from tcpx.payload.types import (
    ScalarType,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    index,
    scalar_of_numpy,
    si8,
    si16,
    si32,
    si64,
    ui8,
    ui16,
    ui32,
    ui64,
)

FLOATS = (f64, f32, f16, bf16)
INTEGERS = (si8, si16, si32, si64, ui8, ui16, ui32, ui64)
SHAPES = ((), (1,), (7,), (0,), (3, 5), (1, 1), (4, 0), (2, 1, 3))
Make = Callable[[Sequence[Value]], Operation]


def random_array(shape: Sequence[int], dtype: ScalarType, seed: int = 0, special: bool = True) -> Array:
    """Values of a dtype; for floats also NaN, infinities, zeros and a denormal, for integers the extremes."""
    random = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if dtype.is_float:
        values = random.normal(scale=3, size=count).astype(dtype.numpy)
        extremes = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 2.5, -1.5]
    elif dtype.bits == 1:
        return random.integers(0, 2, shape).astype(np.bool_)
    else:
        low, high = max(int(dtype.minimum), -100), min(int(dtype.maximum), 100)
        values = random.integers(low, high + 1, size=count).astype(dtype.numpy)
        extremes = [dtype.minimum, dtype.maximum, 0, 1]
    places = random.permutation(count)[: len(extremes) if special and count > 2 else 0]
    for place, extreme in zip(places, random.permutation(np.array(extremes, dtype=object)), strict=False):
        values[place] = dtype.numpy.type(extreme)
    return values.reshape(shape)


def run(make: Make, *arrays: Array, generalized: bool = False) -> Array:
    """The result of one operation on arrays; `generalized`: of the scalar loops it stands for."""
    dtypes = [scalar_of_numpy(a.dtype) for a in arrays]
    b = Builder()
    with b.func(
        "f", {f"x{k}": TensorType(a.shape, t) for k, (a, t) in enumerate(zip(arrays, dtypes, strict=True)) if t}
    ) as args:
        made = b.insert(make(args))
        if generalized:
            assert isinstance(made, Structured)
            made = b.insert(generalize(made))
        b.returns(made.result)
    module = b.finish()
    return evaluate_func(module, module.main, list(arrays))[0]


def wide(array: Array) -> np.ndarray:
    return array.astype(np.float64 if array.dtype.kind not in "iub" else array.dtype)


def assert_same(found: Array, wanted: Array, ulps: float = 0) -> None:
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if ulps == 0:
        np.testing.assert_array_equal(wide(found), wide(wanted))
    else:
        precision = {2: 2.0**-8, 4: 2.0**-23, 8: 2.0**-52}[wanted.dtype.itemsize]
        np.testing.assert_allclose(wide(found), wide(wanted), rtol=ulps * precision, atol=ulps * precision)


# -- elementwise ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lanewise:
    """One elementwise operation and the NumPy function it is."""

    cls: type
    arity: int
    function: Callable[..., Array]
    dtypes: tuple[ScalarType, ...]


def in_double(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *args: np.asarray(function(*(a.astype(np.float64) for a in args))).astype(args[0].dtype)


LANEWISE = [
    Lanewise(Add, 2, lambda a, b: a + b, FLOATS + INTEGERS + (index,)),
    Lanewise(Sub, 2, lambda a, b: a - b, FLOATS + INTEGERS + (index,)),
    Lanewise(Mul, 2, lambda a, b: a * b, FLOATS + INTEGERS + (index,)),
    Lanewise(Div, 2, lambda a, b: a / b, FLOATS),
    Lanewise(Max, 2, np.maximum, (*FLOATS, *INTEGERS, index, i1)),
    Lanewise(Min, 2, np.minimum, (*FLOATS, *INTEGERS, index, i1)),
    Lanewise(Round, 1, in_double(np.rint), FLOATS),
    Lanewise(Exp, 1, in_double(np.exp), FLOATS),
]


@pytest.mark.parametrize("case", LANEWISE, ids=lambda c: c.cls.opcode)
def test_elementwise(case: Lanewise) -> None:
    for dtype in case.dtypes:
        for seed, shape in enumerate(SHAPES):
            arrays = [random_array(shape, dtype, 10 * seed + k) for k in range(case.arity)]
            with np.errstate(all="ignore"):
                wanted = np.asarray(case.function(*arrays))
            found = run(lambda x: case.cls.of(*x), *arrays)
            assert_same(found, wanted)
            assert_same(run(lambda x: case.cls.of(*x), *arrays, generalized=True), found)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fma(dtype: ScalarType) -> None:
    a, b, c = (random_array((31,), dtype, k) for k in range(3))
    found = run(lambda x: Fma.of(*x), a, b, c)
    with np.errstate(all="ignore"):
        assert_same(found, np.asarray((wide(a) * wide(b) + wide(c)).astype(dtype.numpy)), ulps=1)
    assert_same(run(lambda x: Fma.of(*x), a, b, c, generalized=True), found)
    one = dtype.numpy.type(1 + 2.0 ** -{2: 7, 4: 23, 8: 52}[dtype.bytes])
    minus = dtype.numpy.type(-(1 + 2 * (float(one) - 1)))
    squares = run(lambda x: Fma.of(*x), np.array([one]), np.array([one]), np.array([minus]))
    assert float(squares[0]) == (float(one) - 1) ** 2


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_scale2(dtype: ScalarType) -> None:
    a = np.array([1.5, -1.0, 1.0, 1.0, 3.0, np.nan, np.inf, 0.0, 1.0, 1.0, 0.75]).astype(dtype.numpy)
    b = np.array([3.0, -2.0, 9000, -9000, 0, 1, -1, 5, np.nan, np.inf, -np.inf]).astype(dtype.numpy)
    wanted = [12.0, -0.25, np.inf, 0.0, 3.0, np.nan, np.inf, 0.0, np.nan, np.inf, 0.0]
    found = run(lambda x: Scale2.of(*x), a, b)
    assert_same(found, np.array(wanted).astype(dtype.numpy))
    assert_same(run(lambda x: Scale2.of(*x), a, b, generalized=True), found)


def test_scale2_makes_denormals() -> None:
    found = run(lambda x: Scale2.of(*x), np.array([1.5], np.float32), np.array([-149.0], np.float32))
    assert float(found[0]) == 2.0**-148


def test_select() -> None:
    for dtype in (*FLOATS, *INTEGERS):
        a, b = random_array((3, 5), dtype, 1), random_array((3, 5), dtype, 2)
        p = random_array((3, 5), i1, 3)
        found = run(lambda x: Select.of(*x), p, a, b)
        assert_same(found, np.where(p, a, b))
        assert_same(run(lambda x: Select.of(*x), p, a, b, generalized=True), found)


def test_less() -> None:
    for dtype in (*FLOATS, *INTEGERS):
        a, b = random_array((3, 5), dtype, 1), random_array((3, 5), dtype, 2)
        b[1] = a[1]
        found = run(lambda x: Less.of(*x), a, b)
        with np.errstate(invalid="ignore"):
            assert_same(found, np.less(a, b))
        assert_same(run(lambda x: Less.of(*x), a, b, generalized=True), found)


def cast(dtype: ScalarType) -> Make:
    return lambda x: Cast.of(x[0], dtype)


@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS, i1], ids=str)
def test_cast(target: ScalarType) -> None:
    for source in (*FLOATS, *INTEGERS, i1):
        held = random_array((13,), source, 1, special=not source.is_float)
        if source.is_float and not target.is_float and target.bits > 1:
            limit = min(float(target.maximum), 90.0)
            held = np.clip(wide(held), max(float(target.minimum), -90.0), limit).astype(source.numpy)
        found = run(cast(target), held)
        with np.errstate(over="ignore"):
            assert_same(found, held.astype(target.numpy))
        assert_same(run(cast(target), held, generalized=True), found)


@pytest.mark.parametrize("target", [*INTEGERS, index], ids=str)
def test_cast_of_floats_saturates(target: ScalarType) -> None:
    held = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, -0.9, 1.9, -1.9])
    low, high = int(target.minimum), int(target.maximum)
    wanted = [0, high, low, high, low, 0, 1, max(low, -1)]
    assert run(cast(target), held).tolist() == wanted
    assert run(cast(target), held, generalized=True).tolist() == wanted


# -- data movement -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [f32, bf16, si8, ui64, i1], ids=str)
def test_movement(dtype: ScalarType) -> None:
    for shape in ((3, 1, 5), (1, 1, 1), (2, 0, 4)):
        x = random_array(shape, dtype, 1)
        made = run(lambda v: Transpose.of(v[0], (2, 0, 1)), x)
        assert_same(made, x.transpose(2, 0, 1))
        assert_same(run(lambda v: Transpose.of(v[0], (2, 0, 1)), x, generalized=True), made)
        wide_type = TensorType((4, *shape[:2], 3, shape[2]), dtype)
        made = run(lambda v, t=wide_type: Broadcast.of(v[0], (1, 2, 4), t), x)
        assert_same(made, np.broadcast_to(x[None, :, :, None, :], (4, *shape[:2], 3, shape[2])))
        assert_same(run(lambda v, t=wide_type: Broadcast.of(v[0], (1, 2, 4), t), x, generalized=True), made)
        whole = TensorType((shape[0] * shape[2], shape[1]), dtype)
        assert_same(run(lambda v, t=whole: Reshape([v[0]], [t]), x), x.reshape(shape[0] * shape[2], shape[1]))
        padded = [shape[0], shape[1] + 2, shape[2] + 1]
        wanted = np.full(padded, 1).astype(dtype.numpy)
        wanted[: shape[0], : shape[1], : shape[2]] = x
        assert_same(run(lambda v, s=padded: Pad.of(v[0], s, 1), x), wanted)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(-0.0, f32), (float("inf"), bf16), (float("nan"), f16), (-128, si8), (2**64 - 1, ui64), (1, i1)],
)
def test_fill(value: float | int, dtype: ScalarType) -> None:
    for shape in ((), (3, 2), (0, 2)):
        made = run(lambda v, s=shape: Fill.of(value, TensorType(s, dtype)))
        assert_same(made, np.full(shape, value).astype(dtype.numpy))
        assert np.signbit(wide(made).astype(np.float64)).all() == (value < 0 or str(value) == "-0.0" or 0 in shape)
        assert_same(run(lambda v, s=shape: Fill.of(value, TensorType(s, dtype)), generalized=True), made)


# -- reductions ----------------------------------------------------------------------------------------------------

MATRICES = ((3, 5, 7), (1, 1, 1), (2, 0, 3), (0, 4, 2), (4, 3, 0))


def contraction(dtype: ScalarType, kind: str) -> Make:
    """A product with `dtype` as accumulator: of matrices, or with both operands transposed."""

    def make(x: Sequence[Value]) -> Operation:
        shapes = [v.type.shape for v in x if isinstance(v.type, TensorType)]
        if kind == "matmul":
            return Matmul(x, [TensorType((shapes[0][0], shapes[1][1]), dtype)])
        dims = {"lhs": ("k", "m"), "rhs": ("n", "k"), "out": ("n", "m")}
        return Contract(x, [TensorType((shapes[1][0], shapes[0][1]), dtype)], dims)

    return make


@pytest.mark.parametrize("kind", ["matmul", "contract"])
@pytest.mark.parametrize(
    ("element", "acc"),
    [
        (f64, f64),
        (f32, f32),
        (f16, f32),
        (bf16, f32),
        (f16, f16),
        (bf16, bf16),
        (si8, si32),
        (ui8, si32),
        (si8, si8),
        (ui32, ui32),
    ],
    ids=str,
)
def test_products(kind: str, element: ScalarType, acc: ScalarType) -> None:
    for m, k, n in MATRICES:
        special = k > 1 and not element.is_float
        a, b = random_array((m, k), element, 1, special), random_array((k, n), element, 2, special)
        start = random_array((m, n), acc, 3, special)
        calculated = np.float64 if acc.is_float else acc.numpy
        wanted = np.matmul(a.astype(calculated), b.astype(calculated))
        args = [a, b, start]
        if kind == "contract":
            args, wanted = [a.T.copy(), b.T.copy(), start.T.copy()], wanted.T
        with np.errstate(all="ignore"):
            total = (wanted + args[2].astype(calculated)).astype(acc.numpy)
        tolerance = 0 if not acc.is_float else 4 if acc.bits >= 32 else 1
        for generalized in (False, True):
            rough = tolerance * (8 if generalized and acc.bits < 32 else 2 * k + 1)
            assert_same(
                run(contraction(acc, kind), *args[:2], generalized=generalized), wanted.astype(acc.numpy), rough
            )
            assert_same(run(contraction(acc, kind), *args, generalized=generalized), total, rough)


def test_products_of_infinities_and_nan() -> None:
    a = np.array([[np.inf, 1.0], [0.0, 1.0], [1.0, 2.0]], np.float32)
    b = np.array([[1.0, np.inf, np.nan], [-np.inf, 1.0, 1.0]], np.float32)
    with np.errstate(all="ignore"):
        wanted = np.matmul(a, b)
    for generalized in (False, True):
        assert_same(run(contraction(f32, "matmul"), a, b, generalized=generalized), wanted)


def reduction(cls: type[Operation], dims: tuple[int, ...], dtype: ScalarType) -> Make:
    def make(x: Sequence[Value]) -> Operation:
        shape = x[0].type.shape if isinstance(x[0].type, TensorType) else ()
        return cls(x, [TensorType(tuple(d for k, d in enumerate(shape) if k not in dims), dtype)], {"dims": dims})

    return make


@pytest.mark.parametrize("dims", [(1,), (0, 2), (2, 0), (0, 1, 2), ()], ids=str)
@pytest.mark.parametrize(
    ("element", "acc"), [(f64, f64), (f32, f32), (f16, f32), (bf16, bf16), (si8, si32), (ui8, ui8)]
)
def test_reductions(dims: tuple[int, ...], element: ScalarType, acc: ScalarType) -> None:
    for shape in ((3, 5, 2), (1, 1, 1), (2, 0, 3), (0, 2, 1)):
        x = random_array(shape, element, 1, special=False)
        rest = [n for k, n in enumerate(shape) if k not in dims]
        start = random_array(rest, acc, 2)
        held = x.astype(np.float64 if acc.is_float else acc.numpy)
        with np.errstate(all="ignore"):
            total = held.sum(axis=dims, dtype=held.dtype)
            wanted = [total.astype(acc.numpy), (total + start.astype(held.dtype)).astype(acc.numpy)]
            largest = x.astype(acc.numpy).max(axis=dims, initial=acc.minimum)
            largest_of_all = np.maximum(largest, start)
        for generalized in (False, True):
            rough = 0 if not acc.is_float else 32 if generalized and acc.bits < 32 else 8
            for wants, args in zip(wanted, ([x], [x, start]), strict=True):
                assert_same(
                    run(reduction(ReduceSum, dims, acc), *args, generalized=generalized), np.asarray(wants), rough
                )
            made = run(reduction(ReduceMax, dims, acc), x, generalized=generalized)
            assert_same(made, np.asarray(largest))
            made = run(reduction(ReduceMax, dims, acc), x, start, generalized=generalized)
            assert_same(made, np.asarray(largest_of_all))


def test_a_maximum_keeps_nan() -> None:
    x = np.array([[1.0, np.nan, 3.0], [-np.inf, -np.inf, -np.inf]], np.float32)
    for generalized in (False, True):
        made = run(reduction(ReduceMax, (1,), f32), x, generalized=generalized)
        np.testing.assert_array_equal(wide(made), [np.nan, -np.inf])


def test_reductions_of_nothing_are_neutral() -> None:
    for dtype in (*FLOATS, *INTEGERS, index):
        x = np.zeros((0, 2), dtype.numpy)
        for generalized in (False, True):
            assert run(reduction(ReduceSum, (0,), dtype), x, generalized=generalized).tolist() == [0, 0]
            largest = run(reduction(ReduceMax, (0,), dtype), x, generalized=generalized)
            assert largest.tolist() == [dtype.minimum] * 2


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax(dtype: ScalarType, dim: int) -> None:
    for shape in ((3, 5), (1, 1), (0, 4), (4, 0)):
        x = random_array(shape, dtype, 1, special=False)
        powers = np.exp(wide(x) - wide(x).max(axis=dim, keepdims=True, initial=-np.inf))
        wanted = (powers / powers.sum(axis=dim, keepdims=True)).astype(dtype.numpy)
        assert_same(run(lambda v: Softmax([v[0]], [v[0].type], {"dim": dim}), x), wanted)


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_softmax_is_what_it_is_made_of(dtype: ScalarType) -> None:
    for dim, x in enumerate(
        (random_array((3, 5), dtype, 1, special=False), random_array((4, 1), dtype, 2, special=False))
    ):
        b = Builder()
        with b.func("f", {"x": TensorType(x.shape, dtype)}) as (v,):
            soft = b.insert(Softmax([v], [v.type], {"dim": dim}))
            b.returns(soft.result, soft.decompose(b.value))
        module = b.finish()
        whole, parts = evaluate_func(module, module.main, [x])
        assert_same(parts, whole, ulps=8)


def test_softmax_of_infinity_is_nan() -> None:
    x = np.array([[np.inf, 0.0], [-np.inf, 0.0]], np.float32)
    made = run(lambda v: Softmax([v[0]], [v[0].type], {"dim": 1}), x)
    np.testing.assert_array_equal(wide(made), [[np.nan, np.nan], [0.0, 1.0]])


def test_factors_of_an_integer_contraction_are_cast_as_by_tcp_cast() -> None:
    module = parse(
        "func @f(%x: tensor<2x3xf32>, %y: tensor<3x2xui32>) -> tensor<2x2xui32> {\n"
        "  %z = tcp.matmul(%x, %y) : tensor<2x2xui32>\n  tcp.return(%z)\n}\n"
    )
    x = np.array([[1.9, 2.9, 3.9], [-1.5, 4, 5]], np.float32)
    y = np.array([[0, 2], [1, 2], [1, 1]], np.uint32)
    np.testing.assert_array_equal(evaluate_func(module, module.main, [x, y])[0], [[5, 9], [9, 13]])


def test_factors_wider_than_the_sum_are_rounded_first() -> None:
    """7e4 is infinite in f16; the evaluator sums in f32, where 7e4 * 0.5 would be finite."""
    module = parse(
        "func @f(%x: tensor<1xf32>, %y: tensor<1xf16>) -> tensor<f16> {\n"
        '  %z = tcp.contract(%x, %y) {lhs = ["k"], rhs = ["k"], out = []} : tensor<f16>\n  tcp.return(%z)\n}\n'
    )
    arrays = [np.array([7e4], np.float32), np.array([0.5], np.float16)]
    assert evaluate_func(module, module.main, arrays)[0] == np.inf


@pytest.mark.parametrize("out", [["h"], ["h", "n"], ["n", "h"]])
def test_a_contraction_reads_a_diagonal(out: list[str]) -> None:
    kind = "x".join({"h": "3", "n": "2"}[dim] for dim in out)
    text = (
        "func @f(%x: tensor<3x3xf64>, %y: tensor<3x2xf64>) -> tensor<KINDxf64> {\n"
        '  %z = tcp.contract(%x, %y) {lhs = ["h", "h"], rhs = ["h", "n"], out = [OUT]} : tensor<KINDxf64>\n'
        "  tcp.return(%z)\n}\n"
    )
    module = parse(text.replace("KIND", kind).replace("OUT", ", ".join(f'"{dim}"' for dim in out)))
    x, y = np.arange(9.0).reshape(3, 3), np.arange(6.0).reshape(3, 2)
    wanted = np.einsum(f"hh,hn->{''.join(out)}", x, y)
    np.testing.assert_array_equal(evaluate_func(module, module.main, [x, y])[0], wanted)


def _contracted(lhs: str, rhs: str = '["k", "j"]', out: str = '["i", "j"]', shape: str = "4x3x2") -> str:
    return (
        f"func @f(%x: tensor<{shape}xf32>, %y: tensor<6x5xf32>) -> tensor<4x5xf32> {{\n"
        f"  %z = tcp.contract(%x, %y) {{lhs = {lhs}, rhs = {rhs}, out = {out}}} : tensor<4x5xf32>\n"
        "  tcp.return(%z)\n}\n"
    )


def test_digits_of_a_dim_may_be_written_with_blanks() -> None:
    module = parse(_contracted('["i", "k / 2", "k% 2"]'))
    x = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    y = np.arange(30, dtype=np.float32).reshape(6, 5)
    np.testing.assert_array_equal(evaluate_func(module, module.main, [x, y])[0], x.reshape(4, 6) @ y)
    with pytest.raises(VerifyError) as caught:
        parse(_contracted('["i", "k / 2"]', shape="4x6"))
    assert caught.value.diagnostic.required == '"k/2" and "k%2", each once'


@pytest.mark.parametrize(
    ("lhs", "out", "message", "fix"),
    [
        ('["i", "floordiv(k, 2)"]', '["i", "j"]', '`lhs` lists "floordiv(k, 2)", which is no dim', 'write "k/2"'),
        ('["i", " mod( k,2 )"]', '["i", "j"]', '`lhs` lists " mod( k,2 )", which is no dim', 'write "k%2"'),
        ('["i", "k "]', '["i", "j"]', '`lhs` lists "k ", which is no dim', 'write "k"'),
        ('["i", "2*k"]', '["i", "j"]', '`lhs` lists "2*k", which is no dim', None),
        ('["i", ""]', '["i", "j"]', '`lhs` lists "", which is no dim', None),
        ('["i", "k/0"]', '["i", "j"]', '`lhs` lists "k/0", which is no dim', None),
        ('["i", "k"]', '["i", "j/2"]', '`out` lists "j/2", which is no dim', None),
    ],
)
def test_a_dim_of_a_contraction_is_an_identifier(lhs: str, out: str, message: str, fix: str | None) -> None:
    """Another text named a dim of its own, so that a product summed over dims that have nothing in common."""
    with pytest.raises(VerifyError) as caught:
        parse(_contracted(lhs, out=out, shape="4x6"))
    error = caught.value.diagnostic
    assert error.message == f"%z (tcp.contract): {message}"
    digits = "" if message.startswith("`out`") else ', or digits of one, "k/4" and "k%4"'
    assert error.required == f'names of dims, such as "k"{digits}'
    assert str(error.found) in message
    assert error.fix == (fix or 'name the dim by letters, digits and underscores, such as "k"')


def test_values_of_another_type_than_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an operation of a user may give."""
    monkeypatch.setattr(Exp, "evaluate", lambda op, args, evaluation: (args[0].astype(np.float64),))
    module = parse("func @f(%x: tensor<3xf32>) -> tensor<3xf32> { %y = tcp.exp(%x) : tensor<3xf32> tcp.return(%y) }")
    with pytest.raises(VerifyError) as caught:
        evaluate_func(module, module.main, [np.zeros(3, np.float32)])
    told = caught.value.diagnostic
    assert told.message == "%y (tcp.exp): the evaluator disagrees with the declared type"
    assert (told.required, told.found) == ("float32 of shape (3,) for tensor<3xf32>", "float64 of shape (3,)")
