"""`clusters` and `row_clusters`: which operations can be computed together, in one loop nest."""

from collections.abc import Iterable, Mapping, Sequence

from tcpx.payload.indexing_maps import map_dims
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation
from tcpx.payload.sizes import Dim
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.ragged import is_irregular
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.types import TensorType, shape_of
from tcpx.transform.elementwise import fills, is_pointwise, repeats

Shape = tuple[Dim, ...]
Space = tuple[Shape, frozenset[int]]
"""A shape, and which of its dims are reduced."""


def clusters(ops: Sequence[Operation]) -> list[list[Operation]]:
    """The parts of some operations that `fuse_elementwise` can make one operation of, in program order.

    Operations of one shape are together if one reads the other, or both read the same; not if a path between them leads
    through something else. Where that leaves a choice, an operation goes with those that use it. Takes time linear in
    the operations of the blocks.
    """
    found: list[list[Operation]] = []
    for block, wanted in _by_block(ops).items():
        shapes = {op: shape for op in wanted if (shape := _shape(op)) is not None}
        found += _Clusters(block, shapes).found()
    return found


def row_clusters(ops: Sequence[Operation]) -> list[list[Operation]]:
    """The parts of some operations that can be computed row by row: reductions over the same dims of one shape, the
    elementwise operations of that shape and of what is left of it, and what repeats a number for its row."""
    found: list[list[Operation]] = []
    for block, wanted in _by_block(ops).items():
        left = dict.fromkeys(wanted)
        for space in dict.fromkeys(space for op in wanted if (space := _reduced(op)) is not None):
            members = {op: shape for op in left if (shape := _in_rows(op, space)) is not None}
            for together in _Rows(block, members, space).found():
                if any(_reduced(op) for op in together):
                    found.append([op for op in together if not repeats(op)])
                    for op in together:
                        del left[op]
    return found


def _by_block(ops: Iterable[Operation]) -> dict[Block, list[Operation]]:
    """Operations by the block in which they stand, in program order."""
    found: dict[Block, list[Operation]] = {}
    for op in dict.fromkeys(ops):
        if op.parent is not None:
            found.setdefault(op.parent, []).append(op)
    return {block: sorted(inside, key=lambda op: op.order) for block, inside in found.items()}


def _reduced(op: Operation) -> Space | None:
    """What a reduction of one operand that is read in order reduces."""
    if not isinstance(op, Structured) or op.inits or len(op.inputs) != 1 or is_irregular(op) or Scan.of(op) is not None:
        return None
    names, its = map_dims(op.maps()[0]), op.iterators()
    kind = op.inputs[0].type
    if (
        not isinstance(kind, TensorType)
        or Reduction.of(op) is None
        or names is None
        or names != tuple(it.name for it in its)
    ):
        return None
    kept = tuple(it.name for it in its if not it.is_reduction)
    is_plain = all(map_dims(m) == kept for m in op.result_maps())
    return (kind.shape, frozenset(k for k, it in enumerate(its) if it.is_reduction)) if is_plain else None


def _left(space: Space) -> Shape:
    """The shape of one number for each row."""
    return tuple(extent for k, extent in enumerate(space[0]) if k not in space[1])


def _in_rows(op: Operation, space: Space) -> Shape | None:
    """The shape of what an operation computes for rows; None of one that does not."""
    if _reduced(op) == space:
        return _left(space)
    if repeats(op) and shape_of(op.result.type) == space[0] and shape_of(op.inputs[0].type) == _left(space):
        names, kept = map_dims(op.maps()[0]), map_dims(op.result_map())
        places = [kept.index(name) for name in names] if names is not None and kept is not None else []
        return space[0] if space[1].isdisjoint(places) and len(places) == len(_left(space)) else None
    shape = _shape(op)
    return shape if shape in (space[0], _left(space)) else None


def _shape(op: Operation) -> Shape | None:
    """The shape of what an elementwise operation on tensors computes."""
    if not is_pointwise(op) or op.is_movement:
        return None
    types = [result.type for result in op.results]
    return (
        types[0].shape if isinstance(types[0], TensorType) and all(isinstance(t, TensorType) for t in types) else None
    )


def _reads_in_order(op: Operation, source: Operation) -> bool:
    """Whether a pointwise operation reads of a source what has the index that it computes, not a transposed one."""
    if not isinstance(op, Structured):
        return False
    read = [m for m, value in zip(op.maps(), op.inputs, strict=True) if value.defining_op is source]
    return all(m == op.result_maps()[0] for m in read)


class _Clusters:
    """Operations of a block get numbers: no less than those of what they read, and larger where they cannot be one with
    it. What has one number has no path to itself through something else."""

    def __init__(self, block: Block, shapes: Mapping[Operation, Shape]) -> None:
        self.ops, self.shapes = block.ops, shapes
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
        if self._are_joined(source, op) or fills(source) or Constant(source).number is not None:
            return 0
        return 0 if repeats(source) and source not in self.shapes else 1

    def _are_joined(self, source: Operation, op: Operation) -> bool:
        return source in self.shapes and self.shapes[source] == self.shapes.get(op) and _reads_in_order(op, source)

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


class _Rows(_Clusters):
    """The same of rows: an operation goes with what it reads of the same row."""

    def __init__(self, block: Block, shapes: Mapping[Operation, Shape], space: Space) -> None:
        super().__init__(block, shapes)
        self.space = space

    def _are_joined(self, source: Operation, op: Operation) -> bool:
        if source not in self.shapes or op not in self.shapes:
            return False
        if repeats(op):
            return self.shapes[source] == _left(self.space)
        if _reduced(op) == self.space:
            return self.shapes[source] == self.space[0]
        return self.shapes[source] == self.shapes[op] and _reads_in_order(op, source)
