"""Arrays whose rows lie any distance apart: their strides as a kernel takes them, and whether two of them meet."""

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_shares_memory = cast("Callable[[Array, Array, int], bool]", np.shares_memory)

MOST_WORK: Final = 1 << 16
"""Candidates that are tried for an element two arrays share; where there are more, they count as overlapping."""


def outer_strides(array: Array) -> tuple[int, ...] | None:
    """Strides, in elements, of all dims but the innermost; 0 where there is one index at most.

    None where no kernel takes the array as it is: where neighbours in the innermost dim are no neighbours in memory,
    where a stride is negative or no multiple of an element.
    """
    if array.ndim == 0:
        return None
    found: list[int] = []
    for extent, stride in zip(array.shape, array.strides, strict=True):
        elements, rest = divmod(stride, array.itemsize)
        if extent > 1 and (rest or elements < 0):
            return None
        found.append(elements if extent > 1 else 0)
    return tuple(found[:-1]) if array.shape[-1] < 2 or found[-1] == 1 else None


def has_places_of_its_own(array: Array) -> bool:
    """Whether every element of an array with strides of 0 or more lies in another place."""
    reached = array.itemsize
    for stride, extent in sorted(zip(array.strides, array.shape, strict=True)):
        if extent < 2:
            continue
        if stride < reached:
            return False
        reached += (extent - 1) * stride
    return True


def is_writable_in_rows(array: Array) -> bool:
    """Whether a kernel can write its results to a strided array as it is."""
    strides = outer_strides(array) if array.flags.writeable and array.flags.aligned else None
    return strides is not None and has_places_of_its_own(array)


def overlap(a: Array, b: Array) -> bool:
    """Whether an element lies in both arrays, as far as that can be told: blocks of one matrix may be apart."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return _shares_memory(a, b, MOST_WORK)
    except np.exceptions.TooHardError:
        return True


def reach(array: Array) -> int:
    """Bytes from the first to behind the last element of an array with strides of 0 or more."""
    if array.size == 0:
        return 0
    return array.itemsize + sum((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True))


def spread(array: Array) -> bytes:
    """Those bytes; what is between the elements has all bits set."""
    held = bytearray(b"\xff" * reach(array))
    if array.size:
        np.ndarray(array.shape, array.dtype, held, strides=array.strides)[...] = array
    return bytes(held)
