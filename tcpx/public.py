"""The names `tcpx` offers."""

from tcpx.api import (
    CompileRequest,
    apply_schedule,
    check,
    compile,
    compile_many,
    evaluate,
    load,
    load_schedule,
    ops,
    parse,
    parse_schedule,
)
from tcpx.emit_c.kernel import Kernel
from tcpx.inputs import argument_dtypes, random_inputs
from tcpx.interp import Run, TraceEntry
from tcpx.payload.diagnostics import (
    ArgumentError,
    CompileError,
    Diagnostic,
    ParseError,
    ScheduleError,
    TcpxError,
    VerifyError,
)
from tcpx.payload.ir import Module
from tcpx.source import Source, emit
from tcpx.target import TargetError
from tcpx.target import available_targets as targets
from tcpx.transform.declaration import Transform, transforms
from tcpx.transform.language.loader import Program as Schedule
from tcpx.transform.loop_nest import loop_nest

__all__ = [
    "ArgumentError",
    "CompileError",
    "CompileRequest",
    "Diagnostic",
    "Kernel",
    "Module",
    "ParseError",
    "Run",
    "Schedule",
    "ScheduleError",
    "Source",
    "TargetError",
    "TcpxError",
    "TraceEntry",
    "Transform",
    "VerifyError",
    "apply_schedule",
    "argument_dtypes",
    "check",
    "compile",
    "compile_many",
    "emit",
    "evaluate",
    "load",
    "load_schedule",
    "loop_nest",
    "ops",
    "parse",
    "parse_schedule",
    "random_inputs",
    "targets",
    "transforms",
]
