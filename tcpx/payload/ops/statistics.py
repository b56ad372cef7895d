"""Reductions over the dims `dims` that are made of sums: mean, variance, Euclidean norm, logarithm of a sum of powers.

The elements are cast to the dtype of the result, or to f32 where that has 16 bits, and the result is rounded once.
"""

from collections.abc import Sequence

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import IntAttribute
from tcpx.payload.indexing_maps import IndexingMap
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.arithmetic import Sqrt
from tcpx.payload.ops.composite import AlongListedDims, Wide, divided, filled, float64, rounded, squared
from tcpx.payload.ops.elementwise import Add, Sub, cast_to
from tcpx.payload.ops.exponential import Exp
from tcpx.payload.ops.logarithm import Log
from tcpx.payload.ops.reduce import ReduceMax, ReduceSum
from tcpx.payload.ops.select import IsInf, Select
from tcpx.payload.sizes import Dim, maximum
from tcpx.payload.types import dtype_of, i1, like, shape_of


class Statistic(AlongListedDims):
    """A number, of numbers of any dtype."""

    __slots__ = ()

    def result_map(self) -> IndexingMap:
        (whole,) = self.maps()
        return tuple(whole[k] for k in self.kept)

    def check_dtypes(self) -> None:
        dtype = dtype_of(self.result.type)
        if not dtype.is_float:
            raise self.error("the result is a float", required="f64, f32, f16 or bf16", found=dtype.name)

    def decompose(self, build: Build) -> Value:
        return cast_to(build, self.made(build, cast_to(build, self.operand, self.wide)), dtype_of(self.result.type))

    def made(self, build: Build, x: Value) -> Value:
        """The number, of elements in the dtype that they are summed in."""
        raise self.error("the operation declares no decomposition", required="an operation with this method")

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        made = self.reference(float64(args[0]))
        return rounded(made.reshape([args[0].shape[k] for k in self.kept]), dtype_of(self.result.type))

    def reference(self, x: Wide) -> Wide:
        """The function in float64, with dims of 1 for those of `dims`."""
        raise self.error("the operation declares no values", required="an operation with this method")

    def of_count(self, x: Wide) -> float:
        """How many elements each number is of."""
        return float(np.prod([x.shape[k] for k in self.reduced]))


@register
class ReduceMean(Statistic):
    """The sum over `dims` divided by the number of elements; NaN without elements."""

    __slots__ = ()
    opcode = "tcp.reduce_mean"
    class_name = "reduce_mean"

    def made(self, build: Build, x: Value) -> Value:
        return self.mean(build, x)

    def reference(self, x: Wide) -> Wide:
        return self.total(x, self.reduced) / np.float64(self.of_count(x))


@register
class ReduceVariance(Statistic):
    """The sum over `dims` of the squares of x - mean, divided by their number minus `correction`, at least 0; NaN if
    there are no elements. `correction = 1` estimates from samples. The mean is computed in an earlier pass."""

    __slots__ = ()
    opcode = "tcp.reduce_variance"
    class_name = "reduce_variance"
    correction = IntAttribute(default=0)
    """What is taken from the number of elements."""

    def made(self, build: Build, x: Value) -> Value:
        centred = build(Sub.of(x, self.spread(build, self.mean(build, x))))
        divisor: Dim = maximum(0, self.count - self.correction)
        return divided(build, self.combined(build, ReduceSum, squared(build, centred)), divisor)

    def reference(self, x: Wide) -> Wide:
        centred = self.in_range(x - self.total(x, self.reduced) / np.float64(self.of_count(x)))
        return self.total(centred**2, self.reduced) / np.float64(max(0, self.of_count(x) - self.correction))


@register
class ReduceL2(Statistic):
    """The square root of the sum of the squares over `dims`; 0 without elements."""

    __slots__ = ()
    opcode = "tcp.reduce_l2"
    class_name = "reduce_l2"

    def made(self, build: Build, x: Value) -> Value:
        return build(Sqrt.of(self.combined(build, ReduceSum, squared(build, x))))

    def reference(self, x: Wide) -> Wide:
        return np.sqrt(self.total(x * x, self.reduced))


@register
class ReduceLogsumexp(Statistic):
    """log(sum exp(x)) over `dims`, computed from x - max x to avoid overflow; -inf without elements."""

    __slots__ = ()
    opcode = "tcp.reduce_logsumexp"
    class_name = "reduce_logsumexp"

    def made(self, build: Build, x: Value) -> Value:
        largest = self.combined(build, ReduceMax, x)
        zero = filled(build, 0.0, largest.type)
        is_infinite = build(IsInf([largest], [like(largest.type, shape_of(largest.type), i1)]))
        finite = build(Select.of(is_infinite, zero, largest))  # inf - inf is NaN
        powers = build(Exp.of(build(Sub.of(x, self.spread(build, finite)))))
        return build(Add.of(build(Log.of(self.combined(build, ReduceSum, powers))), finite))

    def reference(self, x: Wide) -> Wide:
        largest = np.max(x, axis=self.reduced, keepdims=True, initial=-np.inf) if self.reduced else x
        finite = np.where(np.isinf(largest), 0, largest)
        return np.log(self.total(np.exp(x - finite), self.reduced)) + finite
