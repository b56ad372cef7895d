"""fold_offset: move the zero point of a factor out of an integer contraction."""

from tcpx.payload.indexing_maps import map_dims
from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import Value
from tcpx.payload.types import dtype_of, shape_of
from tcpx.transform import new
from tcpx.transform.declaration import (
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
from tcpx.transform.editing import erase_dead
from tcpx.transform.factors import Offset, contraction_of


@register
class FoldOffset(Transform):
    """Let an integer contraction read a factor without subtracting its zero point; subtract the zero point times the
    sums of the other factor from the result instead.

    The zero point is a number, or varies only along dims that are not reduced: one for the whole factor, per row, or
    per column. Integers wrap around, so the result is the same. Returns the sums of the other factor. The product keeps
    its handle; the subtraction is part of its epilogue. After `fold_cast`, the product reads the quantized bytes.

    before:
        func @f(%x: tensor<[M]x64xsi32>, %w: tensor<64x32xsi8>) -> tensor<[M]x32xsi32> symbols [M] {
          %z = tcp.fill {value = 7} : tensor<[M]x64xsi32>
          %d = tcp.sub(%x, %z) : tensor<[M]x64xsi32>
          %mm = tcp.matmul(%d, %w) : tensor<[M]x32xsi32>
          tcp.return(%mm)
        }
    statement:
        fold_offset(mm.lhs)
    after:
        func @f(%x: tensor<[M]x64xsi32>, %w: tensor<64x32xsi8>) -> tensor<[M]x32xsi32> symbols [M] {
          %mm.sums = tcp.reduce_sum(%w) {dims = [0]} : tensor<32xsi32>
          %mm.lhs.offset = tcp.fill {value = 7} : tensor<32xsi32>
          %mm.excess = tcp.mul(%mm.sums, %mm.lhs.offset) : tensor<32xsi32>
          %mm.excess.1 = tcp.broadcast(%mm.excess) {dims = [1]} : tensor<[M]x32xsi32>
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xsi32>
          %mm.mended = tcp.sub(%mm, %mm.excess.1) : tensor<[M]x32xsi32>
          tcp.return(%mm.mended)
        }
    """

    name = "fold_offset"
    category = Category.TYPES
    parameters = (Parameter("factor", VALUE, doc="a factor of an integer contraction: `mm.lhs`"),)
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, index = contraction_of(ctx, args.value("factor"))
        value = op.inputs[index]
        made = value.defining_op
        if (
            not isinstance(made, Elementwise)
            or made.semantics not in ("a - b", "a + b")
            or dtype_of(value.type) != op.acc_type
            or not op.acc_type.is_integer
        ):
            raise ctx.fail(
                f"no zero point is subtracted from the factor %{value.name}",
                op=op,
                required=f"tcp.sub or tcp.add of an integer dtype, that of the result, {op.acc_type}",
                found=f"{made.opcode if made is not None else 'an argument'}: {value.type}",
            )
        rest, zero = made.operands
        names = _names(op, index, zero)
        if names is None and made.semantics == "a + b":
            rest, zero = zero, rest
            names = _names(op, index, zero)
        if names is None:
            raise ctx.fail(
                f"%{zero.name} is no zero point: it may differ along a dim that is summed",
                op=op,
                required="a number, or a broadcast along every dim that is summed",
                found=f"%{zero.name}: {zero.type}",
            )
        offset = Offset(ctx, op, index)
        sums, kept = offset.sums()
        result, role = offset.result_dims, op.operand_roles[index]
        over = kept if set(names) <= set(kept) else result
        weight = offset.spread(sums.results[0], kept, over, "sums")
        source = zero.defining_op
        if isinstance(source, Structured) and not source.operands:
            number = offset.build(source.on_tiles([], shape_of(weight.type)), f"{role}.offset")
        else:
            number = offset.spread(source.operands[0] if source is not None else zero, names, over, f"{role}.offset")
        excess = offset.spread(offset.build(new.multiply(weight, number), "excess"), over, result, "excess")
        offset.replace(rest, excess, new.add if made.semantics == "a + b" else new.subtract)
        erase_dead(ctx.rewriter, [value])
        return (sums,)


def _names(op: Structured, index: int, zero: Value) -> tuple[str, ...] | None:
    """The dims that a zero point depends on, as in its source; None if one is reduced, or if it is computed."""
    source = zero.defining_op
    if not isinstance(source, Structured) or not source.is_movement or len(source.operands) > 1:
        return None
    factor, own = map_dims(op.maps()[index]), map_dims(source.result_map())
    read = map_dims(source.maps()[0]) if source.operands else ()
    if factor is None or own is None or read is None:
        return None
    names = tuple(factor[own.index(name)] for name in read)
    return None if any(op.iterator(name).is_reduction for name in names) else names
