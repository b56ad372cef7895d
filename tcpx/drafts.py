"""Kernels whose C is known before it is compiled."""

from collections.abc import Mapping, Sequence

from tcpx.api import CompileRequest, lowered
from tcpx.costs.kernel_cost import KernelCost, kernel_cost
from tcpx.emit_c.kernel import Kernel, KernelRequest, build_printed, printed_kernels
from tcpx.emit_c.printer.file import PrintedFile
from tcpx.interp import ParamValue, Run
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Module
from tcpx.records import frozen
from tcpx.target import Target, load_target
from tcpx.transform.language.embedded import Schedulable


@frozen
class Draft:
    """What `tcpx.compile` has in hand before it calls the C compiler."""

    printed: PrintedFile
    run: Run
    target: Target
    threads: int
    schedule: Schedulable | None

    @property
    def c_source(self) -> str:
        """The C file."""
        return self.printed.source

    def cost(self, arrays: Sequence[Array]) -> KernelCost:
        """What a model says of a call with these arguments. Raises ArgumentError."""
        return kernel_cost(self.run.module.main, self.target, self.threads, arrays)

    def build(self) -> Kernel:
        """Compile it. Raises CompileError."""
        request = KernelRequest(self.run.module, trace=self.run.trace, schedule=self.schedule, remarks=self.run.remarks)
        return build_printed(self.printed, [request], self.target, self.threads)[0]


def draft(
    module: Module,
    schedule: Schedulable | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
) -> Draft:
    """Do all that `tcpx.compile` does up to the C compiler, but judge what is slow. Raises ScheduleError and
    VerifyError."""
    chosen = load_target(target)
    run = lowered(CompileRequest(module, schedule, params), chosen, threads, is_judged=False)
    printed = printed_kernels([KernelRequest(run.module)], chosen, threads)
    return Draft(printed, run, chosen, threads, schedule)
