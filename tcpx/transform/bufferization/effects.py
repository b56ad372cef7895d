"""What the operations of a function do to the storages of its tensor values."""

from collections.abc import Iterator
from dataclasses import dataclass

from tcpx.payload.indexing_maps import map_dim, map_symbols
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, FuncOp, Operation, Value
from tcpx.payload.memory_effects import Move, MoveKind
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.state import names_in_c
from tcpx.payload.strided import strided_positions
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.memory import Memory
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import TensorType, VectorType, dtype_of, shape_of
from tcpx.transform.bufferization.program_order import operations
from tcpx.transform.bufferization.storage import Place, Places, Storage, StorageKind


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """`op` writes `tile` (all, if None) of a storage; a copy reads a value, and writes nothing where it lives there.

    `index` is the operand that is copied or stored. A copy with `reshapes` writes the elements in row-major order.
    """

    op: Operation
    target: Storage
    tile: Tile | None = None
    source: Storage | None = None
    source_tile: Tile | None = None
    index: int = 0
    reshapes: bool = False

    def place(self, places: Places) -> Place:
        """What is written."""
        return _part(places.place(self.target), self.tile)

    def source_place(self, places: Places) -> Place | None:
        """What is copied; None if this is no copy."""
        return None if self.source is None else _part(places.place(self.source), self.source_tile)


def _part(place: Place, tile: Tile | None) -> Place:
    return place if tile is None else place.part(tile)


class Effects:
    """The storages of a function, and what is written to them.

    The result of a broadcast or fill that only structured operations read has no storage: they read its operand.
    """

    def __init__(self, func: FuncOp) -> None:
        self.func = func
        self.of_value: dict[Value, Storage] = {}
        self.results: list[Storage] = []
        self.writes: list[Write] = []
        self._undefined: dict[Value, bool] = {}
        ops = list(operations(func.body))
        self._seen_through: dict[Value, Structured] = {}
        for op in reversed(ops):
            if isinstance(op, Structured) and self._can_see_through(op):
                self._seen_through[op.result] = op
        strided = strided_positions(func)
        for k, arg in enumerate(func.args):
            self._add(arg, StorageKind.STATE if k in func.states else StorageKind.ARGUMENT, None)
            if k in strided:
                self.of_value[arg].strided = True
        for op in ops:
            self._define(op)
        for k, (value, called) in enumerate(zip(func.returned, names_in_c(func), strict=True), len(func.args)):
            type_ = TensorType(shape_of(value.type), dtype_of(value.type))
            self.results.append(Storage(value.name, type_, StorageKind.RESULT, strided=k in strided, called=called))
        self.places = Places([*dict.fromkeys(self.of_value.values()), *self.results])
        for op in ops:
            self.writes += self._written(op)

    # -- storages ------------------------------------------------------------------------------------------------

    def _add(self, value: Value, kind: StorageKind, op: Operation | None) -> None:
        if isinstance(value.type, TensorType):
            self.of_value[value] = Storage(value.name, value.type, kind, op, value)

    def _define(self, op: Operation) -> None:
        match op:
            case Loop():
                for init, dest, result in zip(op.operands, op.destinations, op.results, strict=True):
                    self._add(result, StorageKind.DESTINATION, op)
                    if result in self.of_value:
                        self.of_value[result].own = (
                            init.defining_op is not None and Memory(init.defining_op).has_own_memory
                        )
                        self.of_value[result].destination = dest
                        self.of_value[dest] = self.of_value[result]
            case _:
                kind = StorageKind.EMPTY if Memory(op).leaves_undefined else StorageKind.VALUE
                kind = kind if Constant(op).stored_array is None else StorageKind.CONSTANT
                for result in op.results:
                    if result not in self._seen_through:
                        self._add(result, kind, op)

    def seen_through(self, value: Value) -> Structured | None:
        """The broadcast or fill that is evaluated where this value is read; None where the value has a storage."""
        return self._seen_through.get(value)

    def _can_see_through(self, op: Structured) -> bool:
        """Whether an operation repeats what it reads, and only computations read that, reductions in the same order."""
        if not op.is_movement or len(op.results) != 1 or not isinstance(op.result.type, TensorType) or op.inits:
            return False
        if any(self.is_destination(v) for v in op.operands) or any(it.is_reduction for it in op.iterators()):
            return False
        if any(map_symbols(position.expression) for position in positions_read(op)):
            return False
        order = [map_dim(e) for e in op.result_map()]
        keeps_order = True
        for indexing_map in op.maps():
            at = [order.index(name) for e in indexing_map if (name := map_dim(e)) in order]
            if len(at) != len(indexing_map) or len(set(at)) != len(at):
                return False
            keeps_order = keeps_order and at == sorted(at)
        return all(
            isinstance(user, Structured)
            and index < len(user.inputs)
            and not isinstance(user.results[0].type, VectorType)
            and (keeps_order or Reduction.of(user) is None)
            for user, index in op.result.uses
        )

    def of(self, value: Value) -> Storage | None:
        """The storage of a tensor value; None for scalars and vectors."""
        return self.of_value.get(value)

    def is_destination(self, value: Value) -> bool:
        """Whether a value is storage that the body of a loop changes."""
        return isinstance(value.owner, Block) and isinstance(value.owner.parent, Loop)

    def is_undefined(self, value: Value) -> bool:
        """Whether no element of a value has been computed: copying it is copying nothing."""
        known = self._undefined.get(value)
        if known is None:
            op = value.defining_op
            known = op is not None and (
                Memory(op).leaves_undefined or (_only_shows(op) and self.is_undefined(op.operands[0]))
            )
            self._undefined[value] = known
        return known

    def place(self, value: Value) -> Place:
        """Where a tensor value lives."""
        return self.places.place(self.of_value[value])

    # -- writes --------------------------------------------------------------------------------------------------

    def _written(self, op: Operation) -> Iterator[Write]:
        for result in op.results if Memory(op).computes_result else ():
            target = self.of(result)
            if target is not None and target.kind is StorageKind.VALUE:
                yield Write(op, target)
        for move in Memory(op).moves():
            yield from self._moved(op, move)

    def goes_to(self, move: Move) -> Storage | None:
        """The storage that an operand is handed on to; None where that is no tensor."""
        return self.results[move.operand] if move.to is None else self.of(move.to)

    def _moved(self, op: Operation, move: Move) -> Iterator[Write]:
        value, target = op.operands[move.operand], self.goes_to(move)
        source = self.of(value)
        if target is None:
            return
        if source is None:
            yield Write(op, target, move.tile, index=move.operand)
        elif not self.is_undefined(value):
            reshapes = move.kind is MoveKind.RESHAPE
            yield Write(op, target, move.tile, source, move.source_tile, move.operand, reshapes)

    def is_active(self, write: Write) -> bool:
        """Whether anything is written: a value that lives where it is copied to is not copied."""
        if write.source is None:
            return True
        if write.reshapes:
            return not any(
                a.link is not None and a.link.to is b and a.link.tile is None
                for a, b in ((write.source, write.target), (write.target, write.source))
            )
        source = write.source_place(self.places)
        return source is None or not source.is_same(write.place(self.places))

    # -- reads ---------------------------------------------------------------------------------------------------

    def reads(self, value: Value) -> list[tuple[Operation, int]]:
        """The uses of a tensor value that need its elements, also through operations that are seen through."""
        found: list[tuple[Operation, int]] = []
        for op, index in value.uses:
            if op.results and op.results[0] in self._seen_through:
                found += self.reads(op.results[0])
            elif Memory(op).part_read(index) is not None:
                found.append((op, index))
        return found

    def reads_in_step(self, op: Operation, index: int, write: Write) -> bool:
        """Whether `op`, which also writes, reads each element of operand `index` before it writes there, and no later.

        That is so where it reads and writes the same element in each of its iterations, in the same place.
        """
        source = self.of(op.operands[index])
        if source is None or write.source is not None:
            return False
        written = [k for k, result in enumerate(op.results) if self.of(result) is write.target]
        part = Memory(op).in_step(index, written[0]) if written else None
        return part is not None and self.places.place(source).is_same(write.place(self.places).part(part))


def _only_shows(op: Operation) -> bool:
    """Whether the result is a part of the operand, or all of it under another shape."""
    return any(move.kind in (MoveKind.SUBSET, MoveKind.RESHAPE) for move in Memory(op).moves())
