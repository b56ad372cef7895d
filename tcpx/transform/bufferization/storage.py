"""Where tensor values live: one storage per value, linked to the storage it is a part of.

A storage without a link is memory of its own. A link says that the elements of a storage are elements of another
one; links are followed to the end to find the place of a value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tcpx.payload.broadcasting import have_equal_extents
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.reshaped_tiles import reshaped
from tcpx.payload.sizes import Dim, is_equal, product, variables
from tcpx.payload.sizes.questions import KnownSymbols
from tcpx.payload.subsets import Tile, compose, disjoint
from tcpx.payload.types import TensorType


class StorageKind(Enum):
    """What a storage holds."""

    ARGUMENT = "an argument"
    STATE = "an argument that is state, and its result"
    RESULT = "a result of the function"
    CONSTANT = "a named constant"
    EMPTY = "nothing yet"
    DESTINATION = "a destination of a loop, and the loop's result"
    VALUE = "the value of an operation"


READ_ONLY = (StorageKind.ARGUMENT, StorageKind.CONSTANT)


class LinkKind(Enum):
    """Why a value lives in the storage of another."""

    YIELD = "it is yielded there"
    RETURN = "it is returned there"
    BRANCH = "it is what a branch yields"
    INIT = "it is the first value of a destination"
    OPERAND = "it is read where the other is written, element by element"
    PIECE = "it is a piece of the other"
    RESHAPE = "it is reshaped there"
    SUBSET = "it is a subset of the other"
    VIEW = "it is the other under another shape"
    TAKEN = "the other is its first value"

    @property
    def is_forward(self) -> bool:
        """Whether the link goes to where the value will be wanted: writing it early is writing the other."""
        return self not in (LinkKind.SUBSET, LinkKind.VIEW, LinkKind.TAKEN)


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """Elements of a storage are the elements `tile` of another; without a tile, all of them under another shape."""

    to: Storage
    kind: LinkKind
    tile: Tile | None
    op: Operation


@dataclass(slots=True, eq=False)
class Storage:
    """The storage of one tensor value. `op` defines the value; None for arguments and results of the function.

    `value` is the value it holds behind `op`; a loop's `destination` holds its elements inside the loop. The rows of a
    `strided` one, an argument or a result, need not lie next to one another. An `own` one is no part of another.
    """

    name: str
    type: TensorType
    kind: StorageKind
    op: Operation | None = None
    value: Value | None = None
    destination: Value | None = None
    link: Link | None = None
    strided: bool = False
    own: bool = False
    called: str = ""
    """What a result is called in C and Python."""

    @property
    def block(self) -> Block | None:
        """The block that defines the value, where it may be overwritten there: an argument that is none is state."""
        if self.op is not None:
            return self.op.parent
        owner = self.value.owner if self.value is not None and self.kind is StorageKind.STATE else None
        return owner if isinstance(owner, Block) else None

    def full(self) -> Tile:
        """All of it."""
        return Tile.full(self.type.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Elements `tile` of `view`, which is `memory` or all of it under another shape. They are among the elements
    `cover` of `memory`."""

    memory: Storage
    view: Storage
    tile: Tile
    cover: Tile

    def part(self, tile: Tile) -> Place:
        """A subset of the value that lives here."""
        found = compose(self.tile, tile)
        return Place(self.memory, self.view, found, found if self.view is self.memory else self.cover)

    def is_same(self, other: Place) -> bool:
        """Whether both are provably the same elements in the same order."""
        return (
            self.memory is other.memory
            and self.is_seen_like(other)
            and self.tile.dropped == other.tile.dropped
            and all(
                a == b or is_equal(a, b) is True
                for mine, theirs in (
                    (self.tile.offsets, other.tile.offsets),
                    (self.tile.strides, other.tile.strides),
                    (self.tile.sizes, other.tile.sizes),
                )
                for a, b in zip(mine, theirs, strict=True)
            )
        )

    def may_overlap(self, other: Place, known: KnownSymbols) -> bool:
        """Whether an element may be in both, with what is known of symbols where both are needed."""
        if self.memory is not other.memory:
            return False
        return disjoint(*self.comparable(other), known) is not True

    def comparable(self, other: Place) -> tuple[Tile, Tile]:
        """Tiles of one shape, in which these elements and those of another place of the memory are."""
        return (self.tile, other.tile) if self.is_seen_like(other) else (self.cover, other.cover)

    def is_seen_like(self, other: Place) -> bool:
        """Whether the tiles of both are of one shape, and so comparable: views of a memory are all of it."""
        mine, theirs = self.view.type.shape, other.view.type.shape
        return self.view is other.view or mine == theirs or have_equal_extents(mine, theirs)


class Places:
    """The storages of a function and their places under the links made so far."""

    def __init__(self, storages: Iterable[Storage]) -> None:
        self.storages = list(storages)
        self._ranks = {storage: rank for rank, storage in enumerate(self.storages)}
        self._places: dict[Storage, Place | None] = {}
        self._views: dict[Storage, list[Storage]] = {}
        self._members = {storage: [storage] for storage in self.storages}

    def rank(self, storage: Storage) -> int:
        """The position of a storage among all, in program order."""
        return self._ranks[storage]

    def place(self, storage: Storage) -> Place:
        """Where a storage is. Raises LookupError where its link leads to no place."""
        found = self.find(storage)
        if found is None:
            raise LookupError(f"%{storage.name} has no place")
        return found

    def find(self, storage: Storage) -> Place | None:
        """Where a storage is; None where its elements are none under its shape, there where its link leads."""
        if storage not in self._places:
            self._places[storage] = self._find(storage)
        return self._places[storage]

    def _find(self, storage: Storage) -> Place | None:
        link = storage.link
        if link is None:
            return Place(storage, storage, storage.full(), storage.full())
        base = self.find(link.to)
        if base is None or link.tile is not None:
            return base and base.part(link.tile or base.tile)
        return self._under_other_shape(base, storage)

    def _under_other_shape(self, base: Place, storage: Storage) -> Place | None:
        """The elements of a place, under the shape of a storage. A memory is seen under shapes that are known wherever
        it is used, if its rows lie next to one another."""
        memory, extents = base.memory, base.view.type.shape
        if base.tile.is_full(extents):
            seen = Place(memory, storage, storage.full(), base.cover)
            return seen if self._can_be_seen(memory, (*extents, *storage.type.shape)) else None
        found = reshaped(base.tile, extents, storage.type.shape)
        if found is None:
            return None
        if found.extents == extents:
            return Place(memory, base.view, found.tile, found.tile if base.view is memory else base.cover)
        counts = product(memory.type.shape), product(found.extents)
        if not self._can_be_seen(memory, found.extents) or is_equal(*counts) is not True:
            return None
        return Place(memory, self._view(memory, storage, found.extents), found.tile, base.cover)

    def _can_be_seen(self, memory: Storage, shape: Iterable[Dim]) -> bool:
        return not memory.strided and not any(variables(d) for d in (*memory.type.shape, *shape))

    def _view(self, memory: Storage, storage: Storage, shape: tuple[Dim, ...]) -> Storage:
        """All of a memory under another shape, once for each shape."""
        known = self._views.setdefault(memory, [])
        found = next((view for view in known if view.type.shape == shape), None)
        if found is None:
            found = Storage(f"{storage.name}.whole", TensorType(shape, memory.type.dtype), memory.kind)
            known.append(found)
        return found

    def members(self, memory: Storage) -> list[Storage]:
        """The storages that live in a memory, in program order."""
        return sorted(self._members[memory], key=self.rank)

    def link(self, storage: Storage, link: Link) -> None:
        """Let a memory, with all that lives in it, be part of another."""
        storage.link = link
        self._forget(storage)
        self._members[self.place(link.to).memory] += self._members[storage]

    def unlink(self, storage: Storage) -> None:
        """Make the storage that was linked last memory of its own again."""
        if storage.link is None:
            return
        memory, moved = self.place(storage.link.to).memory, self._members[storage]
        del self._members[memory][-len(moved) :]
        storage.link = None
        self._forget(storage)

    def _forget(self, storage: Storage) -> None:
        for moved in self._members[storage]:
            self._places.pop(moved, None)
