"""Normalizations along dims, of any number and order: softmax, log_softmax, layer_norm, rms_norm."""

from collections.abc import Sequence
from math import prod

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import ElementsAttribute, FlagAttribute, NamedOperand, NumberAttribute, PositionsAttribute
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
from tcpx.payload.ops.movement import Broadcast
from tcpx.payload.ops.reduce import Reduce, ReduceMax, ReduceSum
from tcpx.payload.ops.select import IsNan, Select
from tcpx.payload.ops.views import Reshape
from tcpx.payload.sizes import Dim, floordiv, is_equal, mod, to_text
from tcpx.payload.traits.signature import given_operands
from tcpx.payload.types import dtype_of, like, shape_of


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
    by_dims = ("parts",)
    epsilon = NumberAttribute(default=1e-5)
    """What is added to the mean of the squares."""
    parts = ElementsAttribute(int, "a list of ints", default=())
    """By dim of the operand: into how many equal parts it is split, each of which is normalized separately, as the
    channels of a group norm. 1 for all dims if left out."""

    @property
    def has_parts(self) -> bool:
        """Whether a dim has several parts."""
        return any(count != 1 for count in self.parts)

    @property
    def count(self) -> Dim:
        return floordiv(super().count, prod(self.parts))

    def maps(self) -> tuple[IndexingMap, ...]:
        (whole,) = super().maps()
        return whole, *(tuple(whole[k] for k in self.reduced) for _ in given_operands(self))

    def verify(self) -> None:
        if not self.epsilon >= 0:
            raise self.error("`epsilon` is below 0", required="0 or more", found=str(self.epsilon))
        super().verify()
        self._check_parts(shape_of(self.operand.type))

    def _check_parts(self, shape: Sequence[Dim]) -> None:
        """Raise VerifyError where dims do not have so many parts."""
        found = str(list(self.parts))
        if self.parts and (len(self.parts) != len(shape) or min(self.parts) < 1):
            raise self.error(
                "`parts` has a number for each dim of the operand",
                required=f"{len(shape)} ints, each 1 or more",
                found=found,
                fix=f"{{parts = {[1] * len(shape)}}}",
            )
        other = [k for k, count in enumerate(self.parts) if count != 1 and k not in self.reduced]
        if other:
            right = [1 if k in other else count for k, count in enumerate(self.parts)]
            raise self.error(
                "only dims that are normalized have parts",
                required=f"1 for dim {other[0]}, which `dims` has not",
                found=found,
                fix=f"{{parts = {right}}}",
            )
        for k, (extent, count) in enumerate(zip(shape, self.parts, strict=False)):
            is_whole = is_equal(mod(extent, count), 0)
            if is_whole is not True:
                raise self.error(
                    f"dim {k} has no {count} equal parts",
                    required=f"an extent that {count} divides",
                    found=to_text(extent),
                    unproven=is_whole is None,
                )

    def combined(self, build: Build, reduction: type[Reduce], value: Value) -> Value:
        """The elements of each part, combined: first along the dims without parts."""
        if not self.has_parts:
            return super().combined(build, reduction, value)
        whole, left = self._whole_and_left()

        def along(held: Value, positions: Sequence[int]) -> Value:
            shape = tuple(extent for k, extent in enumerate(shape_of(held.type)) if k not in positions)
            return build(reduction([held], [like(held.type, shape, dtype_of(held.type))], {"dims": tuple(positions)}))

        value = along(value, whole) if whole else value
        shape, last = in_parts(shape_of(value.type), [self.parts[k] for k in left])
        apart = build(Reshape.of(value, shape))
        return along(apart, [last[n] for n, k in enumerate(left) if self.parts[k] != 1])

    def spread(self, build: Build, value: Value) -> Value:
        """A value of the other dims and of the parts, repeated along the elements of each part."""
        if not self.has_parts:
            return super().spread(build, value)
        _, left = self._whole_and_left()
        full, dtype = shape_of(self.operand.type), dtype_of(value.type)
        shape, last = in_parts([full[k] for k in left], [self.parts[k] for k in left])
        inner = [last[n] for n, k in enumerate(left) if self.parts[k] != 1]
        kept = [k for k in range(len(shape)) if k not in inner]
        repeated = build(Broadcast.of(value, kept, like(value.type, shape, dtype)))
        flat = build(Reshape.of(repeated, [full[k] for k in left]))
        return flat if len(left) == len(full) else build(Broadcast.of(flat, left, like(value.type, full, dtype)))

    def _whole_and_left(self) -> tuple[list[int], list[int]]:
        """The normalized dims without parts, and all other dims."""
        whole = [k for k in self.reduced if self.parts[k] == 1]
        return whole, [k for k in range(len(self.parts)) if k not in whole]

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
        whole, (shape, last) = float64(args[0]), in_parts(args[0].shape, self.parts or (1,) * args[0].ndim)
        x = whole.reshape([extent for extent in shape if isinstance(extent, int)])
        along = tuple(last[k] for k in self.reduced)
        count = max(1, int(np.prod([x.shape[k] for k in along])))
        if is_centred:
            x = self.in_range(x - self.total(x, along) / count)
        made = (x / np.sqrt(self.total(x * x, along) / count + self.epsilon)).reshape(whole.shape)
        spread = tuple(k for k in range(whole.ndim) if k not in self.reduced)
        for name, array in zip(given_operands(self), args[1:], strict=True):
            operand = np.expand_dims(float64(array), spread)
            made = self.in_range(made * operand) if name == "scale" else made + operand
        return np.asarray(made)


def in_parts(shape: Sequence[Dim], parts: Sequence[int]) -> tuple[tuple[Dim, ...], tuple[int, ...]]:
    """A shape in which each dim with parts is two, and the last position of each dim in it."""
    made, last = list[Dim](), list[int]()
    for extent, count in zip(shape, parts, strict=True):
        made += [extent] if count == 1 else [count, floordiv(extent, count)]
        last.append(len(made) - 1)
    return tuple(made), tuple(last)


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
