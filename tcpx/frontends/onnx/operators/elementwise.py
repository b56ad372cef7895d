"""Operators that compute each element of the result from those at the same place, broadcast as NumPy does."""

from __future__ import annotations

from functools import reduce
from math import ceil, floor, inf
from typing import Final

import numpy as np

from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node, dtype_of_onnx
from tcpx.frontends.onnx.table import RULES, Result, Rule, rule
from tcpx.payload.ir import Value
from tcpx.payload.types import f64, i1, shape_of

UNARY: Final = {
    "Abs": "abs", "Neg": "neg", "Sqrt": "sqrt", "Exp": "exp", "Log": "log", "Sin": "sin", "Cos": "cos", "Tan": "tan",
    "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh",
    "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Sigmoid": "sigmoid", "Erf": "erf",
    "Reciprocal": "reciprocal", "Sign": "sign", "Relu": "relu", "Softplus": "softplus", "Not": "not",
    "BitwiseNot": "not",
}  # fmt: skip
ROUNDING: Final = {"Floor": "floor", "Ceil": "ceil", "Round": "round"}
BINARY: Final = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "And": "and", "Or": "or", "Xor": "xor", "BitwiseAnd": "and",
    "BitwiseOr": "or", "BitwiseXor": "xor",
}  # fmt: skip
COMPARISONS: Final = {
    "Equal": "equal", "Less": "less", "Greater": "greater", "LessOrEqual": "less_equal",
    "GreaterOrEqual": "greater_equal",
}  # fmt: skip
_LARGEST: Final = float(np.finfo(np.float32).max)
VARIADIC: Final = {"Max": "max", "Min": "min", "Sum": "add"}


def _unary(word: str) -> Rule:
    return lambda n: n.w.unary(word, n.value(0))


def _binary(word: str) -> Rule:
    return lambda n: n.w.binary(word, n.value(0), n.value(1))


def _comparison(word: str) -> Rule:
    return lambda n: n.w.compare(word, n.value(0), n.value(1))


def _variadic(word: str) -> Rule:
    return lambda n: _joined(n, word)


RULES.update({name: _unary(word) for name, word in {**UNARY, **ROUNDING}.items()})
RULES.update({name: _binary(word) for name, word in BINARY.items()})
RULES.update({name: _comparison(word) for name, word in COMPARISONS.items()})
RULES.update({name: _variadic(word) for name, word in VARIADIC.items()})


def _joined(n: Node, word: str) -> Result:
    if len(n.inputs) == 1:
        return n.input(0)
    return reduce(lambda a, b: n.w.binary(word, a, b), n.values())


@rule("Mean")
def mean(n: Node) -> Result:
    """The sum over the number of operands."""
    if len(n.inputs) == 1:
        return n.input(0)
    made = reduce(lambda a, b: n.w.binary("add", a, b), n.values())
    return n.w.with_number("div", made, len(n.inputs))


@rule("Div")
def div(n: Node) -> Result:
    """Of integers truncated."""
    if n.dtype().is_float:
        return n.w.binary("div", n.value(0), n.value(1))
    if not n.dtype().minimum:
        return n.w.binary("floordiv", n.value(0), n.value(1))
    rest = n.w.binary("rem", n.value(0), n.value(1))
    return n.w.binary("floordiv", n.w.binary("sub", n.value(0), rest), n.value(1))


@rule("Mod")
def mod(n: Node) -> Result:
    """With the sign of the divisor, or with `fmod` that of the dividend."""
    return n.w.binary("rem" if n.int("fmod", 0) else "mod", n.value(0), n.value(1))


@rule("Pow")
def power(n: Node) -> Result:
    """The result has the dtype of the base. Squares and cubes, which norms and GELU are written with, are products."""
    base, exponent, dtype = n.value(0), n.value(1), n.dtype()
    if not dtype.is_float and n.dtype(1).is_float:
        wide = n.w.binary("pow", n.w.cast(base, f64), n.w.cast(exponent, f64))
        return n.w.cast(wide, dtype)
    held = n.input(1).array
    if held is not None and held.size == 1 and n.input(1).rank <= n.input(0).rank and held.ravel()[0] in (2, 3):
        square = n.w.op("mul", base, base)
        return square if held.ravel()[0] == 2 else n.w.op("mul", square, base)
    return n.w.binary("pow", base, n.w.cast(exponent, dtype))


@rule("BitShift")
def shift(n: Node) -> Result:
    """By as many bits as the second operand says."""
    words = {"LEFT": "shift_left", "RIGHT": "shift_right"}
    word = words.get(n.text("direction"))
    if word is None:
        raise n.error("the direction of a shift", "LEFT or RIGHT", n.text("direction"))
    return n.w.binary(word, n.value(0), n.value(1))


@rule("IsNaN")
def is_nan(n: Node) -> Result:
    """Whether an element is NaN."""
    return n.w.op("isnan", n.value(0), dtype=i1)


@rule("IsInf")
def is_inf(n: Node) -> Result:
    """Whether an element is an infinity of one of the signs that are asked for."""
    x, both = n.value(0), (n.int("detect_negative", 1), n.int("detect_positive", 1))
    if all(both):
        return n.w.op("isinf", x, dtype=i1)
    if not any(both):
        return n.w.fill(0, shape_of(x.type), i1)
    return n.w.with_number("equal", x, inf if both[1] else -inf, dtype=i1)


@rule("Where")
def where(n: Node) -> Result:
    """One of two elements."""
    return n.w.select(n.value(0), n.value(1), n.value(2))


@rule("Clip")
def clip(n: Node) -> Result:
    """Between bounds, which are attributes before opset 11. Those of opset 6 are finite where they are left out."""
    x, dtype = n.value(0), n.dtype()
    bounds: list[Value | None]
    if n.version < 11:
        usual = (-_LARGEST, _LARGEST) if n.version >= 6 else (None, None)
        given = [
            n.raw(key) if n.raw(key) is not None else bound for key, bound in zip(("min", "max"), usual, strict=True)
        ]
        bounds = [n.w.fill(bound, (), dtype) if bound is not None else None for bound in given]
    else:
        bounds = [n.optional(1), n.optional(2)]
    for word, bound in zip(("max", "min"), bounds, strict=True):
        if bound is not None:
            x = n.w.op(word, x, n.w.expand(n.w.reshape(bound, ()), shape_of(x.type)))
    return x if x is not n.value(0) else n.input(0)


def positive(n: Node, x: Value) -> Value:
    """Where a value is above 0."""
    return n.w.with_number("greater", x, 0, dtype=i1)


def scaled(n: Node, x: Value, number: float) -> Value:
    """A value times a number."""
    return n.w.with_number("mul", x, number)


@rule("LeakyRelu")
def leaky_relu(n: Node) -> Result:
    """A slope below 0."""
    x = n.value(0)
    return n.w.select(n.w.with_number("less", x, 0, dtype=i1), scaled(n, x, n.float("alpha", 0.01)), x)


@rule("PRelu")
def prelu(n: Node) -> Result:
    """A slope of each element below 0."""
    x, slope = n.value(0), n.value(1)
    return n.w.select(
        n.w.with_number("less", x, 0, dtype=i1), n.w.binary("mul", x, n.w.expand(slope, shape_of(x.type))), x
    )


@rule("Elu")
def elu(n: Node) -> Result:
    """alpha (e**x - 1) below 0."""
    x = n.value(0)
    return n.w.select(positive(n, x), x, scaled(n, n.w.unary("expm1", x), n.float("alpha", 1.0)))


@rule("Celu")
def celu(n: Node) -> Result:
    """max(0, x) + min(0, alpha (e**(x / alpha) - 1))."""
    x, alpha = n.value(0), n.float("alpha", 1.0)
    below = scaled(n, n.w.unary("expm1", n.w.with_number("div", x, alpha)), alpha)
    return n.w.binary("add", n.w.with_number("max", x, 0), n.w.with_number("min", below, 0))


@rule("Selu")
def selu(n: Node) -> Result:
    """gamma times an ELU."""
    x = n.value(0)
    alpha, gamma = n.float("alpha", 1.67326319217681884765625), n.float("gamma", 1.05070102214813232421875)
    return scaled(n, n.w.select(positive(n, x), x, scaled(n, n.w.unary("expm1", x), alpha)), gamma)


@rule("ThresholdedRelu")
def thresholded_relu(n: Node) -> Result:
    """What is above a threshold."""
    x = n.value(0)
    above = n.w.with_number("greater", x, n.float("alpha", 1.0), dtype=i1)
    return n.w.select(above, x, n.w.fill(0, shape_of(x.type), n.dtype()))


@rule("HardSigmoid")
def hard_sigmoid(n: Node) -> Result:
    """alpha x + beta between 0 and 1."""
    return _hard_sigmoid(n, n.value(0), n.float("alpha", 0.2), n.float("beta", 0.5))


def _hard_sigmoid(n: Node, x: Value, alpha: float, beta: float) -> Value:
    made = n.w.with_number("add", scaled(n, x, alpha), beta)
    return n.w.with_number("min", n.w.with_number("max", made, 0), 1)


@rule("Shrink")
def shrink(n: Node) -> Result:
    """0 between -lambd and lambd, nearer to 0 by `bias` outside."""
    x, bound, bias = n.value(0), n.float("lambd", 0.5), n.float("bias", 0.0)
    ends = (-bound, bound) if n.dtype().is_float else (ceil(-bound), floor(bound))
    below, above = (n.w.with_number(w, x, end, dtype=i1) for w, end in zip(("less", "greater"), ends, strict=True))
    rest = n.w.select(above, n.w.with_number("sub", x, bias), n.w.fill(0, shape_of(x.type), n.dtype()))
    return n.w.select(below, n.w.with_number("add", x, bias), rest)


@rule("Softsign")
def softsign(n: Node) -> Result:
    """x / (1 + |x|)."""
    x = n.value(0)
    return n.w.binary("div", x, n.w.with_number("add", n.w.unary("abs", x), 1))


@rule("Mish")
def mish(n: Node) -> Result:
    """x tanh(softplus(x))."""
    x = n.value(0)
    return n.w.binary("mul", x, n.w.unary("tanh", n.w.unary("softplus", x)))


@rule("Gelu")
def gelu(n: Node) -> Result:
    """With the error function or with tanh."""
    form = n.text("approximate", "none")
    return n.w.unary("gelu", n.value(0), **({} if form == "none" else {"approximate": form}))


@rule("Swish")
def swish(n: Node) -> Result:
    """x sigmoid(alpha x): NaN at -inf, as by ONNX's function."""
    x, alpha = n.value(0), n.float("alpha", 1.0)
    return n.w.binary("mul", x, n.w.unary("sigmoid", x if alpha == 1 else scaled(n, x, alpha)))


@rule("HardSwish")
def hard_swish(n: Node) -> Result:
    """x hardsigmoid(x): NaN at -inf, as by ONNX's function."""
    x = n.value(0)
    return n.w.binary("mul", x, _hard_sigmoid(n, x, 1 / 6, 0.5))


@rule("Cast")
def cast(n: Node) -> Result:
    """To another dtype."""
    return converted(n, dtype_of_onnx(n.int("to")).name)


@rule("CastLike")
def cast_like(n: Node) -> Result:
    """To the dtype of another tensor."""
    return converted(n, n.dtype(1).name)


def converted(n: Node, name: str) -> Result:
    """The operand in another dtype, itself where it has it."""
    from tcpx.payload.types import SCALARS

    return n.input(0) if n.dtype().name == name else n.w.cast(n.value(0), SCALARS[name])


@rule("BitCast")
def bit_cast(n: Node) -> Result:
    """The same bits as another dtype of the width."""
    wanted = dtype_of_onnx(n.int("to"))
    if n.dtype() == i1 and wanted.bits == 8:  # a byte, 0 or 1
        return n.w.cast(n.value(0), wanted)
    if wanted.bits != n.dtype().bits or i1 in (wanted, n.dtype()):
        raise Unsupported("bits of another width")
    return n.input(0) if wanted == n.dtype() else n.w.op("bitcast", n.value(0), dtype=wanted)
