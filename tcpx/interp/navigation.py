"""`x.lhs`, `x.m`, `x.start`, `x.loop(k)`, `x.copy("main")`, `producer`, `users`, `parent`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tcpx.interp.frame import Frame
from tcpx.interp.scopes import scope_text
from tcpx.interp.state import State
from tcpx.interp.values import DimHandle, OperandHandle, OpHandle, RuntimeValue, describe, kind_of
from tcpx.payload.diagnostics import Diagnostic, Direction, Kind, Location, MissingError, ScheduleError
from tcpx.payload.indexing_maps import map_symbols
from tcpx.payload.interfaces import Structured, Tileable, dim_called
from tcpx.payload.ir import Block, FuncOp, Operation, Value, parent_op
from tcpx.payload.lookup import source_name
from tcpx.payload.ops.gml_st import Loop, Materialize, StYield
from tcpx.payload.ops.views import View
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.signature import given_operands, result_roles
from tcpx.plurals import counted
from tcpx.suggestions import did_you_mean
from tcpx.transform import new
from tcpx.transform.arguments import OperandRef, ValueRef, value_of
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import FUNCTIONS, METHODS
from tcpx.transform.language.printed_expressions import print_expression
from tcpx.transform.tiling import first_value, starts_of

RESULTS = ("out", "result")
"""What the only result is called."""
_PARTS = (*RESULTS, "acc", "name", "scheduled", "constant", "opcode")
"""What every operation has."""


class UnknownNameError(ScheduleError):
    """An operation has no dim or operand of a name."""

    def __init__(self, diagnostic: Diagnostic, name: str = "") -> None:
        super().__init__(diagnostic)
        self.name = name


class UnknownAttributeError(UnknownNameError):
    """An operation has no attribute of a name (`x.attribute("..")`)."""


def attribute(base: RuntimeValue, name: str, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    """`base.name` of a handle."""
    if isinstance(base, DimHandle):
        return _dim_attribute(base, name, state, frame, node)
    if isinstance(base, OperandHandle):
        if name == "constant":
            return all(is_constant(ref) for ref in value_refs(base, state, node.location))
        raise frame.error(f"a value has no `{name}`", node, required="`constant`", found=describe(base))
    if not isinstance(base, OpHandle):
        raise frame.error(f"{kind_of(base)} has no `{name}`", node, required="an op before the `.`")
    ops = state.handles.resolve(base, node.location)
    match name:
        case "name":
            return source_name(ops[0])
        case "opcode":
            return ops[0].opcode
        case "scheduled":
            return any(state.is_scheduled(op) for op in ops)
        case "constant":
            return all(Constant.of(op) is not None for op in ops)
        case "start":
            return _start(base, ops, state, frame, node)
        case _:
            return _operand_or_dim(base, ops[0], name, frame, node)


def _dim_attribute(base: DimHandle, name: str, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    if name != "kind":
        fix = _as_call(name, node)
        raise frame.error(f"a dim has no `{name}`", node, required="`kind`", found=describe(base), fix=fix)
    for op in state.handles.resolve(base.base, node.location):
        for iterator in op.iterators() if isinstance(op, Tileable) else ():
            if iterator.name == base.dim:
                return iterator.kind.value
    raise frame.error(
        f"%{base.base.label} has no dim `{base.dim}` any more",
        node,
        required="a dim that the op still has",
        kind=Kind.SILENCEABLE,
    )


def _start(base: OpHandle, ops: Sequence[Operation], state: State, frame: Frame, node: ast.Node) -> OpHandle:
    found = _starts(ops)
    if not found:
        raise _no_start(base, ops[0], frame, node)
    return narrowed(state.handles.of(*found), base)


def _starts(ops: Sequence[Operation]) -> list[Operation]:
    return list(dict.fromkeys(start for op in ops if isinstance(op, Tileable) for start in starts_of(op)))


def exists(base: OpHandle, name: str, state: State) -> bool:
    """Whether a copy of a handle is still there, with a start for `x.start`, and else with this operand or dim."""
    ops = state.handles.live(base)
    if name == "start":
        starts = _starts(ops)
        return bool(starts) and bool(state.handles.live(narrowed(state.handles.of(*starts), base)))
    return any(_has(op, name) for op in ops)


def _has(op: Operation, name: str) -> bool:
    if name in op.signature.named_operands:
        return name in given_operands(op)
    is_dim = isinstance(op, Tileable) and dim_called(op, name) in _dims(op)
    return is_dim or name in (*_operands(op), *_PARTS, *result_roles(op))


def _operands(op: Operation) -> tuple[str, ...]:
    return (
        *op.operand_roles,
        *((op.signature.optional_operand,) if op.signature.optional_operand and op.init is not None else ()),
    )


def _dims(op: Operation) -> tuple[str, ...]:
    return tuple(it.name for it in op.iterators()) if isinstance(op, Tileable) else ()


def _no_start(base: OpHandle, op: Operation, frame: Frame, node: ast.Node) -> Exception:
    if any("results" in a.attributes for a in op.ancestors() if isinstance(a, FuncOp)):
        return frame.error(
            f"%{base.label} has no start any more: it accumulates in memory",
            node,
            required="an accumulator that is a value, as before bufferize",
            found=f"{op.opcode} in a function that is bufferized",
            fix=Direction(f"write `let start = {base.label}.start` before bufferize: the handle stays good"),
            kind=Kind.SILENCEABLE,
        )
    if op.init is not None:
        first = first_value(op.init)
        return frame.error(
            f"%{base.label} has no start: its first value is given",
            node,
            required="an accumulator that starts with a fill",
            found=f"%{first.name}: {first.type}",
            fix=Direction(f"if exists({base.label}.start) {{ ... }}"),
            kind=Kind.SILENCEABLE,
        )
    return frame.error(
        f"%{base.label} has no start",
        node,
        required="an operation that accumulates: one with a tiled reduction dim",
        found=op.opcode,
        kind=Kind.SILENCEABLE,
    )


def _operand_or_dim(base: OpHandle, op: Operation, name: str, frame: Frame, node: ast.Node) -> RuntimeValue:
    operands, dims = _operands(op), _dims(op)
    if name in (*operands, *RESULTS, *result_roles(op), "acc"):
        return OperandHandle(base, name)
    if isinstance(op, Tileable) and dim_called(op, name) in dims:
        return DimHandle(base, dim_called(op, name))
    results = result_roles(op) if len(op.results) > 1 else ("out",)
    known = (*operands, *results, "acc", *dims, "start", "name", "scheduled", "constant", "opcode")
    error = frame.error(
        f"%{base.label} ({op.opcode}) has no `{name}`",
        node,
        required=f"a dim ({', '.join(dims) or 'it has none'}) or an operand ({', '.join(operands) or 'it has none'})",
        fix=_as_call(name, node) or did_you_mean(name, known),
        kind=Kind.SILENCEABLE,
    )
    raise UnknownNameError(error.diagnostic, name)


def _as_call(name: str, node: ast.Node) -> str | None:
    """`x.size` was meant as `size(x)`, and `x.loops` is asked for a dim."""
    base = node.base if isinstance(node, ast.Attribute) else None
    if name in METHODS:
        return Direction(f"it is asked for a {METHODS[name].takes}: write `{node.location.span}(..)`")
    if name == "shape":
        return Direction("`size(x.m)` is the extent of a dim, `dims(x.out)` lists the dims")
    return f"write `{name}({print_expression(base)})`" if base is not None and name in FUNCTIONS else None


def narrowed(made: OpHandle, base: OpHandle) -> OpHandle:
    """A handle navigated to from another denotes copies where that one does."""
    return OpHandle(made.origins, made.label, base.sides, base.inside)


def selected(base: OpHandle, scope: OpHandle, state: State, frame: Frame, node: ast.Node) -> OpHandle:
    """`x in L`: the copies inside a loop or group, or those that a call runs."""
    made = OpHandle(base.origins, base.label, base.sides, (*base.inside, scope), base.view)
    if not state.handles.live(made):
        raise _not_inside(base, scope, state, frame, node)
    return made


def _not_inside(base: OpHandle, scope: OpHandle, state: State, frame: Frame, node: ast.Node) -> ScheduleError:
    copies = state.handles.resolve(base, node.location)
    funcs = list(dict.fromkeys(func for op in copies if (func := op.func) is not None))
    calls = [call for func in funcs for call in func.callers()]
    found = f"%{base.label} in {' and '.join(f'@{func.name}' for func in funcs)}"
    if calls:
        found += f", called by {', '.join(f'%{c.name} in @{c.func.name}' for c in calls if c.func is not None)}"
    names = [name for call in calls if (name := frame.handle_name(call)) is not None]
    return frame.error(
        f"no copy of %{base.label} is inside {scope_text(scope)}",
        node,
        required="a loop or group round it, or a call on the way to it",
        found=found,
        fix=f"write `{base.label} in {names[0]}`" if len(calls) == 1 and names else None,
        kind=Kind.SILENCEABLE,
        payload=copies[0].location,
        of=MissingError,
    )


def value_refs(handle: OperandHandle, state: State, where: Location) -> list[ValueRef]:
    """What `x.lhs` or `x.out` is, for each copy of x."""
    return [value_ref(op, handle.name) for op in state.handles.resolve(handle.base, where)]


def value_ref(op: Operation, name: str) -> ValueRef:
    """The operand or result of one operation."""
    if name in op.operand_roles:
        return OperandRef(op, op.operand_roles.index(name))
    if name == op.signature.optional_operand and op.init is not None:
        return OperandRef(op, len(op.operands) - 1)
    if name == "acc" and isinstance(op, Structured) and op.init is not None:
        return OperandRef(op, len(op.operands) - 1)
    if name == op.signature.optional_operand:
        raise _no_value(op, f"it has no `{name}`", f"an operation with `{name}`", "one without")
    if name in result_roles(op):
        return op.results[result_roles(op).index(name)]
    if len(op.results) != 1:
        known = " or ".join(f"`{role}`" for role in result_roles(op))
        message = (
            f"it has {counted(len(op.results), 'result')}, none of which is `{name}` alone"
            if known
            else "it has no result"
        )
        raise _no_value(op, message, known or "an operation with a result", name)
    return op.result


def _no_value(op: Operation, message: str, required: str, found: str) -> ScheduleError:
    """The error for an operand or a result that an operation does not have, which another one may."""
    what = f"%{op.name} ({op.opcode}): {message}"
    return ScheduleError(Diagnostic(what, Kind.SILENCEABLE, payload=op.location, required=required, found=found))


def dims_of_value(handle: OperandHandle, state: State, frame: Frame, node: ast.Node) -> tuple[DimHandle, ...]:
    """`dims(x.lhs)`: the dims of x that the operand or result is indexed by, in the order it stores them."""
    op = state.handles.resolve(handle.base, node.location)[0]
    ref = value_ref(op, handle.name)
    if not isinstance(op, Structured):
        raise frame.error(
            f"the dims of {describe(handle)} are not known",
            node,
            required="an operand or result of a structured operation",
            found=op.opcode,
            kind=Kind.SILENCEABLE,
        )
    maps = (*op.maps(), *op.result_maps())
    indexing_map = maps[ref.index] if isinstance(ref, OperandRef) else op.result_maps()[op.results.index(ref)]
    return tuple(
        DimHandle(handle.base, name) for name in dict.fromkeys(n for e in indexing_map for n in map_symbols(e))
    )


def definition_of(value: Value) -> Operation | None:
    """The operation that makes a value, seen through reads of subsets and padding."""
    return _source_of(value).defining_op


def _source_of(value: Value) -> Value:
    while (inside := _shown_by(value.defining_op)) is not None:
        value = inside
    return value


def _shown_by(op: Operation | None) -> Value | None:
    """What a subset is read of, or a padding pads."""
    return op.source if isinstance(op, Materialize) else new.padded(op)


def is_constant(ref: ValueRef) -> bool:
    """Whether a value is a constant, an argument that is one in every call of its function, or a view of such: parts of
    a weight, a weight of another shape."""
    return _is_fixed(value_of(ref))


def _is_fixed(value: Value) -> bool:
    value = _source_of(value)
    op, func = value.defining_op, value.func
    if isinstance(op, View):
        return all(map(_is_fixed, op.operands))
    if op is not None or func is None or value not in func.args:
        return op is not None and Constant.of(op) is not None
    calls, index = func.callers(), func.args.index(value)
    return bool(calls) and all(_is_fixed(call.operands[index]) for call in calls)


# -- functions ---------------------------------------------------------------------------------------------------


def producer(handle: OperandHandle, state: State, frame: Frame, node: ast.Node) -> OpHandle:
    """The op that makes an operand's value."""
    refs = value_refs(handle, state, node.location)
    found = [made for made in (definition_of(value_of(ref)) for ref in refs) if made is not None]
    if not found:
        value = _source_of(value_of(refs[0]))
        of_func = isinstance(value.owner, Block) and isinstance(value.owner.parent, FuncOp)
        raise frame.error(
            f"{describe(handle)} has no producer",
            node,
            required="a value made by an operation",
            found=f"%{value.name}, {'an argument of the function' if of_func else 'the destination of a loop'}",
            kind=Kind.SILENCEABLE,
            of=MissingError,
        )
    return narrowed(state.handles.of(*dict.fromkeys(found)), handle.base)


def users(value: OperandHandle | OpHandle, state: State, where: Location) -> tuple[OpHandle, ...]:
    """The ops that read a value, or the result of an op; copies of one computation are one handle, which denotes those
    that the value's does, where the op that reads it has as many."""
    if isinstance(value, OpHandle):
        base, values = value, [result for op in state.handles.resolve(value, where) for result in op.results]
    else:
        base, values = value.base, [value_of(ref) for ref in value_refs(value, state, where)]
    found: dict[tuple[int, ...], OpHandle] = {}
    for reader in reversed([user for each in values for user in _readers(each)]):
        everywhere = state.handles.of(reader)
        same = narrowed(everywhere, base)
        found[everywhere.origins] = same if reader in state.handles.live(same) else everywhere
    return tuple(found.values())[::-1]


def _readers(value: Value) -> Iterator[Operation]:
    """The operations that read a value, seen through reads of subsets, padding, and the ends of loops and branches.

    A loop that only writes into it, like the tail of a peeled one, hands it on.
    """
    for user in value.users:
        outer = parent_op(user)
        if _shown_by(user) is value:
            yield from _readers(user.result)
        elif isinstance(user, StYield):
            if user.operands[0] is value and user.loop_result is not None:
                yield from _readers(user.loop_result)
        elif isinstance(user, Loop):
            for k, dest in enumerate(user.destinations):
                if user.operands[k] is value:
                    yield from list(_readers(dest)) or _readers(user.results[k])
        elif not user.is_terminator:
            yield user
        elif outer is not None and not isinstance(outer, FuncOp):
            for k, yielded in enumerate(user.operands):
                if yielded is value:
                    yield from _readers(outer.results[k])


def parent(base: OpHandle, state: State, frame: Frame, node: ast.Node) -> OpHandle:
    """The loop, group or function round an op."""
    ops = state.handles.resolve(base, node.location)
    found = [parent_op(op) for op in ops]
    outer = list(dict.fromkeys(op for op in found if op is not None))
    if not outer:
        raise frame.error(f"nothing is round %{base.label}", node, required="an op inside a function")
    made = state.handles.of(*outer)
    inside = replace(made, inside=base.inside)
    return inside if set(outer) == set(state.handles.live(inside)) else made
