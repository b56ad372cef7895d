"""The names `tcpx` offers."""

from tcpx import transform, tune
from tcpx.api import (
    CompileRequest,
    apply_schedule,
    check,
    compile,
    compile_many,
    evaluate,
    fingerprint,
    load,
    load_schedule,
    ops,
    parse,
    parse_schedule,
    program_or_default,
    search_space,
    tuned_record,
)
from tcpx.cache import CacheInfo, CachePart, cache_info, clear_cache
from tcpx.emit_c.driver import build_library
from tcpx.emit_c.kernel import BoundCall, Kernel
from tcpx.emit_c.kernel_report import KernelReport
from tcpx.emit_c.memory import huge_page_policy
from tcpx.frozen import freeze
from tcpx.inputs import argument_dtypes, random_inputs, read_array
from tcpx.interp import KnobNames, Run, TraceEntry
from tcpx.interp.space.search_space import SearchSpace
from tcpx.interp.space.variables import Constraint, Variable
from tcpx.module_copies import with_layouts
from tcpx.payload.diagnostics import (
    ArgumentError,
    CompileError,
    Diagnostic,
    Location,
    ParseError,
    SanitizerError,
    ScheduleError,
    ScheduleWarning,
    TcpxError,
    VerifyError,
)
from tcpx.payload.ir import Module
from tcpx.payload.progress import EvaluationProgress
from tcpx.profiling import Profile, ProfilePart, ProfileRest, ProfileRow, profile
from tcpx.reasons import Why, WhyLoop, WhyNest, remarks_of, why
from tcpx.report import Explanation, ExplanationText, explain, html_page
from tcpx.saved import load_kernel
from tcpx.source import LineOrigin, Source, emit
from tcpx.target import InstructionRow, Target, TargetError, load_target
from tcpx.target import available_targets as targets
from tcpx.transform.declaration import Transform, transforms
from tcpx.transform.language.embedded import ScheduleFile
from tcpx.transform.language.formatter import format_schedule
from tcpx.transform.language.loader import Program as Schedule
from tcpx.transform.language.loader import schedule_text
from tcpx.transform.loop_nest import loop_nest
from tcpx.tune import tune_by_kernel
from tcpx.tuned import TunedRecord
from tcpx.upgrade import Upgraded, upgrade_schedules
from tcpx.verification import (
    Bisection,
    SpeedBisection,
    StepVerification,
    ValueBisection,
    bisect,
    bisect_speed,
    bisect_values,
    verify_rows,
    verify_steps,
)

__all__ = [
    "ArgumentError",
    "Bisection",
    "BoundCall",
    "CacheInfo",
    "CachePart",
    "CompileError",
    "CompileRequest",
    "Constraint",
    "Diagnostic",
    "EvaluationProgress",
    "Explanation",
    "ExplanationText",
    "InstructionRow",
    "Kernel",
    "KernelReport",
    "KnobNames",
    "LineOrigin",
    "Location",
    "Module",
    "ParseError",
    "Profile",
    "ProfilePart",
    "ProfileRest",
    "ProfileRow",
    "Run",
    "SanitizerError",
    "Schedule",
    "ScheduleError",
    "ScheduleFile",
    "ScheduleWarning",
    "SearchSpace",
    "Source",
    "SpeedBisection",
    "StepVerification",
    "Target",
    "TargetError",
    "TcpxError",
    "TraceEntry",
    "Transform",
    "TunedRecord",
    "Upgraded",
    "ValueBisection",
    "Variable",
    "VerifyError",
    "Why",
    "WhyLoop",
    "WhyNest",
    "apply_schedule",
    "argument_dtypes",
    "bisect",
    "bisect_speed",
    "bisect_values",
    "build_library",
    "cache_info",
    "check",
    "clear_cache",
    "compile",
    "compile_many",
    "emit",
    "evaluate",
    "explain",
    "fingerprint",
    "format_schedule",
    "freeze",
    "html_page",
    "huge_page_policy",
    "load",
    "load_kernel",
    "load_schedule",
    "load_target",
    "loop_nest",
    "ops",
    "parse",
    "parse_schedule",
    "profile",
    "program_or_default",
    "random_inputs",
    "read_array",
    "remarks_of",
    "schedule_text",
    "search_space",
    "targets",
    "transform",
    "transforms",
    "tune",
    "tune_by_kernel",
    "tuned_record",
    "upgrade_schedules",
    "verify_rows",
    "verify_steps",
    "why",
    "with_layouts",
]
