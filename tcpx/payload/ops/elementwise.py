"""Elementwise operations: the same class on scalars, tensors and vectors."""

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

import numpy as np

from tcpx.payload.contraction import may_contract
from tcpx.payload.diagnostics import Direction
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import Operand
from tcpx.payload.fused import fused_multiply_add
from tcpx.payload.interfaces import Build, Elementwise
from tcpx.payload.ir import Operation, Range, Value, register
from tcpx.payload.sizes import is_less_equal, maximum, minimum
from tcpx.payload.traits.algebra import Group, Keeps, Rounding
from tcpx.payload.types import HALF, SCALARS, ScalarKind, ScalarType, VectorType, dtype_of, f32, i1, like, shape_of
from tcpx.payload.value_ranges import value_range


class SameType(Elementwise):
    """All operands and the result have one type."""

    __slots__ = ()
    attribute_names = ()

    @classmethod
    def of(cls, *operands: Value) -> Operation:
        """A detached operation on values of equal type."""
        return cls(operands, [operands[0].type])

    @classmethod
    def dtype_of_number(cls, index: int, dtypes: Sequence[ScalarType | None], result: ScalarType) -> ScalarType | None:
        return result

    def verify(self) -> None:
        dtypes = [dtype_of(value.type) for value in self.operands]
        result = dtype_of(self.result.type)
        for value, dtype in zip(self.operands, dtypes, strict=True):
            if dtype != result and len(set(dtypes)) == 1:
                raise self.error(
                    "the result has another dtype than the operands",
                    required=dtype.name,
                    found=str(self.result.type),
                    fix=Direction(
                        f"write `: {like(self.result.type, shape_of(self.result.type), dtype)}`, and a tcp.cast of it"
                    ),
                )
            if dtype != result:
                raise self.error(
                    "operands and result have one dtype",
                    required=result.name,
                    found=f"%{value.name}: {value.type}",
                    fix=f"%{value.name}.{result} = tcp.cast(%{value.name})"
                    f" : {like(value.type, shape_of(value.type), result)}",
                )
            self._check_kind(value)
        super().verify()

    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        del index, reduced
        return 0


class Unary(SameType):
    """One operand."""

    __slots__ = ()
    operand = Operand()


class Binary(SameType):
    """Two operands."""

    __slots__ = ()
    lhs, rhs = Operand(), Operand()

    @classmethod
    def neutral_of(cls, dtype: ScalarType) -> float | int | None:
        """The neutral element where the operation is an associative, commutative combiner; else None."""
        del dtype
        return None

    @classmethod
    def accumulating_operands(cls, combiner: type[Operation]) -> tuple[tuple[int, ...], ...]:
        return ((0,), (1,)) if cls is combiner else ()


class Arithmetic(Binary):
    """One function of NumPy, in the dtype of the operands."""

    __slots__ = ()
    ufunc: ClassVar[np.ufunc]

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (self.ufunc(args[0], args[1]),)


class FloatOnly(SameType):
    """Defined on floats only."""

    __slots__ = ()
    on_integers: ClassVar[str] = ""
    """The opcode of the operation that does it on integers, if there is one."""

    def verify(self) -> None:
        dtype = dtype_of(self.result.type)
        if not dtype.is_float:
            raise self.error(
                "the operation is defined on floats",
                required="f64, f32, f16 or bf16",
                found=dtype.name,
                fix=f"write {self.on_integers}" if self.on_integers and dtype.is_integer else None,
            )
        super().verify()


@register
class Add(Arithmetic):
    """a + b; integers wrap around.

    A product that only the sum uses is rounded with it if the target has an instruction for both, unless the function
    says `contraction = false`.
    """

    __slots__ = ()
    opcode = "tcp.add"
    homomorphism = (Group.SUM, Group.SUM)
    distributes_over = ("tcp.max", "tcp.min")
    semantics = "a + b"
    commutes = (0, 1)
    ufunc = np.add

    @classmethod
    def neutral_of(cls, dtype: ScalarType) -> float | int | None:
        return 0


@register
class Sub(Arithmetic):
    """a - b; integers wrap around."""

    __slots__ = ()
    opcode = "tcp.sub"
    homomorphism = (Group.SUM, Group.SUM)
    semantics = "a - b"
    ufunc = np.subtract

    @classmethod
    def accumulating_operands(cls, combiner: type[Operation]) -> tuple[tuple[int, ...], ...]:
        return ((0,),) if combiner is Add else ()

    def verify(self) -> None:
        if dtype_of(self.result.type) == i1:
            raise self.error("there is no difference of truth values", required="a number type", found="i1")
        super().verify()


@register
class Mul(Arithmetic):
    """a * b; integers wrap around.

    Where only a sum uses it, both are rounded once if the target has an instruction for both, unless the function says
    `contraction = false`.
    """

    __slots__ = ()
    opcode = "tcp.mul"
    homomorphism = (Group.PRODUCT, Group.PRODUCT)
    linear = (0, 1)
    distributes_over = ("tcp.add",)
    semantics = "a * b"
    commutes = (0, 1)
    ufunc = np.multiply

    @classmethod
    def neutral_of(cls, dtype: ScalarType) -> float | int | None:
        return 1


@register
class Div(Binary, FloatOnly):
    """a / b on floats, IEEE 754: x / 0 is an infinity, 0 / 0 is NaN."""

    __slots__ = ()
    opcode = "tcp.div"
    on_integers = "tcp.floordiv"
    linear = (0,)
    semantics = "a / b"

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.divide(args[0], args[1]).astype(args[0].dtype),)

    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        del reduced
        return 1 if index == 1 else 0


@register
class Max(Arithmetic):
    """The larger of a and b; NaN if either is NaN (IEEE 754-2019 maximum, sign of zero unspecified)."""

    __slots__ = ()
    opcode = "tcp.max"
    direction = 1
    hands_on = (0, 1)
    semantics = "max(a, b)"
    commutes = (0, 1)
    ufunc = np.maximum

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        a, b = map(of, self.operands)
        return None if a is None or b is None else (maximum(a[0], b[0]), maximum(a[1], b[1]))

    @classmethod
    def neutral_of(cls, dtype: ScalarType) -> float | int | None:
        return dtype.minimum


@register
class Min(Arithmetic):
    """The smaller of a and b; NaN if either is NaN (IEEE 754-2019 minimum, sign of zero unspecified)."""

    __slots__ = ()
    opcode = "tcp.min"
    direction = -1
    hands_on = (0, 1)
    semantics = "min(a, b)"
    commutes = (0, 1)
    ufunc = np.minimum

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        a, b = map(of, self.operands)
        return None if a is None or b is None else (minimum(a[0], b[0]), minimum(a[1], b[1]))

    @classmethod
    def neutral_of(cls, dtype: ScalarType) -> float | int | None:
        return dtype.maximum


@register
class Fma(FloatOnly):
    """a * b + c with one rounding."""

    __slots__ = ()
    opcode = "tcp.fma"
    a, b, c = Operand(), Operand(), Operand()
    semantics = "fma(a, b, c)"
    commutes = (0, 1)
    rounding = Rounding.ONCE

    @classmethod
    def accumulating_operands(cls, combiner: type[Operation]) -> tuple[tuple[int, ...], ...]:
        return ((2,),) if combiner is Add else ()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        a, b, c = (x.astype(np.float64) for x in args)
        return (fused_multiply_add(a, b, c, args[0].dtype),)

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        """Of vectors of f16 and bf16, in f32: scalars have a row of their own."""
        if dtype_of(args[0].type) not in HALF or not isinstance(args[0].type, VectorType):
            return None
        from tcpx.payload.ops.fused_halves import fused_in_single  # made of what is below: late to break the cycle

        return fused_in_single(build, *args)


@register
class MultiplyAdd(Fma):
    """a * b + c, with one rounding if the target has an instruction for it, else with two. With
    `contraction = false` it is `tcp.fma`."""

    __slots__ = ()
    opcode = "tcp.multiply_add"
    rounding = Rounding.ONCE_OR_EACH

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        """A product and a sum, each rounded."""
        if not may_contract(self):
            return super().expansion(build, args)
        return build(Add.of(build(Mul.of(args[0], args[1])), args[2]))


@register
class Round(Unary, FloatOnly):
    """The nearest integral value, ties to even."""

    __slots__ = ()
    opcode = "tcp.round"
    semantics = "round(a)"

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.asarray(np.rint(args[0].astype(np.float64))).astype(args[0].dtype),)


class Conversion(Elementwise):
    """The operand as another dtype, which the result has."""

    __slots__ = ()
    attribute_names = ()
    operand = Operand()

    @classmethod
    def of(cls, operand: Value, dtype: ScalarType) -> Operation:
        """A detached operation that makes a value one of `dtype`."""
        return cls([operand], [like(operand.type, shape_of(operand.type), dtype)])

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        del acc
        return build(type(self).of(args[0], self.acc_type))

    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        del index, reduced
        return 0


@register
class Cast(Conversion):
    """Convert to the dtype of the result. Float to integer truncates and saturates, NaN is 0; integers wrap around.

    Casts to f16 or bf16 round to f32 first, as in C and PyTorch: f64 and wide integers are rounded twice.
    """

    __slots__ = ()
    opcode = "tcp.cast"
    converts = Keeps.VALUE
    linear = (0,)
    semantics = "cast(a)"

    def verify(self) -> None:
        if type(self.operands[0].type) is not type(self.result.type):
            raise self.error(
                "operand and result are of one kind (scalar, tensor or vector)",
                required=str(self.result.type),
                found=str(self.operands[0].type),
            )
        super().verify()

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        """That of the operand, where the dtype of the result has all of it."""
        found, dtype = of(self.operand), dtype_of(self.result.type)
        if found is None or not (dtype.is_integer and dtype_of(self.operand.type).is_integer):
            return None
        fits = is_less_equal(int(dtype.minimum), found[0]), is_less_equal(found[1] - 1, int(dtype.maximum))
        return found if fits == (True, True) else None

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        """To a truth value, whether it is not 0; of one, 1 or 0. Unsigned integers by the signed ones of their width,
        where that gives the same bits."""
        from tcpx.payload.ops.bits import Bitcast  # made of what is below: late to break the cycle
        from tcpx.payload.ops.constant import splat
        from tcpx.payload.ops.select import NotEqual, Select

        (a,) = args
        source, dest = dtype_of(a.type), dtype_of(self.result.type)
        if dest == i1 != source:
            return build(NotEqual.of(a, splat(build, 0, a.type)))
        if source == i1 != dest and dest not in HALF:
            return build(Select.of(a, splat(build, 1, self.result.type), splat(build, 0, self.result.type)))
        if not {source.kind, dest.kind} <= {ScalarKind.SIGNED, ScalarKind.UNSIGNED}:
            return None
        if source.bits == dest.bits:
            return build(Bitcast.of(a, dest))
        if dest.kind is ScalarKind.UNSIGNED:
            return build(Bitcast.of(build(Cast.of(a, SCALARS[f"si{dest.bits}"])), dest))
        if source.kind is ScalarKind.UNSIGNED and source.bits > dest.bits:
            return build(Cast.of(build(Bitcast.of(a, SCALARS[f"si{source.bits}"])), dest))
        return None

    def result_order(self, number: int, of: Callable[[Value], Collection[str]]) -> Collection[str]:
        return of(self.operand) if self.result_range(number, value_range) is not None else ()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (converted(args[0], dtype_of(self.operands[0].type), dtype_of(self.result.type)),)


def converted(array: Array, source: ScalarType, target: ScalarType) -> Array:
    """What `tcp.cast` makes of an array of dtype `source`."""
    if not target.is_float and target != i1 and source.is_float:
        wide = np.nan_to_num(np.trunc(array.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
        made = wide.astype(target.numpy)
        made = np.where(wide >= float(target.maximum), target.numpy.type(target.maximum), made)
        return np.where(wide <= float(target.minimum), target.numpy.type(target.minimum), made)
    return (array.astype(f32.numpy) if target in HALF else array).astype(target.numpy)


def cast_to(build: Build, value: Value, dtype: ScalarType) -> Value:
    """The value itself, or a cast of it, in `dtype`."""
    return value if dtype_of(value.type) == dtype else build(Cast.of(value, dtype))
