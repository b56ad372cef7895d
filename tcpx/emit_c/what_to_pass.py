"""What to pass in place of an argument that is no array, or one of another dtype: fixes that have been tried on it."""

from collections.abc import Callable
from typing import SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from tcpx.payload.diagnostics import Direction
from tcpx.payload.numbers import is_number, shown_number

_CPU, _PINNED = 1, 3
"""Devices of DLPack whose memory a kernel can read: the CPU's, and that which a GPU reads too."""
_FAILURES = TypeError, ValueError, OverflowError, MemoryError, RuntimeError, BufferError, NotImplementedError
"""What NumPy and other libraries raise for what they cannot convert."""
_DENSE = ("toarray", "todense")
"""The methods by which SciPy and others make a dense array of a sparse one."""

Array = npt.NDArray[np.generic]
Dtype = np.dtype[np.generic]


def in_python(dtype: Dtype) -> str:
    """A dtype as a program writes it."""
    if dtype.kind == "V":
        return f"ml_dtypes.{dtype}"
    return "np.bool_" if dtype.kind == "b" else f"np.{dtype}"


def shown_dtype(dtype: Dtype) -> str:
    """A dtype in words, as it is found."""
    return f"a dtype with the fields {', '.join(dtype.names)}" if dtype.names else f"dtype {dtype}"


def of_another_dtype(value: object, array: Array, wanted: Dtype) -> str:
    """What to pass for a value whose array has another dtype than `wanted`."""
    name = in_python(wanted)
    if type(value) in (bytes, bytearray, memoryview) and array.dtype.itemsize == 1:
        is_whole = array.nbytes % wanted.itemsize == 0
        return f"np.frombuffer(.., {name})" if is_whole else f"np.frombuffer(.., np.uint8).astype({name})"
    if not hasattr(value, "astype"):
        return f"np.asarray(.., {name})"
    if array.dtype.kind in "biuf" or (array.dtype.kind == "V" and array.dtype.names is None and array.dtype.isbuiltin):
        return f".astype({name})"
    if array.dtype.kind == "c":
        return f".real.astype({name})"
    if array.dtype.names:
        return Direction(f'pass one field of it: ["{array.dtype.names[0]}"].astype({name})')
    if _works(lambda: array.astype(wanted)):
        return f".astype({name})"
    if array.dtype.kind in "SV" and array.dtype.itemsize == wanted.itemsize and _works(lambda: array.view(wanted)):
        return f".view({name})"
    return Direction(f"make an array of numbers of it: NumPy does not convert its elements to {name}")


def no_array(value: object, wanted: Dtype) -> tuple[str, str | None]:
    """What something is that is no array, and what to write in its place."""
    found = type(value).__qualname__
    if value is None:
        return "None", None
    if isinstance(value, np.ma.MaskedArray):
        return found, ".filled(0)"
    if is_number(value):
        return shown_number(value), f"np.full(shape, .., {in_python(wanted)})"
    if hasattr(value, "__dlpack__"):
        return _of_dlpack(value, found, wanted)
    dense = next((method for method in _DENSE if hasattr(value, method)), None)
    if dense is not None:
        return found, f".{dense}()"
    if not _works(lambda: np.asarray(cast("npt.ArrayLike", value), wanted)):
        return found, Direction(f"make an array of numbers of it: np.asarray(.., {in_python(wanted)}) does not")
    return found, f"np.asarray(.., {in_python(wanted)})"


def _of_dlpack(value: object, found: str, wanted: Dtype) -> tuple[str, str]:
    """What a tensor is that exports nothing, by the attributes of PyTorch's and JAX's, and what does."""
    if getattr(value, "is_meta", False) is True:
        return f"{found} of device meta, without elements", Direction("make one on the CPU: torch.zeros(shape)")
    needs_gradient = ".detach()" if getattr(value, "requires_grad", False) is True else ""
    layout = str(getattr(value, "layout", "torch.strided"))
    if hasattr(value, "to_dense") and layout != "torch.strided":
        return f"{found} of layout {layout}", f"{needs_gradient}.to_dense()"
    if getattr(value, "is_quantized", False) is True:
        return f"{found} of {getattr(value, 'dtype', 'quantized numbers')}", f"{needs_gradient}.dequantize()"
    if _device(value) not in (_CPU, _PINNED):
        return f"{found} in the memory of another device", ".cpu()" if hasattr(value, "cpu") else "np.asarray(..)"
    dtype = str(getattr(value, "dtype", ""))
    if dtype.endswith("bfloat16") and not hasattr(value, "detach"):
        return f"{found} of bfloat16, which NumPy does not take by DLPack", "np.asarray(..)"
    if dtype == "torch.bfloat16" and wanted.name == "bfloat16":
        return f"{found} of bfloat16", f"{needs_gradient}.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)"
    if dtype == "torch.bfloat16" or dtype.startswith("torch.float8"):
        return f"{found} of {dtype.removeprefix('torch.')}", f"{needs_gradient}.to(torch.{_in_torch(wanted)})"
    if needs_gradient:
        return f"{found} that requires a gradient", needs_gradient
    if not _works(lambda: np.asarray(cast("npt.ArrayLike", value))):
        return found, Direction(f"make a dense array of numbers of it, of {in_python(wanted)}")
    return found, "np.asarray(..)"


def _in_torch(dtype: Dtype) -> str:
    return "bool" if dtype.kind == "b" else dtype.name


def _device(value: object) -> SupportsIndex:
    """The kind of the device whose memory a tensor is in, as DLPack numbers it; the CPU's where it does not say."""
    ask = cast("Callable[[], tuple[int, int]]", getattr(value, "__dlpack_device__", lambda: (_CPU, 0)))
    try:
        return ask()[0]
    except _FAILURES:
        return _CPU


def _works(convert: Callable[[], object]) -> bool:
    try:
        convert()
    except _FAILURES:
        return False
    return True
