"""What an iteration of a loop computes alike in all of them, moved before the loop."""

from collections.abc import Collection

from tcpx.payload.contexts import is_less_equal_at
from tcpx.payload.inside import stays_inside_without
from tcpx.payload.ir import Operation, Value, is_in
from tcpx.payload.ops.gml_st import Loop, OnSubset
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import BufferType, TensorType
from tcpx.payload.variables import free_variables, variable_of
from tcpx.transform.convex import sources
from tcpx.transform.editing import is_pure


def loop_invariants(loop: Loop) -> list[Operation]:
    """The operations of the body that compute the same in every iteration, in order, with the memory that they fill."""
    found = dict.fromkeys(op for op in loop.body.ops if op.results)
    while True:
        kept = [op for op in found if why_not(op, loop, found) is not None or _is_changed_in_place(op, found)]
        if not kept:
            break
        for op in kept:
            del found[op]
    return [op for op in found if not Memory(op).leaves_undefined or any(r.users for r in op.results)]


def needed(op: Operation, loop: Loop) -> list[Operation]:
    """An operation of the body with all in the body that it needs, in order."""
    found, waiting = {op}, [op]
    while waiting:
        for made in sources(waiting.pop()):
            if made.parent is loop.body and made not in found:
                found.add(made)
                waiting.append(made)
    return [each for each in loop.body.ops if each in found]


def _is_changed_in_place(op: Operation, moved: Collection[Operation]) -> bool:
    """Whether a loop that stays goes on from a tensor that an operation makes: it would find what is left of it."""
    return any(
        isinstance(user, Loop) and user not in moved
        for result in op.results
        if isinstance(result.type, TensorType)
        for user in result.users
    )


def why_stays(op: Operation, loop: Loop, moved: Collection[Operation]) -> str | None:
    """What keeps an operation of the body in a loop where these are moved before it, in words; None if nothing does."""
    if _is_changed_in_place(op, moved):
        return "a loop goes on from it in place"
    return why_not(op, loop, moved)


def why_not(op: Operation, loop: Loop, moved: Collection[Operation]) -> str | None:
    """What makes an operation compute something else in another iteration, where `moved` do not; None of none."""
    if not is_pure(op):
        return "it writes to memory"
    if any(isinstance(value.type, BufferType) for inner in op.walk() for value in inner.operands):
        return "it reads memory, which the loop may write"
    varying = {var.text for inner in loop.walk() if (var := variable_of(inner)) is not None}
    named = next((var for text, var in free_variables(op).items() if text in varying), None)
    if named is not None:
        return f"it depends on %{named.name}"
    read = (value for inner in op.walk() for value in inner.operands)
    made = next(
        (v for v in read if _is_made_in(v, loop) and not _is_made_in(v, op) and v.defining_op not in moved), None
    )
    if made is not None:
        return f"it reads %{made.name}, which the loop makes"
    beyond = next((inner for inner in op.walk() if isinstance(inner, OnSubset) and not _is_there(inner, loop)), None)
    return f"{beyond.subset.text()} may not be there where the loop has no iteration" if beyond is not None else None


def _is_there(op: OnSubset, loop: Loop) -> bool:
    """Whether what an operation reads is known to be there where the loop has no iteration."""
    runs = loop.is_counted and is_less_equal_at(loop, loop.var.lower + 1, loop.var.upper)
    return runs or stays_inside_without(op, loop)


def _is_made_in(value: Value, op: Operation) -> bool:
    owner = value.owner
    holder = owner if isinstance(owner, Operation) else owner.parent
    return holder is not None and is_in(holder, op)


def move_before(rewriter: Rewriter, loop: Loop, ops: list[Operation]) -> None:
    """Move operations of the body before the loop, in their order."""
    for op in ops:
        rewriter.move(op, InsertPoint.before(loop))
