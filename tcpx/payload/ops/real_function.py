"""What functions of real numbers have in common: values in wider arithmetic, and an expansion in terms of simpler
operations, of which no C of their own is made.

f16 and bf16 are computed with in f32 and rounded once more. The results of f32 and f64 are within the errors of
docs/payload.md (Numbers), subnormal ones included unless an operation says otherwise.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tcpx.payload.evaluator import Array
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Value
from tcpx.payload.ops.arithmetic import InSinglePrecision
from tcpx.payload.ops.elementwise import FloatOnly
from tcpx.payload.ops.terms import Term

Wide = npt.NDArray[np.floating[Any]]


class RealFunction(InSinglePrecision, FloatOnly):
    """A function of real numbers."""

    __slots__ = ()

    def function(self, *args: Array) -> Array:
        return in_wider(self.reference, *args)

    def reference(self, *args: Wide) -> Wide:
        """The function in arithmetic that is wider than that of the operands."""
        raise self.error("the function declares no values", required="an operation with this method")

    def expanded(self, build: Build, *args: Value) -> Value | None:
        return self.term(*(Term(build, a) for a in args)).value

    def term(self, *args: Term) -> Term:
        """The function of f32 or f64 in terms of simpler operations."""
        raise self.error("the function declares no expansion", required="an operation with this method")


def in_wider(function: Callable[..., Wide], *args: Array) -> Array:
    """A function in wider arithmetic, rounded at the end."""
    dtype = args[0].dtype
    wide = np.longdouble if dtype == np.float64 else np.float64
    return np.asarray(function(*(a.astype(wide) for a in args))).astype(dtype)
