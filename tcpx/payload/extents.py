"""Extents that some sizes of the arguments would make negative: a call with such sizes is refused."""

from collections.abc import Mapping

from tcpx.payload.contexts import context_at
from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.ops.assertion import Assert
from tcpx.payload.runs import runs_of
from tcpx.payload.size_values import negative_extent
from tcpx.payload.sizes import Size, evaluate, is_less_equal, substitute, to_text, variables
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import TensorType


def extent_assertions(func: FuncOp) -> list[Operation]:
    """An assertion for each extent of a tensor that a function, or one that it calls, computes outside of loops and
    branches, and that nothing proves to be at least 0. They are detached, and over the symbols of `func`."""
    known = context_at(func.body.ops[-1])
    unproven = {text: size for text, size in _extents(func).items() if is_less_equal(0, size) is not True}
    conditions = {text: Predicate.of(">=", size, 0) for text, size in unproven.items()}
    return [
        Assert.of([condition], f"the extent {text} is negative")
        for text, condition in conditions.items()
        if known.decide(condition) is not True
    ]


def check_extents(func: FuncOp, sizes: Mapping[str, int]) -> None:
    """Raise ArgumentError for sizes that make such an extent negative."""
    for extent in _extents(func).values():
        if evaluate(extent, sizes) < 0:
            raise negative_extent(extent, sizes)


def _extents(func: FuncOp) -> dict[str, Size]:
    """The extents of tensors outside of loops and branches that depend on symbols of `func`, by their text."""
    found: dict[str, Size] = {}
    for run, binding in runs_of(func):
        types = (value.type for op in run.body.ops for value in op.results)
        for extent in (dim for type_ in types if isinstance(type_, TensorType) for dim in type_.shape):
            own = substitute(extent, binding)
            if isinstance(own, Size) and not variables(own):
                found[to_text(own)] = own
    return found
