"""Offsets of the factors of a contraction, taken out of the sum: sum (a + z) b = sum a b + z sum b."""

from collections.abc import Callable

from tcpx.payload.diagnostics import Direction
from tcpx.payload.indexing_maps import map_dims
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Operation, Value
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.types import TensorType, shape_of
from tcpx.transform import new
from tcpx.transform.arguments import OperandRef, TransformContext, ValueRef
from tcpx.transform.editing import source_name
from tcpx.transform.recomputation import ADDED
from tcpx.transform.tiling import check_on_tensors
from tcpx.transform.vectors.probes import is_multiply_accumulate


def contraction_of(ctx: TransformContext, factor: ValueRef) -> tuple[Structured, int]:
    """The contraction whose factor this is, and which of the two it is. Raises ScheduleError where there is none that
    has a name and is on tensors."""
    if not isinstance(factor, OperandRef):
        raise ctx.fail(
            "the factor of a contraction is an operand, not a value",
            op=factor.defining_op,
            required="an operand such as `mm.lhs`",
            found=f"%{factor.name}",
        )
    op = factor.op
    if not isinstance(op, Structured) or op.regions or factor.index > 1 or not is_multiply_accumulate(op):
        raise ctx.fail(
            f"%{op.name} is no contraction by name",
            op=op,
            required="a sum of products of two factors, such as tcp.matmul or tcp.contract",
            found=f"{op.opcode}: {', '.join(str(r.type) for r in op.results)}",
            fix=f"`specialize({ctx.name_of(op)}, to: contract)` before it" if op.regions else None,
        )
    check_on_tensors(ctx, op)
    return op, factor.index


def names_of_other(ctx: TransformContext, op: Structured, index: int) -> tuple[str, ...]:
    """The dims of the other factor, in its order. Raises ScheduleError if it lacks one that is summed."""
    names = map_dims(op.maps()[1 - index])
    summed = [it.name for it in op.iterators() if it.is_reduction]
    if names is None or any(name not in names for name in summed):
        raise ctx.fail(
            f"the other factor of %{op.name} is not summed over all that the product is",
            op=op,
            required=f"a factor that has {', '.join(summed)}, as its dims",
            found=", ".join(names) if names is not None else "dims by their digits",
            fix=Direction("do this before `pack`") if names is None else None,
        )
    return names


class Offset:
    """The rewrite of one factor of a contraction; what it makes goes before the contraction."""

    def __init__(self, ctx: TransformContext, op: Structured, index: int) -> None:
        self.rewriter: Rewriter = ctx.rewriter
        self.op, self.index = op, index
        self.names = names_of_other(ctx, op, index)
        self.result_dims = map_dims(op.result_map()) or ()

    def insert(self, made: Operation, name: str) -> Operation:
        """Insert an operation as a part of the contraction."""
        made.stand_for(self.op)
        inserted = self.rewriter.insert(made, InsertPoint.before(self.op), f"{source_name(self.op)}.{name}")
        self.rewriter.set_note(inserted, ADDED, self.op.name)
        return inserted

    def build(self, made: Operation, name: str) -> Value:
        """As `insert`; its result."""
        return self.insert(made, name).results[0]

    def sums(self) -> tuple[Operation, tuple[str, ...]]:
        """The sums of the other factor in the dtype of the accumulator, and the dims they have."""
        other = self.op.inputs[1 - self.index]
        kept = [k for k, name in enumerate(self.names) if not self.op.iterator(name).is_reduction]
        type_ = TensorType(tuple(shape_of(other.type)[k] for k in kept), self.op.acc_type)
        summed = tuple(k for k in range(len(self.names)) if k not in kept)
        made = self.insert(new.reduce_sum(other, type_, summed), "sums")
        return made, tuple(self.names[k] for k in kept)

    def spread(self, value: Value, names: tuple[str, ...], over: tuple[str, ...], name: str) -> Value:
        """A value with these dims repeated over others of the result."""
        places = [over.index(dim) for dim in names]
        order = sorted(range(len(places)), key=lambda k: places[k])
        if order != list(range(len(order))):
            value = self.build(new.transpose(value, order), name)
        if len(names) == len(over):
            return value
        extents = dict(zip(self.result_dims, shape_of(self.op.result.type), strict=True))
        type_ = TensorType(tuple(extents[dim] for dim in over), self.op.acc_type)
        return self.build(new.broadcast(value, sorted(places), type_), name)

    def replace(self, factor: Value, excess: Value, mend: Callable[[Value, Value], Operation] = new.subtract) -> None:
        """Let the contraction read `factor`, and take `excess` from its result, or add it."""
        op, rewriter = self.op, self.rewriter
        rewriter.set_operand(op, self.index, factor)
        mended = rewriter.insert(mend(op.result, excess), InsertPoint.after(op), f"{source_name(op)}.mended")
        mended.stand_for(op)
        rewriter.set_note(mended, ADDED, op.name)
        rewriter.replace_uses(op.result, mended.results[0], lambda user: user is not mended)
