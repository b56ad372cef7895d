"""A schedule and the lowering behind it, one step after the other: for those who look at every step."""

from collections.abc import Mapping
from time import perf_counter

from tcpx.interp import ParamValue, Run, StepHook, TraceEntry
from tcpx.interp.payload_texts import PayloadTexts
from tcpx.judging import Original, run_and_judge
from tcpx.lowering import StepDone
from tcpx.payload.ir import Module
from tcpx.payload.rewriter import Rewriter
from tcpx.target import Target
from tcpx.transform.language.loader import Program
from tcpx.transform.loop_nest import Nests


def run_stepwise(
    module: Module,
    program: Program,
    target: Target,
    *,
    threads: int,
    params: Mapping[str, ParamValue] | None,
    on_step: StepHook,
    keep_texts: bool = False,
    original: Original | None = None,
) -> Run:
    """Change the module as `tcpx.compile` would change a copy of it; `on_step` sees every step when it is done.
    Hints of remarks may be about the `original` of the module.

    Steps of the lowering come after those of the schedule, with no place in it. Raises ScheduleError and VerifyError.
    """

    def on_lowering(run: Run) -> StepDone:
        return _LoweringSteps(module, run.rewriter, len(run.trace.entries), on_step, keep_texts).done

    return run_and_judge(
        module,
        program,
        target,
        threads=threads,
        params=params,
        on_step=on_step,
        on_lowering=on_lowering,
        keep_texts=keep_texts,
        original=original,
    )


class _LoweringSteps:
    """Makes trace entries of the steps that no schedule line asked for."""

    def __init__(self, module: Module, rewriter: Rewriter, count: int, on_step: StepHook, keep_texts: bool) -> None:
        self._func, self._rewriter, self._on_step = module.main, rewriter, on_step
        self._texts = PayloadTexts(module.main) if keep_texts else None
        self._count = count
        rewriter.take_touched()
        self._begin()

    def _begin(self) -> None:
        self._mark, self._visited, self._started = self._rewriter.mark(), self._rewriter.visited, perf_counter()

    def done(self, name: str) -> None:
        seconds = perf_counter() - self._started
        touched = self._rewriter.take_touched()
        self._on_step(
            TraceEntry(
                index=self._count,
                statement=f"{name}(root)",
                transform=name,
                location=None,
                calls=(),
                bound=(),
                made=(),
                changed=tuple(f"%{op.name} = {op.opcode}" for op in touched if op.name),
                remarks=(),
                journal=(self._mark, self._rewriter.mark()),
                visited=self._rewriter.visited - self._visited,
                seconds=seconds,
                loops=Nests().of(self._func),
                edits=self._texts.take_edits() if self._texts is not None else None,
            )
        )
        self._count += 1
        self._begin()
