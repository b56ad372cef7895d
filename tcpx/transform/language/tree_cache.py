"""Cached syntax trees of the schedules that come with tcpx, stored with Python's bytecode and trusted like it.

Parsing the library takes 0.4 s in every process, loading its trees a quarter of that. A tree is parsed again if the
text, its path or the code that parses has changed.
"""

import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Final, cast

from tcpx.installed import LIBRARY, PACKAGE
from tcpx.payload.diagnostics import Location
from tcpx.store.bytecode import place_with_bytecode, store
from tcpx.store.files import read_sealed
from tcpx.store.keys import key_of, version_of
from tcpx.transform.language import syntax as ast

Reduced = tuple[Callable[..., object], tuple[object, ...]]
_FOLDER: Final = Path(__file__).parent


def cached_tree(text: str, path: str, read: Callable[[str, str], ast.File]) -> ast.File:
    """The tree that `read` makes of the text of a file. For a file of the library, the cached one if there is one."""
    file = Path(path)
    if not file.is_relative_to(LIBRARY):
        return read(text, path)
    name = "-".join(file.relative_to(LIBRARY).with_suffix("").parts)
    place, key = place_with_bytecode(_FOLDER / f"{name}.py", ".tree"), key_of(text, path, _code())
    pickled = read_sealed(place, key)
    if pickled is not None:
        tree: ast.File = pickle.loads(pickled)
        return tree
    tree = read(text, path)
    if not sys.dont_write_bytecode:
        stream = BytesIO()
        _Pickler(stream, protocol=pickle.HIGHEST_PROTOCOL).dump(tree)
        store(place, key, stream.getvalue())
    return tree


@cache
def _code() -> str:
    """The version of the code that parses."""
    sources = [*sorted(_FOLDER.glob("*.py")), _FOLDER / "grammar.lark", PACKAGE / "payload" / "diagnostics.py"]
    return version_of(*sources)


class _Pickler(pickle.Pickler):
    """Restores nodes by calling their classes: the default sets each field of a frozen record in Python, slowly."""

    def reducer_override(self, obj: object) -> Reduced:
        match obj:
            case ast.Node():
                by_place, by_name = _field_names(type(obj))
                return _node, (type(obj), [getattr(obj, n) for n in by_place], [getattr(obj, n) for n in by_name])
            case Location():
                return Location, tuple(getattr(obj, field.name) for field in fields(obj))
            case _:
                return NotImplemented


def _node(kind: type[ast.Node], by_place: Sequence[object], by_name: Sequence[object]) -> ast.Node:
    _, names = _field_names(kind)
    return cast("Callable[..., ast.Node]", kind)(*by_place, **dict(zip(names, by_name, strict=True)))


@cache
def _field_names(kind: type[ast.Node]) -> tuple[Sequence[str], Sequence[str]]:
    """The positional fields, and those that are given by keyword."""
    every = fields(kind)
    return [each.name for each in every if not each.kw_only], [each.name for each in every if each.kw_only]
