"""What the values of a lowered kernel depend on: arguments, stored constants, and the loops that they stand in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from tcpx.payload.ir import Block, FuncOp, Module, Operation, Value
from tcpx.payload.ops.gml_st import Loop, OnSubset, StYield
from tcpx.payload.ops.index import Bind
from tcpx.payload.ops.memory import Copy, View, memory_of
from tcpx.payload.ops.vector import Write
from tcpx.payload.predicates import Predicate
from tcpx.payload.size_expressions import Dim, Size
from tcpx.payload.size_traversal import variables
from tcpx.payload.types import BufferType

NUMBERS: Final = 0
"""The origin of numbers and positions. Origins are sets of bits, which are joined by `|`."""
ARRAYS: Final = 1
"""The bit of what is computed of stored arrays."""
EVERYTHING: Final = -1
"""All bits: of what an operation does that says nothing of it, such as a kernel of another's."""
ARGUMENTS: Final = 2
"""The bit of what a call is given. Those beyond are the loops in whose iterations a value differs: `Dependence.bit`."""


class Dependence:
    """The origins of all values of a module. A buffer is what is written to it; what loops carry is found by going over
    the module until nothing changes."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._origins: dict[Value, int] = {}
        self._written: set[Value] = set()
        self._bits: dict[str, int] = {}
        self._bound: dict[str, int] = {}
        self._at: dict[Operation, int] = {}
        self._is_settled = False
        for value in module.main.args:
            is_result = isinstance(value.type, BufferType) and value not in module.main.inputs
            self._origins[value] = NUMBERS if is_result else ARGUMENTS
        reached = list(module.reached(module.main))
        self._carried: dict[Value, int] = {}
        for func in reached:
            for memory, name in _carried_buffers(func):
                self._carried[memory] = self._carried.get(memory, 0) | self.bit(name)
        while not self._is_settled:
            self._is_settled = True
            for func in reached:
                self._block(func.body, 0)

    def bit(self, name: str) -> int:
        """The bit of a loop, by its variable."""
        return self._bits.setdefault(name, 4 << len(self._bits))

    def of(self, op: Operation) -> int:
        """The origin of what an operation computes, or stores, with that of where it reads or writes."""
        if _is_opaque(op):
            return EVERYTHING
        origin = self._stored(op) if isinstance(op, Write | Copy) else NUMBERS
        for result in op.results:
            origin |= self._of(result)
        return origin | self._place(op) if isinstance(op, OnSubset) else origin

    def _stored(self, op: Write | Copy) -> int:
        """What is stored; of a copy, where it is read, too."""
        origin = self._of(op.operands[0])
        return origin | self._of_sizes(op.part.offsets) if isinstance(op, Copy) else origin

    def _of(self, value: Value) -> int:
        """A part of a buffer also depends on the indices that select it."""
        origin = NUMBERS
        while isinstance(view := value.defining_op, View):
            for index in view.operands:
                origin |= self._of(index) if index is not view.source else NUMBERS
            value = view.source
        return origin | self._origins.get(value, NUMBERS)

    def _place(self, op: OnSubset) -> int:
        """Where an operation reads or writes."""
        if op not in self._at:
            self._at[op] = self._of_sizes((*op.subset.offsets, *op.subset.sizes))
        return self._at[op]

    def _of_sizes(self, sizes: Iterable[Dim]) -> int:
        origin = NUMBERS
        for size in sizes:
            for var in variables(size) if not isinstance(size, int) else ():
                origin |= self.bit(var.name) | self._bound.get(var.name, NUMBERS)
        return origin

    def _join(self, value: Value, origin: int) -> None:
        known = self._origins.get(value, NUMBERS)
        if origin | known != known:
            self._origins[value] = origin | known
            self._is_settled = False

    def _block(self, block: Block, around: int) -> None:
        for op in block.ops:
            if isinstance(op, Write | Copy):
                self._store(op.operands[1], self._stored(op))
            elif _is_opaque(op):
                for value in (*op.operands, *op.results):
                    self._store(value, EVERYTHING)
            elif isinstance(op, StYield):
                self._yield(op)
            elif isinstance(op, Loop):
                self._loop(op, around)
            elif isinstance(op, Bind):
                self._bound[op.var.name] = self._joined(op.operands)
            elif op.callee is not None:
                self._call(op, op.callee, around)
            elif op.regions:
                for region in op.regions:
                    self._block(region, around)
                self._branches(op)
            elif not isinstance(op, View):
                self._compute(op, around)

    def _loop(self, loop: Loop, around: int) -> None:
        own = self.bit(loop.var.name)
        for value, arg, result in zip(loop.operands, loop.body.args, loop.results, strict=False):
            self._join(arg, self._of(value) | own)
            self._join(result, self._of(arg) & ~own)
        self._block(loop.body, around | own)

    def _branches(self, op: Operation) -> None:
        """The results of an operation with regions depend on all that these compute, and on what chooses one."""
        if not op.results:
            return
        origin = self._joined(op.operands)
        for inner in op.walk():
            origin |= self._joined(inner.results) if inner is not op else NUMBERS
        for name in _names_in(op):
            origin |= self.bit(name) | self._bound.get(name, NUMBERS)
        for result in op.results:
            self._join(result, origin)

    def _compute(self, op: Operation, around: int) -> None:
        if not op.results:
            return
        if op.stored_array is not None:
            origin = NUMBERS if self._are_positions(op.stored_array) else ARRAYS
        else:
            origin = self._joined(op.operands)
        if isinstance(op, OnSubset):
            origin |= self._place(op) | (self._carried.get(memory_of(op.subset_of), NUMBERS) & around)
        for name in _names_in(op) if not op.operands else ():
            origin |= self.bit(name) | self._bound.get(name, NUMBERS)
        for result in op.results:
            self._join(result, origin)

    def _yield(self, op: StYield) -> None:
        loop = op.parent_op
        if not isinstance(loop, Loop):
            return
        for value in op.operands[1:]:
            memory = memory_of(value)
            if memory.owner is loop.body:
                self._join(memory, self._of(op.operands[0]))

    def _call(self, op: Operation, callee: FuncOp, around: int) -> None:
        for value, arg in zip(op.operands, callee.args, strict=False):
            self._join(arg, self._of(value))
            if arg in self._written:
                self._store(value, self._of(arg) & (ARRAYS | ARGUMENTS) | around)
        for result in op.results:
            self._join(result, ARGUMENTS | around)

    def _store(self, value: Value, origin: int) -> None:
        memory = memory_of(value)
        if memory not in self._written:
            self._written.add(memory)
            self._is_settled = False
        self._join(memory, origin)

    def _joined(self, values: Iterable[Value]) -> int:
        origin = NUMBERS
        for value in values:
            origin |= self._of(value)
        return origin

    def _are_positions(self, name: str) -> bool:
        array = self._module.constants.get(name)
        return array is not None and array.ndim == 1 and len(np.unique(np.diff(array))) <= 1


def _is_opaque(op: Operation) -> bool:
    """Whether an operation may write all that it is given: another's kernel."""
    return op.work != 0 and not isinstance(op, Copy) and op.callee is None


def _names_in(op: Operation) -> set[str]:
    """The loop variables in the attributes of an operation: positions, masks, conditions."""
    names: set[str] = set()
    for attribute in op.attributes.values():
        if isinstance(attribute, Size):
            names.update(var.name for var in variables(attribute))
        elif isinstance(attribute, Predicate):
            names.update(var.name for var in attribute.variables())
    return names


def _carried_buffers(func: FuncOp) -> set[tuple[Value, str]]:
    """The buffers that a loop hands on from one iteration to the next, with its variable: those that are written in it,
    and read there before they are."""
    carried: set[tuple[Value, str]] = set()

    def visit(block: Block) -> dict[Value, tuple[bool, bool]]:
        """For each buffer: whether it is read first, and whether it is written."""
        found: dict[Value, tuple[bool, bool]] = {}
        for op in block.ops:
            inner: dict[Value, tuple[bool, bool]] = {}
            if isinstance(op, OnSubset) and not isinstance(op, StYield):
                for k, (value, _) in enumerate(op.accesses):
                    memory, is_written = memory_of(value), isinstance(op, Write) or (isinstance(op, Copy) and k == 1)
                    inner[memory] = (not is_written, is_written)
            elif op.callee is not None:
                inner = {memory_of(v): (True, True) for v in op.operands if isinstance(v.type, BufferType)}
            for region in op.regions:
                for memory, (is_read, is_written) in visit(region).items():
                    known = inner.get(memory, (False, False))
                    inner[memory] = (known[0] or (is_read and not known[1]), known[1] or is_written)
            if isinstance(op, Loop):
                carried.update((memory, op.var.name) for memory, both in inner.items() if all(both))
            for memory, (is_read, is_written) in inner.items():
                known = found.get(memory, (False, False))
                found[memory] = (known[0] or (is_read and not known[1]), known[1] or is_written)
        return found

    visit(func.body)
    return carried


def stores_of_constants(module: Module) -> list[str]:
    """The stores of a lowered module whose values are computed of stored arrays alone: `@f: %w.p = vector.write`."""
    origins = Dependence(module)
    return [
        f"@{func.name}: %{memory_of(op.operands[1]).name} = {op.opcode}"
        for func in module.reached(module.main)
        for op in func.walk()
        if isinstance(op, Write | Copy) and origins.of(op) & (ARRAYS | ARGUMENTS) == ARRAYS
    ]
