"""`epilogue` and `prologue`: the elementwise operations behind and before an operation that go with it."""

from tcpx.interp.navigation import is_constant, narrowed, value_of, value_refs
from tcpx.interp.state import State
from tcpx.interp.values import OperandHandle, OpHandle
from tcpx.payload.diagnostics import Location
from tcpx.transform.chains import first_of_chain, last_of_chain


def epilogue(base: OpHandle, state: State, where: Location) -> OpHandle:
    """The last op of the chain of elementwise ops that each copy alone feeds; the op itself if there is none."""
    ends = [last_of_chain(op) for op in state.handles.resolve(base, where)]
    return narrowed(state.handles.of(*dict.fromkeys(ends)), base)


def prologue(handle: OperandHandle, state: State, where: Location) -> OpHandle:
    """The first op of the chain of elementwise ops that lead to an operand and to nothing else; its op if there is
    none."""
    pairs = zip(state.handles.resolve(handle.base, where), value_refs(handle, state, where), strict=True)
    starts = [first_of_chain(op, value_of(ref)) for op, ref in pairs]
    return narrowed(state.handles.of(*dict.fromkeys(starts)), handle.base)


def with_chains(base: OpHandle, state: State, where: Location) -> tuple[OpHandle, ...]:
    """An op with what leads to it alone and its epilogue. What leads to a constant operand has nothing to choose."""
    op = state.handles.resolve(base, where)[0]
    operands = (OperandHandle(base, role) for role in op.operand_roles)
    before = (prologue(operand, state, where) for operand in operands if not _is_constant(operand, state, where))
    return (*before, base, epilogue(base, state, where))


def _is_constant(operand: OperandHandle, state: State, where: Location) -> bool:
    return all(is_constant(ref) for ref in value_refs(operand, state, where))
