"""Operations by class and by name, so that a match does not walk the whole payload."""

from typing import TypeVar

from tcpx.payload.ir import Operation
from tcpx.payload.traits.tree import Tree

Key = TypeVar("Key")


def source_name(op: Operation) -> str:
    """What the operation is called in the source: without the marks of its copies."""
    return op.name.split("~")[0]


def is_a(op: Operation, op_class: str) -> bool:
    """Whether an operation is of a class of the operation tree, or of this very opcode."""
    return op_class == "op" or op_class in Tree(op).tree_classes() or op.opcode.rpartition(".")[2] == op_class


class Lookup:
    """The operations of a module, as far as it was told of them."""

    __slots__ = ("_by_kind", "_by_name")

    def __init__(self) -> None:
        self._by_kind: dict[type[Operation], dict[Operation, None]] = {}
        self._by_name: dict[str, dict[Operation, None]] = {}

    def add(self, op: Operation) -> None:
        """Enter an operation, under the name it has now."""
        self._by_kind.setdefault(type(op), {})[op] = None
        self._by_name.setdefault(source_name(op), {})[op] = None

    def remove(self, op: Operation) -> None:
        """Take an operation out; it still has the name it was entered under."""
        _take(self._by_kind, type(op), op)
        _take(self._by_name, source_name(op), op)

    def of_class(self, op_class: str) -> list[Operation]:
        """The operations of a class, in no order; more where it depends on the operation what it is."""
        return [op for ops in self._by_kind.values() if _may_be_of(next(iter(ops)), op_class) for op in ops]

    def of_name(self, name: str) -> list[Operation]:
        """The operations that the source calls so, copies included, in no order."""
        return list(self._by_name.get(name, ()))


def _may_be_of(op: Operation, op_class: str) -> bool:
    """Whether operations like this one may be of a class."""
    return hasattr(type(op), "tree_classes") or is_a(op, op_class)


def _take(held: dict[Key, dict[Operation, None]], key: Key, op: Operation) -> None:
    del held[key][op]
    if not held[key]:
        del held[key]
