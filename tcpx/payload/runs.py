"""The sizes and the threads with which the functions of a kernel run."""

from collections.abc import Iterator, Mapping

from tcpx.payload.ir import Block, FuncOp, Operation
from tcpx.payload.ops.gml_st import Loop, Parallel
from tcpx.payload.ops.index import Bind
from tcpx.payload.sizes import Dim, Symbol, evaluate, substitute, to_text
from tcpx.payload.traits.call import Calling

Binding = Mapping[Symbol, Dim]


def runs_of(func: FuncOp) -> list[tuple[FuncOp, Binding]]:
    """A function, and each that runs with it, once for all calls with the same sizes: what its symbols are then, over
    the symbols of `func` and the loop variables round calls."""
    found: dict[tuple[FuncOp, tuple[str, ...]], tuple[FuncOp, Binding]] = {}
    pending: list[tuple[FuncOp, Binding]] = [(func, {})]
    while pending:
        at, sizes = pending.pop()
        key = at, tuple(map(to_text, sizes.values()))
        if key in found:
            continue
        found[key] = at, sizes
        inner = [
            (callee, {s: substitute(d, sizes) for s, d in Calling(call).binding.items()}) for call, callee in at.calls()
        ]
        pending += reversed(inner)
    return list(found.values())


def executions(
    block: Block, sizes: Mapping[str, int], times: int = 1
) -> Iterator[tuple[Operation, Mapping[str, int], int]]:
    """Each operation in a block and in its regions, in order, with the sizes that it sees and how often it runs.

    All iterations of a loop count as the first one, both sides of a branch as taken, and a size that an element binds
    as the least it may be. What a call runs is not visited.
    """
    for op in block.ops:
        yield op, sizes, times
        if isinstance(op, Bind):
            sizes = bound(op, sizes)
        inner, trips = sizes, 1
        if isinstance(op, Loop):
            inner, trips = {**sizes, op.var.name: evaluate(op.var.lower, sizes)}, len(iterations(op, sizes))
        for region in op.regions if trips else ():
            yield from executions(region, inner, times * trips)


def iterations(loop: Loop, sizes: Mapping[str, int]) -> range:
    """The values of the variable of a loop, in order. How often one on a condition runs, only the elements tell: as if
    it were once."""
    first, end, step = (evaluate(dim, sizes) for dim in (loop.var.lower, loop.var.upper, loop.var.step))
    end = end if loop.is_counted else min(end, first + 1)
    return range(first, end, max(1, step))


def bound(op: Bind, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """The sizes after a variable is bound to an element, which is not known: the least that it may be."""
    return {**sizes, op.var.name: evaluate(op.var.lower, sizes)}


def runs_on_one(call: Operation) -> bool:
    """Whether a call runs on one thread of several: in a parallel loop, there or further out."""
    return any(
        isinstance(outer, Parallel) or (isinstance(outer, FuncOp) and threads_of(outer, 2) == 1)
        for outer in call.ancestors()
    )


def threads_of(func: FuncOp, threads: int) -> int:
    """On how many threads of a kernel a function runs: on one where all calls do."""
    calls = func.callers() if threads > 1 else ()
    return 1 if calls and all(map(runs_on_one, calls)) else threads
