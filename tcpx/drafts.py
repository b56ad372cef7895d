"""Kernels whose C is known before it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tcpx.api import CompileRequest, lowered
from tcpx.emit_c.kernel import Kernel, build_kernel
from tcpx.interp import ParamValue, Run
from tcpx.payload.ir import Module
from tcpx.source import source_of
from tcpx.target import Target, load_target
from tcpx.transform.language.embedded import Schedulable


@dataclass(frozen=True, slots=True)
class Draft:
    """What `tcpx.compile` has in hand before it calls the C compiler."""

    c_source: str
    run: Run
    target: Target
    threads: int
    schedule: Schedulable | None

    def build(self) -> Kernel:
        """Compile it. Raises CompileError."""
        run = self.run
        return build_kernel(run.module, self.target, self.threads, trace=run.trace, schedule=self.schedule)


def draft(
    module: Module,
    schedule: Schedulable | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
) -> Draft:
    """Do all that `tcpx.compile` does up to the C compiler. Raises ScheduleError and VerifyError."""
    chosen = load_target(target) if isinstance(target, str) else target
    run = lowered(CompileRequest(module, schedule, params), chosen, threads)
    return Draft(source_of(run.module, chosen, threads).c_source, run, chosen, threads, schedule)
