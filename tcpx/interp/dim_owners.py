"""Whose dim a dim is: one of another operation is not taken by its name."""

from tcpx.interp.foresight import UnforeseenError
from tcpx.interp.frame import Frame
from tcpx.interp.state import State
from tcpx.interp.values import DimHandle, OpHandle, describe
from tcpx.payload.diagnostics import Kind, either
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import written_at
from tcpx.transform.language import syntax as ast


def own_dim(held: DimHandle, of: OpHandle, state: State, frame: Frame, node: ast.Node) -> str:
    """The name of a dim of `of`, in whatever form and copy that computation is now. A dim without an owner, which the
    schedule named alone, may be of any. Raises ScheduleError for a dim of another computation."""
    owner = held.base
    if not owner.origins or _same_computation(owner, of, state):
        return held.dim
    if state.foresight is not None and state.foresight.is_reshaped:
        raise UnforeseenError("steps may merge operations")
    op = state.handles.resolve(of, node.location)[0]
    name = next((name for name, value in frame.names.items() if value == of), of.label)
    known = [it.name for it in op.iterators()] if isinstance(op, Tileable) else []
    raise frame.error(
        f"`{held.dim}` is a dim of %{owner.label}, not of %{of.label}",
        node,
        required=f"a dim of %{of.label}: {', '.join(known) or 'it has none'}",
        found=describe(held),
        fix=either([f"`{name}.{dim}`" for dim in known]) or None,
        kind=Kind.SILENCEABLE,
        payload=written_at(op),
    )


def _same_computation(owner: OpHandle, of: OpHandle, state: State) -> bool:
    if not set(owner.origins).isdisjoint(of.origins):
        return True
    return not {id(op) for op in state.handles.live(owner)}.isdisjoint(id(op) for op in state.handles.live(of))
