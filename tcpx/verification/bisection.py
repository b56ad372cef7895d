"""The step that broke the numbers, by binary search."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from tcpx.emit_c.kernel import build_kernel
from tcpx.interp import ParamValue, TraceEntry
from tcpx.loading import PayloadLike, module_of
from tcpx.payload.diagnostics import Diagnostic
from tcpx.payload.ir import Module
from tcpx.payload.size_values import SizeValues, size_choices
from tcpx.records import brief, frozen
from tcpx.target import Target
from tcpx.transform.language.embedded import Schedulable
from tcpx.verification.functions import Calls, Functions, first_mismatch
from tcpx.verification.numbers import Case, Mismatch, compare
from tcpx.verification.steps import WORK_LIMIT, Setting, WrongStep


@frozen
class Bisection:
    """What a search found: the step, or that the payload stays right and the C does not, or nothing."""

    steps: int
    probes: int
    cases: tuple[Case, ...]
    wrong: WrongStep | None
    kernel: Mismatch | None = None
    """A case that the compiled kernel gets wrong although the payload it was printed from is right."""

    def __repr__(self) -> str:
        return brief(
            "Bisection", f"of {self.steps} step(s), {'wrong' if self.wrong or self.kernel else 'nothing wrong'}"
        )

    def diagnostic(self) -> Diagnostic | None:
        """As an error; None where nothing is wrong."""
        if self.wrong is not None:
            return self.wrong.diagnostic()
        if self.kernel is not None:
            return Diagnostic(
                "every step keeps the numbers, but the compiled C does not",
                required="what the reference evaluator computes from the lowered payload",
                found=str(self.kernel),
                notes=("the emission of C, a row of the target or the C compiler is at fault",),
            )
        return None


def bisect(
    module: PayloadLike,
    schedule: Schedulable | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    sizes: SizeValues | Sequence[SizeValues] = (),
    seed: int = 0,
    run_kernel: bool = True,
) -> Bisection:
    """Find a step of the schedule, or of the lowering, that the numbers are right before and wrong after.

    Where errors are not undone by later steps, which is the rule, there is one such step. The payload is evaluated
    after about log2(n) of n steps, at the sizes and inputs of `verify_steps`; a step that only large sizes show is
    found by giving them, as one mapping or several. If all steps are right, the kernel is compiled and run on the same
    inputs, unless `run_kernel` is false. Raises what running the schedule raises.
    """
    module = module_of(module)
    setting = Setting.of(module, schedule, params, target, threads)
    choices = size_choices(sizes)
    cases = setting.cases(choices, seed)
    limit = 0 if choices else WORK_LIMIT
    ordinals = _committed_steps(setting)
    probes, known = 0, {()}

    def probe(position: int) -> WrongStep | None:
        nonlocal probes
        probes += 1
        return _wrong_after(setting, ordinals[position], cases, limit, seed, known)

    right, wrong = -1, len(ordinals) - 1
    found = probe(wrong)
    if found is None:
        kernel = _kernel_mismatch(setting, cases) if run_kernel else None
        return Bisection(len(ordinals), probes, cases, None, kernel)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        tried = probe(middle)
        if tried is None:
            right = middle
        else:
            wrong, found = middle, tried
    return Bisection(len(ordinals), probes, cases, found)


def _committed_steps(setting: Setting) -> list[int]:
    """For each step that stayed, which one it was of all that ran, those that a `try` took back included."""
    ordinals: list[int] = []
    count = 0

    def note(step: TraceEntry, _: Module) -> None:
        nonlocal count
        del ordinals[step.index :]
        ordinals.append(count)
        count += 1

    setting.run(note)
    return ordinals


class _ReachedError(Exception):
    """Ends a run at the step one wants to look at."""


def _wrong_after(
    setting: Setting, ordinal: int, cases: Sequence[Case], limit: int, seed: int, known: set[Calls]
) -> WrongStep | None:
    """The step that ran as this one of all, if something is wrong after it. `known` are the calls that there were when
    they were evaluated."""
    count, wrong, functions = -1, None, None

    def look(step: TraceEntry, module: Module) -> None:
        nonlocal count, wrong, functions
        count += 1
        functions = functions or Functions(module)
        calls = functions.calls()
        if count < ordinal and calls not in known:  # what is called is evaluated while it is as it came up
            known.add(calls)
            first_mismatch(functions, cases, limit, seed, functions.changed())
        if count == ordinal:
            everything = frozenset(module.reached(module.main))
            mismatch, _ = first_mismatch(functions, cases, limit, seed, everything)
            wrong = WrongStep(step, mismatch) if mismatch is not None else None
            raise _ReachedError

    with suppress(_ReachedError):
        setting.run(look)
    return wrong


def _kernel_mismatch(setting: Setting, cases: Sequence[Case]) -> Mismatch | None:
    lowered = setting.run(lambda step, module: None)
    kernel = build_kernel(lowered, setting.target, setting.threads)
    for case in cases:
        results = kernel(*case.arrays)
        found = compare(case, results if isinstance(results, tuple) else (results,))
        if found is not None:
            return found
    return None
