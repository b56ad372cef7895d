"""One iteration of an innermost loop: the instructions that compilers make of its rows, and what waits for what.

What does not change from iteration to iteration is computed before the loop. A scalar that is read and repeated over
the lanes is one load. A load that one instruction uses is its operand. What a loop carries, and memory that it reads
after an iteration before wrote it, is a chain.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

from tcpx.costs.compiler_moves import Place, is_in_branch, kept_in_registers, stores_anywhere
from tcpx.costs.iteration_chains import Chains, place_of
from tcpx.costs.loop_cycles import LoopCycles
from tcpx.costs.memory_operands import MemoryOperands, Placed, values_by_placeholder
from tcpx.costs.operations import operations_of_element, taken
from tcpx.costs.ports import Pressure, cycles_by_port
from tcpx.costs.registers import Registers
from tcpx.costs.row_uses import CALLS, COUNTS, MEMORY, RowUses, lanes_counted, row_uses
from tcpx.costs.vector_forms import AS_IT_IS, LANE_BY_LANE, VECTOR_CLASSES, Form, is_on_elements, on_vectors
from tcpx.payload.ir import Attribute, Block, Operation, Value
from tcpx.payload.ops.gml_st import Conditional, Loop, OnSubset, StYield
from tcpx.payload.ops.index import Bind
from tcpx.payload.ops.memory import At
from tcpx.payload.runs import bound
from tcpx.payload.sizes import Dim, Size, evaluate, to_text, variables
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.call import Calling
from tcpx.payload.types import BufferType, VectorType, dtype_of
from tcpx.target import InstructionRow, Target

_LITERAL: Final = "literal"
_OPERATIONS: Final = 1.6
"""Operations of the expansion of a function that an instruction does: some multiply and add."""
_MOSTLY: Final = 0.5
"""The part of a call from which it counts as one that is in a loop."""
_CHEAPER_LOADED: Final = ("convert_widened",)
"""Classes whose instructions take less of an operand in memory, which has the lanes where they are needed."""
_SPLAT: Final = "splat"
_SPLAT_BITS: Final = 32
"""The least bits that a load repeats over a vector without another instruction."""
_MOST_POINTERS: Final = 13
"""General registers that hold addresses in a loop; what is beyond is read from the stack."""
_SCALES: Final = (1, 2, 4, 8)
"""What an address may multiply a register by."""
_COPIED_BITS: Final = 256
_LINE_BITS: Final = 512


def loop_cycles(loop: Loop, sizes: Mapping[str, int], target: Target, form: Form = AS_IT_IS) -> LoopCycles:
    """An iteration of a loop that has no loops inside but those of one iteration."""
    return _Iteration(target, row_uses(target), loop, form).cycles(sizes)


def block_cycles(
    ops: Sequence[Operation], sizes: Mapping[str, int], target: Target, form: Form = AS_IT_IS
) -> LoopCycles:
    """Operations that stand one after the other outside of innermost loops, as if they were run again and again."""
    return _Iteration(target, row_uses(target), None, form).straight(ops, sizes)


@dataclass(slots=True)
class _Iteration:
    """What is known of an iteration while its operations are looked at in order."""

    target: Target
    uses: RowUses
    loop: Loop | None
    form: Form = AS_IT_IS
    pressure: Pressure = field(default_factory=lambda: defaultdict(float))
    classes: Counter[str] = field(default_factory=Counter[str])
    places: float = 0.0
    has_calls: bool = False
    bytes: int = 0
    widest: int = 0
    varying: set[Value] = field(default_factory=set[Value])
    repeated: dict[Value, Value] = field(default_factory=dict[Value, Value])
    """Vectors of one scalar that are loads, and the scalar."""
    counted: set[object] = field(default_factory=set[object])
    """Computations of masks, which all accesses of as many lanes share."""
    strides: set[int] = field(default_factory=set[int])
    bases: set[object] = field(default_factory=set[object])
    rows: list[Operation] = field(default_factory=list[Operation])
    operands: MemoryOperands = field(init=False)
    """What is read from memory by what computes with it."""
    chains: Chains = field(init=False)
    kept: Mapping[Operation, Place] = field(default_factory=dict[Operation, Place])
    """Accesses that the C compiler moves out of the loop."""
    stores_anywhere: bool = False

    def __post_init__(self) -> None:
        self.operands = MemoryOperands(self.target, self.uses, self.repeated)
        self.chains = Chains(self.uses, self.loop, self.form, self.repeated)

    def cycles(self, sizes: Mapping[str, int]) -> LoopCycles:
        loop = self.loop
        if loop is None:
            return self._result(0)
        self.kept = kept_in_registers(loop, self.target, sizes)
        self.stores_anywhere = stores_anywhere(loop, self.target)
        for number, dest in enumerate(loop.destinations):
            if loop.yields_to(number) and not isinstance(dest.type, BufferType):
                self.varying.add(dest)
                self.chains.begin(dest, number)
        self._visit(loop.body, sizes)
        self._control(loop)
        return self._result(self._spill(loop))

    def straight(self, ops: Sequence[Operation], sizes: Mapping[str, int]) -> LoopCycles:
        for op in ops:
            self.varying.update(op.results)
        self._operations(ops, sizes)
        return self._result(0)

    # operations

    def _visit(self, block: Block, sizes: Mapping[str, int]) -> None:
        self.chains.note_written(block)
        self._operations(block.ops, sizes)

    def _operations(self, ops: Sequence[Operation], sizes: Mapping[str, int]) -> None:
        for op in ops:
            match op:
                case Bind():
                    sizes = bound(op, sizes)
                    self._scalar("alu", 1)
                case Conditional():
                    self._branch(op, sizes)
                case StYield():
                    self.chains.end(op)
                case Loop():
                    self._once(op, sizes)
                case _ if "row" in op.attributes:
                    self._row(op, sizes)
                case At():
                    self._scalar("alu", len(op.operands) - 1)
                case OnSubset() if Calling(op).work != 0:
                    self._copied(evaluate(Calling(op).work, sizes), op)
                case _ if Calling(op).work != 0:
                    self._opaque(evaluate(Calling(op).work, sizes))
                case _:
                    continue

    def _branch(self, op: Conditional, sizes: Mapping[str, int]) -> None:
        self._scalar("branch", 1)
        block = taken(op, sizes, self.target)
        self._visit(block, sizes)
        end = block.terminator
        for value, result in zip(end.operands if end is not None else (), op.results, strict=False):
            self.varying.add(result)
            self.chains.follow(result, value)

    def _once(self, loop: Loop, sizes: Mapping[str, int]) -> None:
        """A loop of one iteration, of which the C has only the body."""
        for init, dest in zip(loop.operands, loop.destinations, strict=True):
            if init in self.varying:
                self.varying.add(dest)
            self.chains.follow(dest, init)
        self._visit(loop.body, {**sizes, loop.var.name: evaluate(loop.var.lower, sizes)})
        for number, result in enumerate(loop.results):
            for op in loop.yields_to(number):
                self.varying.add(result)
                self.chains.follow(result, op.operands[0])

    def _row(self, op: Operation, sizes: Mapping[str, int]) -> None:
        if op.attributes["row"] == _LITERAL:
            held = op.attributes.get("value")
            if isinstance(held, Size) and self._varies(held):
                self.varying.update(op.results)
                self._scalar("alu", 1)
            return
        if op in self.kept:
            self.varying.update(op.results)
            self.chains.keep(op, self.kept[op])
            return
        row = self._row_of(op)
        self.rows.append(op)
        if self._is_invariant(op):
            return
        self.varying.update(op.results)
        if self._is_repeated_load(op, row):
            return
        if row.kind.startswith("prefetch"):
            self._scalar("prefetch", _lines(op, sizes))
            return
        placed = values_by_placeholder(op, row)
        self._count(op, row, placed)
        if isinstance(op, OnSubset):
            self._address(op, sizes)
        self.chains.add(op, row, placed, sizes)

    def _row_of(self, op: Operation) -> InstructionRow:
        return self.target.row(str(op.attributes["row"]))

    def _varies(self, dim: Dim) -> bool:
        name = self.loop.var.name if self.loop is not None else ""
        return not isinstance(dim, int) and any(held.name == name for held in variables(dim))

    def _is_invariant(self, op: Operation) -> bool:
        """Whether it gives the same in each iteration, so that compilers move it out of the loop."""
        if self.loop is None or not op.results or any(value in self.varying for value in op.operands):
            return False
        if is_in_branch(op, self.loop) or (isinstance(op, OnSubset) and self.stores_anywhere):
            return False
        dims = (dim for held in op.attributes.values() for dim in _dims(held))
        return not any(map(self._varies, dims)) and not any(map(self.chains.is_written, op.operands))

    def _is_repeated_load(self, op: Operation, row: InstructionRow) -> bool:
        """Whether it repeats over the lanes what a load of the same iteration gives: the load does that."""
        if row.kind != _SPLAT or not op.operands or op.operands[0] not in self.varying:
            return False
        source = op.operands[0]
        made_by = source.defining_op
        if made_by is None or not isinstance(made_by, OnSubset) or "row" not in made_by.attributes:
            return False
        held = self._row_of(made_by)
        lanes = held.result.lanes if held.result is not None else 0
        if held.kind != "load" or lanes * dtype_of(source.type).bits < _SPLAT_BITS:
            return False
        self.repeated[op.results[0]] = source
        self.chains.follow(op.results[0], source)
        return True

    # ports

    def _scalar(self, name: str, count: float) -> None:
        """Instructions on scalars."""
        self._use(name, 64, count, count)

    def _use(self, name: str, bits: int, count: float, entering: float) -> None:
        """So many instructions of a class, of which so many enter the core alone."""
        cost = self.uses.core.cost(name, bits)
        self.places += cost.places * entering
        for use in cost.uses:
            self.pressure[use.ports] += use.cycles * count

    def _copied(self, elements: int, op: OnSubset) -> None:
        """Memory that is copied as it lies, a vector at a time."""
        bits = elements * dtype_of(op.subset_of.type).bits
        vectors = -(-bits // _COPIED_BITS)
        self.bytes += 2 * bits // 8
        self._use("load", _COPIED_BITS, vectors, vectors)
        self._use("store", _COPIED_BITS, vectors, vectors)

    def _opaque(self, work: int) -> None:
        """A row that is a whole operation, whose instructions nobody knows: as if all of it were multiply-adds."""
        vectors = work / self.target.lanes("f32")
        self._use("fma", self.target.vector_bits, vectors, vectors)
        self.widest = max(self.widest, self.target.vector_bits)

    def _count(self, op: Operation, row: InstructionRow, placed: Placed) -> None:
        """What its instructions do on ports."""
        moving = self._moving(op, row, placed)
        folded = self.operands.copies(op)
        in_memory = self.operands.is_in_memory(op)
        counted = self._on_vectors(op, row) if self.form.lanes > 1 else row
        if counted is None:
            return
        part = self.form.parts.get(op, 1.0) / (self.form.lanes if counted is not row else 1)
        for number, (step, roots) in enumerate(self.uses.of(counted).steps):
            is_memory = step.name in MEMORY
            if not is_memory and (not roots.keys() & moving or self._is_counted(op, row, number, roots)):
                continue
            count = folded if folded and step.name == "load" else step.lanes
            self.has_calls |= step.name in CALLS and part > _MOSTLY
            name = f"{step.name}_load" if in_memory and step.name in _CHEAPER_LOADED else step.name
            self._use(name, step.bits, count * part, 0 if folded and step.name == "load" else count * part)
            self.widest = max(self.widest, step.bits)
            if is_memory:
                self.bytes += round(step.bits // 8 * part * (count if step.name == "load" else 1))
            else:
                cost = self.uses.core.cost(step.name, step.bits)
                self.classes[step.name] += round(sum(use.cycles for use in cost.uses))

    def _on_vectors(self, op: Operation, row: InstructionRow) -> InstructionRow | None:
        """The row that counts for one on single elements in this form. Where there is none, its instructions count, on
        vectors, at once, and those of the expansion of a function."""
        lanes, bits = self.form.lanes, self.target.vector_bits
        found = on_vectors(self.target, row, lanes)
        if found is not None or row.kind in LANE_BY_LANE or not is_on_elements(row):
            return found if row.kind in LANE_BY_LANE else found or row
        part = self.form.parts.get(op, 1.0) / lanes
        for step, _ in self.uses.of(row).steps:
            if step.name in CALLS:
                count = operations_of_element(op, self.target) / _OPERATIONS * part
                self._use("fma", bits, count, count)
            else:
                self._use(VECTOR_CLASSES.get(step.name, step.name), bits, part, part)
        return None

    def _is_counted(self, op: Operation, row: InstructionRow, number: int, roots: Mapping[str, float]) -> bool:
        """Whether it computes a mask of lanes that another access has computed."""
        if not roots.keys() <= COUNTS:
            return False
        key = row.kind.removesuffix("store").removesuffix("load"), number
        known = (*key, *(to_text(lanes_counted(op, name)) for name in sorted(roots)))
        if known in self.counted:
            return True
        self.counted.add(known)
        return False

    def _moving(self, op: Operation, row: InstructionRow, placed: Placed) -> set[str]:
        """The placeholders of a row that change from iteration to iteration."""
        found = {name for name, value in placed if value in self.varying}
        lanes = (name for name in COUNTS if name in row.placeholders)
        return found | {name for name in lanes if self._varies(lanes_counted(op, name))}

    def _address(self, op: OnSubset, sizes: Mapping[str, int]) -> None:
        """How far the address moves in an iteration, and which register it is counted from."""
        buffer = op.subset_of.type
        if not isinstance(buffer, BufferType) or self.loop is None:
            return
        here, there = place_of(op.subset, self.loop, sizes, 0), place_of(op.subset, self.loop, sizes, 1)
        strides = [evaluate(stride, sizes) for stride in buffer.strides]
        moved = abs(sum((b - a) * stride for a, b, stride in zip(here, there, strides, strict=True)))
        if moved:
            self.strides.add(moved * buffer.dtype.bytes)
        rows = (to_text(o) for o, s in zip(op.subset.offsets, buffer.strides, strict=True) if not isinstance(s, int))
        self.bases.add((op.subset_of, *rows))

    def _control(self, loop: Loop) -> None:
        """The loop itself: its variable, further addresses, and a branch."""
        least = min(self.strides, default=1)
        apart = [stride for stride in self.strides if stride / least not in _SCALES]
        iterations = loop.unrolled * self.form.lanes
        self._scalar("alu", (1 + len(apart)) / iterations)
        self._scalar("branch", 1 / iterations)
        self._scalar("load", max(0, len(self.bases) - _MOST_POINTERS))

    def _spill(self, loop: Loop) -> int:
        """Vectors for which there is no register, so that they are stored and loaded; those that do not change are
        operands in memory."""
        folded = {op.results[0] for op in self.rows if self.operands.copies(op)}
        written_after = {op.operands[0] for op in self.kept if not op.results}
        needed = Registers(loop, self.rows, self.varying, self.repeated, folded, written_after).needed()
        spilled = max(0, needed.most - self.target.vector_registers)
        stored = max(0, spilled - needed.constant)
        if self.has_calls:  # a function of C's library keeps no vector
            stored = max(stored, sum(isinstance(dest.type, VectorType) for dest in loop.destinations))
            spilled = max(spilled, stored)
        self._use("load", self.target.vector_bits, spilled, 0)
        self._use("store", self.target.vector_bits, stored, stored)
        return stored

    def _result(self, spilled: int) -> LoopCycles:
        latency, chain, through_memory = self.chains.longest()
        return LoopCycles(
            ports=cycles_by_port(self.pressure),
            entry=self.places / self.uses.core.width,
            latency=latency / self.form.lanes,
            chain=chain,
            bytes=self.bytes,
            spilled=spilled,
            through_memory=through_memory,
            waiting=self.chains.waiting,
            classes=self.classes,
            widest=self.widest,
            core=self.uses.core,
        )


def _dims(held: Attribute) -> Sequence[Dim]:
    if isinstance(held, Tile):
        return (*held.offsets, *held.sizes)
    if isinstance(held, Size):
        return (held,)
    return [dim for dim in held if isinstance(dim, Size)] if isinstance(held, tuple) else ()


def _lines(op: Operation, sizes: Mapping[str, int]) -> int:
    """The lines of a subset that is prefetched."""
    tile = op.attributes.get("subset")
    if not isinstance(tile, Tile):
        return 1
    *rows, columns = (1, *(max(1, evaluate(size, sizes)) for size in tile.sizes))
    return prod(rows) * -(-columns * dtype_of(op.operands[-1].type).bits // _LINE_BITS)
