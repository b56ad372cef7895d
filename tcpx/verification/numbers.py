"""Is a payload still the same computation: its results on chosen inputs, against those of the payload it came from."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

import numpy as np

from tcpx.inputs import random_inputs
from tcpx.payload.diagnostics import ArgumentError
from tcpx.payload.evaluator import Array, evaluate_func
from tcpx.payload.ir import Module
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.verification.rounding import is_float, unit_roundoff

SPECIAL: Final = (np.nan, np.inf, -np.inf, -0.0, 1e-40)
"""Put into arrays of floats, one in each, in turn."""
ROUNDINGS: Final = 512
"""How many roundings, relative to the largest element of a result, two orders of the same sums may differ by."""
MOST_CALLS: Final = 4
"""Calls of a function that a message names."""


@frozen
class Given:
    """Arguments of a function, by name, and what it gave."""

    inputs: Mapping[str, Array]
    outputs: tuple[Array, ...]


Inputs = frozenset[tuple[str, tuple[int, ...], bytes]]


@frozen
class Case:
    """Inputs at one choice of sizes, and what they give. `known` are calls that were right, by the text that the
    function had when it came up and by the bytes of their arguments."""

    sizes: tuple[tuple[str, int], ...]
    special: bool
    arrays: tuple[Array, ...] = field(repr=False)
    expected: tuple[Array, ...] = field(repr=False)
    known: dict[str, dict[Inputs, Given]] = field(
        default_factory=dict[str, dict[Inputs, Given]], repr=False, compare=False
    )

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes) or "no sizes"
        return f"{sizes}, {'with special values' if self.special else 'random data'}"


@frozen
class Mismatch:
    """Results that differ, at the first element that does; or an evaluation that failed, and why."""

    case: Case
    result: int = 0
    index: tuple[int, ...] = ()
    found: float = 0.0
    wanted: float = 0.0
    wrong: int = 0
    total: int = 0
    failure: str = ""
    function: str = ""
    """The function that was evaluated by itself, with what it is called with; empty for the payload."""
    callee: str = ""
    """The function whose calls no longer give what they gave; empty where none is known."""
    calls: tuple[str, ...] = ()
    """Those of its calls whose arguments have these sizes."""

    def __str__(self) -> str:
        of = f" of @{self.function}" if self.function else ""
        if self.failure:
            return f"at {self.case}: it cannot be evaluated{of}: {self.failure}{self._calls()}"
        place = f"result {self.result}{of}, element {list(self.index)}"
        elements = counted(self.total, "element")
        return (
            f"at {self.case}: {self.wrong} of {elements}; {place} is {self.found!r}, not {self.wanted!r}{self._calls()}"
        )

    def _calls(self) -> str:
        if not self.callee:
            return ""
        more = [f"{len(self.calls) - MOST_CALLS} more"] if len(self.calls) > MOST_CALLS else []
        return f" (@{self.callee}, called as {', '.join([*(f'%{name}' for name in self.calls[:MOST_CALLS]), *more])})"


def cases_of(module: Module, sizes: Sequence[dict[str, int]], seed: int, *, drawn: bool = False) -> tuple[Case, ...]:
    """A case with random data for each choice of sizes, and one with special values for that in the middle.

    Raises ArgumentError for sizes that the payload refuses. Where they are `drawn`, those are left out: it may have
    indices of a dim that is empty, or demand something of several sizes.
    """
    cases: list[Case] = []
    refused: ArgumentError | None = None
    for values in sizes:
        try:
            cases.append(_case(module, values, random_inputs(module, seed, sizes=values), seed))
        except ArgumentError as error:
            refused = error
            if not drawn:
                raise
    if refused is not None and not cases:
        raise refused
    middle = len(cases) // 2
    if any(a.size and is_float(a.dtype) for a in cases[middle].arrays):
        values, arrays = dict(cases[middle].sizes), _with_special_values(cases[middle].arrays)
        cases.insert(middle + 1, _case(module, values, arrays, seed, special=True))
    return tuple(cases)


def _case(
    module: Module, values: Mapping[str, int], arrays: tuple[Array, ...], seed: int, *, special: bool = False
) -> Case:
    return Case(tuple(values.items()), special, arrays, evaluate_func(module, module.main, arrays, seed))


def _with_special_values(arrays: Sequence[Array]) -> tuple[Array, ...]:
    made: list[Array] = []
    for k, array in enumerate(arrays):
        copy = array.copy()
        if copy.size and is_float(copy.dtype):
            at = (7 * k + 3) % copy.size
            copy.reshape(-1)[at] = SPECIAL[k % len(SPECIAL)]
        made.append(copy)
    return tuple(made)


def compare(
    case: Case, results: Sequence[Array], expected: Sequence[Array] | None = None, function: str = ""
) -> Mismatch | None:
    """Integers and booleans have to be equal; floats within `ROUNDINGS`, with NaN and infinities in the same places.
    What is expected is that of the case, or of a function."""
    for position, (found, wanted) in enumerate(
        zip(results, case.expected if expected is None else expected, strict=True)
    ):
        wrong = _wrong(found, wanted)
        if wrong.any():
            index = tuple(int(k[0]) for k in np.nonzero(wrong))
            return Mismatch(
                case,
                position,
                index,
                float(found[index]),
                float(wanted[index]),
                int(wrong.sum()),
                int(wrong.size),
                function=function,
            )
    return None


@frozen
class Deviation:
    """Where an array deviates most from what it should be, and how many of its elements do by more than rounding."""

    index: tuple[int, ...]
    found: float
    wanted: float
    wrong: int
    total: int

    def __str__(self) -> str:
        most = f"the largest deviation is {abs(self.found - self.wanted):.4g}: element {list(self.index)}"
        return f"{self.wrong} of {counted(self.total, 'element')}; {most} is {self.found!r}, not {self.wanted!r}"


def deviation(found: Array, wanted: Array) -> Deviation | None:
    """None where all elements are what `compare` takes. Raises ValueError for arrays of other shapes."""
    if found.shape != wanted.shape:
        raise ValueError(f"required an array of shape {wanted.shape}, found {found.shape}")
    wrong = _wrong(found, wanted)
    if not wrong.any():
        return None
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.where(wrong, np.nan_to_num(np.abs(a - b), nan=np.inf), -1.0)
    index = tuple(int(k) for k in np.unravel_index(int(apart.argmax()), apart.shape))
    return Deviation(index, float(found[index]), float(wanted[index]), int(wrong.sum()), int(wrong.size))


def is_same(found: Array, wanted: Array) -> bool:
    """Whether arrays are the same as `compare` means it."""
    return found.shape == wanted.shape and not bool(_wrong(found, wanted).any())


def _wrong(found: Array, wanted: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    if not is_float(wanted.dtype):
        return np.asarray(found != wanted)
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    with np.errstate(invalid="ignore"):
        close = np.abs(a - b) <= ROUNDINGS * 2 * unit_roundoff(wanted.dtype) * max(scale, 1e-30)
    return np.asarray(~((a == b) | (np.isnan(a) & np.isnan(b)) | (close & np.isfinite(a) & np.isfinite(b))))
