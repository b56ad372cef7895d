"""How many lanes the pieces of each vector value have: one number for all values that are computed lane by lane
from each other, so that no piece has to be cut or glued."""

from collections.abc import Iterator, Sequence

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import ROW, Block, Operation, Value
from tcpx.payload.ops.gml_st import Conditional, Loop, StYield
from tcpx.payload.ops.vector import FromElements, Gather, Insert, Mask, Read, Shuffle
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import HALF, ScalarType, VectorType, dtype_of, f32, shape_of, si32, si64
from tcpx.target import LaneType, Target
from tcpx.transform.vectors.lane_dims import (
    LaneDim,
    choose_lane_dim,
    depends,
    extents_of,
    last_result_dim,
    streams,
)
from tcpx.transform.vectors.probes import element_dtypes

Node = Value | Operation
"""A vector value, or a reduction along lanes."""


def is_vector(value: Value) -> bool:
    """Whether the value is a vector, of any rank."""
    return isinstance(value.type, VectorType)


def uses_vectors(op: Operation) -> bool:
    """Whether an operand or result is a vector."""
    return any(is_vector(v) for v in (*op.operands, *op.results))


def is_source(value: Value) -> bool:
    """Whether pieces of any width can be had of the value: it is read, a literal, or given by elements."""
    op = value.defining_op
    return op is not None and (Constant.of(op) is not None or isinstance(op, Read | Mask | Gather | FromElements))


def place_dtype(indices: Value) -> ScalarType:
    """The dtype that holds all indices of a vector, as rows that gather take them."""
    dtype = dtype_of(indices.type)
    return si32 if dtype.bits < 32 or dtype == si32 else si64


def has_gather_row(target: Target, op: Gather, width: int) -> bool:
    """Whether lanes that have an index each, along one dim of what is in memory, are read by one instruction."""
    if len(op.indices) != 1:
        return False
    found, at = dtype_of(op.result.type), place_dtype(*op.indices.values())
    return target.find("gather", None, LaneType(found.name, width), [LaneType(at.name, width)]) is not None


def lanes_of_all(target: Target, dtypes: Sequence[ScalarType]) -> int:
    """The widest lane count, at most a full vector, that the target has C types for in all these dtypes, and in f32
    where a half is among them."""
    all_dtypes = (*dtypes, f32) if any(d in HALF for d in dtypes) else dtypes
    known = min(target.lanes(d.name) for d in all_dtypes)
    while known > 1 and not all(target.has_type(d.name, known) for d in all_dtypes):
        known //= 2
    return max(1, known)


class Widths:
    """Lane counts by union of values. One lane means that the value is kept as scalars."""

    def __init__(self, root: Operation, target: Target) -> None:
        self.target = target
        self.lane_dims: dict[Operation, LaneDim | None] = {}
        self.partial: dict[Value, Structured] = {}
        """Destination that carries lane-wise partial results of a reduction -> that reduction."""
        self._above: dict[Node, Node] = {}
        self._dtypes: dict[Node, dict[ScalarType, None]] = {}
        self._extents: dict[Node, int] = {}
        self._scalars: set[Node] = set()
        self._chosen_lanes: dict[Node, int] = {}
        self._widths: dict[tuple[ScalarType, ...], int] = {}
        for block in root.regions:
            self._block(block)

    # -- answers -------------------------------------------------------------------------------------------------

    def lane_dim(self, op: Operation) -> LaneDim | None:
        """The lane dim chosen for a structured operation."""
        return self.lane_dims.get(op)

    def of(self, node: Node) -> int:
        """Lanes of the pieces of a value, or of the operands of a reduction along lanes."""
        root = self._root(node)
        if root in self._chosen_lanes:
            return self._chosen_lanes[root]
        if root in self._scalars or (isinstance(node, Value) and _is_narrow(node)):
            return 1
        dtypes = tuple(self._dtypes.get(root, {})) or (_node_dtype(node),)
        extent = max(self._extents.get(root, 0), _extent(node))
        return self.target.narrowed([d.name for d in dtypes], self.feasible(dtypes), extent)

    def feasible(self, dtypes: tuple[ScalarType, ...]) -> int:
        """The widest lane count, at most a full vector, that the target has C types for in all these dtypes, and in
        f32 where a half is among them."""
        known = self._widths.get(dtypes)
        if known is None:
            known = self._widths[dtypes] = lanes_of_all(self.target, dtypes)
        return known

    def dtypes_without_lanes(self, op: Structured) -> tuple[ScalarType, ...]:
        """The dtypes that keep an operation on vectors from being computed in vectors: the target has no C types for
        equally many lanes of all of them. () where there is another reason, or none."""
        nodes = [op, *(v for v in (*op.operands, *op.results) if is_vector(v) and not _is_narrow(v))]
        joined = (d for node in nodes for d in self._dtypes.get(self._root(node), {}))
        dtypes = tuple(dict.fromkeys((*element_dtypes(op), *joined)))
        has_vectors = any(self.feasible((d,)) > 1 for d in dtypes)
        return dtypes if len(nodes) > 1 and has_vectors and self.feasible(dtypes) == 1 else ()

    def is_piece(self, value: Value) -> bool:
        """Whether the value is a 1-D vector of just the right width: it needs no unrolling."""
        shape = value.type.shape if isinstance(value.type, VectorType) else ()
        return len(shape) == 1 and shape[0] > 1 and shape[0] == self.of(value)

    def partial_reduction(self, dest: Value) -> Structured | None:
        """The reduction whose lane-wise partial results the destination carries; None for an ordinary one."""
        user = self.partial.get(dest)
        return user if user is not None and self.of(user) > 1 else None

    # -- union ---------------------------------------------------------------------------------------------------

    def _root(self, node: Node) -> Node:
        while node in self._above:
            node = self._above[node]
        return node

    def _join(self, a: Node, b: Node) -> None:
        top, below = self._root(a), self._root(b)
        if top is below:
            return
        self._above[below] = top
        self._dtypes.setdefault(top, {}).update(self._dtypes.pop(below, {}))
        self._extents[top] = max(self._extents.get(top, 0), self._extents.pop(below, 0))
        if below in self._scalars:
            self._scalars.add(top)
        if below in self._chosen_lanes:
            self._chosen_lanes.setdefault(top, self._chosen_lanes[below])

    def _join_values(self, a: Value, b: Value) -> None:
        """One width for two vectors; sources adapt to what is asked of them."""
        for value in (a, b):
            self._add(value, (dtype_of(value.type),), _extent(value))
        if not is_source(a) and not is_source(b):
            self._join(a, b)

    def _add(self, node: Node, dtypes: tuple[ScalarType, ...], extent: int) -> None:
        root = self._root(node)
        self._dtypes.setdefault(root, {}).update(dict.fromkeys(dtypes))
        self._extents[root] = max(self._extents.get(root, 0), extent)

    def _keep_scalar(self, node: Node) -> None:
        self._scalars.add(self._root(node))

    # -- the payload ---------------------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if ROW in op.attributes:
                self._has_instruction(op)
            elif not isinstance(op, Structured):
                self._other(op)
                for inner in op.regions:
                    self._block(inner)
            elif uses_vectors(op):
                self._structured(op)

    def _other(self, op: Operation) -> None:
        match op:
            case Loop():
                self._loop(op)
            case Conditional():
                self._branches(op)
            case StYield():
                value, dest = op.operands
                if is_vector(value) and is_vector(dest) and dest not in self.partial:
                    self._join_values(value, dest)
            case Insert() | Shuffle():
                for value in op.operands:
                    if value.type == op.result.type:
                        self._join_values(op.result, value)
            case _:
                pass

    def _has_instruction(self, op: Operation) -> None:
        """An instruction has been chosen for what is as wide as it is, whatever is computed from it elsewhere."""
        for value in (*op.operands, *op.results):
            if isinstance(value.type, VectorType) and len(value.type.shape) == 1:
                self._chosen_lanes.setdefault(self._root(value), value.type.shape[0])

    def _structured(self, op: Structured) -> None:
        extents_of(op)
        dtypes = element_dtypes(op)
        lane = self._chosen(op)
        if lane is not None and lane.is_reduction and self.feasible(dtypes) == 1:
            lane = None
        self.lane_dims[op] = lane
        dtypes = (*dtypes, *self._gathered_by(op, lane, dtypes))
        result = op.results[0]
        self._join_results(op)
        if lane is not None and lane.is_reduction:
            self._add(op, dtypes, extents_of(op)[lane.name])
            for indexing_map, value in zip(op.maps(), op.inputs, strict=True):
                if is_vector(value) and not is_source(value) and streams(indexing_map, lane.name):
                    self._add(value, (dtype_of(value.type),), _extent(value))
                    self._join(op, value)
            if is_vector(result):
                self._reduced(op, op.results)
        elif is_vector(result):
            self._add(result, dtypes, _extent(result))
            last = last_result_dim(op)
            for indexing_map, value in zip(op.maps(), op.inputs, strict=True):
                if is_vector(value) and last is not None and streams(indexing_map, last):
                    self._join_values(result, value)
        if _is_narrow(result):
            self._keep_scalar(result)

    def _gathered_by(
        self, op: Structured, lane: LaneDim | None, dtypes: tuple[ScalarType, ...]
    ) -> Iterator[ScalarType]:
        """The dtypes of indices that lanes of its inputs have, if rows read those."""
        for indexing_map, value in zip(op.maps(), op.inputs, strict=True):
            made = value.defining_op
            if lane is not None and isinstance(made, Gather) and len(made.indices) == 1:
                (given,) = made.indices.values()
                dtype = place_dtype(given)
                moves = [k for k, e in enumerate(indexing_map) if depends(e, lane.name)]
                is_along = len(moves) == 1 and moves[0] < len(shape_of(given.type))
                if is_along and has_gather_row(self.target, made, self.feasible((*dtypes, dtype))):
                    yield dtype

    def _join_results(self, op: Structured) -> None:
        """One width for all results, and for what they start with."""
        result = op.results[0]
        for other in (*op.results[1:], *op.inits):
            if is_vector(other) and other not in self.partial:
                self._join_values(result, other)

    def _chosen(self, op: Structured) -> LaneDim | None:
        return choose_lane_dim(op, min(self.target.lanes(dtype.name) for dtype in op.acc_types))

    def _reduced(self, op: Structured, results: Sequence[Value]) -> None:
        """Results of a reduction along lanes are as wide as what is reduced, unless only scalars of them are used."""
        lane = self._chosen(op)
        takes_lanes = any(self._takes_lanes(user, result) for result in results for user in result.users)
        for result in results:
            if lane is not None and takes_lanes:
                self._add(result, op.acc_types, max(extents_of(op)[lane.name], _extent(result)))
            else:
                self._keep_scalar(result)

    def _takes_lanes(self, user: Operation, value: Value) -> bool:
        if not isinstance(user, Structured):
            return True
        lane = self._chosen(user)
        maps = [m for m, v in zip(user.maps(), user.inputs, strict=True) if v is value]
        return value in user.inits or (lane is not None and any(streams(m, lane.name) for m in maps))

    def _loop(self, op: Loop) -> None:
        for init, dest, result in zip(op.operands, op.destinations, op.results, strict=True):
            user = self._partial_reduction(op, dest)
            if user is not None:
                self.partial[dest] = user
                if is_vector(result) and is_vector(init):
                    self._join_values(result, init)
            elif is_vector(dest):
                self._join_values(dest, init)
                self._join_values(dest, result)
        for user in dict.fromkeys(self.partial[dest] for dest in op.destinations if dest in self.partial):
            pairs = zip(op.destinations, op.results, strict=True)
            results = [result for dest, result in pairs if self.partial.get(dest) is user and is_vector(result)]
            for other in results[1:]:
                self._join_values(results[0], other)
            self._reduced(user, results)

    def _branches(self, op: Conditional) -> None:
        for block in op.regions:
            end = block.terminator
            for result, value in zip(op.results, end.operands if end is not None else (), strict=True):
                if is_vector(result):
                    self._join_values(result, value)

    def _partial_reduction(self, loop: Loop, dest: Value) -> Structured | None:
        """The reduction along lanes that only passes this destination on, so that it may carry partial results.

        for (%acc = %init) { %r = reduce(%x, init = %acc); yield(%r, %acc) }, and no other use of %acc and %r; of
        several results, each has such a destination.
        """
        user = next((u for u, _ in dest.uses if isinstance(u, Structured)), None)
        if user is None or user.parent is not loop.body or dest not in user.inits:
            return None
        for init, result in zip(user.inits, user.results, strict=True):
            is_carried = init in loop.destinations and isinstance(init.type, VectorType | ScalarType)
            store = next((u for u, k in init.uses if isinstance(u, StYield) and k == 1), None)
            if not is_carried or store is None or store.parent is not loop.body or store.operands[0] is not result:
                return None
            if len(init.uses) != 2 or len(result.uses) != 1:
                return None
        lane = self._chosen(user)
        if lane is None or not lane.is_reduction or Reduction(user).neutrals() is None:
            return None
        return user if self.feasible(element_dtypes(user)) > 1 else None


def _is_narrow(value: Value) -> bool:
    """Whether the lane dim of a value has extent 1, or there is none."""
    shape = value.type.shape if isinstance(value.type, VectorType) else ()
    return not shape or shape[-1] == 1


def _extent(node: Node) -> int:
    """Lanes of a vector value, as written; none of a reduction along lanes, which has those of its operands."""
    shape = node.type.shape if isinstance(node, Value) and isinstance(node.type, VectorType) else ()
    return shape[-1] if shape else 0


def _node_dtype(node: Node) -> ScalarType:
    return dtype_of(node.type if isinstance(node, Value) else node.results[0].type)
