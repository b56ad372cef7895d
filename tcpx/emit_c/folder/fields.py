"""Reading JSON: every entry has the type that is asked for, or an error says which has not."""

import json
from collections.abc import Iterator
from typing import Final, TypeVar, cast

from tcpx.payload.diagnostics import ArgumentError, Diagnostic

T = TypeVar("T")
_WORDS: Final[dict[object, str]] = {str: "a text", int: "a number", list: "a list"}


class Fields:
    """A mapping of a JSON text, and where it is."""

    def __init__(self, entries: dict[str, object], where: str) -> None:
        self._entries = entries
        self._where = where

    @staticmethod
    def of_text(text: str, where: str) -> "Fields":
        """Raises ArgumentError for what is no mapping."""
        try:
            held: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise unreadable(where, "JSON", str(error)) from error
        return _fields(held, where)

    def __contains__(self, key: str) -> bool:
        return self._entries.get(key) is not None

    def text(self, key: str) -> str:
        return self._typed(key, str)

    def number(self, key: str) -> int:
        """A number of a size or a place: an int, at least 0."""
        found = self._typed(key, int)
        if found < 0 or isinstance(found, bool):
            raise unreadable(f"{self._where}, `{key}`", "a number from 0 on", str(found))
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        found = self._list(key)
        for entry in found:
            if not isinstance(entry, str):
                raise unreadable(f"{self._where}, `{key}`", "a list of texts", type(entry).__name__)
        return tuple(map(str, found))

    def fields(self, key: str) -> "Fields":
        return _fields(self._entries.get(key), f"{self._where}, `{key}`")

    def each(self, key: str) -> "Iterator[Fields]":
        """The mappings of a list."""
        for k, entry in enumerate(self._list(key)):
            yield _fields(entry, f"{self._where}, `{key}` {k}")

    @property
    def names(self) -> tuple[str, ...]:
        """The keys."""
        return tuple(self._entries)

    def _list(self, key: str) -> list[object]:
        return cast("list[object]", self._typed(key, list))

    def _typed(self, key: str, wanted: type[T]) -> T:
        found: object = self._entries.get(key)
        if isinstance(found, wanted):
            return found
        raise unreadable(f"{self._where}, `{key}`", _WORDS[wanted], _found(found))


def _fields(held: object, where: str) -> Fields:
    if not isinstance(held, dict):
        raise unreadable(where, "a mapping", _found(held))
    return Fields(cast("dict[str, object]", held), where)


def _found(held: object) -> str:
    return "none" if held is None else type(held).__name__


def unreadable(where: str, required: str, found: str, fix: str | None = None) -> ArgumentError:
    """The error about a folder that no kernel can be loaded from."""
    return ArgumentError(Diagnostic(f"cannot load the kernel: {where}", required=required, found=found, fix=fix))
