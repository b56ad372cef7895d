"""Between what the elements of integer values lie, and in which order: what indices have to keep, and why they do.

An argument declares it, `%ix: tensor<[N]xsi64> in 0 to V unique`, and a kernel checks that before anything is written.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tcpx.limits import INT64_MAX, MOST_BITS
from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.payload.ir import Attribute, Block, FuncOp, Range, Value
from tcpx.payload.sizes import Dim, Size, is_equal, lower_bound, to_text
from tcpx.payload.sizes.arithmetic import maximum, minimum
from tcpx.payload.traits.memory import Memory
from tcpx.payload.traits.ranges import Ranges
from tcpx.payload.types import dtype_of
from tcpx.plurals import counted

RANGES: Final = "ranges"
"""The attribute of a function that holds what arguments declare: position, first number, number behind the last, then
what else holds."""
UNIQUE: Final = "unique"
"""No two elements are equal."""
SORTED: Final = "sorted"
"""In row-major order, no element is smaller than the one before."""
SPANNING: Final = "spanning"
"""Sorted elements begin with the first number of their range and end with the last, as row pointers do."""
ORDERS: Final = (UNIQUE, SORTED, SPANNING)


class Declared(NamedTuple):
    """What an argument declares of its elements; the last number of the range is `end - 1`."""

    first: Dim
    end: Dim
    order: tuple[str, ...] = ()

    @property
    def has_bitmap(self) -> bool:
        """Whether it takes a bit for each number of the range to see that elements hold what is declared."""
        return UNIQUE in self.order and SORTED not in self.order

    def __str__(self) -> str:
        return " ".join([f"in {to_text(self.first)} to {to_text(self.end)}", *self.order])


def declared_ranges(func: FuncOp) -> Mapping[int, Declared]:
    """Position of an argument -> what it declares."""
    held = func.attributes.get(RANGES, ())
    found: dict[int, Declared] = {}
    for entry in held if isinstance(held, tuple) else ():
        match entry:
            case (int() as position, (int() | Size()) as first, (int() | Size()) as end, *order):
                found[position] = Declared(first, end, tuple(word for word in order if isinstance(word, str)))
            case _:
                pass
    return found


def range_entries(ranges: Mapping[int, Declared]) -> tuple[Attribute, ...]:
    """The attribute that declares these."""
    return tuple(
        (position, held.first, held.end, *(word for word in ORDERS if word in held.order))
        for position, held in sorted(ranges.items())
    )


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
        _check_order(func, value, declared[position])


def _check_order(func: FuncOp, value: Value, held: Declared) -> None:
    numbers = held.end - held.first
    most = None if isinstance(numbers, int) and numbers <= MOST_BITS else lower_bound(numbers)
    if held.has_bitmap and most is not None and most > MOST_BITS:
        raise func.error(
            "that elements are `unique` is seen with a bit for each number of their range",
            required=f"a range of at most {MOST_BITS} numbers, or elements that are `{SORTED}` too",
            found=f"%{value.name}: {value.type} {held}",
        )
    if SPANNING in held.order and SORTED not in held.order:
        raise func.error(
            "what spans a range goes from its first number to its last",
            required=f"`{SORTED} {SPANNING}`",
            found=f"%{value.name}: {value.type} {held}",
        )


def value_order(value: Value) -> Collection[str]:
    """What holds of the elements of a value beside their range: `ORDERS`."""
    op = value.defining_op
    if op is not None:
        return Ranges(op).result_order(op.results.index(value), value_order)
    holder = value.owner.parent if isinstance(value.owner, Block) else None
    found = declared_ranges(holder).get(holder.args.index(value)) if isinstance(holder, FuncOp) else None
    return found.order if found is not None else ()


def order_of(array: npt.NDArray[np.generic]) -> Collection[str]:
    """What holds of the elements of an array."""
    values = array.astype(np.int64).ravel()
    is_sorted = bool((values[1:] >= values[:-1]).all())
    is_unique = np.unique(values).size == values.size
    return [*([UNIQUE] if is_unique else []), *([SORTED, SPANNING] if is_sorted and values.size else [])]


def value_range(value: Value) -> Range | None:
    """Between what the elements of a value are known to lie, at least what its type can hold; None of no integers."""
    return _Search().of(value)


def dtype_range(value: Value) -> Range | None:
    """What the type of a value can hold; None of no integers."""
    dtype = dtype_of(value.type)
    return (int(dtype.minimum), int(dtype.maximum) + 1) if dtype.is_integer else None


def misfit(
    name: str, array: npt.NDArray[np.generic], declared: tuple[int, int, Collection[str]]
) -> ArgumentError | None:
    """The error for an argument whose elements are not what it declares, which shows the first; None if they are."""
    lower, end, order = declared
    values = array.astype(np.int64).ravel()
    outside = (values < lower) | (values >= end)
    if outside.any():
        return _misfit(
            f"argument `{name}` has {counted(int(outside.sum()), 'element')} out of range",
            f"elements in {lower} to {end - 1}" if end > lower else "no element: there is nothing to index",
            [_at(array, int(np.argmax(outside)))],
        )
    falls = values[1:] < values[:-1]
    if SORTED in order and falls.any():
        k = int(np.argmax(falls))
        required = "elements of which none is smaller than the one before"
        return _misfit(f"argument `{name}` is not sorted", required, [_at(array, k + 1), _at(array, k)])
    firsts, counts = np.unique(values, return_index=True, return_inverse=True)[1:]
    again = firsts[counts.ravel()] != np.arange(values.size)
    if UNIQUE in order and again.any():
        k = int(np.argmax(again))
        found = [_at(array, k), _at(array, int(firsts[counts.ravel()[k]]))]
        return _misfit(f"argument `{name}` has an element twice", "elements that are different", found)
    if SPANNING in order and (not values.size or values[0] != lower or values[-1] != end - 1):
        found = [_at(array, k) for k in dict.fromkeys((0, values.size - 1))] if values.size else ["no element"]
        return _misfit(f"argument `{name}` does not span its range", f"{lower} first and {end - 1} last", found)
    return None


def _misfit(message: str, required: str, found: Iterable[str]) -> ArgumentError:
    return ArgumentError(Diagnostic(message, required=required, found=" and ".join(found)))


def _at(array: npt.NDArray[np.generic], number: int) -> str:
    """The element of this number in row-major order, and its place."""
    place = np.unravel_index(number, array.shape)
    return f"{int(array[place])} at [{', '.join(map(str, map(int, place)))}]"


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
            return NOTHING if Memory(op).leaves_undefined else Ranges(op).result_range(op.results.index(value), self.of)
        holder = value.owner.parent if isinstance(value.owner, Block) else None
        if isinstance(holder, FuncOp):
            found = declared_ranges(holder).get(holder.args.index(value))
            return found[:2] if found is not None else None
        if holder is None:
            return None
        self._open.add(value)
        found = Ranges(holder).argument_range(value, self.of)
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
