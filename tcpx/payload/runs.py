"""The sizes with which the functions of a kernel run."""

from __future__ import annotations

from collections.abc import Mapping

from tcpx.payload.ir import FuncOp
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
