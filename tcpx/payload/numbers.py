"""Python and NumPy numbers as arguments without dims."""

from math import isfinite, isnan
from typing import cast

import numpy as np
import numpy.typing as npt

from tcpx.limits import shortened
from tcpx.payload.types import ScalarType, bf16, i1

Array = npt.NDArray[np.generic]


def is_number(value: object) -> bool:
    """Whether it is a number of Python or of NumPy, or an array of one without dims."""
    if isinstance(value, np.ndarray):
        return not isinstance(value, np.ma.MaskedArray) and cast("Array", value).ndim == 0
    return isinstance(value, (bool, int, float, np.bool_, np.number, bf16.numpy.type))  # a bf16 is no `np.number`


def number_as(value: object, dtype: ScalarType) -> Array | None:
    """A number as an array of a dtype without dims; None where the dtype does not represent it.

    A Python float has no dtype, and is rounded as by NumPy. A NumPy number of another dtype must be represented
    exactly.
    """
    number: object = cast("Array", value)[()] if isinstance(value, np.ndarray) else value
    if isinstance(number, bool | np.bool_):
        return np.array(bool(cast("int", number))) if dtype == i1 else None
    if dtype == i1 or isinstance(number, np.complexfloating):
        return None
    if isinstance(number, int | np.integer):
        return _exactly(int(cast("int", number)), dtype)
    if type(number) is float:
        return _rounded(number, dtype) if dtype.is_float else _exactly(number, dtype)
    return _exactly(float(cast("float", number)), dtype) if isinstance(number, float | np.generic) else None


def _rounded(value: float, dtype: ScalarType) -> Array | None:
    with np.errstate(over="ignore"):
        made = np.array(value).astype(dtype.numpy)
    return made if isfinite(float(made)) or not isfinite(value) else None


def _exactly(value: float, dtype: ScalarType) -> Array | None:
    if not dtype.is_float:
        is_whole = isfinite(value) and value == int(value)
        return np.array(int(value), dtype.numpy) if is_whole and dtype.minimum <= value <= dtype.maximum else None
    try:
        made = _rounded(float(value), dtype)
    except OverflowError:
        return None
    return made if made is not None and (isnan(value) or float(made) == value) else None


def shown_number(value: object) -> str:
    """A number for a message, with its dtype if it has one."""
    text = shortened(value) if isinstance(value, int) else str(value)
    return f"{text} ({cast('Array', value).dtype})" if isinstance(value, np.generic | np.ndarray) else text
