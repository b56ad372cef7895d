"""Calling a sequence: arguments by declared type, a frame of its own, its results."""

from __future__ import annotations

from tcpx.interp.arithmetic import size_text
from tcpx.interp.expressions import dim_name, evaluate
from tcpx.interp.frame import Frame
from tcpx.interp.matching import is_a
from tcpx.interp.navigation import source_name
from tcpx.interp.state import State
from tcpx.interp.values import DimHandle, OpHandle, RuntimeValue, as_dim_value, kind_of
from tcpx.payload.diagnostics import Kind
from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import SequenceCallee, sequence_arguments

DEEPEST = 64
"""Sequences that call each other deeper than this are taken to be endless."""


def frame_of_call(callee: SequenceCallee, call: ast.Call, state: State, frame: Frame) -> Frame:
    """The frame of a sequence with its parameters bound. Raises ScheduleError."""
    sequence = callee.sequence
    if len(frame.calls) >= DEEPEST:
        raise frame.error(f"`{sequence.name}` calls itself without end", call, required=f"at most {DEEPEST} calls")
    bound = sequence_arguments(sequence, call)
    made = Frame(callee.unit, frame.use, calls=((sequence.name, call.location), *frame.calls))
    for param in sequence.params:
        argument = bound.get(param.name)
        if argument is not None:
            value = _argument(param, argument.value, state, frame)
            where = argument.value
        else:
            value = evaluate(param.default, state, made) if param.default is not None else None
            where = param
        if value is None:
            raise frame.error(f"`{sequence.name}` needs `{param.name}`", call)
        made.names[param.name] = checked_parameter(param, value, where, state, frame)
    made.use = _use(frame.use, sequence.name, made, state)
    return made


def _argument(param: ast.Param, node: ast.Expression, state: State, frame: Frame) -> RuntimeValue:
    if param.type.name == "dim" and isinstance(node, ast.Name):
        held = frame.names.get(node.name)
        return held if isinstance(held, DimHandle) else DimHandle(OpHandle((), "any op"), dim_name(node, state, frame))
    return evaluate(node, state, frame)


def _use(outer: str, sequence: str, frame: Frame, state: State) -> str:
    """`mlp/fc1/packed_gemm`: the caller's path, the source name of the first op, the sequence."""
    handle = next((v for v in frame.names.values() if isinstance(v, OpHandle)), None)
    ops = state.handles.live(handle) if handle is not None else []
    parts = outer.split("/")
    name = source_name(ops[0]).split("/")[0] if ops else ""
    return "/".join([*parts, *([name] if name and name not in parts else []), sequence])


def checked_parameter(
    param: ast.Param, value: RuntimeValue, node: ast.Node, state: State, frame: Frame
) -> RuntimeValue:
    """The value if it is of the declared type, as that type."""
    name, dim = param.type.name, as_dim_value(value)
    if isinstance(value, tuple) and len(value) == 1 and name in ("op", "loop", "func", "group"):
        (value,) = value
    if name == "op" and isinstance(value, OpHandle):
        _check_class(param, state.handles.live(value), node, frame)
    if name == "loop" and isinstance(value, OpHandle):
        fits = all(isinstance(op, Loop) for op in state.handles.live(value))
    elif name == "float" and isinstance(dim, int):
        return float(dim)
    else:
        fits = {
            "int": isinstance(dim, int),
            "size": dim is not None,
            "list": isinstance(value, tuple),
            "any": True,
        }.get(name, _kind_fits(name, value))
    if fits:
        return value
    fix = "declare it `size`" if name == "int" and dim is not None else None
    raise frame.error(
        f"`{param.name}` is declared `{param.type}`",
        node,
        required=str(param.type),
        found=f"{kind_of(value)} {size_text(value)}",
        fix=fix,
        kind=Kind.SILENCEABLE,
    )


def _kind_fits(name: str, value: RuntimeValue) -> bool:
    if name in ("op", "func", "group", "loop"):
        return isinstance(value, OpHandle)
    return kind_of(value) == name or (name == "value" and isinstance(value, OpHandle))


def _check_class(param: ast.Param, ops: list[Operation], node: ast.Node, frame: Frame) -> None:
    for op in ops:
        for wanted in param.type.arguments:
            if not is_a(op, wanted.name):
                raise frame.error(
                    f"`{param.name}` is declared `{param.type}`",
                    node,
                    required=str(param.type),
                    found=f"%{op.name} ({op.opcode}, {' < '.join(op.tree_classes()) or 'outside the operation tree'})",
                    kind=Kind.SILENCEABLE,
                )
