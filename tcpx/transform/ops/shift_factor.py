"""shift_factor: add a constant to a factor of an integer contraction, to change its dtype."""

from tcpx.payload.interfaces import Structured
from tcpx.payload.types import ScalarType, dtype_of
from tcpx.transform import new
from tcpx.transform.declaration import (
    DTYPE,
    INT,
    VALUE,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.factors import Offset, contraction_of


@register
class ShiftFactor(Transform):
    """Add a number to a factor of an integer contraction, store it in another dtype, and subtract the effect from the
    result: the number times the sums of the other factor.

    Integers wrap around, so the result is the same. Dot-product instructions need one unsigned factor: adding 128 turns
    an `si8` into a `ui8`. Returns the sums of the other factor. The product keeps its handle. The computation of the
    shifted factor is its prologue, to be fused where it is read; the subtraction is part of its epilogue.

    before:
        func @f(%x: tensor<[M]x64xsi8>, %w: tensor<64x32xsi8>) -> tensor<[M]x32xsi32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xsi32>
          tcp.return(%mm)
        }
    statement:
        shift_factor(mm.lhs, by: 128, to: ui8)
    after:
        func @f(%x: tensor<[M]x64xsi8>, %w: tensor<64x32xsi8>) -> tensor<[M]x32xsi32> symbols [M] {
          %mm.lhs.cast = tcp.cast(%x) : tensor<[M]x64xui8>
          %mm.lhs.by = tcp.fill {value = 128} : tensor<[M]x64xui8>
          %mm.lhs.shifted = tcp.add(%mm.lhs.cast, %mm.lhs.by) : tensor<[M]x64xui8>
          %mm.sums = tcp.reduce_sum(%w) {dims = [0]} : tensor<32xsi32>
          %mm.sums.by = tcp.fill {value = 128} : tensor<32xsi32>
          %mm.excess = tcp.mul(%mm.sums, %mm.sums.by) : tensor<32xsi32>
          %mm.excess.1 = tcp.broadcast(%mm.excess) {dims = [1]} : tensor<[M]x32xsi32>
          %mm = tcp.matmul(%mm.lhs.shifted, %w) : tensor<[M]x32xsi32>
          %mm.mended = tcp.sub(%mm, %mm.excess.1) : tensor<[M]x32xsi32>
          tcp.return(%mm.mended)
        }
    """

    name = "shift_factor"
    category = Category.TYPES
    parameters = (
        Parameter("factor", VALUE, doc="a factor of an integer contraction: `mm.lhs`"),
        Parameter("by", INT, doc="the number that is added to every element"),
        Parameter("to", DTYPE, doc="an integer dtype that holds all sums"),
    )
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        (op, index), by, dtype = contraction_of(ctx, args.value("factor")), args.int("by"), args.dtype("to")
        _check(ctx, op, index, by, dtype)
        offset, role = Offset(ctx, op, index), op.operand_roles[index]
        cast = offset.build(new.cast(op.inputs[index], dtype), f"{role}.cast")
        number = offset.build(new.fill(by, cast.type), f"{role}.by")
        shifted = offset.build(new.add(cast, number), f"{role}.shifted")
        sums, kept = offset.sums()
        weight = offset.build(new.fill(_wrapped(by, op.acc_type), sums.results[0].type), "sums.by")
        excess = offset.build(new.multiply(sums.results[0], weight), "excess")
        offset.replace(shifted, offset.spread(excess, kept, offset.result_dims, "excess"))
        return (sums,)


def _wrapped(number: int, dtype: ScalarType) -> int:
    """The element of an integer dtype that equals this number modulo wrap-around."""
    least = int(dtype.minimum)
    return least + (number - least) % (int(dtype.maximum) - least + 1)


def _check(ctx: TransformContext, op: Structured, index: int, by: int, dtype: ScalarType) -> None:
    """Raise ScheduleError if the result would change."""
    if not op.acc_type.is_integer:
        raise ctx.fail(
            f"%{op.name} does not add integers",
            op=op,
            required="a contraction with an integer result: only integers wrap around",
            found=str(op.acc_type),
        )
    source = dtype_of(op.inputs[index].type)
    if (
        not source.is_integer
        or not dtype.is_integer
        or source.minimum + by < dtype.minimum
        or (source.maximum + by > dtype.maximum)
    ):
        raise ctx.fail(
            f"{dtype} does not hold every {source} and {by} more",
            op=op,
            required=f"an integer dtype that holds {source.minimum + by} to {source.maximum + by}",
            found=f"{dtype}, from {dtype.minimum} to {dtype.maximum}",
            fix="`by: 128, to: ui8`" if source.name == "si8" else None,
        )
