"""What a handle is asked by `x.name(argument)`: loops, copies, dims of a kind, attributes."""

from collections.abc import Callable, Mapping
from typing import Final

from tcpx.interp.frame import Frame
from tcpx.interp.handles import path_text
from tcpx.interp.navigation import UnknownAttributeError, narrowed
from tcpx.interp.state import State
from tcpx.interp.values import DimHandle, OpHandle, RuntimeValue, Side
from tcpx.payload.diagnostics import Direction, Kind, MissingError
from tcpx.payload.interfaces import IteratorKind, Tileable
from tcpx.payload.ir import Attribute, Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.sizes import Size
from tcpx.payload.types import ScalarType
from tcpx.suggestions import did_you_mean
from tcpx.transform.editing import loops_stepping
from tcpx.transform.language import syntax as ast

_OF_ANOTHER: Final = "; a loop that it was fused into goes by the dims of what was there: keep its handle"


def loops_of(base: OpHandle, dim: str, state: State, frame: Frame, node: ast.Node) -> tuple[OpHandle, ...]:
    """`x.loops(k)`: the loops that step the dim, outermost first; one handle per nesting level."""
    ops = state.handles.resolve(base, node.location)
    nests = [loops_stepping(op, dim) for op in ops]
    if not any(nests):
        _check_dim(ops[0], dim, base, frame, node)
    deepest = max(len(nest) for nest in nests)
    levels = [list(dict.fromkeys(nest[k] for nest in nests if k < len(nest))) for k in range(deepest)]
    base = state.handles.in_calls(base)
    return tuple(narrowed(state.handles.of(*level), base) for level in levels)


def loop_of(base: OpHandle, dim: str, state: State, frame: Frame, node: ast.Node) -> OpHandle:
    """`x.loop(k)`: the innermost loop that steps the dim."""
    ops = state.handles.resolve(base, node.location)
    found = [nest[-1] for nest in (loops_stepping(op, dim) for op in ops) if nest]
    if not found:
        _check_dim(ops[0], dim, base, frame, node)
        around = [a.name for a in ops[0].ancestors() if isinstance(a, Loop)]
        raise frame.error(
            f"no loop steps `{dim}` of %{base.label}",
            node,
            required=f"a loop over `{dim}` round it",
            found=", ".join(around) or "no loops",
            fix=Direction(
                f"tile it first: `tile({base.label}, [{dim}: ...])`"
                + (
                    "; a loop that it was fused into goes by the dims of what was there: keep its handle"
                    if around
                    else ""
                )
            ),
            kind=Kind.SILENCEABLE,
            of=MissingError,
        )
    return narrowed(state.handles.of(*dict.fromkeys(found)), state.handles.in_calls(base))


def _check_dim(op: Operation, dim: str, base: OpHandle, frame: Frame, node: ast.Node) -> None:
    known = [it.name for it in op.iterators()] if isinstance(op, Tileable) else [dim]
    if dim not in known:
        raise frame.error(
            f"%{base.label} has no dim `{dim}`",
            node,
            required=", ".join(known),
            fix=did_you_mean(dim, known),
            kind=Kind.SILENCEABLE,
        )


def copies(base: OpHandle, side: str, state: State, frame: Frame, node: ast.Node) -> OpHandle:
    """`x.copy("main")`."""
    ops = state.handles.resolve(base, node.location)
    splits = frozenset(split for op in ops for split, s in op.copy_path if s == side)
    chosen = Side(side, splits)
    if not any(chosen.has(op.copy_path) for op in ops):
        known = sorted({s for op in ops for _, s in op.copy_path})
        raise frame.error(
            f'%{base.label} has no copy "{side}"',
            node,
            required=("a copy of whole tiles" if splits else ", ".join(known)) or "a split that made copies",
            found=f'"{side}"' if known and not splits else ", ".join(path_text(op.copy_path) for op in ops),
            fix=did_you_mean(side, known),
            kind=Kind.SILENCEABLE,
            of=MissingError,
        )
    return OpHandle(base.origins, base.label, (*base.sides, chosen), base.inside, base.view)


def dims_of(base: OpHandle, kind: str, state: State, frame: Frame, node: ast.Node) -> tuple[DimHandle, ...]:
    """`x.dims("parallel")`: the dims of this kind, in the order of the operation."""
    kinds = [k.value for k in IteratorKind]
    if kind not in kinds:
        fix = did_you_mean(kind, kinds)
        raise frame.error(f'there is no kind of dim "{kind}"', node, required=", ".join(kinds), fix=fix)
    op = state.handles.resolve(base, node.location)[0]
    found = op.iterators() if isinstance(op, Tileable) else ()
    return tuple(DimHandle(base, it.name) for it in found if it.kind.value == kind)


def attribute_of(base: OpHandle, name: str, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    """`x.attribute("permutation")`: an attribute as the payload writes it, or a note of the schedule."""
    op = state.handles.resolve(base, node.location)[0]
    value = _attribute_value(op.attributes.get(name, op.notes.get(name)))
    if value is None:
        known = attribute_names(op)
        error = frame.error(
            f"%{base.label} ({op.opcode}) has no attribute `{name}`",
            node,
            required=f"one of {', '.join(known)}" if known else "an attribute that it has: there is none",
            fix=did_you_mean(name, known),
            kind=Kind.SILENCEABLE,
        )
        raise UnknownAttributeError(error.diagnostic, name)
    return value


def attribute_names(op: Operation) -> tuple[str, ...]:
    """The attributes and notes of an operation that a schedule can ask for."""
    return (*(key for key, held in op.attributes.items() if _attribute_value(held) is not None), *op.notes)


def _attribute_value(held: Attribute | None) -> RuntimeValue | None:
    if isinstance(held, tuple):
        items = [_attribute_value(item) for item in held]
        return tuple(item for item in items if item is not None) if None not in items else None
    return held if isinstance(held, int | float | str | Size | ScalarType) else None


Navigate = Callable[[OpHandle, str, State, Frame, ast.Node], RuntimeValue]
METHODS: Mapping[str, Navigate] = {
    "loop": loop_of,
    "loops": loops_of,
    "copy": copies,
    "dims": dims_of,
    "attribute": attribute_of,
}
