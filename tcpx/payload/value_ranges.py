"""Between what the elements of integer values lie: what indices have to keep, and why they do.

An argument declares it, `%ix: tensor<[N]xsi64> in 0 to V`, and a kernel checks that before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from tcpx.limits import INT64_MAX
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, counted
from tcpx.payload.ir import Attribute, Block, FuncOp, Range, Value
from tcpx.payload.size_arithmetic import maximum, minimum
from tcpx.payload.sizes import Size, is_equal
from tcpx.payload.types import dtype_of

RANGES: Final = "ranges"
"""The attribute of a function that holds what arguments declare: position, first number, number behind the last."""


def declared_ranges(func: FuncOp) -> Mapping[int, Range]:
    """Position of an argument -> what its elements lie between."""
    held = func.attributes.get(RANGES, ())
    found: dict[int, Range] = {}
    for entry in held if isinstance(held, tuple) else ():
        match entry:
            case (int() as position, (int() | Size()) as first, (int() | Size()) as end):
                found[position] = (first, end)
            case _:
                pass
    return found


def range_entries(ranges: Mapping[int, Range]) -> tuple[Attribute, ...]:
    """The attribute that declares these."""
    return tuple((position, *ranges[position]) for position in sorted(ranges))


def check_ranges(func: FuncOp) -> None:
    """Raise VerifyError unless what declares a range is an argument of integers, and does so once."""
    held, declared = func.attributes.get(RANGES, ()), declared_ranges(func)
    if held != range_entries(declared) or not all(0 <= k < len(func.inputs) for k in declared):
        raise func.error(
            f"`{RANGES}` are rising positions of arguments, each with two sizes",
            required=f"positions below {len(func.inputs)}",
            found=str(held),
        )
    for position in declared:
        value = func.inputs[position]
        dtype = dtype_of(value.type)
        if not dtype.is_integer or dtype.maximum > INT64_MAX:
            raise func.error(
                "what is in a range is an integer",
                required="an argument of integers that fit into si64",
                found=f"%{value.name}: {value.type}",
            )


def value_range(value: Value) -> Range | None:
    """Between what the elements of a value are known to lie, at least what its type can hold; None of no integers."""
    return _Search().of(value)


def dtype_range(value: Value) -> Range | None:
    """What the type of a value can hold; None of no integers."""
    dtype = dtype_of(value.type)
    return (int(dtype.minimum), int(dtype.maximum) + 1) if dtype.is_integer else None


def out_of_range(name: str, array: npt.NDArray[np.generic], lower: int, end: int) -> ArgumentError | None:
    """The error for an argument with elements outside of lower .. end - 1, which shows the first; None if there are
    none."""
    values = array.astype(np.int64)
    places = np.argwhere((values < lower) | (values >= end))
    found = [f"{values[tuple(place)]} at [{', '.join(map(str, place))}]" for place in places[:1]]
    if not found:
        return None
    return ArgumentError(
        Diagnostic(
            f"argument `{name}` has {counted(len(places), 'element')} out of range",
            required=f"elements in {lower} to {end - 1}" if end > lower else "no element: there is nothing to index",
            found=", ".join(found),
        )
    )


NOTHING: Final[Range] = (0, 0)
"""What values lie between that have no element."""


class _Search:
    """One question. A destination of a loop that is asked for while it is looked at adds nothing to what it is."""

    def __init__(self) -> None:
        self._open: set[Value] = set()

    def of(self, value: Value) -> Range | None:
        """Between what the elements lie; `NOTHING` where there are none yet."""
        found = self._found(value)
        return dtype_range(value) if found is None else found

    def _found(self, value: Value) -> Range | None:
        if value in self._open:
            return NOTHING
        op = value.defining_op
        if op is not None:
            return NOTHING if op.leaves_undefined else op.result_range(op.results.index(value), self.of)
        holder = value.owner.parent if isinstance(value.owner, Block) else None
        if isinstance(holder, FuncOp):
            return declared_ranges(holder).get(holder.args.index(value))
        if holder is None:
            return None
        self._open.add(value)
        found = holder.argument_range(value, self.of)
        self._open.discard(value)
        return found


def union(ranges: Iterable[Range | None]) -> Range | None:
    """What lies in one of several ranges; None where one is not known."""
    whole = NOTHING
    for found in ranges:
        if found is None:
            return None
        if whole is NOTHING:
            whole = found
        elif found is not NOTHING and found != whole:
            lower = whole[0] if is_equal(whole[0], found[0]) is True else minimum(whole[0], found[0])
            whole = lower, whole[1] if is_equal(whole[1], found[1]) is True else maximum(whole[1], found[1])
    return whole


def beside(found: Range | None, rest: float | int | None, has_elements: bool) -> Range | None:
    """What lies in a range or is `rest`, a number beside: it adds nothing to a range that begins there and has
    elements."""
    if found is None or not isinstance(rest, int):
        return found if rest is None else None
    return found if has_elements and is_equal(found[0], rest) is True else union([found, (rest, rest + 1)])
