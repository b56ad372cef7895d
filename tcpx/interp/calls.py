"""Calling a sequence: arguments by declared type, a frame of its own, its path for knobs."""

from tcpx.interp.expressions import argument_value, evaluate
from tcpx.interp.frame import Frame
from tcpx.interp.parameters import call_frame, given_arguments
from tcpx.interp.state import State
from tcpx.interp.values import OpHandle
from tcpx.payload.lookup import source_name
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import SequenceCallee


def frame_of_call(callee: SequenceCallee, call: ast.Call, state: State, frame: Frame) -> Frame:
    """The frame of a sequence with its parameters bound. Raises ScheduleError."""
    given = given_arguments(callee, call, state, frame, argument_value)
    made = call_frame(callee, call, given, state, frame, evaluate)
    made.given = tuple(made.names.values())
    made.use = use_path(frame.use, callee.sequence.name, made, state)
    return made


def use_path(outer: str, sequence: str, frame: Frame, state: State) -> str:
    """`mlp/fc1/packed_gemm`: the caller's path, the source name of the first op, the sequence."""
    handle = next((v for v in frame.names.values() if isinstance(v, OpHandle)), None)
    ops = state.handles.live(handle) if handle is not None else []
    parts = outer.split("/")
    name = source_name(ops[0]).split("/")[0] if ops else ""
    return "/".join([*parts, *([name] if name and name not in parts else []), sequence])
