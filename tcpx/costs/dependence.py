"""What the values of a lowered kernel depend on: arguments, stored constants, and the loops that they stand in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from tcpx.payload.ir import Block, FuncOp, Module, Operation, Value, parent_op
from tcpx.payload.ops.gml_st import Loop, OnSubset, StYield
from tcpx.payload.ops.index import Bind
from tcpx.payload.ops.memory import Copy, View, memory_of
from tcpx.payload.ops.vector import Write
from tcpx.payload.sizes.expressions import Dim, Size
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes.traversal import variables
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.constant import Constant
from tcpx.payload.types import BufferType

NUMBERS: Final = 0
"""The origin of numbers and positions. Origins are sets of bits, which are joined by `|`."""
ARRAYS: Final = 1
"""The bit of what is computed of stored arrays."""
EVERYTHING: Final = -1
"""All bits: of what an operation does that says nothing of it, such as a kernel of another's."""
ARGUMENTS: Final = 2
"""The bit of what a call is given."""
CONTENTS: Final = ARRAYS | ARGUMENTS
"""Both. The bits beyond are the loops in whose iterations a value differs: `Dependence.bit`."""


Key = Value | str
"""What has an origin: a value, a buffer as a whole, or a bound size, by its name."""


class _Rule(NamedTuple):
    """The origin of a key includes `constant`, and of the origins of some others the bits of `mask`."""

    target: Key
    sources: tuple[Key, ...]
    constant: int
    mask: int


class Dependence:
    """The origins of all values of a module. A buffer is what is written to it.

    One pass over the module, in the order in which a call runs it, says which origins include which. Of the loops in
    whose iterations a value differs, those round what reads it count. So most rules are applied once or twice.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._origins: dict[Key, int] = {}
        self._written: set[Value] = set()
        self._bits: dict[str, int] = {}
        self._rules: list[_Rule] = []
        for value in module.main.args:
            is_result = isinstance(value.type, BufferType) and value not in module.main.inputs
            self._origins[value] = NUMBERS if is_result else ARGUMENTS
        reached = module.reached(module.main)
        self._carried: dict[Value, int] = {}
        for func in reached:
            for memory, name in _carried_buffers(func):
                self._carried[memory] = self._carried.get(memory, NUMBERS) | self.bit(name)
        self._around = self._loops_round_calls(reached)
        self._visited: set[FuncOp] = set()
        self._function(module.main)
        self._settle()

    def bit(self, name: str) -> int:
        """The bit of a loop, by its variable."""
        return self._bits.setdefault(name, 4 << len(self._bits))

    def of(self, op: Operation) -> int:
        """The origin of what an operation computes, or stores, with that of where it reads or writes."""
        if _is_opaque(op):
            return EVERYTHING
        keys, origin = self._place(op) if isinstance(op, OnSubset) else ((), NUMBERS)
        sources = [*keys, *(key for result in op.results for key in _sources(result))]
        if isinstance(op, Write | Copy):
            stored, where = self._stored(op)
            sources, origin = [*sources, *stored], origin | where
        for key in sources:
            origin |= self._origins.get(key, NUMBERS)
        return origin

    # -- which origins include which -------------------------------------------------------------------------------

    def _loops_round_calls(self, reached: Sequence[FuncOp]) -> dict[FuncOp, int]:
        """The loops that enclose the calls of each function, with those that enclose the calls of its callers."""
        found = dict.fromkeys(reached, NUMBERS)
        for func in reversed(reached):  # callers come before what they call
            for call, callee in func.calls():
                found[callee] |= found[func]
                for outer in call.ancestors():
                    found[callee] |= self.bit(outer.var.name) if isinstance(outer, Loop) else NUMBERS
        return found

    def _function(self, func: FuncOp) -> None:
        if func not in self._visited:
            self._visited.add(func)
            self._block(func.body, self._around[func])

    def _stored(self, op: Write | Copy) -> tuple[tuple[Key, ...], int]:
        """What is stored; of a copy, where it is read, too."""
        keys, bits = self._sizes(op.part.offsets) if isinstance(op, Copy) else ((), NUMBERS)
        return (*_sources(op.operands[0]), *keys), bits

    def _place(self, op: OnSubset) -> tuple[tuple[Key, ...], int]:
        """Where an operation reads or writes."""
        return self._sizes((*op.subset.offsets, *op.subset.sizes))

    def _sizes(self, sizes: Iterable[Dim]) -> tuple[tuple[Key, ...], int]:
        return self._names({var.name for size in sizes if not isinstance(size, int) for var in variables(size)})

    def _names(self, names: Iterable[str]) -> tuple[tuple[Key, ...], int]:
        """Bound sizes, and the bits of loops: a name is one of both."""
        keys, bits = tuple(names), NUMBERS
        for name in keys:
            bits |= self.bit(name)
        return keys, bits

    def _add(self, target: Key, sources: Iterable[Key], around: int, constant: int = NUMBERS) -> None:
        """What is computed in these loops, or, with none of them, as an argument is."""
        self._rules.append(_Rule(target, tuple(sources), constant, around | CONTENTS))

    def _store(self, value: Value, sources: Iterable[Key], around: int, constant: int = NUMBERS) -> None:
        memory = memory_of(value)
        self._written.add(memory)
        self._add(memory, sources, around, constant)

    def _block(self, block: Block, around: int) -> None:
        for op in block.ops:
            if isinstance(op, Write | Copy):
                sources, bits = self._stored(op)
                self._store(op.operands[1], sources, around, bits)
            elif _is_opaque(op):
                for value in (*op.operands, *op.results):
                    self._store(value, (), around, EVERYTHING)
            elif isinstance(op, StYield):
                self._yield(op, around)
            elif isinstance(op, Loop):
                self._loop(op, around)
            elif isinstance(op, Bind):
                self._add(op.var.name, _all_sources(op.operands), around)
            elif (called := Calling(op).callee) is not None:
                self._call(op, called, around)
            elif op.regions:
                for region in op.regions:
                    self._block(region, around)
                self._branches(op, around)
            elif not isinstance(op, View):
                self._compute(op, around)

    def _loop(self, loop: Loop, around: int) -> None:
        own = self.bit(loop.var.name)
        for value, arg in zip(loop.operands, loop.body.args, strict=False):
            self._add(arg, _sources(value), around | own, own)
        self._block(loop.body, around | own)
        for arg, result in zip(loop.body.args, loop.results, strict=False):
            self._add(result, (arg,), around)

    def _branches(self, op: Operation, around: int) -> None:
        """The results of an operation with regions depend on all that these compute, and on what chooses one."""
        if not op.results:
            return
        inner = [key for each in op.walk() if each is not op for key in _all_sources(each.results)]
        keys, bits = self._names(_names_in(op))
        for result in op.results:
            self._add(result, (*_all_sources(op.operands), *inner, *keys), around, bits)

    def _compute(self, op: Operation, around: int) -> None:
        if not op.results:
            return
        origin, sources = NUMBERS, list[Key]()
        stored = Constant(op).stored_array
        if stored is None:
            sources += _all_sources(op.operands)
        elif not self._are_positions(stored):
            origin = ARRAYS
        if isinstance(op, OnSubset):
            keys, bits = self._place(op)
            sources += keys
            origin |= bits | (self._carried.get(memory_of(op.subset_of), NUMBERS) & around)
        if not op.operands:
            keys, bits = self._names(_names_in(op))
            sources += keys
            origin |= bits
        for result in op.results:
            self._add(result, sources, around, origin)

    def _yield(self, op: StYield, around: int) -> None:
        loop = parent_op(op)
        if not isinstance(loop, Loop):
            return
        for value in op.operands[1:]:
            memory = memory_of(value)
            if memory.owner is loop.body:
                self._add(memory, _sources(op.operands[0]), around)

    def _call(self, op: Operation, callee: FuncOp, around: int) -> None:
        """What the callee is given, and what it writes to its arguments for its caller."""
        for value, arg in zip(op.operands, callee.args, strict=False):
            self._add(arg, _sources(value), around)
        self._function(callee)
        for value, arg in zip(op.operands, callee.args, strict=False):
            if arg in self._written:
                self._store(value, (arg,), NUMBERS, around)
        for result in op.results:
            self._add(result, (), around, ARGUMENTS | around)

    def _are_positions(self, name: str) -> bool:
        array = self._module.constants.get(name)
        return array is not None and array.ndim == 1 and len(np.unique(np.diff(array))) <= 1

    def _settle(self) -> None:
        """Apply the rules until they change nothing: after the first time, those whose sources have changed."""
        origins, rules, changed = self._origins, self._rules, set[Key]()
        while rules:
            for target, sources, constant, mask in rules:
                origin = NUMBERS
                for key in sources:
                    origin |= origins.get(key, NUMBERS)
                known = origins.get(target, NUMBERS)
                found = known | constant | (origin & mask)
                if found != known:
                    origins[target] = found
                    changed.add(target)
            rules = [rule for rule in self._rules if not changed.isdisjoint(rule.sources)]
            changed.clear()


def _sources(value: Value) -> list[Key]:
    """A value; a part of a buffer also depends on the indices that select it."""
    found: list[Key] = []
    while isinstance(view := value.defining_op, View):
        for index in view.operands:
            found += _sources(index) if index is not view.source else ()
        value = view.source
    return [*found, value]


def _all_sources(values: Iterable[Value]) -> list[Key]:
    return [key for value in values for key in _sources(value)]


def _is_opaque(op: Operation) -> bool:
    """Whether an operation may write all that it is given: another's kernel."""
    return Calling(op).work != 0 and not isinstance(op, Copy) and Calling(op).callee is None


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
            elif Calling(op).callee is not None:
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
