"""Normalizations along dims, of any number and order: softmax, log_softmax, layer_norm, rms_norm."""

from collections.abc import Sequence

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import FlagAttribute, NamedOperand, NumberAttribute, PositionsAttribute
from tcpx.payload.indexing_maps import IndexingMap
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.arithmetic import Reciprocal, Rsqrt
from tcpx.payload.ops.composite import (
    AlongDims,
    AlongListedDims,
    Wide,
    filled,
    float64,
    placed,
    rounded,
    squared,
    with_number,
)
from tcpx.payload.ops.elementwise import Add, Mul, Sub, cast_to
from tcpx.payload.ops.exponential import Exp
from tcpx.payload.ops.logarithm import Log
from tcpx.payload.ops.reduce import ReduceMax, ReduceSum
from tcpx.payload.ops.select import IsNan, Select
from tcpx.payload.types import dtype_of


@register
class Softmax(AlongDims):
    """exp(x - max x) / sum exp(x - max x) along `dim`, or along several, `dim = [1, 2]`."""

    __slots__ = ()
    opcode = "tcp.softmax"
    class_name = "softmax"
    dim = PositionsAttribute()
    """The position of the normalized dim, or those of several."""
    safe = FlagAttribute()
    """0 instead of NaN: where all elements along `dim` are -inf, or one is NaN or inf."""

    @property
    def reduced(self) -> tuple[int, ...]:
        return self.dim

    def decompose(self, build: Build) -> Value:
        x = cast_to(build, self.operand, self.wide)
        largest = self.combined(build, ReduceMax, x)
        powers = build(Exp.of_at_most_0(build(Sub.of(x, self.spread(build, largest)))))
        total = self.combined(build, ReduceSum, powers)
        made = build(Mul.of(powers, self.spread(build, build(Reciprocal.of(total)))))
        if self.safe:
            undefined = self.spread(build, build(IsNan.of(total)))
            made = build(Select.of(undefined, filled(build, 0.0, made.type), made))
        return cast_to(build, made, dtype_of(self.result.type))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        made = softmax(float64(args[0]), self.reduced)
        return rounded(np.where(np.isnan(made), 0, made) if self.safe else made, dtype_of(self.result.type))


@register
class LogSoftmax(AlongDims):
    """The logarithm of the softmax, x - max x - log sum exp(x - max x), along `dim`, or along several."""

    __slots__ = ()
    opcode = "tcp.log_softmax"
    class_name = "log_softmax"
    dim = PositionsAttribute()
    """The position of the normalized dim, or those of several."""

    @property
    def reduced(self) -> tuple[int, ...]:
        return self.dim

    def decompose(self, build: Build) -> Value:
        x = cast_to(build, self.operand, self.wide)
        shifted = build(Sub.of(x, self.spread(build, self.combined(build, ReduceMax, x))))
        total = build(Log.of(self.combined(build, ReduceSum, build(Exp.of_at_most_0(shifted)))))
        return cast_to(build, build(Sub.of(shifted, self.spread(build, total))), dtype_of(self.result.type))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        x, along = float64(args[0]), self.reduced
        shifted = x - np.max(x, axis=along, keepdims=True, initial=-np.inf) if along else x - x
        made = shifted - np.log(np.sum(np.exp(shifted), axis=along, keepdims=True))
        return rounded(made, dtype_of(self.result.type))


def softmax(x: Wide, along: tuple[int, ...]) -> Wide:
    """The reference in float64."""
    powers = np.exp(x - np.max(x, axis=along, keepdims=True, initial=-np.inf)) if along else np.exp(x - x)
    return np.asarray(powers / np.sum(powers, axis=along, keepdims=True))


class Norm(AlongListedDims):
    """A normalization with a scale along the same dims, in their order."""

    __slots__ = ()
    epsilon = NumberAttribute(default=1e-5)
    """What is added to the mean of the squares."""

    def maps(self) -> tuple[IndexingMap, ...]:
        (whole,) = super().maps()
        return whole, *(tuple(whole[k] for k in self.reduced) for _ in self.given)

    def verify(self) -> None:
        if not self.epsilon >= 0:
            raise self.error("`epsilon` is below 0", required="0 or more", found=str(self.epsilon))
        super().verify()

    def normalized(self, build: Build, x: Value) -> Value:
        """A value over the root of the mean of its squares."""
        square = with_number(build, Add, self.mean(build, squared(build, x)), float(self.epsilon))
        return build(Mul.of(x, self.spread(build, build(Rsqrt.of(square)))))

    def applied(self, build: Build, value: Value, op: type[Add | Mul], operand: Value | None) -> Value:
        """`op` of a value and of an operand along the dims, where there is one."""
        if operand is None:
            return value
        return build(op.of(value, placed(build, operand, self.reduced, value.type, self.wide)))

    def reference(self, args: Sequence[Array], is_centred: bool) -> Wide:
        """The function in float64."""
        x, along = float64(args[0]), self.reduced
        count = max(1, int(np.prod([x.shape[k] for k in along])))
        if is_centred:
            x = self.in_range(x - self.total(x) / count)
        made = x / np.sqrt(self.total(x * x) / count + self.epsilon)
        spread = tuple(k for k in range(x.ndim) if k not in along)
        for name, array in zip(self.given, args[1:], strict=True):
            operand = np.expand_dims(float64(array), spread)
            made = self.in_range(made * operand) if name == "scale" else made + operand
        return np.asarray(made)


@register
class LayerNorm(Norm):
    """(x - mean) / sqrt(variance + epsilon) along `dims`, times `scale`, plus `bias`; the variance is the mean of the
    squares of x - mean, computed in a second pass."""

    __slots__ = ()
    opcode = "tcp.layer_norm"
    class_name = "layer_norm"
    scale, bias = NamedOperand(), NamedOperand()
    applied_operands = (("scale", "a * b"), ("bias", "a + b"))

    def decompose(self, build: Build) -> Value:
        x = cast_to(build, self.operand, self.wide)
        centred = build(Sub.of(x, self.spread(build, self.mean(build, x))))
        made = self.applied(build, self.normalized(build, centred), Mul, self.scale)
        return cast_to(build, self.applied(build, made, Add, self.bias), dtype_of(self.result.type))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return rounded(self.reference(args, is_centred=True), dtype_of(self.result.type))


@register
class RmsNorm(Norm):
    """x / sqrt(mean of x**2 + epsilon) along `dims`, times `scale`."""

    __slots__ = ()
    opcode = "tcp.rms_norm"
    class_name = "rms_norm"
    scale = NamedOperand()
    applied_operands = (("scale", "a * b"),)

    def decompose(self, build: Build) -> Value:
        made = self.normalized(build, cast_to(build, self.operand, self.wide))
        return cast_to(build, self.applied(build, made, Mul, self.scale), dtype_of(self.result.type))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return rounded(self.reference(args, is_centred=False), dtype_of(self.result.type))
