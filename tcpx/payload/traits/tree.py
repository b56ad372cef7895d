"""The place of an operation in the tree of classes."""

from __future__ import annotations

from tcpx.payload.ir import Operation, tree_classes_of
from tcpx.payload.traits.trait import Trait, declared


class Tree(Trait[Operation]):
    """The classes that an operation belongs to: those of its class, or what its structure says."""

    __slots__ = ()

    @declared
    def tree_classes(self) -> tuple[str, ...]:
        """Names of its class and the ancestors in the operation tree, nearest first."""
        return tree_classes_of(type(self.op))
