"""What every diagnostic has to keep to. Which places it must show is decided by what was at work when it was made."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.diagnostics.ledger import Record

STEPS = "tcpx/interp/steps.py"
INTO_FUNCTIONS = ("tcpx/transform/repeats.py", "tcpx/transform/sharing.py")
ENGINE = "tcpx/interp/statements.py"
CHECKER = "tcpx/transform/language/checker/"
SCHEDULE_TEXT = ("tcpx/transform/language/builder.py", "tcpx/transform/language/expressions.py")
PAYLOAD_TEXT = "tcpx/payload/text/parser.py"
OF_SCHEDULES = ("ScheduleError", "StepError")
WITHOUT_OP = frozenset(
    f"tcpx/interp/{name}.py"
    for name in ("handles", "arithmetic", "expressions", "functions", "arguments", "navigation", "matching")
)
"""A handle whose op is gone, an expression in an argument and a match that finds nothing have nothing to show in the
payload."""
ONE_PLACE_AT_MOST = frozenset(("ParseError", "ArgumentError", "CompileError"))
"""A text that cannot be read has its own place alone; arguments of a call and the C compiler have none."""

_TYPE_OF_AN_ARGUMENT = re.compile(r"something of the Python type \w+")
_CLASS_NAME = re.compile(
    r"\b(NoneType|Operation|FuncOp|OpHandle|OperandHandle|SymbolExpr|TypeOf|ParameterKind|Location|Diagnostic|"
    r"Materialize|StYield|TensorType|VectorType|BufferType|ScalarType|ndarray|PosixPath|ast\.\w+)\b(?!Error)"
)
_REPR = re.compile(r"<[\w.]+ (object|at 0x)|\b[A-Z]\w+\((\w+=|')|(?<!\w)\['|\{'(?!\w+': \d+\})|(?<!\w)\('|\bdtype\('")
_VAGUE = re.compile(r"\b(invalid|illegal|bad|unexpected error)\b", re.IGNORECASE)


def problems(record: Record) -> Iterator[str]:
    """What is wrong with one diagnostic."""
    if not record.required:
        yield "does not say what is required"
    if not record.found:
        yield "does not say what was found"
    yield from _places(record)
    said = _TYPE_OF_AN_ARGUMENT.sub("", " / ".join((record.message, record.required, record.found)))
    if record.kind != "internal error":
        for pattern, what in ((_CLASS_NAME, "names a Python class"), (_REPR, "shows a Python repr")):
            match = pattern.search(said)
            if match is not None:
                yield f"{what}: `{match[0]}`"
    if _VAGUE.search(record.message):
        yield "says that something is wrong, not why"
    if f"({record.found}): " in record.message or record.message.startswith(f"{record.found}: "):
        yield f"found is only what the message names: `{record.found}`"
    if record.found == record.required:
        yield "found is what is required"


def _places(record: Record) -> Iterator[str]:
    if record.error in ONE_PLACE_AT_MOST:
        if record.error == "ParseError" and not (record.has_schedule or record.has_payload):
            yield "has no place in the text"
        return
    stack = record.stack
    is_step = STEPS in stack and record.error in OF_SCHEDULES  # of others a transform makes something else
    if not set(INTO_FUNCTIONS).isdisjoint(stack) and record.error in OF_SCHEDULES:
        return  # what no function can be made of stays there, and nobody is told
    in_schedule = is_step or (ENGINE in stack and record.error in OF_SCHEDULES)
    in_schedule |= any(f.startswith(CHECKER) or f in SCHEDULE_TEXT for f in stack)
    if in_schedule and not record.has_schedule:
        yield "has no place in the schedule"
    concerns_op = is_step and record.place not in WITHOUT_OP
    if (concerns_op or PAYLOAD_TEXT in stack) and not record.has_payload:
        yield "has no place in the payload"
