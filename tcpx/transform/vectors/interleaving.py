"""Interleaving: the instructions of vectors that do not depend on one another, in turn.

A processor looks a hundred waiting instructions ahead. Where a function takes fifty, each of which waits for the one
before, it sees two vectors at a time, and waits. In turn it sees four (ADR 0035).
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import ROW, Block, FuncOp, Operation, Value, defined_by
from tcpx.payload.ops.gml_st import If, Loop
from tcpx.payload.ops.index import Bind
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.types import VectorType
from tcpx.target import Target
from tcpx.transform.editing import is_pure
from tcpx.transform.fusion import ancestor_in
from tcpx.transform.vectors.hoisting import operations
from tcpx.transform.vectors.literals import is_splat_of_literal

SHORTEST: Final = 32
"""Instructions for one vector, of which a processor sees fewer than four vectors ahead: Zen 4 has room for 128 that
wait, Golden Cove for 97."""
MOST: Final = 4
"""Vectors in turn."""
AT_LEAST: Final = 4
"""Registers for each of them. More may be needed, and be spilled: that takes less time than to wait."""

Unit = tuple[Operation, ...]
"""What stands together: an operation, or a branch and what it branches on."""


def interleave(rewriter: Rewriter, func: FuncOp, target: Target) -> None:
    """Put long computations of vectors that do not depend on one another in turn, in each block, as far as registers
    go."""
    blocks = [func.body, *(b for op in operations(func.body) if not isinstance(op, Structured) for b in op.regions)]
    for block in blocks:
        if len(block.ops) > 2 * SHORTEST:
            for run in list(_runs(block)):
                _interleave(rewriter, block, run, target.vector_registers)


def _interleave(rewriter: Rewriter, block: Block, run: Sequence[Unit], registers: int) -> None:
    chains = [chain for chain in _chains(run) if len(chain) >= SHORTEST]
    for _, alike in groupby(chains, key=_rows):
        rest = list(alike)
        while len(rest) > 1:
            free = registers - _live_through(block, rest[:MOST])
            count = max(1, min(MOST, len(rest), free // AT_LEAST))
            _put_in_turn(rewriter, block, rest[:count])
            rest = rest[count:]


def _runs(block: Block) -> Iterator[Sequence[Unit]]:
    """Units in a row that only compute."""
    run: list[Unit] = []
    bound: list[Operation] = []
    for op in block.ops:
        if isinstance(op, Bind) and not bound:
            bound.append(op)
        elif is_pure(op) and not isinstance(op, Loop) and (not bound or isinstance(op, If)):
            run.append((*bound, op))
            bound = []
        else:
            yield run
            run, bound = [], []


def _chains(run: Sequence[Unit]) -> list[list[Unit]]:
    """Units that lead to one result alone, in order of these results."""
    chain_of: dict[Operation, int | None] = {}
    place = {op: k for k, unit in enumerate(run) for op in unit}
    for k in reversed(range(len(run))):
        leads_to = {chain_of[user] for user in _users(run[k]) if user in place and place[user] != k}
        chain_of |= dict.fromkeys(run[k], k if not leads_to else leads_to.pop() if len(leads_to) == 1 else None)
    found: dict[int, list[Unit]] = {}
    for unit in run:
        chain = chain_of[unit[0]]
        if chain is not None:
            found.setdefault(chain, []).append(unit)
    return [found[chain] for chain in sorted(found)]


def _users(unit: Unit) -> Iterator[Operation]:
    """The operations of the same block that use the results of a unit, or contain what does."""
    block = unit[0].parent
    for result in unit[-1].results:
        for user in result.users:
            here = ancestor_in(user, block) if block is not None else None
            if here is not None:
                yield here


def _rows(chain: Sequence[Unit]) -> Sequence[object]:
    """What the units of a chain are, by which chains are alike."""
    return [(op.opcode, op.attributes.get(ROW)) for unit in chain for op in unit]


def _live_through(block: Block, chains: Sequence[Sequence[Unit]]) -> int:
    """Vectors that are there before chains, and used by them or behind them. Constants are read from memory."""
    first = block.index(chains[0][0][0])
    behind = [inner for op in block.ops[first:] for inner in op.walk()]
    used = {value for op in behind for value in op.operands if _is_live(value)}
    return len(used - {value for op in behind for value in defined_by(op)})


def _is_live(value: Value) -> bool:
    """Whether a value takes a register of vectors."""
    return isinstance(value.type, VectorType) and not is_splat_of_literal(value.defining_op)


def _put_in_turn(rewriter: Rewriter, block: Block, chains: Sequence[Sequence[Unit]]) -> None:
    """Let the units of chains that are alike stand in turn, where the last of them in the block does: what they read
    from outside of the chains is computed before."""
    for units in zip(*chains, strict=True):
        last = max(units, key=lambda unit: block.index(unit[0]))
        for unit in units:
            for op in unit if unit is not last else ():
                rewriter.move(op, InsertPoint.before(last[0]))
