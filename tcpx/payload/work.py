"""How much a loop computes, and how much memory it touches, estimated from its bounds: to tell whether threads pay."""

from math import prod

from tcpx.payload.contexts import context_at
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import Conditional, Loop, OnSubset
from tcpx.payload.ops.memory import memory_of
from tcpx.payload.sizes import Dim, Var, maximum, minimum, product, substitute, upper_expression, variables
from tcpx.payload.traits.call import Calling
from tcpx.payload.types import BufferType, dtype_of, shape_of


def estimated_work(loop: Loop) -> Dim:
    """Scalar operations of all iterations, over the sizes and loop variables around the loop.

    Every iteration counts as the first one, which is the largest where tiles get shorter; a branch counts as its
    larger side, an operation as its lanes, a loop on a condition as one iteration.
    """
    return _trips(loop) * substitute(_of_block(loop.body), {loop.var: loop.var.lower}, context_at(loop).names)


def estimated_bytes(loop: Loop) -> Dim:
    """Bytes that all iterations touch of buffers from outside, each byte once, over the same sizes.

    Of a buffer it is what all accesses together are, but at most its size.
    """
    total: Dim = 0
    for buffer, elements in _touched(loop).items():
        size = product(shape_of(buffer.type))
        total = total + dtype_of(buffer.type).bytes * minimum(size, elements)
    return total


def _touched(loop: Loop) -> dict[Value, Dim]:
    """Elements of buffers from outside that the accesses of all iterations are."""
    trips, at_first, known = _trips(loop), {loop.var: loop.var.lower}, context_at(loop).names
    found = _of_buffers(loop.body)
    return {buffer: trips * substitute(elements, at_first, known) for buffer, elements in found.items()}


def _of_buffers(block: Block) -> dict[Value, Dim]:
    """The same of one run of a block. Called functions touch all of what they are given; what follows from an element
    may be all, too."""
    found: dict[Value, Dim] = {}
    for op in block.ops:
        for value, elements in _accesses(op):
            memory = memory_of(value)
            if isinstance(memory.type, BufferType):
                found[memory] = found.get(memory, 0) + elements
    made, bound = {result for op in block.ops for result in op.results}, _bound_in(block)
    return {
        buffer: product(shape_of(buffer.type)) if bound & set(variables(elements)) else elements
        for buffer, elements in found.items()
        if buffer not in made
    }


def _accesses(op: Operation) -> list[tuple[Value, Dim]]:
    """What an operation reads and writes, in elements."""
    if isinstance(op, Loop):
        return list(_touched(op).items())
    if isinstance(op, OnSubset):
        return [(value, product(tile.sizes)) for value, tile in op.accesses]
    if Calling(op).callee is not None:
        return [(value, product(shape_of(value.type))) for value in op.operands]
    return [access for region in op.regions for access in _of_buffers(region).items()]


def _bound_in(block: Block) -> set[Var]:
    """Sizes that the elements of a block's values give."""
    return {var for op in block.ops if isinstance(var := op.attributes.get("var"), Var) and not op.regions}


def _trips(loop: Loop) -> Dim:
    var = loop.var
    here = context_at(loop)
    return here.ceildiv(here.maximum(0, var.upper - var.lower), var.step) if loop.is_counted else 1


def _of_block(block: Block) -> Dim:
    total: Dim = 0
    for op in block.ops:
        if isinstance(op, Loop):
            total = total + estimated_work(op)
        elif isinstance(op, Conditional):
            total = total + maximum(*(_of_block(region) for region in op.regions))
        elif (called := Calling(op).callee) is not None:
            total = total + substitute(_of_block(called.body), Calling(op).binding)
        elif not op.is_terminator:
            total = total + Calling(op).work + _lanes(op)
    bound = _bound_in(block)
    return upper_expression(total, lambda var: var not in bound) if bound else total


def _lanes(op: Operation) -> int:
    """The elements that an operation at vector or scalar level computes."""
    shapes = [shape_of(v.type) for v in (*op.results, *op.operands) if not isinstance(v.type, BufferType)]
    return max((prod(d for d in shape if isinstance(d, int)) for shape in shapes), default=0)
