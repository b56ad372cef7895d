"""Loops that move elements one by one from one memory to another, as calls of `memcpy`.

A compiler calls it by itself where it sees that what is read is not what is written. It does not where `restrict` is
lost: in the functions that clang makes of parallel loops.

Of short rows whose length only the kernel knows, a loop is left: gcc would make `rep movs` of `memcpy`, which takes
longer to start than such a row.
"""

from dataclasses import replace

from tcpx.emit_c.printer.context import FunctionContext
from tcpx.emit_c.printer.memory_access import Access
from tcpx.emit_c.printer.scopes import Scope
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.vector import Read, Write
from tcpx.payload.sizes import Dim, Var, is_equal, lower_bound, substitute, upper_bound
from tcpx.records import frozen


@frozen
class Move:
    """Elements that lie side by side, from their first ones on."""

    source: Access
    destination: Access
    length: Dim


def move_of(loop: Loop, context: FunctionContext) -> Move | None:
    """What a loop moves, if it does nothing else, and each iteration moves the element behind that of the last."""
    var = loop.var
    ops = [op for op in loop.body.ops if context.live.is_live(op)]
    if var.step != 1 or len(ops) != 2:
        return None
    read, write = ops
    if not isinstance(read, Read) or not isinstance(write, Write) or write.operands[0] is not read.result:
        return None
    if context.row(read).kind != "load" or context.row(write).kind != "store":
        return None
    source, destination = Access.of(read, context), Access.of(write, context)
    if context.read(source.value) == context.read(destination.value):
        return None
    length = var.upper - var.lower
    if not isinstance(length, int) and upper_bound(length) is not None:
        return None
    if not all(_is_element(access) and is_equal(_distance(access, var), 1) for access in (source, destination)):
        return None
    source, destination = (replace(a, tile=a.tile.substitute({var: var.lower})) for a in (source, destination))
    return Move(source, destination, length)


def print_move(move: Move, context: FunctionContext, scope: Scope) -> None:
    """One call of `memcpy`, where there is something to move."""
    context.needs.memcpy = True
    count = context.sizes.factor(move.length, scope)
    size = f"{count if isinstance(move.length, int) else f'(size_t){count}'} * sizeof({_c_type(move, context)})"
    places = ", ".join(access.pointer(context, scope) for access in (move.destination, move.source))
    scope.statement(f"memcpy({places}, {size});", context.sizes.is_positive([move.length], scope))


def _c_type(move: Move, context: FunctionContext) -> str:
    return context.target.c_type(move.destination.buffer.dtype.name)


def _is_element(access: Access) -> bool:
    """Whether each iteration accesses one element."""
    lows = [lower_bound(size) for size in access.dropped_sizes]
    return access.lanes in (None, 1) and all(low is not None and low > 0 for low in lows)


def _distance(access: Access, var: Var) -> Dim:
    """Elements from where an iteration accesses memory to where the next one does."""
    distance: Dim = 0
    for offset, stride in zip(access.tile.offsets, access.buffer.strides, strict=True):
        distance += (substitute(offset, {var: var.size() + 1}) - offset) * stride
    return distance
