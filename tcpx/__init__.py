"""tcpx: tensor programs to fast, readable, dependency-free C, as a schedule says."""

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

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "CompileError",
    "CompileRequest",
    "Diagnostic",
    "Kernel",
    "Module",
    "ParseError",
    "ScheduleError",
    "TcpxError",
    "VerifyError",
    "__version__",
    "apply_schedule",
    "check",
    "compile",
    "compile_many",
    "evaluate",
    "load",
    "load_schedule",
    "ops",
    "parse",
    "parse_schedule",
]
