"""The engine: runs a schedule over a payload, step by step, each step a transaction."""

from tcpx.assignment import KnobNames, ParamValue
from tcpx.interp.attempts import left_as_it_is, remark_on
from tcpx.interp.called import Called, CalledFunctions
from tcpx.interp.engine import Coverage, Run, StepHook, check_schedule, run_schedule
from tcpx.interp.knobs import KnobUse
from tcpx.interp.trace import AttemptKey, OutputLine, Trace, TraceEntry

__all__ = [
    "AttemptKey",
    "Called",
    "CalledFunctions",
    "Coverage",
    "KnobNames",
    "KnobUse",
    "OutputLine",
    "ParamValue",
    "Run",
    "StepHook",
    "Trace",
    "TraceEntry",
    "check_schedule",
    "left_as_it_is",
    "remark_on",
    "run_schedule",
]
