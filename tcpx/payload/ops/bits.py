"""Operations on the bits of numbers, and on truth values as single bits."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import ClassVar

import numpy as np

from tcpx.payload.diagnostics import Direction
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Range, Value, register
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.elementwise import Arithmetic, Conversion, SameType, Unary
from tcpx.payload.sizes import is_less_equal, minimum
from tcpx.payload.traits.algebra import Keeps
from tcpx.payload.types import ScalarKind, ScalarType, dtype_of, i1
from tcpx.plurals import counted


class BitsOnly(SameType):
    """Defined on integers and, unless it says otherwise, on truth values."""

    __slots__ = ()
    takes_truth: ClassVar[bool] = True
    """Whether i1 is among its dtypes."""

    def verify(self) -> None:
        dtype = dtype_of(self.result.type)
        if dtype.is_float or (dtype == i1 and not self.takes_truth):
            raise self.error(
                "the operation is defined on integers",
                required="an integer type or i1" if self.takes_truth else "an integer type",
                found=dtype.name,
                fix=Direction(f"tcp.bitcast reads an {dtype} as an integer") if dtype.is_float else None,
            )
        super().verify()


def ones(dtype: ScalarType) -> int:
    """The integer with all bits set."""
    return -1 if dtype.minimum < 0 else int(dtype.maximum)


@register
class And(BitsOnly, Arithmetic):
    """Bitwise and; for booleans logical and."""

    __slots__ = ()
    opcode = "tcp.and"
    semantics = "a & b"
    commutes = (0, 1)
    ufunc = np.bitwise_and

    @classmethod
    def neutral_of(cls, dtype: ScalarType) -> float | int | None:
        return None if dtype.is_float else ones(dtype)

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        """From 0 to the smaller end of those operands that are not negative."""
        known = [found[1] for found in map(of, self.operands) if found is not None and is_less_equal(0, found[0])]
        return (0, reduce(minimum, known)) if known else None


@register
class Or(BitsOnly, Arithmetic):
    """Bitwise or; for booleans logical or."""

    __slots__ = ()
    opcode = "tcp.or"
    semantics = "a | b"
    commutes = (0, 1)
    ufunc = np.bitwise_or

    @classmethod
    def neutral_of(cls, dtype: ScalarType) -> float | int | None:
        return None if dtype.is_float else 0


@register
class Xor(BitsOnly, Arithmetic):
    """Bitwise exclusive or; for booleans whether they differ."""

    __slots__ = ()
    opcode = "tcp.xor"
    semantics = "a ^ b"
    commutes = (0, 1)
    ufunc = np.bitwise_xor

    @classmethod
    def neutral_of(cls, dtype: ScalarType) -> float | int | None:
        return None if dtype.is_float else 0


@register
class Not(BitsOnly, Unary):
    """Bitwise not, -1 - a; for booleans logical not."""

    __slots__ = ()
    opcode = "tcp.not"
    semantics = "complement(a)"

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.invert(args[0]),)

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        return build(Xor.of(args[0], splat(build, ones(dtype_of(args[0].type)), args[0].type)))


class Shift(BitsOnly, Arithmetic):
    """The amount counts as unsigned, so a negative one is past the width, as is one of at least the width."""

    __slots__ = ()
    takes_truth = False


@register
class ShiftLeft(Shift):
    """a * 2**b, truncated to the low bits; 0 if b is negative or at least the width."""

    __slots__ = ()
    opcode = "tcp.shift_left"
    semantics = "shift_left(a, b)"
    ufunc = np.left_shift


@register
class ShiftRight(Shift):
    """floor(a / 2**b): arithmetic for signed integers, logical for unsigned ones. If b is negative or at least the
    width, the result is -1 for a negative a, else 0."""

    __slots__ = ()
    opcode = "tcp.shift_right"
    semantics = "shift_right(a, b)"
    ufunc = np.right_shift


@register
class Bitcast(Conversion):
    """The same bits as another dtype of this width. The bits of a computed NaN are not specified."""

    __slots__ = ()
    opcode = "tcp.bitcast"
    converts = Keeps.BITS
    semantics = "bitcast(a)"

    def verify(self) -> None:
        source, dest = dtype_of(self.operand.type), dtype_of(self.result.type)
        if source.bits != dest.bits or (ScalarKind.BOOL in (source.kind, dest.kind) and source != dest):
            raise self.error(
                "operand and result have elements of one width",
                required=f"a dtype of {counted(source.bits, 'bit')}",
                found=f"{dest}, of {counted(dest.bits, 'bit')}",
                fix=Direction("tcp.cast converts the numbers"),
            )
        self._check_kind(self.operand)
        super().verify()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (args[0].view(dtype_of(self.result.type).numpy),)
