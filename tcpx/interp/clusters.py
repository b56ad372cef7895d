"""`clusters`: which elementwise operations can be computed together, in one loop nest."""

from collections.abc import Iterable, Sequence

from tcpx.payload.ir import Block, Operation
from tcpx.payload.sizes import Dim
from tcpx.payload.types import TensorType
from tcpx.transform.elementwise import fills, is_pointwise, repeats

Shape = tuple[Dim, ...]


def clusters(ops: Sequence[Operation]) -> list[list[Operation]]:
    """The parts of some operations that `fuse_elementwise` can make one operation of, in program order.

    Operations of one shape are together if one reads the other, or both read the same; not if a path between them leads
    through something else. Where that leaves a choice, an operation goes with those that use it. Takes time linear in
    the operations of the blocks.
    """
    wanted = dict.fromkeys(ops)
    found: list[list[Operation]] = []
    for block in dict.fromkeys(op.parent for op in wanted if op.parent is not None):
        found += _Clusters(block, wanted).found()
    return found


def _shape(op: Operation) -> Shape | None:
    """The shape of what an elementwise operation on tensors computes."""
    if not is_pointwise(op) or op.is_movement:
        return None
    types = [result.type for result in op.results]
    return (
        types[0].shape if isinstance(types[0], TensorType) and all(isinstance(t, TensorType) for t in types) else None
    )


class _Clusters:
    """Operations of a block get numbers: no less than those of what they read, and larger where they cannot be one with
    it. What has one number has no path to itself through something else."""

    def __init__(self, block: Block, wanted: Iterable[Operation]) -> None:
        self.ops = block.ops
        self.wanted = wanted
        self.shapes = {op: shape for op in block.ops if op in wanted and (shape := _shape(op)) is not None}
        self.sources = {op: self._sources(op, block) for op in block.ops}
        self.numbers: dict[Operation, int] = {}

    def _sources(self, op: Operation, block: Block) -> list[Operation]:
        """The operations of the block that make what an operation, or something in it, reads."""
        made = dict.fromkeys(v.defining_op for inner in op.walk() for v in inner.operands)
        return [source for source in made if source is not None and source.parent is block]

    def found(self) -> list[list[Operation]]:
        for op in self.ops:
            least = [self.numbers[source] + self._distance(source, op) for source in self.sources[op]]
            self.numbers[op] = max(least, default=0)
        self._go_with_users()
        return self._joined()

    def _distance(self, source: Operation, op: Operation) -> int:
        """How far the number of an operation is at least from that of one that it reads."""
        if self._are_joined(source, op) or fills(source) or source.number is not None:
            return 0
        return 0 if repeats(source) and source not in self.shapes else 1

    def _are_joined(self, source: Operation, op: Operation) -> bool:
        return source in self.shapes and self.shapes[source] == self.shapes.get(op)

    def _go_with_users(self) -> None:
        """Let operations have the largest numbers that those which use them allow."""
        most: dict[Operation, int] = {}
        for op in reversed(self.ops):
            if op in most:
                self.numbers[op] = max(self.numbers[op], most[op])
            for source in self.sources[op] if not op.is_terminator else ():
                number = self.numbers[op] - self._distance(source, op)
                most[source] = min(most.get(source, number), number)

    def _joined(self) -> list[list[Operation]]:
        """The connected operations of one number and shape."""
        first: dict[Operation, Operation] = {}

        def root(op: Operation) -> Operation:
            while first.setdefault(op, op) is not op:
                first[op] = first[first[op]]
                op = first[op]
            return op

        readers: dict[object, Operation] = {}
        for op, shape in self.shapes.items():
            for source in self.sources[op]:
                if self._are_joined(source, op) and self.numbers[source] == self.numbers[op]:
                    first[root(op)] = root(source)
            for value in op.operands:
                if isinstance(value.type, TensorType) and value.type.shape == shape:
                    other = readers.setdefault((value, shape, self.numbers[op]), op)
                    first[root(op)] = root(other)
        together: dict[Operation, list[Operation]] = {}
        for op in self.shapes:
            together.setdefault(root(op), []).append(op)
        return list(together.values())
