"""What the iterations of a loop wait for: values that depend on those of the iteration before."""

from tcpx.payload.ir import Operation, Value, is_in
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.memory import memory_of
from tcpx.payload.ops.vector import Read, Write
from tcpx.payload.sizes import variables


def is_in_order(op: Operation) -> bool:
    """Whether an operation on buffers depends on what an iteration before computes, in the innermost loop round it.

    That is what the loop carries, and what it reads of memory that it writes elsewhere, or again. A C compiler cannot
    compute such iterations at once, so a branch on data would cost each of them what a wrong guess costs.
    """
    loop = next((around for around in op.ancestors() if isinstance(around, Loop)), None)
    if loop is None or loop.is_parallel:
        return False
    written = [(memory_of(w.destination), w.subset) for w in loop.walk() if isinstance(w, Write)]
    left, seen = [*op.operands], set[Value]()
    while left:
        value = left.pop()
        made = value.defining_op
        if value in loop.destinations:
            return True
        if value in seen or made is None or not is_in(made, loop):
            continue
        seen.add(value)
        if isinstance(made, Read):
            source, own = memory_of(made.source), made.subset
            moves_on = any(loop.var in variables(offset) for offset in own.offsets)
            if any(memory is source and not (moves_on and subset == own) for memory, subset in written):
                return True
        left += made.operands
    return False
