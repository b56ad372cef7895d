"""The step that made the kernel slow: kernels of the schedule cut short, timed side by side."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from time import perf_counter
from typing import Final

from tcpx.emit_c.kernel import Kernel, build_kernel
from tcpx.inputs import random_inputs
from tcpx.interp import ParamValue, TraceEntry
from tcpx.loading import PayloadLike, module_of
from tcpx.lowering import lower
from tcpx.module_copies import copy_module
from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Module
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.size_values import SizeValues
from tcpx.payload.verifier import verify_module
from tcpx.records import brief, frozen
from tcpx.target import Target
from tcpx.transform.language.embedded import Schedulable
from tcpx.verification.steps import Setting

NOISE: Final = 1.1
"""A time that is larger by less is taken to be the same."""
MOST_CUTS: Final = 16
ROUNDS: Final = 7
SHORTEST: Final = 2e-3
"""Seconds of one measurement: short kernels are called several times."""

Measure = Callable[[Sequence[Kernel], Sequence[Array]], list[float]]
"""Seconds of one call of each kernel on the arrays."""


@frozen
class Cut:
    """The schedule up to a step (`None`: nothing of it), finished by the default lowering, and its seconds a call.

    `refusal` says why there is no such kernel: a payload may be half way to something that can be lowered.
    """

    step: TraceEntry | None
    seconds: float | None
    refusal: str = ""

    @property
    def number(self) -> int:
        """The number of the step, 0 for none."""
        return 0 if self.step is None else self.step.index + 1


@frozen
class SpeedBisection:
    """The cuts that were measured, in order, and the one that lost the speed, if any did."""

    cuts: tuple[Cut, ...]
    slow: Cut | None
    fastest: Cut

    def __repr__(self) -> str:
        return brief("SpeedBisection", f"of {len(self.cuts)} cut(s), {'one is slow' if self.slow else 'nothing slow'}")


def bisect_speed(
    module: PayloadLike,
    schedule: Schedulable | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    sizes: SizeValues | None = None,
    seed: int = 0,
    measure: Measure | None = None,
) -> SpeedBisection:
    """Find the step after which the kernel was never again as fast as before it.

    The schedule is cut after each of its uses (the sequences its top-level statements call), each cut is lowered by
    default, compiled and timed, in turn; then the use behind the fastest cut is cut after each of its steps. Limits:
    a cut is not the whole schedule: what is left out may be what made the steps before worth it, so a step that is slow
    alone and fast with the next one is not blamed, but neither is one that only makes later steps slow. At most
    `MOST_CUTS` cuts are made of each kind; differences below `NOISE` do not count. Raises what running the schedule
    raises, ArgumentError for a size that nothing tells, CompileError.
    """
    module = module_of(module)
    setting = Setting.of(module, schedule, params, target, threads)
    arrays = random_inputs(module, seed, sizes=sizes)
    timed = _Timed(setting, arrays, measure or interleaved)
    steps = timed.steps()
    coarse = timed.cuts([-1, *_thinned(_ends_of_uses(steps))])
    fastest = _fastest(coarse)
    last = coarse[-1]
    if last.seconds is None or fastest.seconds is None or last.seconds <= NOISE * fastest.seconds:
        return SpeedBisection(tuple(coarse), None, fastest)
    known = {cut.number: cut for cut in coarse}
    later = [cut.number for cut in coarse if cut.number >= fastest.number and cut.seconds is not None]
    for before, following in pairwise(later):
        inner = _thinned(range(before, following - 1))
        fine = timed.cuts([fastest.number - 1, before - 1, *inner, following - 1])
        known |= {cut.number: cut for cut in fine}
        good, slow = _turn([cut for cut in fine if cut.seconds is not None])
        if slow is not None:  # else this time the kernel was as fast: the loss is in a later use
            return SpeedBisection(tuple(known[number] for number in sorted(known)), slow, good)
    return SpeedBisection(tuple(known[number] for number in sorted(known)), None, fastest)


def _turn(cuts: Sequence[Cut]) -> tuple[Cut, Cut | None]:
    """The last cut that is as fast as the first, and the one after it."""
    limit = NOISE * (cuts[0].seconds or 0.0)
    good = max((k for k, cut in enumerate(cuts) if (cut.seconds or 0.0) <= limit), default=0)
    return cuts[good], cuts[good + 1] if good + 1 < len(cuts) else None


def _fastest(cuts: Sequence[Cut]) -> Cut:
    """The last of the cuts that are as fast as the fastest."""
    known = [cut for cut in cuts if cut.seconds is not None]
    least = min((cut.seconds for cut in known if cut.seconds is not None), default=0.0)
    return next((cut for cut in reversed(known) if (cut.seconds or 0.0) <= NOISE * least), cuts[0])


def _ends_of_uses(steps: Sequence[TraceEntry]) -> list[int]:
    """The last step of each stretch of steps that one top-level statement made."""
    uses = [step.calls[-1][1] if step.calls else step.location for step in steps]
    return [k for k, use in enumerate(uses) if k + 1 == len(uses) or uses[k + 1] != use]


def _thinned(positions: Sequence[int]) -> list[int]:
    """At most `MOST_CUTS` of them, the last one kept."""
    stride = -(-len(positions) // MOST_CUTS) or 1
    return list(reversed(positions[::-1][::stride]))


class _Timed:
    """Makes and times kernels of the schedule cut short."""

    def __init__(self, setting: Setting, arrays: Sequence[Array], measure: Measure) -> None:
        self._setting, self._arrays, self._measure = setting, arrays, measure

    def steps(self) -> list[TraceEntry]:
        """The steps of the schedule, without those of the lowering."""
        steps: list[TraceEntry] = []

        def keep(step: TraceEntry, _: Module) -> None:
            del steps[step.index :]
            steps.append(step)

        self._setting.run(keep)
        return [step for step in steps if step.location is not None]

    def cuts(self, positions: Sequence[int]) -> list[Cut]:
        """Cuts after the steps at these positions; -1 is before the first."""
        wanted = set(positions)
        modules: dict[int, tuple[TraceEntry | None, Module]] = {}
        if -1 in wanted:
            modules[-1] = (None, copy_module(self._setting.module))

        def keep(step: TraceEntry, module: Module) -> None:
            if step.index in wanted:
                modules[step.index] = (step, copy_module(module))

        self._setting.run(keep)
        made: list[tuple[TraceEntry | None, Kernel | str]] = []
        for position in sorted(modules):
            step, module = modules[position]
            made.append((step, self._kernel(module)))
        times = iter(self._measure([kernel for _, kernel in made if isinstance(kernel, Kernel)], self._arrays))
        return [
            Cut(step, next(times)) if isinstance(kernel, Kernel) else Cut(step, None, kernel) for step, kernel in made
        ]

    def _kernel(self, module: Module) -> Kernel | str:
        """The kernel, or why there is none."""
        target, threads = self._setting.target, self._setting.threads
        try:
            lower(Rewriter(module), module.main, target, threads)
            verify_module(module)
        except TcpxError as error:
            return error.diagnostic.message
        return build_kernel(module, target, threads)


def interleaved(kernels: Sequence[Kernel], arrays: Sequence[Array]) -> list[float]:
    """The least seconds of a call over several rounds in each of which every kernel has its turn."""
    repeats: list[int] = []
    for kernel in kernels:
        kernel(*arrays)
        started = perf_counter()
        kernel(*arrays)
        repeats.append(max(1, round(SHORTEST / max(perf_counter() - started, 1e-7))))
    least = [float("inf")] * len(kernels)
    for _ in range(ROUNDS):
        for k, kernel in enumerate(kernels):
            started = perf_counter()
            for _ in range(repeats[k]):
                kernel(*arrays)
            least[k] = min(least[k], (perf_counter() - started) / repeats[k])
    return least
