"""The sizes and the threads with which the functions of a kernel run."""

from collections.abc import Mapping

from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.ops.gml_st import Parallel
from tcpx.payload.sizes import Dim, Symbol, substitute, to_text

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
        inner = [(callee, {s: substitute(d, sizes) for s, d in call.binding.items()}) for call, callee in at.calls()]
        pending += reversed(inner)
    return list(found.values())


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
