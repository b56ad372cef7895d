"""Tuning: values for the knobs of a schedule, found by measuring. `tcpx.tune(..)` calls this package.

tuner, request, arguments   the entry point
kernels, model_study, rivals   the functions of a payload one after the other, each by itself: `tcpx.tune_by_kernel(..)`
search           a study while it runs: candidates claimed, tried, written down
revalidation     the winners of a file of records, measured again
space            the points that satisfy the constraints: enumerated, sampled, walked
space_file       a YAML file that narrows the space and says how to search
samplers/        which point to try next
executor         where candidates are tried: evaluation on this machine, dask_executor on others
dask_workers     the workers of a cluster with one kind of processor, some of which die
interrupts       Ctrl-C
evaluation       candidates compiled in parallel, checked, timed alone
slots            where candidates live: a server each, which forks for every kernel
candidate_server, trial, problem   what happens in these processes
duel, statistics, importance   timing beside the incumbent, and what it says
final_comparison, roof         the winner beside what there was before, and beside the limit of the machine
model            what to expect of a candidate before it is compiled
verdicts         what came of a candidate
ledger           every candidate of every study, in SQLite
study, page/, export, progress   what a person sees of it
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from tcpx.tune.model_study import ModelStudy
    from tcpx.tune.study import Study


class _Callable(ModuleType):
    """A package that can be called: `tcpx.tune(module)` and `tcpx.tune.ledger` are both there."""

    def __call__(self, *arguments: object, **options: object) -> Study:
        from tcpx.tune import tuner  # late: `import tcpx` does not pay for it

        return cast("Callable[..., Study]", tuner.tune)(*arguments, **options)


sys.modules[__name__].__class__ = _Callable


def tune_by_kernel(*arguments: object, **options: object) -> ModelStudy:
    """`tcpx.tune_by_kernel`, which is in `kernels`."""
    from tcpx.tune import kernels

    return cast("Callable[..., ModelStudy]", kernels.tune_by_kernel)(*arguments, **options)
