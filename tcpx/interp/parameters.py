"""Giving values to declared parameters: arguments by name, defaults, and the check of the declared type."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tcpx.interp.arithmetic import size_text
from tcpx.interp.frame import Frame
from tcpx.interp.space.formula import Formula
from tcpx.interp.state import State
from tcpx.interp.values import OpHandle, RuntimeValue, Unknown, as_dim_value, kind_of
from tcpx.payload.diagnostics import ConditionError, Kind, Location
from tcpx.payload.ir import Operation
from tcpx.payload.lookup import is_a
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.group import Group
from tcpx.payload.traits.tree import Tree
from tcpx.target import target_at
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import FunctionCallee, SequenceCallee
from tcpx.transform.language.loader import Unit
from tcpx.transform.language.views import view_of, without_view

Evaluate = Callable[[ast.Expression, State, Frame], RuntimeValue]
Given = Mapping[str, RuntimeValue]
Argument = Callable[[ast.Param, ast.Expression, State, Frame], RuntimeValue]


def given_arguments(
    callee: SequenceCallee | FunctionCallee, call: ast.Call, state: State, frame: Frame, argument: Argument
) -> Given:
    """The arguments of a call that are written there, evaluated outside of what is called."""
    called = callee.sequence if isinstance(callee, SequenceCallee) else callee.function
    bound = state.arguments_of(called, call)
    return {p.name: argument(p, bound[p.name].value, state, frame) for p in called.params if p.name in bound}


def call_frame(
    callee: SequenceCallee | FunctionCallee,
    call: ast.Call,
    given: Given,
    state: State,
    frame: Frame,
    default: Evaluate,
) -> Frame:
    """A frame for a call with the parameters bound: to what is given, else to defaults, which are evaluated inside."""
    called = callee.sequence if isinstance(callee, SequenceCallee) else callee.function
    bound = state.arguments_of(called, call)
    handles = (value for value in given.values() if isinstance(value, OpHandle))
    about = next((op for handle in handles for op in state.handles.live(handle)), None)
    target = frame.target if about is None else target_at(about, state.target)
    made = Frame(callee.unit, frame.use, calls=((called.name, call.location), *frame.calls), target=target)
    for param in called.params:
        if param.name in given:
            value, where = given[param.name], bound[param.name].value.location
        elif param.default is not None:
            value, where = default(param.default, state, made), param.location
        else:
            raise frame.error(f"`{called.name}` needs `{param.name}`", call, required="an argument for it")
        made.names[param.name] = checked_parameter(param.name, param.type, value, where, state, frame, callee.unit)
    return made


def checked_parameter(
    what: str,
    type_: ast.TypeOf,
    value: RuntimeValue,
    where: ast.Node | Location,
    state: State,
    frame: Frame,
    unit: Unit,
) -> RuntimeValue:
    """The value if it is of the type that a file declares, as that type: a handle is seen as the view it names. What is
    not concrete may be of any."""
    if isinstance(value, Formula | Unknown):
        return value
    if type_.name == "list" and type_.arguments and isinstance(value, tuple):
        of = type_.arguments[0]
        items = enumerate(value, start=1)
        return tuple(checked_parameter(f"item {k} of {what}", of, item, where, state, frame, unit) for k, item in items)
    view, plain = view_of(type_, unit), without_view(type_, unit)
    name, dim = plain.name, as_dim_value(value)
    if isinstance(value, tuple) and len(value) == 1 and name in ("op", "loop", "func", "group"):
        (value,) = value
    if name == "op" and isinstance(value, OpHandle):
        _check_class(what, type_, plain, state.handles.live(value), where, frame)
    if isinstance(value, OpHandle) and (view is not None or value.view is not None):
        value = replace(value, view=view)
    if name == "loop" and isinstance(value, OpHandle):
        fits = all(isinstance(op, Loop) for op in state.handles.live(value))
    elif name == "group" and isinstance(value, OpHandle):
        fits = all(isinstance(op, Group) for op in state.handles.live(value))
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
    raise frame.error(
        f"`{what}` is declared `{type_}`",
        where,
        required=str(type_),
        found=f"{kind_of(value)} {size_text(value)}",
        fix="declare it `size`" if name == "int" and dim is not None else None,
        kind=Kind.SILENCEABLE,
    )


def _kind_fits(name: str, value: RuntimeValue) -> bool:
    if name in ("op", "func", "group", "loop"):
        return isinstance(value, OpHandle)
    return kind_of(value) == name or (name == "value" and isinstance(value, OpHandle))


def _check_class(
    what: str, type_: ast.TypeOf, plain: ast.TypeOf, ops: list[Operation], where: ast.Node | Location, frame: Frame
) -> None:
    for op in ops:
        for wanted in plain.arguments:
            if not is_a(op, wanted.name):
                classes = " < ".join(Tree(op).tree_classes())
                raise frame.error(
                    f"`{what}` is declared `{type_}`",
                    where,
                    required=str(plain),
                    found=f"%{op.name} ({op.opcode}, {classes or 'outside the operation tree'})",
                    kind=Kind.SILENCEABLE,
                    of=ConditionError,
                )
