"""How far results are from those of the reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

import tcpx
from tcpx.records import frozen

Array = npt.NDArray[np.generic]


@frozen
class Tolerance:
    """A difference of at most `absolute + relative * magnitude` is allowed, `magnitude` being the largest finite
    element of the reference."""

    absolute: float = 0.0
    relative: float = 0.0

    def allowed(self, magnitude: float) -> float:
        """The largest difference from a reference whose largest element is `magnitude`."""
        return self.absolute + (self.relative * magnitude if self.relative else 0.0)

    notes: ClassVar[tuple[str, ...]] = ()

    def takes(self, difference: float, magnitude: float) -> bool:
        """False for NaN."""
        return difference <= self.allowed(magnitude)

    def __str__(self) -> str:
        parts = [f"{self.absolute:g}"] if self.absolute or not self.relative else []
        return " + ".join([*parts, *([f"{self.relative:g} of the largest magnitude"] if self.relative else [])])


@frozen
class Rounding:
    """What rounding explains: `relative` of the largest magnitude. Where terms cancel, errors are larger than the
    result: then `relative` of `condition`, the change of the result over a relative change of all inputs."""

    relative: float
    condition: Callable[[], float]

    notes: ClassVar[tuple[str, ...]] = (
        "so much is rounding, by the dtypes and the lengths of the reductions; to allow another difference: "
        "--tolerance D or --relative-tolerance R",
    )

    def takes(self, difference: float, magnitude: float) -> bool:
        """The condition is asked for only where the magnitude does not explain the difference. False for NaN."""
        if difference <= self.relative * magnitude:
            return True
        return self.relative > 0 and difference <= self.relative * self.condition()

    def __str__(self) -> str:
        return f"{self.relative:.3g} of the largest magnitude" if self.relative else "0"


def compare(
    names: Sequence[str],
    results: Sequence[Array],
    expected: Sequence[Array],
    tolerances: Sequence[Tolerance | Rounding],
) -> None:
    """Print the largest difference per result. Raises ArgumentError where one is above its tolerance, or is no
    number."""
    missed: list[tcpx.Diagnostic] = []
    for name, found, wanted, tolerance in zip(names, results, expected, tolerances, strict=True):
        difference, magnitude = largest_difference(found, wanted), largest_magnitude(wanted)
        part = f"{relative_text(difference, magnitude)} of the largest magnitude {magnitude:.3g}"
        shown = f"{difference:.3g} ({part})"
        print(f"  check %{name}: largest difference {shown} from the reference evaluator")
        if not tolerance.takes(difference, magnitude):
            message = f"the result `{name}` is not what the reference evaluator computes"
            required = f"a largest difference of at most {tolerance}"
            missed.append(tcpx.Diagnostic(message, required=required, found=shown, notes=tolerance.notes))
    if missed:
        raise tcpx.ArgumentError(missed[0])


def relative_text(difference: float, magnitude: float) -> str:
    """The difference as a part of the magnitude."""
    if difference == 0:
        return "0"
    return f"{difference / magnitude:.3g}" if magnitude else "inf"


def largest_difference(found: Array, wanted: Array) -> float:
    """max |found - wanted|: 0 where both are the same infinity or both NaN, NaN where only one is NaN.

    In long double, which holds every 64-bit integer exactly.
    """
    if wanted.size == 0:
        return 0.0
    a, b = found.astype(np.longdouble), wanted.astype(np.longdouble)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.max(np.where(same, np.longdouble(0), np.abs(a - b))))


def largest_magnitude(wanted: Array) -> float:
    """max |wanted| of the finite elements; 0 where there are none."""
    wide = wanted.astype(np.longdouble)
    finite = np.abs(wide[np.isfinite(wide)])
    return float(finite.max()) if finite.size else 0.0
