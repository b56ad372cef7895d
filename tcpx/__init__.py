"""tcpx: tensor programs to fast, readable, dependency-free C, as a schedule says.

What is public is listed in `tcpx/public.py` and imported when it is first asked for: `import tcpx` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tcpx.public import (
        ArgumentError as ArgumentError,
    )
    from tcpx.public import (
        Bisection as Bisection,
    )
    from tcpx.public import (
        BoundCall as BoundCall,
    )
    from tcpx.public import (
        CompileError as CompileError,
    )
    from tcpx.public import (
        CompileRequest as CompileRequest,
    )
    from tcpx.public import (
        Constraint as Constraint,
    )
    from tcpx.public import (
        Diagnostic as Diagnostic,
    )
    from tcpx.public import (
        EvaluationProgress as EvaluationProgress,
    )
    from tcpx.public import (
        Explanation as Explanation,
    )
    from tcpx.public import (
        ExplanationText as ExplanationText,
    )
    from tcpx.public import (
        InstructionRow as InstructionRow,
    )
    from tcpx.public import (
        Kernel as Kernel,
    )
    from tcpx.public import (
        KernelReport as KernelReport,
    )
    from tcpx.public import (
        LineOrigin as LineOrigin,
    )
    from tcpx.public import (
        Location as Location,
    )
    from tcpx.public import (
        Module as Module,
    )
    from tcpx.public import (
        ParseError as ParseError,
    )
    from tcpx.public import (
        Run as Run,
    )
    from tcpx.public import (
        SanitizerError as SanitizerError,
    )
    from tcpx.public import (
        Schedule as Schedule,
    )
    from tcpx.public import (
        ScheduleError as ScheduleError,
    )
    from tcpx.public import (
        ScheduleFile as ScheduleFile,
    )
    from tcpx.public import (
        ScheduleWarning as ScheduleWarning,
    )
    from tcpx.public import (
        SearchSpace as SearchSpace,
    )
    from tcpx.public import (
        Source as Source,
    )
    from tcpx.public import (
        SpeedBisection as SpeedBisection,
    )
    from tcpx.public import (
        StepVerification as StepVerification,
    )
    from tcpx.public import (
        Target as Target,
    )
    from tcpx.public import (
        TargetError as TargetError,
    )
    from tcpx.public import (
        TcpxError as TcpxError,
    )
    from tcpx.public import (
        TraceEntry as TraceEntry,
    )
    from tcpx.public import (
        Transform as Transform,
    )
    from tcpx.public import (
        TunedRecord as TunedRecord,
    )
    from tcpx.public import (
        Variable as Variable,
    )
    from tcpx.public import (
        VerifyError as VerifyError,
    )
    from tcpx.public import (
        apply_schedule as apply_schedule,
    )
    from tcpx.public import (
        argument_dtypes as argument_dtypes,
    )
    from tcpx.public import (
        bisect as bisect,
    )
    from tcpx.public import (
        bisect_speed as bisect_speed,
    )
    from tcpx.public import (
        build_library as build_library,
    )
    from tcpx.public import (
        check as check,
    )
    from tcpx.public import (
        compile as compile,
    )
    from tcpx.public import (
        compile_many as compile_many,
    )
    from tcpx.public import (
        emit as emit,
    )
    from tcpx.public import (
        evaluate as evaluate,
    )
    from tcpx.public import (
        explain as explain,
    )
    from tcpx.public import (
        fingerprint as fingerprint,
    )
    from tcpx.public import (
        format_schedule as format_schedule,
    )
    from tcpx.public import (
        freeze as freeze,
    )
    from tcpx.public import (
        html_page as html_page,
    )
    from tcpx.public import (
        huge_page_policy as huge_page_policy,
    )
    from tcpx.public import (
        load as load,
    )
    from tcpx.public import (
        load_schedule as load_schedule,
    )
    from tcpx.public import (
        load_target as load_target,
    )
    from tcpx.public import (
        loop_nest as loop_nest,
    )
    from tcpx.public import (
        ops as ops,
    )
    from tcpx.public import (
        parse as parse,
    )
    from tcpx.public import (
        parse_schedule as parse_schedule,
    )
    from tcpx.public import (
        program_or_default as program_or_default,
    )
    from tcpx.public import (
        random_inputs as random_inputs,
    )
    from tcpx.public import (
        read_array as read_array,
    )
    from tcpx.public import (
        schedule_text as schedule_text,
    )
    from tcpx.public import (
        search_space as search_space,
    )
    from tcpx.public import (
        targets as targets,
    )
    from tcpx.public import (
        transform as transform,
    )
    from tcpx.public import (
        transforms as transforms,
    )
    from tcpx.public import (
        tuned_record as tuned_record,
    )
    from tcpx.public import (
        verify_rows as verify_rows,
    )
    from tcpx.public import (
        verify_steps as verify_steps,
    )
    from tcpx.tune.tuner import tune as tune


def __getattr__(name: str) -> object:
    public = import_module("tcpx.public")
    if name not in public.__all__:
        raise AttributeError(f"module `tcpx` has no attribute `{name}`")
    found: object = getattr(public, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*import_module("tcpx.public").__all__, "__version__"])
