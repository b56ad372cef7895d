"""What an operation reads of a destination is what it holds where the operation stands, wherever a schedule moves it.

An operation has a destination as an operand like a value, but what that holds changes at each yield to it. Steps move
and merge operations by their operands alone. So, before the first step, yields go to the end of their loops where
nothing behind them reads the destination; elsewhere operations read it by a `gml_st.materialize`, which no step moves
past a yield.
"""

from collections.abc import Iterable

from tcpx.payload.ir import Block, Module, Operation, Value
from tcpx.payload.ops.gml_st import Loop, Materialize, OnSubset, StYield, full_like
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.types import TensorType


def settle_reads(rewriter: Rewriter, module: Module) -> None:
    """Let operations in the loops of a payload read destinations so that they may be moved."""
    for loop in [op for op in module.walk() if isinstance(op, Loop)]:
        _sink_yields(rewriter, loop)
        for number, dest in enumerate(loop.destinations):
            if isinstance(dest.type, TensorType) and _is_followed(loop, loop.yields_to(number)):
                _anchor(rewriter, dest)


def _sink_yields(rewriter: Rewriter, loop: Loop) -> None:
    """Move yields to the end of the body, where nothing that they pass uses what they write, or writes what they
    read."""
    last = next((op for op in reversed(loop.body.ops) if not isinstance(op, StYield)), None)
    for store in [op for op in loop.body.ops if isinstance(op, StYield)]:
        if last is None or store.order > last.order or not isinstance(store.destination.type, TensorType):
            continue
        users = [user for user, _ in store.destination.uses if user is not store]
        if store.value in loop.destinations:
            users += loop.yields_to(loop.destinations.index(store.value))
        if not any(_in_body(user, loop).order > store.order for user in users):
            rewriter.move(store, InsertPoint.end(loop.body))


def _in_body(op: Operation, loop: Loop) -> Operation:
    """The operation of the body of a loop that is or encloses another one."""
    while op.parent is not loop.body and op.parent_op is not None:
        op = op.parent_op
    return op


def _is_followed(loop: Loop, yields: Iterable[StYield]) -> bool:
    """Whether an operation stands behind one of these yields in an iteration."""
    for store in yields:
        at: Operation | None = store
        while at is not None and at.parent is not None:
            block: Block = at.parent
            if any(not isinstance(op, StYield) and not op.is_terminator for op in block.ops[block.index(at) + 1 :]):
                return True
            at = at.parent_op if block is not loop.body else None
    return False


def _anchor(rewriter: Rewriter, dest: Value) -> None:
    """Let operations that read a destination as a whole read what a `gml_st.materialize` before them reads of it."""
    for user, index in list(dest.uses):
        if not isinstance(user, OnSubset | StYield | Loop):
            read = Materialize.of(dest, full_like(dest))
            made = rewriter.insert(read, InsertPoint.before(user), f"{dest.name}.now")
            rewriter.set_operand(user, index, made.results[0])
