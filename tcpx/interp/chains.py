"""`epilogue` and `prologue`: the elementwise operations behind and before an operation that go with it."""

from tcpx.interp.navigation import is_constant, narrowed, value_of, value_refs
from tcpx.interp.state import State
from tcpx.interp.values import OperandHandle, OpHandle
from tcpx.payload.diagnostics import Location
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import Loop, Materialize, StYield


def epilogue(base: OpHandle, state: State, where: Location) -> OpHandle:
    """The last op of the chain of elementwise ops that each copy alone feeds; the op itself if there is none."""
    ends = [_last_of_chain(op) for op in state.handles.resolve(base, where)]
    return narrowed(state.handles.of(*dict.fromkeys(ends)), base)


def prologue(handle: OperandHandle, state: State, where: Location) -> OpHandle:
    """The first op of the chain of elementwise ops that lead to an operand and to nothing else; its op if there is
    none."""
    pairs = zip(state.handles.resolve(handle.base, where), value_refs(handle, state, where), strict=True)
    starts = [_first_of_chain(op, value_of(ref)) for op, ref in pairs]
    return narrowed(state.handles.of(*dict.fromkeys(starts)), handle.base)


def with_chains(base: OpHandle, state: State, where: Location) -> tuple[OpHandle, ...]:
    """An op with what leads to it alone and its epilogue. What leads to a constant operand has nothing to choose."""
    op = state.handles.resolve(base, where)[0]
    operands = (OperandHandle(base, role) for role in op.operand_roles)
    before = (prologue(operand, state, where) for operand in operands if not _is_constant(operand, state, where))
    return (*before, base, epilogue(base, state, where))


def _is_constant(operand: OperandHandle, state: State, where: Location) -> bool:
    return all(is_constant(ref) for ref in value_refs(operand, state, where))


def _last_of_chain(op: Operation) -> Operation:
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


def _first_of_chain(op: Operation, value: Value) -> Operation:
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
