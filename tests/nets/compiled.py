"""Cases through compiled C: many kernels in one file, between guard pages and on arrays that are not contiguous."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

import tcpx
from tcpx.api import lowered as lowered_run
from tcpx.emit_c.kernel import Kernel, KernelRequest, build_many
from tcpx.payload.diagnostics import Kind, TcpxError
from tcpx.target import Target
from tests.guard_pages import run_guarded
from tests.nets.cases import BrokenError, Case, compare
from tests.nets.oracle import Array

TRIALS = 3


@dataclass(frozen=True, slots=True)
class Lowered:
    """A case that lowers for a target."""

    case: Case
    request: KernelRequest


def lowered(case: Case, target: Target) -> Lowered | None:
    """The case down to what emission takes; None if a located diagnostic says why not."""
    try:
        run = lowered_run(tcpx.CompileRequest(case.module(), tcpx.parse_schedule(case.schedule)), target, threads=1)
    except TcpxError as error:
        known = error.diagnostic
        if known.kind is Kind.INTERNAL or (known.schedule is None and known.payload is None):
            raise BrokenError(case.report(error)) from error
        return None
    return Lowered(case, KernelRequest(run.module, f"case{case.seed}"))


def check_compiled(made: Sequence[Lowered], target: Target) -> int:
    """Build one library and compare every kernel with the oracle. Returns how many the compiler's vectorizer broke.

    gcc 12 makes of `p[i * n]` and `p[i * n + 1]` over four `i` loads of whole vectors, which may end behind the last
    element. A kernel that leaves its arrays counts as broken by it if it does not without loop vectorization.
    """
    kernels = build_many([m.request for m in made], target)
    plain = replace(target, flags=(*target.flags, "-fno-tree-loop-vectorize"))
    broken = 0
    for one, kernel in zip(made, kernels, strict=True):
        try:
            _check_kernel(kernel, one.case)
        except AssertionError as error:
            if "SIGSEGV" not in str(error):
                raise BrokenError(f"on {target.name}, {one.case.report(error)}") from error
            try:
                _check_kernel(build_many([one.request], plain)[0], one.case)
            except AssertionError as again:
                raise BrokenError(f"on {target.name}, {one.case.report(again)}") from again
            broken += 1
    return broken


def _check_kernel(kernel: Kernel, case: Case) -> None:
    for k, trial in enumerate(case.trials[:TRIALS]):
        if k == 0 or trial.kind == "special":
            compare(run_guarded(kernel, *trial.arguments), trial)
        given = [rearranged(a, case.seed + k) for a in trial.arguments]
        found = kernel(*given)
        results = found if isinstance(found, tuple) else (found,)
        compare(results, trial)
        outputs = zip(kernel.signature.outputs, results, strict=True)
        out = tuple(block(np.zeros_like(r)) if a.is_strided else np.empty_like(r) for a, r in outputs)
        kernel(*given, out=out)
        compare(out, trial)


def block(array: Array) -> Array:
    """The same numbers in the middle of a larger array."""
    larger = np.zeros([n + 5 for n in array.shape], dtype=array.dtype)
    inner = larger[(..., *(slice(2, n + 2) for n in array.shape))]
    inner[...] = array
    return inner


def rearranged(array: Array, seed: int) -> Array:
    """The same numbers: columns first, every second row or a block of a larger array, backwards, or as they are."""
    match seed % 5:
        case 0:
            return np.asfortranarray(array) if array.ndim else array
        case 1 if array.ndim:
            return np.repeat(array, 2, axis=0)[::2]
        case 2 if array.ndim:
            return array[..., ::-1].copy()[..., ::-1]
        case 3:
            return block(array)
        case _:
            return array
