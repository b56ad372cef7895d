"""Whether every value still holds its elements when they are read, under the links made so far.

Three rules, checked for all values that live in one memory:

* The results of one operation do not overlap.
* A value is not overwritten between its definition and its last use.
* A destination of a loop changes only by what the loop yields to it. A value that will be yielded may be computed in
  the destination before that, if it stands in the block of the yield, and nothing in between reads what it overwrites.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from tcpx.payload.contexts import context_at
from tcpx.payload.distances import distance
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import Loop, StYield
from tcpx.payload.subsets import Tile, disjoint
from tcpx.payload.traits.memory import Memory
from tcpx.records import frozen
from tcpx.transform.bufferization.effects import Effects, Write
from tcpx.transform.bufferization.occupancy import Occupancy
from tcpx.transform.bufferization.program_order import Order, ProgramOrder
from tcpx.transform.bufferization.storage import READ_ONLY, LinkKind, Place, Storage


@frozen
class Conflict:
    """`writer` would change what `holder` holds; `reader` is what still needs it, if it is one operation."""

    holder: Storage
    writer: Operation
    reader: Operation | None = None

    def __str__(self) -> str:
        if self.holder.kind in READ_ONLY:
            return f"{shown(self.writer)} would overwrite {self.holder.kind.value}, %{self.holder.name}"
        text = f"{shown(self.writer)} would overwrite %{self.holder.name}"
        return text if self.reader is None else f"{text}, which {shown(self.reader)} reads later"


def shown(op: Operation) -> str:
    """An operation in a message."""
    return f"%{op.name} ({op.opcode})" if op.name else op.opcode


def _apart_in(loop: Loop, read: Tile, write: Tile) -> bool:
    """Whether an iteration of a loop reads nothing that one before it writes; in parallel, that another one writes."""
    found = distance(loop, write, read)
    return found.is_zero if loop.is_parallel else not found.may_be_later


class Conflicts:
    """Checks the values of one function."""

    def __init__(self, effects: Effects, order: ProgramOrder) -> None:
        self.effects, self.places, self.order = effects, effects.places, order
        self.occupancy = Occupancy(effects, order)
        self.looked_at = 0
        """Values, writes and reads that were compared so far."""

    def find(self, memory: Storage, moved: Storage) -> Conflict | None:
        """The first conflict between values in a memory after another, `moved`, became part of it.

        There was none in either before, so one of the two that are in conflict was moved.
        """
        writes = list(self._active(self.occupancy.writes(moved)))
        if memory.kind in READ_ONLY:
            return Conflict(memory, writes[0].op) if writes else None
        arrived = dict.fromkeys(self.places.members(moved))
        concerned = {*arrived, *self._beside(memory, arrived), *self._held_meanwhile(memory, writes)}
        self.looked_at += len(concerned)
        for storage in sorted(concerned, key=self.places.rank):
            memories = (memory, moved) if storage in arrived else (moved,)
            found = self._siblings(storage, memory) or self._value(storage, memories)
            if found is None and storage.destination is not None:
                found = self._destination(storage, memories)
            if found is not None:
                return found
        return None

    def _beside(self, memory: Storage, arrived: Iterable[Storage]) -> Iterator[Storage]:
        """What lives in a memory and is defined by an operation that also defines what arrived there."""
        for op in dict.fromkeys(storage.op for storage in arrived if storage.op is not None):
            yield from self._results_in(op, memory)

    def _held_meanwhile(self, memory: Storage, writes: Iterable[Write]) -> Iterator[Storage]:
        """The values in a memory, and the destinations of loops, that are needed when one of these writes happens."""
        for op in dict.fromkeys(write.op for write in writes):
            yield from self.occupancy.held_at(memory, op)
            for loop in op.ancestors():
                if isinstance(loop, Loop):
                    yield from self._results_in(loop, memory)

    def _results_in(self, op: Operation, memory: Storage) -> Iterator[Storage]:
        for result in op.results:
            storage = self.effects.of(result)
            if storage is not None and self.places.place(storage).memory is memory:
                yield storage

    def _active(self, writes: Iterable[Write]) -> Iterator[Write]:
        for write in writes:
            self.looked_at += 1
            if self.effects.is_active(write):
                yield write

    def _siblings(self, storage: Storage, memory: Storage) -> Conflict | None:
        """Two results of one loop or branch in one place."""
        op = storage.op
        if op is None:
            return None
        known = context_at(op).names
        for other in self._results_in(op, memory):
            if other is not storage and self.places.place(storage).may_overlap(self.places.place(other), known):
                return Conflict(storage, op)
        return None

    def _value(self, storage: Storage, memories: Sequence[Storage]) -> Conflict | None:
        """A write between the definition of a value and one of its uses."""
        value, block = storage.value, storage.block
        if value is None or block is None:
            return None
        for write in self._active(self.occupancy.while_held(storage, memories)):
            at = self.order.ancestor(write.op, block)
            if at is None or not self.places.place(storage).may_overlap(
                write.place(self.places), context_at(write.op).names
            ):
                continue
            for reader, index in self.occupancy.reads(value, at):
                self.looked_at += 1
                if not self._reads_before(storage, value, block, (reader, index), write):
                    return Conflict(storage, write.op, reader)
        return None

    def _reads_before(
        self, storage: Storage, value: Value, block: Block, read: tuple[Operation, int], write: Write
    ) -> bool:
        """Whether operand `index` of an operation, `value`, is read before a write to it while `block` runs once, or is
        no part of what that writes."""
        match self.order.follows(read[0], write.op, block):
            case Order.NEVER:
                return True
            case Order.SAME:
                return self.effects.reads_in_step(*read, write)
            case Order.MAYBE:
                return self._apart(self.places.place(storage), value, block, read, write)

    def _apart(self, place: Place, value: Value, block: Block, read: tuple[Operation, int], write: Write) -> bool:
        """Whether what is read of a value was not written before: in an iteration of the loops of `block` round both,
        as it is read first or lies elsewhere, and in those before, as these write something else."""
        reader, index = read
        part, written = Memory(reader).part_read(index), write.place(self.places)
        if part is None or reader.operands[index] is not value:
            return False
        held = place.part(part)
        around = list(takewhile(lambda op: op is not block.parent, write.op.ancestors()))
        common = [op for op in reader.ancestors() if isinstance(op, Loop) and op in around]
        read_tile, written_tile = held.comparable(written)
        match self.order.follows(reader, write.op, common[0].body) if common else Order.MAYBE:
            case Order.MAYBE if disjoint(read_tile, written_tile, context_at(reader).names) is not True:
                return False
            case Order.SAME if not self.effects.reads_in_step(reader, index, write):
                return False
            case _:
                return all(_apart_in(loop, read_tile, written_tile) for loop in common)

    def _destination(self, storage: Storage, memories: Sequence[Storage]) -> Conflict | None:
        """A write in the body of a loop to its destination that is not on behalf of a yield to it."""
        loop = storage.op
        if not isinstance(loop, Loop):
            return None
        for write in self._active(self.occupancy.inside(loop, memories)):
            if self._yields_to(write, storage):
                continue
            tie = self._tie(write.target, storage)
            found = Conflict(storage, write.op) if tie is None else self._early(storage, write, tie)
            if found is not None and self.places.place(storage).may_overlap(
                write.place(self.places), context_at(write.op).names
            ):
                return found
        return None

    def _may_overlap(self, storage: Storage, write: Write) -> bool:
        known = context_at(write.op).names
        return self.places.place(storage).may_overlap(write.place(self.places), known)

    def _yields_to(self, write: Write, storage: Storage) -> bool:
        return isinstance(write.op, StYield) and write.target is storage

    def _tie(self, target: Storage, destination: Storage) -> StYield | None:
        """The yield to `destination` for which a write to `target` is made."""
        link = target.link
        while link is not None and link.kind.is_forward:
            if link.to is destination:
                return link.op if link.kind is LinkKind.YIELD and isinstance(link.op, StYield) else None
            link = link.to.link
        return None

    def _early(self, storage: Storage, write: Write, tie: StYield) -> Conflict | None:
        """A read of the destination between a write made early and the yield it is made for."""
        block, destination = tie.parent, storage.destination
        at = self.order.ancestor(write.op, block) if block is not None else None
        if block is None or destination is None or at is None or self.order.index(at) >= self.order.index(tie):
            return Conflict(storage, write.op)
        for reader, index in self.occupancy.reads(destination, at, tie):
            self.looked_at += 1
            read = Memory(reader).part_read(index)
            if read is None or disjoint(read, tie.subset, context_at(reader).names) is True:
                continue
            if not self._reads_before(storage, destination, block, (reader, index), write):
                return Conflict(storage, write.op, reader)
        return None
