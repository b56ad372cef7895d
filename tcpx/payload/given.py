"""What a caller in Python gives: converted, or refused before it is used."""

import os
from collections.abc import Mapping
from operator import index
from pathlib import Path
from typing import Final, SupportsIndex, cast

from tcpx.payload.diagnostics import ArgumentError, Diagnostic, python_type_of

_PARSERS: Final = {"a payload": "tcpx.parse(text)", "a schedule": "tcpx.parse_schedule(text)"}
"""What takes the text of a file in place of its path."""


def path_of(given: object, what: str) -> Path:
    """The path of a file or a folder. Raises ArgumentError for what is no path."""
    path: object = cast("os.PathLike[str]", given).__fspath__() if hasattr(given, "__fspath__") else given
    parser = _PARSERS.get(what)
    if isinstance(path, str) and parser is not None and "\n" in path and "{" in path:
        raise ArgumentError(
            Diagnostic(f"this is no path of {what}", required="the path of a file", found="a text", fix=parser)
        )
    if isinstance(path, str):
        return Path(path)
    raise ArgumentError(
        Diagnostic(
            f"this is no path of {what}",
            required="a string or a pathlib.Path",
            found=python_type_of(given),
            fix="os.fsdecode(..)" if isinstance(path, bytes) else None,
        )
    )


def seed_of(given: object) -> int:
    """A seed of random numbers. Raises ArgumentError for what is none."""
    try:
        seed = index(cast("SupportsIndex", given))
    except TypeError:
        seed = None
    if seed is not None and seed >= 0:
        return seed
    found = python_type_of(given) if seed is None else str(seed)
    raise ArgumentError(Diagnostic("this is no seed", required="a whole number that is not negative", found=found))


def mapping_of(given: object, what: str, example: str) -> Mapping[str, object]:
    """A mapping of names, empty for None. Raises ArgumentError for anything else."""
    if given is None:
        return {}
    found = python_type_of(given)
    if isinstance(given, Mapping):
        held = cast("Mapping[object, object]", given)
        if all(isinstance(name, str) for name in held):
            return cast("Mapping[str, object]", held)
        found = "a key that is no string"
    required = f"names with their values, such as `{example}`"
    raise ArgumentError(Diagnostic(f"`{what}` is no mapping of names", required=required, found=found))
