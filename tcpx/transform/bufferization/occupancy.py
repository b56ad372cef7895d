"""What the memories of a function hold and who writes to them, found by position in the program."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from operator import itemgetter

from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import Loop
from tcpx.transform.bufferization.effects import Effects, Write
from tcpx.transform.bufferization.program_order import ProgramOrder
from tcpx.transform.bufferization.storage import Storage

Read = tuple[int, int, Operation, int]
"""The number of an operation, the rank of a use among those of the value, the operation, and which operand it is."""


@dataclass(slots=True)
class _Memory:
    """The ranks of the writes to a memory, and the values in it by the block that defines them, in program order."""

    writes: list[int] = field(default_factory=list[int])
    held: dict[Block, list[tuple[int, int]]] = field(default_factory=dict[Block, list[tuple[int, int]]])


class Occupancy:
    """Writes and values of every memory. A memory that becomes part of another is joined to it once that is sound."""

    def __init__(self, effects: Effects, order: ProgramOrder) -> None:
        self.effects, self.places, self.order = effects, effects.places, order
        self._numbers = [order.number(write.op) for write in effects.writes]
        self._memories = {storage: _Memory() for storage in self.places.storages}
        self._reads: dict[Value, list[Read]] = {}
        self._last = {storage: self._last_read(storage) for storage in self.places.storages}
        for rank, write in enumerate(effects.writes):
            self._memories[write.target].writes.append(rank)
        for storage, block in ((s, s.block) for s in self.places.storages):
            if block is not None and self._last[storage] is not None:
                number = 0 if storage.op is None else order.number(storage.op)
                self._memories[storage].held[block] = [(number, self.places.rank(storage))]

    def join(self, moved: Storage, memory: Storage) -> None:
        """A memory is part of another from now on."""
        added, joined = self._memories[moved], self._memories[memory]
        for rank in added.writes:
            insort(joined.writes, rank)
        for block, held in added.held.items():
            known = joined.held.setdefault(block, [])
            for entry in held:
                insort(known, entry)

    def writes(self, memory: Storage) -> Iterator[Write]:
        """All writes to a memory."""
        return (self.effects.writes[rank] for rank in self._memories[memory].writes)

    def while_held(self, storage: Storage, memories: Sequence[Storage]) -> Iterator[Write]:
        """The writes to some memories between the definition of a value and its last read."""
        last = self._last[storage]
        if last is not None:
            first = 0 if storage.op is None else self.order.end(storage.op) + 1
            yield from self._between(memories, first, last)

    def inside(self, loop: Loop, memories: Sequence[Storage]) -> Iterator[Write]:
        """The writes to some memories in the body of a loop."""
        return self._between(memories, self.order.number(loop) + 1, self.order.end(loop))

    def _between(self, memories: Sequence[Storage], first: int, last: int) -> Iterator[Write]:
        """The writes to some memories by operations with the numbers `first` to `last`, in program order."""
        ranks = merge(*(self._ranks_between(self._memories[memory].writes, first, last) for memory in memories))
        return (self.effects.writes[rank] for rank in ranks)

    def _ranks_between(self, ranks: list[int], first: int, last: int) -> Iterator[int]:
        number = self._numbers.__getitem__
        for place in range(bisect_left(ranks, first, key=number), bisect_right(ranks, last, key=number)):
            yield ranks[place]

    def held_at(self, memory: Storage, op: Operation) -> Iterator[Storage]:
        """The values in a memory that are defined before an operation and may be read at or after it."""
        known, number = self._memories[memory].held, self.order.number(op)
        block = op.parent
        while block is not None:
            held = known.get(block, [])
            for place in range(bisect_left(held, number, key=itemgetter(0))):
                storage = self.places.storages[held[place][1]]
                last = self._last[storage]
                if last is not None and last >= number:
                    yield storage
            block = block.parent.parent if block.parent is not None else None

    # -- reads ---------------------------------------------------------------------------------------------------

    def reads(self, value: Value, first: Operation, end: Operation | None = None) -> list[tuple[Operation, int]]:
        """The uses that need the elements of a value, from an operation on, before `end` if given; in program order."""
        known = self._sorted_reads(value)
        low = bisect_left(known, self.order.number(first), key=itemgetter(0))
        high = bisect_left(known, self.order.number(end), key=itemgetter(0)) if end is not None else len(known)
        return [(op, index) for _, _, op, index in known[low:high]]

    def _sorted_reads(self, value: Value) -> list[Read]:
        known = self._reads.get(value)
        if known is None:
            uses = enumerate(self.effects.reads(value))
            known = sorted((self.order.number(op), rank, op, index) for rank, (op, index) in uses)
            self._reads[value] = known
        return known

    def _last_read(self, storage: Storage) -> int | None:
        """The last number in the operation of the block that defines a value, of the last read; None without."""
        value, block = storage.value, storage.block
        if value is None or block is None or self.effects.is_undefined(value):
            return None
        reads = self._sorted_reads(value)
        around = self.order.ancestor(reads[-1][2], block) if reads else None
        return self.order.end(around) if around is not None else None
