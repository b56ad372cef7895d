"""The elementwise operations before and after an operation that go with it."""

from collections.abc import Iterator

from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import Loop, Materialize, StYield


def last_of_chain(op: Operation) -> Operation:
    """Follow a value out of the loops that compute tiles of it, and to where the operations on it meet again.

    A reduction, a reshape, a broadcast, another block or a use that leads elsewhere ends the chain.
    """
    end, value = op, op.results[0] if len(op.results) == 1 else None
    while value is not None:
        user = value.users[0] if len(value.users) == 1 else None
        if isinstance(user, StYield) and user.operands[0] is value:
            value = _result_of(user)
        elif isinstance(user, Materialize) and all(isinstance(u, StYield) for u in user.result.users):
            value = user.result
        else:
            meeting = _meeting_of_users(value)
            if meeting is None:
                break
            end, value = meeting, meeting.result
    return end


def _meeting_of_users(value: Value) -> Elementwise | None:
    """The first elementwise op through which all that is computed from a value leads, by elementwise ops alone."""
    made = value.defining_op
    waiting: list[Operation] = list(value.users)
    while waiting:
        op = min(waiting, key=lambda u: u.order)
        if not isinstance(op, Elementwise) or made is None or op.parent is not made.parent:
            return None
        waiting = [u for u in waiting if u is not op]
        if not waiting:
            return op
        waiting += [u for u in op.result.users if u not in waiting]
    return None


def first_of_chain(op: Operation, value: Value) -> Operation:
    """Follow an operand to what makes it, as long as that is elementwise and read once."""
    start = op
    while True:
        made = value.defining_op
        if not isinstance(made, Elementwise) or made.parent is not op.parent or len(value.uses) != 1:
            return start
        start = made
        value = next((v for v in made.operands if isinstance(v.defining_op, Elementwise)), made.operands[0])


def _result_of(store: StYield) -> Value | None:
    """The loop's result that a yield writes; None if the destination has other uses than reading it back."""
    dest = store.operands[1]
    loop = dest.owner.parent if isinstance(dest.owner, Block) else None
    if not isinstance(loop, Loop) or any(isinstance(u, StYield) and u is not store for u in dest.users):
        return None
    return loop.results[loop.destinations.index(dest)]


def epilogue_of(op: Operation) -> list[Elementwise]:
    """The operations of the chain that an operation feeds, in program order; those in its own block."""
    end, found, waiting = last_of_chain(op), dict[Elementwise, None](), [op]
    while waiting:
        here = waiting.pop()
        for user in here.result.users if here is not end else ():
            if isinstance(user, Elementwise) and user.parent is op.parent and user not in found:
                found[user] = None
                waiting.append(user)
    return sorted(found, key=lambda each: each.order)


def prologue_of(op: Operation, value: Value) -> Iterator[Elementwise]:
    """The elementwise operations that lead to an operand and to nothing else, the last one first."""
    made = value.defining_op
    if isinstance(made, Elementwise) and made.parent is op.parent and len(value.uses) == 1:
        yield made
        for operand in made.operands:
            yield from prologue_of(op, operand)
