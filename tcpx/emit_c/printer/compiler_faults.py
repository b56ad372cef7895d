"""What printed C says to compilers that get it wrong, or take minutes over it."""

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import takewhile
from math import prod
from typing import Final

from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.vector import Read, Write
from tcpx.payload.sizes import Var, variables
from tcpx.payload.types import BufferType, VectorType

MOST_PEELED: Final = 16
"""Iterations up to which gcc unrolls an inner loop before it vectorizes the outer one (`max-completely-peel-times`)."""
LEAST_LANES: Final = 4
"""Elements side by side in a vector, from which it makes one of them."""

NO_LOOP_VECTORS: Final = """\
/* Before 11.4 and 12.3, gcc vectorizes some loops so that they read behind an array (its bug 107451). */
#if defined(__GNUC__) && !defined(__clang__)
#if (__GNUC__ == 11 && __GNUC_MINOR__ < 4) || (__GNUC__ == 12 && __GNUC_MINOR__ < 3)
#pragma GCC optimize("no-tree-loop-vectorize")
#endif
#endif"""


MOST_STORES: Final = 64
"""Stores in the body of a loop up to which gcc distributes it in a moment; it takes minutes over 256."""

NO_DISTRIBUTION: Final = """\
/* gcc looks at every pair of stores in a loop, to make several loops of it: of hundreds it would take minutes. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribution")
#endif"""


UNROLLING: Final = """\
/* gcc makes functions of parallel loops, and forgets that it is asked to unroll loops in them, unless it inlines a loop
   there of which it is asked the same: this one, which runs 0 times. */
static inline void tcpx_unroll(int n) {
  #pragma GCC unroll 2
  for (int i = 0; i < n; i++) __asm__ volatile("");
}"""
UNROLL: Final = "tcpx_unroll(0);"
"""Called in a parallel loop in which the compiler is asked to unroll one."""


def is_asked_to_unroll(parallel: Loop) -> bool:
    """Whether the compiler is asked to unroll a loop in this one."""
    return any(isinstance(op, Loop) and op.unrolled > 1 for op in parallel.walk())


def has_loop_of_many_stores(func: FuncOp) -> bool:
    """Whether a loop writes to memory in more places than gcc distributes among loops in reasonable time."""
    stores = Counter(_loop_round(op) for op in func.walk() if isinstance(op, Write))
    return any(loop is not None and count > MOST_STORES for loop, count in stores.items())


def _loop_round(op: Operation) -> Loop | None:
    return next((outer for outer in op.ancestors() if isinstance(outer, Loop)), None)


def repeats_elements_of_rows(func: FuncOp) -> bool:
    """Whether a loop reads, a row further in each iteration, a scalar that it uses for several elements side by side.

    gcc makes a vector of those elements, reads another of the scalar and what lies behind it, and does not see that
    the last one ends behind the array.
    """
    return any(_is_repeated(read) for read in func.walk() if isinstance(read, Read) and _is_scalar(read))


def _is_scalar(read: Read) -> bool:
    return not isinstance(read.result.type, VectorType)


def _is_repeated(read: Read) -> bool:
    buffer = read.subset_of.type
    if not isinstance(buffer, BufferType):
        return False
    offsets = [(variables(offset), stride) for offset, stride in zip(read.subset.offsets, buffer.strides, strict=True)]
    moving = {var for found, _ in offsets for var in found}
    by_rows = {var for found, stride in offsets if stride != 1 for var in found}
    for loop in read.ancestors():
        if isinstance(loop, Loop):
            if loop.var in by_rows and _written(loop, moving) >= LEAST_LANES:
                return True
            if _trips(loop) is None:
                return False
    return False


def _written(loop: Loop, moving: Collection[Var]) -> int:
    """Scalars written in one iteration, those not counted that a variable of `moving` tells apart."""
    return sum(
        prod(_trips(inner) or 1 for inner in between if inner.var not in moving)
        for between in _loops_round_writes(loop)
        if all(_trips(inner) is not None for inner in between)
    )


def _loops_round_writes(outer: Loop) -> Iterator[list[Loop]]:
    """For each write of a scalar in a loop, the loops between them."""
    for op in outer.walk():
        if isinstance(op, Write) and not isinstance(op.operands[0].type, VectorType):
            yield [loop for loop in takewhile(lambda it: it is not outer, op.ancestors()) if isinstance(loop, Loop)]


def _trips(loop: Loop) -> int | None:
    """The iterations of a loop that gcc unrolls whole; None for any other."""
    extent, step = loop.var.upper - loop.var.lower, loop.var.step
    trips = -(-extent // step) if isinstance(extent, int) and isinstance(step, int) else None
    return trips if trips is not None and trips <= MOST_PEELED else None
