"""Parallel loops write each element once: what proves it, and the error where nothing does."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement

from tcpx.payload.diagnostics import Diagnostic, VerifyError
from tcpx.payload.ir import Block, Operation
from tcpx.payload.ops.gml_st import If, Loop, StYield
from tcpx.payload.subsets import disjoint, disjoint_between_iterations


def check_disjoint_yields(op: Operation) -> int:
    """The yields of a parallel loop to one destination are proved disjoint, within an iteration and between two.

    Yields in the two branches of one `if` never run in one iteration. Returns the number of pairs it looked at. Raises
    VerifyError that names both yields.
    """
    if not isinstance(op, Loop) or not op.is_parallel:
        return 0
    pairs = 0
    for index in range(len(op.destinations)):
        stores = op.yields_to(index)
        pairs += len(stores) ** 2
        for first, second in combinations(stores, 2):
            if not _exclude_each_other(first, second, op) and disjoint(first.subset, second.subset) is not True:
                raise _overlap(op, first, second, f"no iteration of {op.var.text} yields one element twice")
        for first, second in combinations_with_replacement(stores, 2):
            other = None if first is second else second.subset
            if disjoint_between_iterations(first.subset, op.var, other) is not True:
                raise _overlap(op, first, second, f"no two iterations of {op.var.text} yield one element")
    return pairs


def _exclude_each_other(first: Operation, second: Operation, loop: Loop) -> bool:
    """Whether two operations stand in different branches of one `if` in the loop."""
    branches = _branches(first, loop)
    return any(branches.get(choice, block) is not block for choice, block in _branches(second, loop).items())


def _branches(op: Operation, loop: Loop) -> dict[If, Block]:
    found: dict[If, Block] = {}
    block = op.parent
    while block is not None and block is not loop.body:
        if isinstance(block.parent, If):
            found[block.parent] = block
        block = block.parent.parent if block.parent is not None else None
    return found


def _overlap(loop: Loop, first: StYield, second: StYield, rule: str) -> VerifyError:
    yields = [_shown(first)] if first is second else [_shown(first), _shown(second)]
    return VerifyError(
        Diagnostic(
            f"%{loop.name} ({loop.opcode}): yields to %{first.operands[1].name} are not proved disjoint",
            payload=second.location or loop.location,
            required=rule,
            found=" and ".join(yields),
            fix="make it a gml_st.for",
        )
    )


def _shown(store: StYield) -> str:
    place = f" at {store.location}" if store.location is not None else ""
    return f"the yield of %{store.operands[0].name} to {store.subset.text()}{place}"
