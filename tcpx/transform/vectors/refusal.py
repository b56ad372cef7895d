"""The error of an operation that cannot be lowered: it names the operation and says why."""

from tcpx.payload.diagnostics import Diagnostic, Kind, ScheduleError
from tcpx.payload.ir import Operation


def refusal(op: Operation, why: str, required: str, found: str, fix: str | None = None) -> ScheduleError:
    """A silenceable error at `op`, to raise."""
    shown = f"%{op.name} ({op.opcode})" if op.name else op.opcode
    return ScheduleError(
        Diagnostic(
            f"{shown} {why}",
            Kind.SILENCEABLE,
            schedule=op.schedule_location,
            payload=op.location,
            required=required,
            found=found,
            fix=fix,
        )
    )
