"""The engine: runs a schedule over a payload, step by step, each step a transaction."""

from __future__ import annotations

from tcpx.interp.engine import Coverage, Run, StepHook, check_schedule, run_schedule
from tcpx.interp.knobs import KnobUse, ParamValue
from tcpx.interp.trace import OutputLine, Trace, TraceEntry

__all__ = [
    "Coverage",
    "KnobUse",
    "OutputLine",
    "ParamValue",
    "Run",
    "StepHook",
    "Trace",
    "TraceEntry",
    "check_schedule",
    "run_schedule",
]
