"""The semantics language: what it accepts and refuses, and that its evaluator is right where NumPy is not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tcpx.target import TargetError, load_target
from tcpx.target.semantics import Binary, Call, Operand, functions, normalize, operand_count, parse_semantics
from tcpx.verification.vector_rows.meaning import evaluate, evaluate_row, numpy_dtype


def test_parses_calls_and_operators() -> None:
    tree = parse_semantics("fma(a, b, c)")
    assert tree == Call("fma", (Operand("a"), Operand("b"), Operand("c")))
    assert parse_semantics("a <= b") == Binary("<=", Operand("a"), Operand("b"))
    assert parse_semantics("a + b * c") == Binary("+", Operand("a"), Binary("*", Operand("b"), Operand("c")))


@pytest.mark.parametrize(
    ("text", "normal", "count"),
    [
        ("a+b", "a + b", 2),
        (" max( a ,b) ", "max(a, b)", 2),
        ("(a*b)+c", "(a * b) + c", 3),
        ("neg(b)", "neg(b)", 2),
        ("a + dot(b,c)", "a + dot(b, c)", 3),
    ],
)
def test_has_one_spelling(text: str, normal: str, count: int) -> None:
    assert normalize(text) == normal
    assert normalize(normal) == normal
    assert operand_count(parse_semantics(text)) == count


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a +", "not an expression"),
        ("d + a", "unknown operand 'd'"),
        ("maxx(a, b)", "did you mean 'max'"),
        ("max(a)", "max takes 2 arguments"),
        ("a < b < c", "not part of the semantics language"),
        ("a ** b", "not part of the semantics language"),
        ("a.real", "not part of the semantics language"),
        ("max(a, b, key=c)", "not part of the semantics language"),
        ("__import__(a)", "unknown function '__import__'"),
        ("[a]", "not part of the semantics language"),
        ("1 + a", "not part of the semantics language"),
    ],
)
def test_refuses_what_is_not_in_the_language(text: str, part: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_semantics(text)
    assert part in str(caught.value)


def nearest(exact: Fraction, dtype: type[np.floating]) -> np.floating:
    """The float nearest to an exact value, ties to even, by search among neighbours."""
    start = dtype(float(exact))
    candidates = [np.nextafter(start, dtype(-np.inf)), start, np.nextafter(start, dtype(np.inf))]
    distances = [abs(Fraction(float(x)) - exact) for x in candidates]
    closest = [x for x, d in zip(candidates, distances, strict=True) if d == min(distances)]
    bits = np.uint32 if dtype is np.float32 else np.uint64
    return next((x for x in closest if int(x.view(bits)) % 2 == 0), closest[0]) if len(closest) > 1 else closest[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_rounds_once(dtype: type[np.floating]) -> None:
    random = np.random.default_rng(0)
    scale = dtype(2.0) ** random.integers(-40, 40, (3, 3000)).astype(dtype)
    a, b, c = ((random.integers(-(2**24), 2**24, (3, 3000)).astype(dtype)) * scale).astype(dtype)
    c[::2] = -(a * b)[::2]  # cancellation: only the product's low half is left
    c[1::4] = np.nextafter(c[1::4], dtype(0))
    got = evaluate("fma(a, b, c)", [a, b, c], "f32" if dtype is np.float32 else "f64")
    want = [
        nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), dtype)
        for x, y, z in zip(a, b, c, strict=True)
    ]
    np.testing.assert_array_equal(got, np.array(want))


def test_fma_differs_from_a_sum_rounded_twice() -> None:
    a, b, c = np.array([1 + 2**-12], np.float32), np.array([1 + 2**-12], np.float32), np.array([2.0**-60], np.float32)
    twice = (a.astype(np.float64) * b + c).astype(np.float32)
    once = evaluate("fma(a, b, c)", [a, b, c], "f32")
    assert twice[0] == np.float32(1 + 2**-11)  # the tie went to even; 2**-60 was lost in f64
    assert once[0] == np.float32(1 + 2**-11 + 2**-23)


@pytest.mark.parametrize(
    ("semantics", "operands", "result", "want"),
    [
        (
            "max(a, b)",
            [np.array([np.nan, 1], np.float32), np.array([1, np.nan], np.float32)],
            "f32",
            np.array([np.nan, np.nan], np.float32),
        ),
        (
            "cast(a)",
            [np.array([np.nan, 3e9, -3e9, 2.9, -2.9], np.float32)],
            "si32",
            np.array([0, 2**31 - 1, -(2**31), 2, -2], np.int32),
        ),
        ("cast(a)", [np.array([np.nan, 1e20, -1.0], np.float64)], "ui64", np.array([0, 2**64 - 1, 0], np.uint64)),
        ("cast(a)", [np.array([300, -1], np.int32)], "ui8", np.array([44, 255], np.uint8)),
        ("a + b", [np.array([127], np.int8), np.array([1], np.int8)], "si8", np.array([-128], np.int8)),
        (
            "scale2(a, b)",
            [np.array([1, 1, 1], np.float32), np.array([200, -149, -151], np.float32)],
            "f32",
            np.array([np.inf, 2**-149, 0], np.float32),
        ),
        ("round(a)", [np.array([0.5, 1.5, 2.5], np.float32)], "f32", np.array([0, 2, 2], np.float32)),
        ("a < b", [np.array([1, np.nan], np.float32), np.array([2, 2], np.float32)], "i1", np.array([True, False])),
        (
            "a + dot(b, c)",
            [np.array([1], np.int32), np.array([255] * 4, np.uint8), np.array([-128] * 4, np.int8)],
            "si32",
            np.array([1 - 4 * 255 * 128], np.int32),
        ),
    ],
)
def test_evaluates_the_edges(semantics: str, operands: list[np.ndarray], result: str, want: np.ndarray) -> None:
    got = evaluate(semantics, operands, result)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_functions_are_those_of_payloads(dtype: str) -> None:
    """Each operation on operands of one type is one, and keeps the dtype."""
    assert {"atan", "asin", "acos", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "clamp"} < functions().keys()
    operands = [np.array([0.25, np.nan], numpy_dtype(dtype))] * 3
    for name in functions().keys() - {"bitcast", "cast", "complement", "dot", "select", "shift_left", "shift_right"}:
        got = evaluate(f"{name}({', '.join('abc'[: functions()[name]])})", operands, dtype)
        assert got.dtype == numpy_dtype(dtype), name
    wide = evaluate("atanh(a)", [np.array([0.25, 1.0, 2.0])], "f64")
    np.testing.assert_array_equal(wide, [np.arctanh(np.longdouble(0.25)).astype(np.float64), np.inf, np.nan])


def test_refuses_functions_of_other_dtypes() -> None:
    with pytest.raises(TargetError, match="the operation is defined on floats"):
        evaluate("sqrt(a)", [np.array([4], np.int32)], "si32")


def test_refuses_operands_of_different_dtypes() -> None:
    with pytest.raises(TargetError, match="operands of \\+ differ in dtype"):
        evaluate("a + b", [np.array([1], np.float32), np.array([1], np.float64)], "f32")
    with pytest.raises(TargetError, match="not of the dtype of the result"):
        evaluate("a + b", [np.array([1], np.float32), np.array([1], np.float32)], "f64")


def test_only_rows_of_values_have_a_value() -> None:
    rows = {row.kind: row for row in load_target("x86_avx512").rows}
    with pytest.raises(TargetError, match=r"row load_\w+ accesses memory"):
        evaluate_row(rows["load"], [])
    with pytest.raises(TargetError, match=r"row store_\w+ has no result"):
        evaluate_row(rows["store"], [])
