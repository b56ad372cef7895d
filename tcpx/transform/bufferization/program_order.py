"""Which of two operations may take effect after the other, in structured control flow."""

from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum

from tcpx.payload.ir import Block, FuncOp, Operation
from tcpx.payload.ops.gml_st import Conditional, Loop


class Order(Enum):
    """What `ProgramOrder.follows` found."""

    NEVER = "never"
    SAME = "both are one operation, which runs once"
    MAYBE = "maybe"


def operations(block: Block) -> Iterator[Operation]:
    """The operations of a block and of the loops and branches in it, in program order; not those of scalar bodies."""
    for op in list(block.ops):
        yield op
        if isinstance(op, Loop | Conditional):
            for region in op.regions:
                yield from operations(region)


class ProgramOrder:
    """Positions in a function that does not change meanwhile.

    Every operation has a number; what is inside it has the numbers behind its own, up to its `end`.
    """

    def __init__(self, func: FuncOp) -> None:
        self._index: dict[Operation, int] = {}
        self._numbers: dict[Operation, int] = {}
        self._ends: dict[Operation, int] = {}
        self._in_block: dict[Block, list[int]] = {}
        self._number(func)

    def _number(self, op: Operation) -> None:
        self._numbers[op] = len(self._numbers)
        for block in op.regions:
            numbers = self._in_block[block] = []
            for index, inner in enumerate(block.ops):
                self._index[inner] = index
                numbers.append(len(self._numbers))
                self._number(inner)
        self._ends[op] = len(self._numbers) - 1

    def index(self, op: Operation) -> int:
        """The position of an operation in its block."""
        return self._index[op]

    def number(self, op: Operation) -> int:
        """The position of an operation among all of the function, each before what is inside it."""
        return self._numbers[op]

    def end(self, op: Operation) -> int:
        """The number of the last operation inside this one; its own if there is none."""
        return self._ends[op]

    def ancestor(self, op: Operation, block: Block) -> Operation | None:
        """The operation of `block` that is or encloses `op`; None if there is none."""
        if op.parent is block:
            return op
        number = self._numbers[op]
        index = bisect_right(self._in_block[block], number) - 1
        if index < 0:
            return None
        around = block.ops[index]
        return around if number <= self._ends[around] else None

    def follows(self, later: Operation, earlier: Operation, block: Block) -> Order:
        """Whether `later` may take effect after `earlier` while `block` runs once; both are in it.

        A loop takes its first values before anything inside it runs; what is inside it runs any number of times.
        """
        first, second = self.ancestor(earlier, block), self.ancestor(later, block)
        if first is None or second is None:
            return Order.NEVER
        if first is not second:
            return Order.MAYBE if self.index(second) > self.index(first) else Order.NEVER
        if later is earlier:
            return Order.SAME if later is second else self._inside(later, earlier, second)
        if later is second:
            return Order.NEVER
        if earlier is first:
            return Order.MAYBE
        return self._inside(later, earlier, second)

    def _inside(self, later: Operation, earlier: Operation, around: Operation) -> Order:
        if isinstance(around, Loop):
            return Order.MAYBE
        for region in around.regions:
            if self.ancestor(later, region) is not None and self.ancestor(earlier, region) is not None:
                return self.follows(later, earlier, region)
        return Order.NEVER
