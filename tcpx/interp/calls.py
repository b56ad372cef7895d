"""Calling a sequence: arguments by declared type, a frame of its own, its path for knobs."""

from tcpx.interp.expressions import argument_value, value_or_top
from tcpx.interp.foresight import UnforeseenError
from tcpx.interp.frame import Frame
from tcpx.interp.parameters import call_frame, given_arguments
from tcpx.interp.state import State
from tcpx.interp.values import UNKNOWN, OpHandle, RuntimeValue
from tcpx.payload.lookup import source_name
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import SequenceCallee


def frame_of_call(callee: SequenceCallee, call: ast.Call, state: State, frame: Frame) -> Frame:
    """The frame of a sequence with its parameters bound. Raises ScheduleError."""
    given = given_arguments(callee, call, state, frame, _argument_or_top)
    made = call_frame(callee, call, given, state, frame, value_or_top)
    made.given = tuple(value for value in made.names.values() if value is not UNKNOWN)
    made.use, made.place = use_paths(frame, callee.sequence.name, made, state)
    return made


def _argument_or_top(param: ast.Param, node: ast.Expression, state: State, frame: Frame) -> RuntimeValue:
    try:
        return argument_value(param, node, state, frame)
    except UnforeseenError:
        return UNKNOWN


def use_paths(outer: Frame, sequence: str, frame: Frame, state: State) -> tuple[str, str]:
    """`mlp/fc1/packed_gemm`: the caller's path, the source name of the first op, the sequence; behind `@layer:` where
    that op is in a called function. Then the same as records know it."""
    handle = next((v for v in frame.names.values() if isinstance(v, OpHandle)), None)
    op = next(iter(state.handles.live(handle)), None) if handle is not None else None
    scope, _, path = outer.use.rpartition(":")
    key, _, place = outer.place.rpartition(":")
    name, number, func = "", "", op.func if op is not None else None
    if op is not None and func is not None:
        name = state.source_of(source_name(op))
        is_called = func is not state.func
        scope = f"@{func.name}" if is_called else ""
        if state.called is not None:
            key = state.called.key(func) if is_called else ""
            number = state.called.number(func, name) if is_called and op is not func else ""
    use = "/".join(_extended(path, name.replace("/", "."), sequence))
    return f"{scope}:{use}" if scope else use, f"{key}:{'/'.join(_extended(place, number, sequence))}"


def _extended(path: str, name: str, sequence: str) -> list[str]:
    parts = path.split("/")
    return [*parts, *([name] if name and name not in parts else []), sequence]
