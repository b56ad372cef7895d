"""The place of an operation in the tree of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcpx.payload.traits.trait import Trait, declared

if TYPE_CHECKING:
    pass


class Tree(Trait["Operation"]):
    """The classes that an operation belongs to: those of its class, or what its structure says."""

    __slots__ = ()

    @declared
    def tree_classes(self) -> tuple[str, ...]:
        """Names of its class and the ancestors in the operation tree, nearest first."""
        from tcpx.payload.ir import tree_classes_of  # the IR imports traits: late to break the cycle

        return tree_classes_of(type(self.op))
