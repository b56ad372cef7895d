"""Decides where every tensor value of a function lives.

Subsets that are read are parts of what they are read from. Then, from the last operation of each block to the first
and from the outside in, each value is put where it will be wanted: where it is yielded or returned, where a loop
starts from it, where an operation overwrites it. A choice that leads to a conflict is given up, and the next one
tried; a value for which none is left has memory of its own, and is copied.
"""

from collections.abc import Collection, Iterator, Sequence

from tcpx.payload.ir import Block, FuncOp, Operation, Value
from tcpx.payload.memory_effects import MoveKind
from tcpx.payload.ops.gml_st import Conditional, Loop, Materialize
from tcpx.payload.sizes import Dim, Var, is_equal, variables
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import dtype_of, shape_of
from tcpx.transform.bufferization.conflicts import Conflicts
from tcpx.transform.bufferization.effects import Effects
from tcpx.transform.bufferization.program_order import ProgramOrder, operations
from tcpx.transform.bufferization.storage import READ_ONLY, Link, LinkKind, Storage, StorageKind


class Placement:
    """The places of all tensor values of a function; `reasons` says why a storage could not live where it is wanted."""

    def __init__(self, func: FuncOp) -> None:
        self.func = func
        self.effects = Effects(func)
        self.places = self.effects.places
        self.order = ProgramOrder(func)
        self.conflicts = Conflicts(self.effects, self.order)
        self.reasons: dict[Storage, str] = {}
        for argument, result in func.states.items():
            self._put_into_state(self.effects.results[result], func.args[argument])
        for op in operations(func.body):
            if isinstance(op, Materialize):
                self._decide(op.result, self._subset(op))
        self._block(func.body)

    def _put_into_state(self, result: Storage, argument: Value) -> None:
        """A result of the function is put into the memory of an argument, whatever it holds until then."""
        end = self.func.body.ops[-1]
        for link in self._link(argument, LinkKind.TAKEN, end):
            self.places.link(result, link)
            self.conflicts.occupancy.join(result, link.to)

    def _block(self, block: Block) -> None:
        for op in reversed(block.ops):
            for result in op.results:
                self._decide(result, self._choices(result))
            for region in op.regions if isinstance(op, Loop | Conditional) else ():
                self._block(region)

    def _decide(self, value: Value, choices: Iterator[Link]) -> None:
        storage = self.effects.of(value)
        if storage is None or storage.link is not None or storage.kind in (*READ_ONLY, StorageKind.EMPTY):
            return
        if storage.own:
            self.reasons[storage] = "it is promoted"
            return
        for link in choices:
            if self._try(storage, link):
                return

    def _try(self, storage: Storage, link: Link) -> bool:
        """Link a storage unless that leads to a conflict."""
        memory = self.places.place(link.to).memory
        if memory is storage or (link.kind.is_forward and not self._is_reached(link.to, storage)):
            return False
        moved = self.places.members(storage)
        self.places.link(storage, link)
        if self._have_places(memory, moved) and all(self._is_in_scope(s) for s in moved):
            conflict = self.conflicts.find(memory, storage)
            if conflict is None:
                self.conflicts.occupancy.join(storage, memory)
                return True
            self.reasons.setdefault(storage, str(conflict))
        self.places.unlink(storage)
        return False

    def _is_reached(self, target: Storage, storage: Storage) -> bool:
        """Whether every branch round `target` is round `storage`: what is known of sizes in there holds for both."""
        if target.op is None or storage.op is None:
            return True
        around = set(storage.op.ancestors())
        return all(op in around for op in target.op.ancestors() if isinstance(op, Conditional))

    def _is_in_scope(self, storage: Storage) -> bool:
        """Whether the place of a storage mentions only variables of loops round its definition."""
        op = storage.op
        around = {a.var for a in op.ancestors() if isinstance(a, Loop)} if op is not None else set[Var]()
        tile = self.places.place(storage).tile
        return all(v in around for d in (*tile.offsets, *tile.sizes, *tile.strides) for v in variables(d))

    def _have_places(self, memory: Storage, moved: Sequence[Storage]) -> bool:
        """Whether the elements of everything that moved to a memory are found there, under its own shape."""
        for storage in moved:
            if self.places.find(storage) is None:
                if memory.strided:
                    self.reasons.setdefault(storage, f"the rows of %{memory.name} are strided")
                return False
        return True

    # -- choices -------------------------------------------------------------------------------------------------

    def _choices(self, value: Value) -> Iterator[Link]:
        """Where a value might live, best first."""
        op = value.defining_op
        if self.effects.is_undefined(value):
            return
        reshapes = op is not None and any(move.kind is MoveKind.RESHAPE for move in Memory(op).moves())
        if op is not None and reshapes and self._is_settled(op.operands[0]):
            yield from self._view(op)
        yield from self._handed_on(value, (MoveKind.YIELD, MoveKind.RETURN))
        yield from self._handed_on(value, (MoveKind.BRANCH, MoveKind.INIT, MoveKind.RESHAPE, MoveKind.PIECE))
        yield from self._overwritten(value)
        if isinstance(op, Loop):
            wanted = list(self._handed_on(value, (MoveKind.YIELD, MoveKind.RETURN, MoveKind.BRANCH)))
            if wanted and self._start_where_results_are(op, op.results.index(value)):
                yield from wanted
            yield from self._taken(op, op.results.index(value))
        if op is not None and reshapes:
            yield from self._view(op)

    def _start_where_results_are(self, loop: Loop, index: int) -> bool:
        """Put what a loop starts from, and what that one started from, where its result is. So loops one after another
        may change state, or what a loop around them carries, together: each alone would first overwrite what it reads
        by what it starts from."""
        start = loop.operands[index]
        before, made = self.effects.of(start), start.defining_op
        if not isinstance(made, Loop) or len(start.uses) != 1 or before is None or before.link is not None:
            return False
        self._decide(start, self._link(loop.results[index], LinkKind.INIT, loop))
        self._start_where_results_are(made, made.results.index(start))
        return before.link is not None

    def _link(
        self, to: Value | Storage | None, kind: LinkKind, op: Operation, tile: Tile | None = None
    ) -> Iterator[Link]:
        """The link to a storage, to all of it unless a tile is given; none where it is no tensor."""
        storage = self.effects.of(to) if isinstance(to, Value) else to
        if storage is not None:
            whole = None if kind in (LinkKind.RESHAPE, LinkKind.VIEW) else storage.full()
            yield Link(storage, kind, tile or whole, op)

    def _is_settled(self, value: Value) -> bool:
        """Whether a value lies where it lies, and is not put elsewhere: what is given, what a loop carries, subsets."""
        storage, op = self.effects.of_value[value], value.defining_op
        if storage.link is not None or op is None or self.effects.place(value).memory.kind in READ_ONLY:
            return True
        return any(move.kind is MoveKind.RESHAPE for move in Memory(op).moves()) and self._is_settled(op.operands[0])

    def _subset(self, op: Materialize) -> Iterator[Link]:
        yield from self._link(op.operands[0], LinkKind.SUBSET, op, op.subset)

    def _view(self, op: Operation) -> Iterator[Link]:
        yield from self._link(op.operands[0], LinkKind.VIEW, op)

    def _taken(self, loop: Loop, index: int) -> Iterator[Link]:
        if not self.effects.is_undefined(loop.operands[index]):
            yield from self._link(loop.operands[index], LinkKind.TAKEN, loop)

    def _handed_on(self, value: Value, kinds: Collection[MoveKind]) -> Iterator[Link]:
        """Where operations that hand a value on take it, in one of these ways."""
        for user, index in value.uses:
            for move in Memory(user).moves():
                if move.operand == index and move.kind in kinds:
                    yield from self._link(self.effects.goes_to(move), LinkKind[move.kind.name], user, move.tile)

    def _overwritten(self, value: Value) -> Iterator[Link]:
        """Operations that read a value and write a result of its shape in step with that; accumulators first."""
        found: list[tuple[bool, Operation, Value]] = []
        for user, index in value.uses:
            number = Memory(user).overwritten_by(index)
            if number is None:
                continue
            result = user.results[number]
            known = self.effects.of(result) is not None
            if known and Memory(user).in_step(index, number) is not None and _is_same(result, value):
                found.append((index < len(user.inputs), user, result))
        for _, user, result in sorted(found, key=lambda entry: entry[0]):
            yield from self._link(result, LinkKind.OPERAND, user)


def _is_same(a: Value, b: Value) -> bool:
    """Whether two tensors of one rank have one dtype and shape."""
    if dtype_of(a.type) != dtype_of(b.type):
        return False
    shapes: list[tuple[Dim, Dim]] = list(zip(shape_of(a.type), shape_of(b.type), strict=True))
    return all(x == y or is_equal(x, y) is True for x, y in shapes)
