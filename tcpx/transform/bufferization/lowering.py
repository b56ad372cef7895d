"""Rewrites a function whose values have places: no tensor is left behind."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tcpx.payload.diagnostics import Diagnostic, Direction, Kind, VerifyError
from tcpx.payload.interfaces import Structured, Tileable
from tcpx.payload.ir import Block, FuncOp, Operation, Value, written_at
from tcpx.payload.ops.assertion import Assert
from tcpx.payload.ops.call import DISJOINT_ROWS, SCRATCH, BufferCall, Call, RowCall, place_of_result
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.generic import Return, Yield
from tcpx.payload.ops.gml_st import STREAM, Conditional, Loop, Materialize, StYield
from tcpx.payload.ops.memory import Empty, Lead, Prefetch
from tcpx.payload.ops.vector import Gather, Read, ToTensor
from tcpx.payload.ops.vector import Write as Store
from tcpx.payload.ops.views import Concat, Pad, Reshape
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.strided import strided_positions
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import BufferType, TensorType, shape_of
from tcpx.transform.bufferization.buffers import Buffers
from tcpx.transform.bufferization.conflicts import shown
from tcpx.transform.bufferization.effects import Write
from tcpx.transform.bufferization.elements import ElementLoops
from tcpx.transform.bufferization.placement import Placement
from tcpx.transform.bufferization.repeated_copies import RepeatedCopies
from tcpx.transform.bufferization.storage import Place, Storage, StorageKind
from tcpx.transform.recipes import Recipes


class Lowering:
    """One run. Operations stay until the end, where what is not needed is erased last first.

    `remarks` names all copies, `unasked` those that no statement asked for, as a promotion does.
    """

    def __init__(self, rewriter: Rewriter, func: FuncOp, placement: Placement) -> None:
        self.rewriter, self.func, self.placement = rewriter, func, placement
        self.effects = placement.effects
        self.writes: dict[Operation, list[Write]] = {}
        for write in self.effects.writes:
            if self.effects.is_active(write):
                self.writes.setdefault(write.op, []).append(write)
        self.buffers = Buffers(rewriter, func, placement)
        self.loops = ElementLoops(rewriter, self.effects, self.buffers)
        self.remarks: list[str] = []
        self.unasked: list[Diagnostic] = []
        self.repeated = RepeatedCopies(rewriter, placement)
        self._cleanups: list[Callable[[], None]] = []

    def run(self) -> None:
        """Rewrite the function."""
        self._block(self.func.body)
        for cleanup in reversed(self._cleanups):
            cleanup()
        self.buffers.erase_unused()

    def _block(self, block: Block) -> None:
        for op in list(block.ops):
            if self._on_tensors(op):
                self._operation(op)
            for region in op.regions if isinstance(op, Loop | Conditional) else ():
                self._block(region)

    def _on_tensors(self, op: Operation) -> bool:
        return isinstance(op, Return) or any(map(self._is_tensor, (*op.operands, *op.results)))

    def _is_tensor(self, value: Value) -> bool:
        """Whether a value is a tensor, or was one: arguments are buffers from the start."""
        return isinstance(value.type, TensorType) or self.effects.of(value) is not None

    def _operation(self, op: Operation) -> None:
        if not BUFFERIZED.apply(self, op):
            raise op.error(
                "this operation on tensors has no form on buffers",
                required="a structured or composite operation, data movement, or a loop",
                found="none of these",
                fix=Direction("give it the interface Structured, or Composite, or a recipe (`BUFFERIZED`)"),
            )

    # -- operations ----------------------------------------------------------------------------------------------

    def loop(self, op: Loop) -> None:
        self._copies(op)
        self._cleanups.append(lambda: self._strip_loop(op))

    def branch(self, op: Conditional) -> None:
        self._cleanups.append(lambda: self._strip_results(op))

    def end(self, op: Yield | Return) -> None:
        """What is put into state is copied last: until then, others are copied from there."""
        writes = self.writes.get(op, [])
        into_state = [write for write in writes if self._in_state(write.target)]
        for write in writes:
            if write not in into_state:
                self._copy(write)
        kept = [self._kept(op, write) if len(into_state) > 1 else None for write in into_state]
        for write, place in zip(into_state, kept, strict=True):
            if place is None:
                self._copy(write)
            else:
                target = write.place(self.effects.places)
                self.loops.copy(op, f"{write.target.name}/copy", place, target, place.tile.shape)
        self._cleanups.append(lambda: self._strip_operands(op))

    def _in_state(self, storage: Storage) -> bool:
        return self.effects.places.place(storage).memory.kind is StorageKind.STATE

    def _kept(self, op: Operation, write: Write) -> Place | None:
        """A copy of what is put into state and lies in other state, which may be overwritten first."""
        if write.source is None or not self._in_state(write.source):
            return None
        kept, source = self.buffers.packed(op.operands[write.index], op), self.effects.places.place(write.source)
        self.loops.copy(op, f"{write.source.name}/kept", source, kept, kept.tile.shape)
        self._copied(op, f"copies %{write.source.name} twice for {shown(op)}", "it becomes other state")
        return kept

    def empty(self, op: Empty) -> None:
        self.gone(op, "it has no elements to compute")

    def stored(self, op: ToTensor) -> None:
        self._store(op, op.operand, self.effects.place(op.result))

    def structured(self, op: Structured) -> None:
        if self.effects.seen_through(op.results[0]) is not None:
            self.gone(op, "it is read element by element where it is used")
            return
        for result, scalar in self.loops.compute(op).items():
            self.rewriter.replace_uses(result, scalar)
        self.erase_later(op)

    def constant(self, op: Const) -> None:
        """A named constant is memory; a literal is filled in."""
        if op.number is not None:
            stored = self.loops.fill(op, op.number, self.effects.place(op.result), shape_of(op.result.type))
            self.loops.continue_as_write(op, stored)
            self.erase_later(op)

    def call(self, op: Call) -> None:
        """A call of a function that is on buffers: it is given memory without gaps, and writes the results there. State
        is where the result will be that is put into it."""
        if op.called.row is not None:
            self._row(op)
            return
        states, numbers = Memory(op).gives_up(), op.called.numbers
        elsewhere = {*states, *numbers}
        given = {v: self._packed(op, v) for k, v in enumerate([*op.operands, *op.results]) if k not in elsewhere}
        given |= {op.operands[k]: given[op.results[n]] for k, n in states.items()}
        moved = {v: at for v, at in given.items() if not self.effects.place(v).is_same(at)}
        for value, at in moved.items():
            if value.defining_op is not op:
                self.loops.copy(op, f"{value.name}/packed", self.effects.place(value), at, shape_of(value.type))
        for storage in (self.effects.of_value[op.operands[k]] for k in states if op.operands[k] in moved):
            reason = self.placement.reasons.get(storage, f"%{storage.name} is not given up by who gave it")
            self._copied(op, f"copies %{storage.name}: {storage.type} for {shown(op)}", reason)
        passed = [k for k in range(len(op.results)) if k not in states.values()]
        operands = [v for k, v in enumerate(op.operands) if k not in numbers]
        values = [*operands, *(op.results[k] for k in passed)]
        made = BufferCall.of(op, [self.buffers.passed(given[v], shape_of(v.type), op) for v in values])
        made.name = op.name
        self.rewriter.insert(made, InsertPoint.before(op))
        self.rewriter.continue_as(op, made)
        for value, at in moved.items():
            if value.defining_op is op:
                self.loops.copy(op, f"{value.name}/packed", at, self.effects.place(value), shape_of(value.type))
        self.erase_later(op)

    def _row(self, op: Call) -> None:
        """A call of a row: it works on tiles where they lie. What it writes its result over is copied there if it lies
        elsewhere."""
        func, result = op.called, self.effects.place(op.result)
        places, target = [self.effects.place(value) for value in op.operands], place_of_result(func)
        if target is None:
            places.append(result)
        elif not places[target].is_same(result):
            value = op.operands[target]
            if not self.effects.is_undefined(value):
                reason = self.placement.reasons.get(self.effects.of_value[value], "it is used again")
                self._copied(op, f"copies %{value.name}: {value.type} for {shown(op)}", reason)
                self.loops.copy(op, f"{value.name}/copy", places[target], result, shape_of(value.type))
            places[target] = result
        for k, place in enumerate(places):
            if k in strided_positions(func) and op.keeps(DISJOINT_ROWS):
                self._check_rows(op, self.buffers.of(place))
        scratch = func.attributes.get(SCRATCH)
        if isinstance(scratch, int):
            places.append(self.buffers.scratch(scratch, op))
        made = RowCall.of(op, [self.buffers.of(place) for place in places], [place.tile for place in places])
        self.rewriter.insert(made, InsertPoint.before(op))
        self.rewriter.continue_as(op, made)
        try:
            made.verify()
        except VerifyError as error:
            raise type(error)(replace(error.diagnostic, schedule=op.schedule_location)) from None
        self.erase_later(op)

    def _check_rows(self, op: Call, buffer: Value) -> None:
        """Rows that may overlap are a caller's: the kernel refuses such arrays before it does anything."""
        held = buffer.type
        if not isinstance(held, BufferType):
            return
        for dim in range(len(held.shape) - 1):
            apart = Predicate.of(">=", held.strides[dim], held.shape[dim + 1] * held.strides[dim + 1])
            made = Assert.of(
                [Predicate.of("<=", held.shape[dim], 1), apart],
                f"rows of %{buffer.name} overlap: the row {op.called.row} does not take such",
            )
            known = [inner.attributes for inner in self.func.body.ops if isinstance(inner, Assert)]
            if apart.decide() is not True and made.attributes not in known:
                made.location, made.schedule_location = op.location, op.schedule_location
                self.rewriter.insert(made, InsertPoint.start(self.func.body))

    def _packed(self, op: Call, value: Value) -> Place:
        """The place of a value, where it lies as a callee takes it; else memory of its own, with a remark."""
        place = self.effects.place(value)
        if self.buffers.is_dense(place, shape_of(value.type)):
            return place
        reason = f"the rows of %{place.memory.name} are strided" if place.memory.strided else "it is a part of another"
        self._copied(op, f"copies %{value.name}: {value.type} for {shown(op)}", reason)
        return self.buffers.packed(value, op)

    def pad(self, op: Pad) -> None:
        self.loops.fill_padding(op, self.effects.place(op.result), op.inside, op.spacing, op.rest)
        copied = [self._copy(write) for write in self.writes.get(op, []) if write.source is not None]
        if copied:
            self.loops.continue_as_write(op, copied[0])
            self.erase_later(op)
        else:
            self.gone(op, "its operand was computed where it is padded")

    def moved(self, op: Operation) -> None:
        """A subset or another shape of a value, or several joined: nothing to do where elements are in place."""
        copied = self._copies(op)
        if copied:
            self.loops.continue_as_write(op, copied[0])
            self.erase_later(op)
        else:
            self.gone(op, "it is read where it lives")

    def yielded(self, op: StYield) -> None:
        value, dest = op.operands
        if self._is_tensor(value):
            copied = self._copies(op)
            if copied:
                self.rewriter.continue_as(op, copied[0])
                self.erase_later(op)
            else:
                self.gone(op, "what it yields was computed in place")
        else:
            self._store(op, value, self.effects.place(dest).part(op.subset))

    def _store(self, op: Operation, value: Value, place: Place) -> None:
        """Write a register to memory."""
        made = Store.of(value, self.buffers.of(place), place.tile)
        made.attributes.update({key: held for key, held in op.attributes.items() if key == STREAM})
        stored = self.rewriter.insert(made, InsertPoint.before(op))
        self.rewriter.continue_as(op, stored)
        self.rewriter.rename(stored, op.name)
        self.erase_later(op)

    def redirect(self, op: Read | Gather | Prefetch) -> None:
        """Let an access of a tensor be one of its buffer."""
        place = self.effects.place(op.source)
        if isinstance(op, Gather):
            self.rewriter.set_attribute(op, "dims", tuple(place.tile.kept[dim] for dim in op.dims))
        self.rewriter.set_attribute(op, "subset", self.buffers.subset(place, op.subset))
        self.rewriter.set_operand(op, len(op.operands) - 1, self.buffers.of(place))

    def lead(self, op: Lead) -> None:
        """Where what is asked about will be: what a loop starts from lies where its result does."""
        starts = [(u, k) for u, k in op.source.uses if isinstance(u, Loop)]
        place = self.effects.place(starts[0][0].results[starts[0][1]] if starts else op.source)
        buffer = self.buffers.of(place)
        for made in (self.buffers.of(replace(place, view=place.memory)).defining_op, buffer.defining_op):
            block = op.parent
            if made is not None and block is not None and made.parent is block and block.index(made) > block.index(op):
                self.rewriter.move(made, InsertPoint.before(op))
        self.rewriter.set_attribute(op, "subset", self.buffers.subset(place, op.subset))
        self.rewriter.set_operand(op, 0, buffer)

    # -- copies --------------------------------------------------------------------------------------------------

    def _copied(self, op: Operation, text: str, reason: str | None, is_unasked: bool = True) -> None:
        """Note a copy that an operation makes, and why. Without a reason, the operation is a copy by itself, such as
        a yield of an argument."""
        text = f"{text}, because {reason}" if reason else text
        self.remarks.append(text)
        if is_unasked and reason:
            required = "memory in which it can be computed: nothing reads it later"
            place = written_at(op) or op.location
            self.unasked.append(Diagnostic(text, Kind.WARNING, payload=place, required=required, found=reason))

    def _copies(self, op: Operation) -> list[Operation]:
        """Make the copies an operation needs."""
        return [self._copy(write) for write in self.writes.get(op, [])]

    def _copy(self, write: Write) -> Operation:
        target, value = write.place(self.effects.places), write.op.operands[write.index]
        if write.source is None:
            return self._store_result(write, value, target)
        if write.reshapes or not isinstance(write.op, Tileable):
            reason = self.placement.reasons.get(write.source) or self.placement.reasons.get(write.target)
            # A part of state is written because a yield says so; only a copy of all of it is one that nobody asked for.
            in_state = self._in_state(write.source) or (write.tile is None and self._in_state(write.target))
            text = f"copies %{value.name}: {write.source.type} for {shown(write.op)}"
            repeated = self.repeated.of(write, reason)
            self._copied(write.op, text, reason, repeated is None and (in_state or write.reshapes))
            if repeated is not None and all(repeated.message != known.message for known in self.unasked):
                self.unasked.append(repeated)
        name = f"{value.name}/copy"
        if write.reshapes:
            return self.loops.copy_reshaped(write.op, name, value, target)
        source = write.source_place(self.effects.places) or self.effects.place(value)
        return self.loops.copy(write.op, name, source, target, source.tile.shape)

    def _store_result(self, write: Write, value: Value, target: Place) -> Store:
        """A scalar or vector that is returned."""
        subset = self.buffers.subset(target, Tile.full(shape_of(value.type)))
        stored = Store([value, self.buffers.of(target)], [], {"subset": subset})
        return self.rewriter.insert(stored, InsertPoint.before(write.op))

    # -- cleanup -------------------------------------------------------------------------------------------------

    def erase_later(self, op: Operation) -> None:
        """Erase an operation that something has been inserted for."""
        self._cleanups.append(lambda: self.rewriter.erase(op))

    def gone(self, op: Operation, reason: str) -> None:
        """Erase an operation of which nothing is left, and say why where its handle is used."""

        def erase() -> None:
            self.rewriter.end(op, f"bufferize left nothing of it: {reason}")
            self.rewriter.erase(op)

        self._cleanups.append(erase)

    def _strip_operands(self, op: Operation) -> None:
        kept = [] if isinstance(op, Return) else [v for v in op.operands if not self._is_tensor(v)]
        self.rewriter.set_operands(op, kept)

    def _strip_results(self, op: Operation) -> None:
        for index in reversed(range(len(op.results))):
            if self._is_tensor(op.results[index]):
                self.rewriter.remove_result(op, index)

    def _strip_loop(self, op: Loop) -> None:
        kept = [v for v, d in zip(op.operands, op.destinations, strict=True) if not self._is_tensor(d)]
        for index in reversed(range(len(op.destinations))):
            if self._is_tensor(op.destinations[index]):
                self.rewriter.remove_result(op, index)
                self.rewriter.remove_block_arg(op.body, index)
        self.rewriter.set_operands(op, kept)


BUFFERIZED: Final = Recipes[Lowering]()
"""What becomes of operations on tensors, by class."""
BUFFERIZED.add(Lowering.loop, Loop)
BUFFERIZED.add(Lowering.branch, Conditional)
BUFFERIZED.add(Lowering.end, Yield, Return)
BUFFERIZED.add(Lowering.yielded, StYield)
BUFFERIZED.add(Lowering.redirect, Read, Gather, Prefetch)
BUFFERIZED.add(Lowering.lead, Lead)
BUFFERIZED.add(Lowering.moved, Materialize, Reshape, Concat)
BUFFERIZED.add(Lowering.pad, Pad)
BUFFERIZED.add(Lowering.stored, ToTensor)
BUFFERIZED.add(Lowering.empty, Empty)
BUFFERIZED.add(Lowering.constant, Const)
BUFFERIZED.add(Lowering.structured, Structured)
BUFFERIZED.add(Lowering.call, Call)
