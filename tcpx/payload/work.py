"""How much a loop computes, estimated from its bounds: to tell whether threads pay."""

from math import prod

from tcpx.payload.ir import Block, Operation
from tcpx.payload.ops.gml_st import Conditional, Loop
from tcpx.payload.sizes import Dim, Var, ceildiv, maximum, substitute, upper_expression
from tcpx.payload.types import BufferType, shape_of


def estimated_work(loop: Loop) -> Dim:
    """Scalar operations of all iterations, over the sizes and loop variables around the loop.

    Every iteration counts as the first one, which is the largest where tiles get shorter; a branch counts as its
    larger side, an operation as its lanes, a loop on a condition as one iteration.
    """
    var = loop.var
    trips = ceildiv(maximum(0, var.upper - var.lower), var.step) if loop.is_counted else 1
    return trips * substitute(_of_block(loop.body), {var: var.lower})


def _of_block(block: Block) -> Dim:
    total: Dim = 0
    for op in block.ops:
        if isinstance(op, Loop):
            total = total + estimated_work(op)
        elif isinstance(op, Conditional):
            total = total + maximum(*(_of_block(region) for region in op.regions))
        elif op.callee is not None:
            total = total + substitute(_of_block(op.callee.body), op.binding)
        elif not op.is_terminator:
            total = total + op.work + _lanes(op)
    bound = {var for op in block.ops if isinstance(var := op.attributes.get("var"), Var) and not op.regions}
    return upper_expression(total, lambda var: var not in bound) if bound else total


def _lanes(op: Operation) -> int:
    """The elements that an operation at vector or scalar level computes."""
    shapes = [shape_of(v.type) for v in (*op.results, *op.operands) if not isinstance(v.type, BufferType)]
    return max((prod(d for d in shape if isinstance(d, int)) for shape in shapes), default=0)
