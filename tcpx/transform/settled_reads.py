"""What an operation reads of a destination is what it holds where the operation stands, wherever a schedule moves it.

An operation has a destination as an operand like a value, but what that holds changes at each yield to it. Steps move
and merge operations by their operands alone. So, before the first step, yields go to the end of their loops where
nothing behind them reads the destination; elsewhere operations read it by a `gml_st.materialize`, which no step moves
past a yield. What reads just what was yielded before it, in the same iteration, reads the value that was yielded.
"""

from collections.abc import Iterable

from tcpx.payload.ir import Block, Module, Operation, Value, parent_op
from tcpx.payload.ops.gml_st import Loop, Materialize, OnSubset, StYield, full_like
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.types import TensorType


def settle_reads(rewriter: Rewriter, module: Module) -> None:
    """Let operations in the loops of a payload read destinations so that they may be moved."""
    for loop in [op for op in module.walk() if isinstance(op, Loop)]:
        for store in [op for op in loop.body.ops if isinstance(op, StYield) and op.destination in loop.destinations]:
            _forward(rewriter, loop, store)
        _sink_yields(rewriter, loop)
        for number, dest in enumerate(loop.destinations):
            if isinstance(dest.type, TensorType) and _is_followed(loop, loop.yields_to(number)):
                _anchor(rewriter, dest)


def _forward(rewriter: Rewriter, loop: Loop, store: StYield) -> None:
    """Let what reads a destination between a yield to it and the next one read what was yielded. The yield goes where
    nothing else reads what it writes before the next one writes it again. The value of another destination is not that
    any more once something is yielded to it."""
    dest, value = store.destination, store.value
    if not isinstance(dest.type, TensorType) or value in loop.destinations:
        return
    others = [_in_body(other, loop) for other in loop.yields_to(loop.destinations.index(dest)) if other is not store]
    following = min((other for other in others if other.order > store.order), key=lambda op: op.order, default=None)

    def is_between(user: Operation) -> bool:
        at = _in_body(user, loop)
        return at.order > store.order and (following is None or at.order < following.order)

    is_all = store.is_of_all and value.type == dest.type
    for user, index in [use for use in dest.uses if is_between(use[0])]:
        if isinstance(user, Materialize) and user.subset == store.subset and user.result.type == value.type:
            rewriter.replace_op(user, [value])
        elif is_all:
            rewriter.set_operand(user, index, value)
    if not isinstance(following, StYield) or following.value is dest or any(is_between(use[0]) for use in dest.uses):
        return
    if following.subset == store.subset or following.is_of_all:
        rewriter.erase(store)


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
    while op.parent is not loop.body and (outer := parent_op(op)) is not None:
        op = outer
    return op


def _is_followed(loop: Loop, yields: Iterable[StYield]) -> bool:
    """Whether an operation stands behind one of these yields in an iteration."""
    for store in yields:
        at: Operation | None = store
        while at is not None and at.parent is not None:
            block: Block = at.parent
            if any(not isinstance(op, StYield) and not op.is_terminator for op in block.ops[block.index(at) + 1 :]):
                return True
            at = parent_op(at) if block is not loop.body else None
    return False


def _anchor(rewriter: Rewriter, dest: Value) -> None:
    """Let operations that read a destination as a whole read what a `gml_st.materialize` before them reads of it."""
    for user, index in list(dest.uses):
        if not isinstance(user, OnSubset | StYield | Loop):
            read = Materialize.of(dest, full_like(dest))
            made = rewriter.insert(read, InsertPoint.before(user), f"{dest.name}.now")
            rewriter.set_operand(user, index, made.results[0])
