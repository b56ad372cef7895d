"""Constants kept beside the payload text, referred to by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from tcpx.payload.stored_arrays import Header

NumpyArray = npt.NDArray[np.generic]


PIECE: Final = 2**20
"""Bytes that are compared at once."""


class Constants:
    """Named arrays. Arrays are never written to after they are stored.

    `unread` are those of a file of which only the headers have been read so far.
    """

    __slots__ = ("_alike", "_arrays", "source", "unread")

    def __init__(self, arrays: Mapping[str, NumpyArray] | None = None, source: str = "") -> None:
        self._arrays: dict[str, NumpyArray] = {}
        self._alike: dict[object, list[str]] = {}
        self.unread: dict[str, Header] = {}
        self.source = source
        for name, array in (arrays or {}).items():
            self.put(name, array)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._arrays, *self.unread)))

    def copy(self) -> Constants:
        """The same arrays under the same names, to which others can be added."""
        made = Constants(source=self.source)
        made._arrays.update(self._arrays)
        made._alike.update((key, [*names]) for key, names in self._alike.items())
        return made

    def get(self, name: str) -> NumpyArray | None:
        """The array of this name, or None."""
        return self._arrays.get(name)

    def header(self, name: str) -> Header | None:
        """What the array of this name is, or None."""
        array = self._arrays.get(name)
        return self.unread.get(name) if array is None else Header(array.dtype, array.shape)

    def name_of(self, array: NumpyArray) -> str | None:
        """The name of an array of the same type and shape with the same bytes, or None."""
        alike = self._alike.get(_key(array), ())
        return next((name for name in alike if _are_equal(_bytes(self._arrays[name]), _bytes(array))), None)

    def put(self, name: str, array: NumpyArray) -> None:
        """Store an array; called by the builder, the loader and the Rewriter."""
        self.keep(name, np.array(array, order="C"))

    def keep(self, name: str, array: NumpyArray) -> None:
        """Store an array without a copy, such as one that is mapped from a file: nobody writes to it any more."""
        held = np.ascontiguousarray(array).reshape(array.shape)
        held.setflags(write=False)
        if name in self._arrays:
            self.remove(name)
        self._arrays[name] = held
        self._alike.setdefault(_key(held), []).append(name)

    def remove(self, name: str) -> None:
        """Forget an array; called by the Rewriter's rollback."""
        self._alike[_key(self._arrays.pop(name))].remove(name)


def _key(array: NumpyArray) -> object:
    """What arrays that are the same have in common, and few others."""
    return array.dtype, array.shape, _bytes(array)[:64].tobytes()


def _are_equal(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> bool:
    """In pieces: as a whole, the comparison would need as much memory again."""
    return all(np.array_equal(a[k : k + PIECE], b[k : k + PIECE]) for k in range(0, max(a.size, b.size), PIECE))


def _bytes(array: NumpyArray) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
