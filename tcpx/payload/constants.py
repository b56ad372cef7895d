"""Constants kept beside the payload text, referred to by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tcpx.payload.diagnostics import Diagnostic, Location, ParseError

NumpyArray = npt.NDArray[np.generic]
BF16: Final = np.dtype(ml_dtypes.bfloat16)
RAW_BF16: Final = np.dtype("V2")


class Constants:
    """Named arrays. Arrays are never written to after they are stored."""

    __slots__ = ("_arrays", "source")

    def __init__(self, arrays: Mapping[str, NumpyArray] | None = None, source: str = "") -> None:
        self._arrays: dict[str, NumpyArray] = {}
        self.source = source
        for name, array in (arrays or {}).items():
            self.put(name, array)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def copy(self) -> Constants:
        """The same arrays under the same names, to which others can be added."""
        made = Constants(source=self.source)
        made._arrays.update(self._arrays)
        return made

    def get(self, name: str) -> NumpyArray | None:
        """The array of this name, or None."""
        return self._arrays.get(name)

    def name_of(self, array: NumpyArray) -> str | None:
        """The name of an array of the same type and shape with the same bytes, or None."""
        like = (n for n, a in self._arrays.items() if (a.dtype, a.shape) == (array.dtype, array.shape))
        return next((name for name in like if np.array_equal(_bytes(self._arrays[name]), _bytes(array))), None)

    def put(self, name: str, array: NumpyArray) -> None:
        """Store an array; called by the builder, the loader and the Rewriter."""
        held = np.array(array, order="C")
        held.setflags(write=False)
        self._arrays[name] = held

    def remove(self, name: str) -> None:
        """Forget an array; called by the Rewriter's rollback."""
        del self._arrays[name]


def _bytes(array: NumpyArray) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def load_npz(path: Path, source: str, location: Location | None) -> Constants:
    """The arrays of an npz file; NumPy writes bf16 as two bytes without a type, which are read as bf16.

    A missing or unreadable file is a located `ParseError`.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            constants = Constants(source=source)
            for name in archive.files:
                array = archive[name]
                constants.put(name, array.view(BF16) if array.dtype == RAW_BF16 else array)
            return constants
    except (OSError, ValueError) as error:
        raise ParseError(
            Diagnostic(
                f'cannot read the constants "{source}"',
                payload=location,
                required="an npz file of arrays beside the payload",
                found=f"{path}: {error}",
            )
        ) from error
