"""Counts what a kernel computes of constants alone in each call, and stores: packing, transposes, casts of weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tcpx.payload.ir import Block, FuncOp, Module, Operation, Value
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.memory import Alloc, Copy, memory_of
from tcpx.payload.ops.memory import View as BufferView
from tcpx.payload.ops.vector import Write


def copies_of_constants(module: Module) -> list[str]:
    """The stores of a lowered module whose values depend on stored constants, and on nothing else that a call is
    given: `@f: %w.p = vector.write`. Numbers and positions, which count in even steps, are no such constants."""
    found = _Constants(module)
    return [
        f"@{func.name}: %{memory_of(op.operands[1]).name} = {op.opcode}"
        for func in module.funcs.values()
        for op in _walk(func)
        if isinstance(op, Write | Copy) and found.is_computed_of_arrays(op.operands[0])
    ]


class _Constants:
    """What values are in every call: arrays that are stored, what is computed of them, and numbers."""

    def __init__(self, module: Module) -> None:
        self._known: dict[Value, frozenset[str] | None] = {}
        self._writers: dict[Value, list[Operation]] = {}
        self._module = module
        for func in module.funcs.values():
            for op in _walk(func):
                for k, value in enumerate(op.operands):
                    if isinstance(memory_of(value).defining_op, Alloc) and not _only_reads(op, k):
                        self._writers.setdefault(memory_of(value), []).append(op)

    def is_computed_of_arrays(self, value: Value) -> bool:
        """Whether a value depends on stored arrays alone, at least one of them."""
        return bool(self._arrays(value))

    def _arrays(self, value: Value) -> frozenset[str] | None:
        """The arrays that a value is computed of; None if it depends on more. A value that is being asked about, as in
        a loop, adds nothing."""
        if value not in self._known:
            self._known[value] = frozenset()
            self._known[value] = self._computed(value)
        return self._known[value]

    def _computed(self, value: Value) -> frozenset[str] | None:
        op = value.defining_op
        if op is None:
            return self._of_argument(value)
        if op.stored_array is not None:
            return frozenset(() if self._are_positions(op.stored_array) else {op.stored_array})
        if isinstance(op, Alloc):
            written = self._writers.get(value, [])
            return self._joined(w.operands[0] for w in written) if all(map(_is_store, written)) else None
        if isinstance(op, Loop):
            ends = [v for inner in op.body.ops[-1:] for v in inner.operands]
            return self._joined([*op.operands, *ends])
        if op.regions:
            return None
        return self._joined(op.operands)

    def _are_positions(self, name: str) -> bool:
        array = self._module.constants.get(name)
        return array is not None and array.ndim == 1 and len(np.unique(np.diff(array))) <= 1

    def _of_argument(self, value: Value) -> frozenset[str] | None:
        func = value.func
        if func is not None and value in func.args:
            calls, k = func.callers(), func.args.index(value)
            return self._joined(call.operands[k] for call in calls) if calls else None
        loop = value.owner.parent if isinstance(value.owner, Block) else None
        if not isinstance(loop, Loop) or value not in loop.body.args:
            return None
        carried = loop.body.args.index(value)
        return self._joined([loop.operands[carried], *loop.body.ops[-1].operands])

    def _joined(self, values: Iterator[Value] | list[Value]) -> frozenset[str] | None:
        joined: frozenset[str] = frozenset()
        for value in values:
            found = self._arrays(value)
            if found is None:
                return None
            joined |= found
        return joined


def _walk(func: FuncOp) -> Iterator[Operation]:
    for op in func.body.ops:
        yield from op.walk()


def _is_store(op: Operation) -> bool:
    return isinstance(op, Write | Copy)


def _only_reads(op: Operation, k: int) -> bool:
    return isinstance(op, BufferView) or (_is_store(op) and k == 0) or op.opcode in _READS


_READS = ("vector.read", "vector.gather", "buffer.prefetch", "buffer.lead")
