"""A kernel bound to the arguments of an example: whether it is right, and what is timed."""

from __future__ import annotations

from typing import Final
from zlib import crc32

import numpy as np

import tcpx
from tcpx.tune.problem import Array, Example
from tcpx.verification.numbers import Case, compare

POISON: Final = 0xFF
"""The byte that outputs are filled with: NaN in every float, and the least likely of integers."""


class BoundExample:
    """The call of a kernel on an example. State (`inout`) is copied: the example keeps its start, which `restart` sets
    again. Outputs begin as `POISON`."""

    __slots__ = ("_example", "_results", "_states", "call")

    def __init__(self, kernel: tcpx.Kernel, example: Example) -> None:
        results: list[Array | None] = [None] * len(example.expected)
        arrays, states = list(example.arrays), list[tuple[Array, Array]]()
        for k, result in kernel.signature.states.items():
            arrays[k] = results[result] = np.array(example.arrays[k], order="C")
            states.append((arrays[k], example.arrays[k]))
        made = [_poisoned(e) if held is None else held for held, e in zip(results, example.expected, strict=True)]
        outputs = tuple(array for held, array in zip(results, made, strict=True) if held is None)
        self._example, self._results, self._states = example, tuple(made), tuple(states)
        self.call = kernel.bind(*arrays, out=_out(outputs))

    def restart(self) -> None:
        """Set the state to its start."""
        for state, start in self._states:
            np.copyto(state, start)

    def what_is_wrong(self) -> str | None:
        """Call it once from the start: how the results and the state after it differ from those of the evaluator, or
        that it writes to an argument that is no state; None where it is right."""
        example = self._example
        before = _checksum(example.arrays)
        self.restart()
        self.call()
        sizes = tuple(example.workload.sizes)
        mismatch = compare(Case(sizes, False, example.arrays, example.expected), self._results)
        if mismatch is not None:
            return str(mismatch)
        return "it writes to its arguments" if _checksum(example.arrays) != before else None


def _out(outputs: tuple[Array, ...]) -> Array | tuple[Array, ...] | None:
    """The outputs as a kernel takes them."""
    return outputs[0] if len(outputs) == 1 else outputs or None


def _poisoned(like: Array) -> Array:
    made = np.empty_like(like, order="C")
    made.reshape(-1).view(np.uint8).fill(POISON)
    return made


def _checksum(arrays: tuple[Array, ...]) -> list[int]:
    return [crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data) if array.size else 0 for array in arrays]
