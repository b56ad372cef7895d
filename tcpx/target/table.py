"""Typed reading of the YAML of a target table: every value is checked, every message names file and place."""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any, Final, TypeGuard, cast

import yaml

from tcpx.installed import TABLES
from tcpx.payload.text.file import open_regular
from tcpx.records import frozen
from tcpx.store.bytecode import place_with_bytecode, store
from tcpx.store.files import read_sealed
from tcpx.store.keys import key_of, version_of
from tcpx.target.errors import TargetError

Variables = Mapping[str, str]
MOST_SHOWN: Final = 200
"""Characters of a value in a message."""


def _is_mapping(value: object) -> TypeGuard[dict[object, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if _is_mapping(value):
        text = f"a mapping of {', '.join(map(str, value)) or 'nothing'}"
    elif _is_list(value):
        text = f"a list of {', '.join(map(str, value)) or 'nothing'}"
    else:
        text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]} .."


@frozen
class Node:
    """A value of a YAML document and where it stands, e.g. `x86_avx2.yaml: rows[3].rows[0]`."""

    value: object
    where: str

    def fail(self, required: str, *, found: str | None = None, fix: str | None = None) -> TargetError:
        """The error for a value that is not what the table format requires; by default the value is what was found."""
        shown = found if found is not None else _shown(self.value)
        return TargetError(
            "malformed target table", required=required, found=shown, where=self.where.removesuffix(": "), fix=fix
        )

    def fields(self, allowed: tuple[str, ...] | None = None) -> dict[str, Node]:
        """The entries of a mapping; keys outside `allowed` are an error."""
        if not _is_mapping(self.value):
            raise self.fail("a mapping")
        result: dict[str, Node] = {}
        for key, value in self.value.items():
            if not isinstance(key, str):
                raise Node(key, self.where).fail("a text key", fix="quote it")
            if allowed is not None and key not in allowed:
                raise Node(key, self.where).fail(f"one of the keys {', '.join(allowed)}")
            result[key] = Node(value, f"{self.where}.{key}" if not self.where.endswith(" ") else f"{self.where}{key}")
        return result

    def pairs(self) -> list[tuple[str, Node]]:
        """The entries of a mapping whose keys are texts or numbers, the keys as text."""
        if not _is_mapping(self.value):
            raise self.fail("a mapping")
        return [(str(key), Node(value, f"{self.where}.{key}")) for key, value in self.value.items()]

    def items(self) -> list[Node]:
        """The entries of a list."""
        if not _is_list(self.value):
            raise self.fail("a list")
        return [Node(x, f"{self.where}[{i}]") for i, x in enumerate(self.value)]

    def text(self) -> str:
        """A text."""
        if not isinstance(self.value, str):
            raise self.fail("a text", fix="quote it")
        return self.value

    def scalar_text(self) -> str:
        """A text or a whole number, as text: the value of a template variable."""
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return str(self.value)
        return self.text()

    def number(self) -> int:
        """A whole number, not negative."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 0:
            raise self.fail("a whole number that is not negative")
        return self.value

    def real(self) -> float:
        """A number that is not negative."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool) or self.value < 0:
            raise self.fail("a number that is not negative")
        return float(self.value)

    def truth(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.fail("true or false")
        return self.value

    def texts(self) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(x.text() for x in self.items())


def _checked_document(loader: Any) -> object:  # noqa: ANN401 - PyYAML's, of which the one in C has no types
    """The document of a loader, in which a mapping has a key once: YAML would take the last one."""
    root = loader.get_single_node()
    left, seen = [root], set[int]()
    while left:
        node: object = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            left += node.value
        elif isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            twice = next((key for key, _ in node.value if keys.count(key.value) > 1), None)
            if twice is not None:
                message = f"the key {twice.value} stands twice"
                raise yaml.constructor.ConstructorError(None, None, message, twice.start_mark)
            left += [value for _, value in node.value]
    return None if root is None else loader.construct_document(root)


def _document(path: Path, content: bytes) -> object:
    """The document of a table. That of an installed one is stored with the bytecode: to parse those tables again takes
    every process 0.1 s."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if not path.is_relative_to(TABLES):
        return _checked_document(loader(content))
    place = place_with_bytecode(path.with_suffix(".py"), ".table")
    key = key_of(version_of(Path(__file__)), yaml.__version__, content)
    known = read_sealed(place, key)
    if known is not None:
        return marshal.loads(known)
    document = _checked_document(loader(content))
    store(place, key, marshal.dumps(cast("Any", document)))
    return document


def read_table(path: Path) -> Node:
    """The root of the YAML file. Raises TargetError if it cannot be read, or is not YAML."""
    try:
        with open_regular(path) as file:
            document = _document(path, file.read())
    except OSError as error:
        raise TargetError(f"{path.name} cannot be read", required="a target table", found=str(error)) from error
    except yaml.YAMLError as error:
        raise TargetError(f"{path.name} is not YAML", required="a YAML mapping", found=str(error)) from error
    return Node(document, f"{path.name}: ")


def substitute(node: Node, variables: Variables) -> str:
    """The text of `node` with `$name` and `${name}` replaced. Raises TargetError on a variable not given by `for`."""
    text = node.text()
    if "$" not in text:
        return text
    try:
        return Template(text).substitute(variables)
    except (KeyError, ValueError) as error:
        raise node.fail(f"variables among {', '.join(variables) or 'none'}", fix=f"give {error} in `for`") from error


def bindings(group: Node | None, outer: Variables) -> Iterator[dict[str, str]]:
    """One set of variables per entry of `for`, on top of the `outer` ones; without `for`, just those."""
    if group is None:
        yield dict(outer)
        return
    for entry in group.items():
        local = {key: substitute(Node(n.scalar_text(), n.where), outer) for key, n in entry.fields().items()}
        yield {**outer, **local}
