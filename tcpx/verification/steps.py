"""Every step of a schedule, checked against the payload it started from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tcpx.api import program_or_default
from tcpx.interp import ParamValue, TraceEntry
from tcpx.loading import PayloadLike, module_of
from tcpx.module_copies import copy_module
from tcpx.payload.diagnostics import Diagnostic
from tcpx.payload.ir import Module
from tcpx.payload.size_values import SizeValues, size_choices
from tcpx.records import brief, frozen
from tcpx.stepwise import run_stepwise
from tcpx.target import Target, load_target
from tcpx.transform.language.embedded import Schedulable
from tcpx.transform.language.loader import Program
from tcpx.verification.functions import Functions, first_mismatch
from tcpx.verification.numbers import Case, Mismatch, cases_of
from tcpx.verification.sizes import TileSizes, adversarial_sizes

WORK_LIMIT: Final = 20_000
"""Operations of one evaluation: a few tenths of a second. Larger cases are left out, and counted."""


@frozen
class WrongStep:
    """A step after which the numbers are wrong, and were not before."""

    step: TraceEntry
    mismatch: Mismatch

    def diagnostic(self) -> Diagnostic:
        """As an error, at the line of the schedule."""
        step = self.step
        statement = " ".join(step.statement.split())
        late = () if step.location is not None else ("the schedule does not say this step; the lowering adds it",)
        return Diagnostic(
            f"step {step.index + 1}, `{statement}`, changes the numbers",
            schedule=step.location,
            required="the results of the payload before the first step",
            found=str(self.mismatch),
            notes=late,
            calls=step.calls,
        )


@frozen
class StepVerification:
    """What was checked: steps that change the payload, cases at each, evaluations left out for their work."""

    steps: int
    cases: tuple[Case, ...]
    left_out: int
    wrong: WrongStep | None

    def __repr__(self) -> str:
        return brief(
            "StepVerification", f"of {self.steps} step(s), {'one is wrong' if self.wrong else 'nothing wrong'}"
        )


@frozen
class Setting:
    """A payload, a schedule and what it runs with."""

    module: Module
    program: Program
    target: Target
    threads: int
    params: Mapping[str, ParamValue] | None

    @staticmethod
    def of(
        module: Module,
        schedule: Schedulable | None,
        params: Mapping[str, ParamValue] | None,
        target: str | Target,
        threads: int,
    ) -> Setting:
        chosen = load_target(target)
        return Setting(module, program_or_default(schedule), chosen, threads, params)

    def run(self, on_step: Callable[[TraceEntry, Module], None]) -> Module:
        """Run and lower a copy of the payload; every step is shown with the copy as it then is."""
        copy = copy_module(self.module)
        run_stepwise(
            copy,
            self.program,
            self.target,
            threads=self.threads,
            params=self.params,
            on_step=lambda step: on_step(step, copy),
        )
        return copy

    def cases(self, sizes: Sequence[Mapping[str, int]], seed: int) -> tuple[Case, ...]:
        """Cases at these sizes; at none given, those that the tiles of the schedule call for."""
        if sizes:
            return cases_of(self.module, [dict(values) for values in sizes], seed)
        tiles = TileSizes()
        self.run(lambda _, module: tiles.look(module))
        return cases_of(self.module, adversarial_sizes(self.module.main, tiles.seen), seed, drawn=True)


def verify_steps(
    module: PayloadLike,
    schedule: Schedulable | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    sizes: SizeValues | Sequence[SizeValues] = (),
    seed: int = 0,
    on_step: Callable[[TraceEntry], None] | None = None,
) -> StepVerification:
    """Evaluate the payload after every step of the schedule and of the lowering, and compare with it before the first.

    `sizes` are values of its symbols, one mapping or several; those given are all evaluated, whatever it takes. By
    default they are 0, 1, odd ones, and those at and above every tile size, as far as the reference evaluator gets with
    them in reasonable time: with random data, and once with NaN and infinities among them. A step that changes nothing
    but a function is checked on what this is called with, once for each of the sizes. Stops at the first step that is
    wrong. Raises what running the schedule raises.
    """
    module = module_of(module)
    setting = Setting.of(module, schedule, params, target, threads)
    choices = size_choices(sizes)
    cases = setting.cases(choices, seed)
    limit = 0 if choices else WORK_LIMIT
    checked, left_out, functions = 0, 0, None

    def check(step: TraceEntry, now: Module) -> None:
        nonlocal checked, left_out, functions
        if step.loops is not None:
            functions = functions or Functions(now)
            mismatch, skipped = first_mismatch(functions, cases, limit, seed, functions.changed())
            if mismatch is not None:
                raise _FoundError(WrongStep(step, mismatch))
            checked, left_out = checked + 1, left_out + skipped
        if on_step is not None:
            on_step(step)

    try:
        setting.run(check)
    except _FoundError as found:
        return StepVerification(checked + 1, cases, left_out, found.wrong)
    return StepVerification(checked, cases, left_out, None)


class _FoundError(Exception):
    """Ends a run at the step that is wrong."""

    def __init__(self, wrong: WrongStep) -> None:
        super().__init__()
        self.wrong = wrong
