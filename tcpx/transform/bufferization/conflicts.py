"""Whether every value still holds its elements when they are read, under the links made so far.

Three rules, checked for all values that live in one memory:

* The results of one operation do not overlap.
* A value is not overwritten between its definition and its last use.
* A destination of a loop changes only by what the loop yields to it. A value that will be yielded may be computed in
  the destination before that, if it stands in the block of the yield, and nothing in between reads what it overwrites.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import Loop, StYield
from tcpx.payload.subsets import disjoint
from tcpx.transform.bufferization.effects import Effects, Write
from tcpx.transform.bufferization.program_order import Order, ProgramOrder
from tcpx.transform.bufferization.storage import READ_ONLY, LinkKind, Storage


@dataclass(frozen=True, slots=True)
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


class Conflicts:
    """Checks the values of one function."""

    def __init__(self, effects: Effects, order: ProgramOrder) -> None:
        self.effects, self.places, self.order = effects, effects.places, order

    def find(self, memory: Storage) -> Conflict | None:
        """The first conflict between values that live in a memory."""
        members = self.places.members(memory)
        inside = set(members)
        writes = [w for w in self.effects.writes if w.target in inside and self.effects.is_active(w)]
        if memory.kind in READ_ONLY:
            return Conflict(memory, writes[0].op) if writes else None
        for storage in members:
            found = self._siblings(storage, inside) or self._value(storage, writes)
            if found is None and storage.destination is not None:
                found = self._destination(storage, writes)
            if found is not None:
                return found
        return None

    def _siblings(self, storage: Storage, inside: set[Storage]) -> Conflict | None:
        """Two results of one loop or branch in one place."""
        for result in storage.op.results if storage.op is not None else ():
            other = self.effects.of(result)
            if other is None or other is storage or other not in inside or storage.op is None:
                continue
            if self.places.place(storage).may_overlap(self.places.place(other)):
                return Conflict(storage, storage.op)
        return None

    def _value(self, storage: Storage, writes: list[Write]) -> Conflict | None:
        """A write between the definition of a value and one of its uses."""
        value, op = storage.value, storage.op
        if value is None or op is None or op.parent is None or self.effects.is_undefined(value):
            return None
        reads = self.effects.reads(value)
        for write in writes if reads else ():
            at = self.order.ancestor(write.op, op.parent)
            if at is None or self.order.index(at) <= self.order.index(op):
                continue
            for reader, index in reads:
                match self.order.follows(reader, write.op, op.parent):
                    case Order.NEVER:
                        continue
                    case Order.SAME:
                        harmless = self.effects.reads_in_step(reader, index, write)
                    case Order.MAYBE:
                        harmless = False
                if not harmless and self.places.place(storage).may_overlap(write.place(self.places)):
                    return Conflict(storage, write.op, reader)
        return None

    def _destination(self, storage: Storage, writes: list[Write]) -> Conflict | None:
        """A write in the body of a loop to its destination that is not on behalf of a yield to it."""
        loop = storage.op
        if not isinstance(loop, Loop):
            return None
        for write in writes:
            if self.order.ancestor(write.op, loop.body) is None or self._yields_to(write, storage):
                continue
            tie = self._tie(write.target, storage)
            found = Conflict(storage, write.op) if tie is None else self._early(storage, write, tie)
            if found is not None and self.places.place(storage).may_overlap(write.place(self.places)):
                return found
        return None

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
        for reader, index in self.effects.reads(destination):
            around = self.order.ancestor(reader, block)
            if around is None or self.order.index(around) >= self.order.index(tie):
                continue
            match self.order.follows(reader, write.op, block):
                case Order.NEVER:
                    continue
                case Order.SAME:
                    harmless = self.effects.reads_in_step(reader, index, write)
                case Order.MAYBE:
                    harmless = False
            if not harmless and disjoint(self.effects.read_tile(reader, destination), tie.subset) is not True:
                return Conflict(storage, write.op, reader)
        return None
