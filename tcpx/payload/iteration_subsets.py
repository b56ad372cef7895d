"""Subsets in two iterations of a loop. What `gml_st.bind` binds inside a loop has another value in each of them."""

from collections.abc import Iterable

from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.index import Bind
from tcpx.payload.sizes import Dim, Var, variables
from tcpx.payload.subsets import Tile, disjoint_between_iterations


def bound_inside(loop: Loop, dims: Iterable[Dim]) -> set[Var]:
    """The variables in sizes that are bound to values inside a loop."""
    used = {var for dim in dims for var in variables(dim)} - {loop.var}
    return used & {op.var for op in loop.walk() if isinstance(op, Bind)} if used else used


def changes_in(loop: Loop, tile: Tile) -> bool:
    """Whether a subset may be another one in each iteration of a loop."""
    dims = (*tile.offsets, *tile.sizes, *tile.strides)
    return any(loop.var in variables(dim) for dim in dims) or bool(bound_inside(loop, dims))


def disjoint_in_iterations(loop: Loop, tile: Tile, other: Tile | None = None) -> bool | None:
    """Whether the tile of an iteration of a loop and the tile `other` (by default the same) of any other iteration
    share no element; None if unknown."""
    second = tile if other is None else other
    bound = bound_inside(loop, (*tile.offsets, *tile.sizes, *tile.strides, *second.offsets, *second.sizes))
    if not bound:
        return disjoint_between_iterations(tile, loop.var, other)
    elsewhere: dict[Var, Dim] = {v: Var(f"{v.name}~elsewhere", v.lower, v.upper, v.step).size() for v in bound}
    return disjoint_between_iterations(tile, loop.var, second.substitute(elsewhere))
