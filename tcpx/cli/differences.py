"""How far results are from those of the reference evaluator."""

from __future__ import annotations

from collections.abc import Sequence

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

    def __str__(self) -> str:
        parts = [f"{self.absolute:g}"] if self.absolute or not self.relative else []
        return " + ".join([*parts, *([f"{self.relative:g} of the largest magnitude"] if self.relative else [])])


def compare(
    names: Sequence[str], results: Sequence[Array], expected: Sequence[Array], tolerance: Tolerance | None
) -> None:
    """Print the largest difference per result. Raises ArgumentError where one is above the tolerance, or is no number
    where one was given."""
    for name, found, wanted in zip(names, results, expected, strict=True):
        difference, magnitude = largest_difference(found, wanted), largest_magnitude(wanted)
        part = f"{relative_text(difference, magnitude)} of the largest magnitude {magnitude:.3g}"
        shown = f"{difference:.3g} ({part})"
        print(f"  check %{name}: largest difference {shown} from the reference evaluator")
        if tolerance is not None and not difference <= tolerance.allowed(magnitude):  # so that NaN fails
            raise tcpx.ArgumentError(
                tcpx.Diagnostic(
                    f"the result `{name}` is not what the reference evaluator computes",
                    required=f"a largest difference of at most {tolerance}",
                    found=shown,
                )
            )


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
