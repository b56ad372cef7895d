"""Drawn programs: values, operations, their text, and their meaning by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from tests.independent import numbers
from tests.independent.dims import Dim, Env, Symbol
from tests.independent.numbers import Num

Compute = Callable[[Env, list[Num]], list[Num]]


@dataclass(eq=False)
class Value:
    """A value of a program; `scalar` is of type `f32` instead of `tensor<f32>`."""

    name: str
    shape: tuple[Dim, ...]
    dtype: str
    scalar: bool = False
    producer: Op | None = None
    users: list[Op] = field(default_factory=list)

    @property
    def type(self) -> str:
        if self.scalar:
            return self.dtype
        return f"tensor<{''.join(d.in_type + 'x' for d in self.shape)}{self.dtype}>"

    def elements(self, env: Env) -> int:
        return int(np.prod([d.value(env) for d in self.shape], dtype=np.int64))


@dataclass(eq=False)
class Op:
    """An operation: how it is written, how it is computed, and what a schedule may call its dims and operands."""

    name: str
    opcode: str
    operands: list[Value]
    results: list[Value]
    text: str
    compute: Compute
    dims: list[tuple[str, Dim, str]]
    """Name, extent and kind of each iteration dim."""
    roles: dict[str, Value] = field(default_factory=dict)
    """Operands by the names that schedules use."""
    operand_dims: dict[str, list[str]] = field(default_factory=dict)
    """The dims that an operand is indexed by, where it is by dims alone."""
    family: str = ""
    fewer: int = 0
    """The `m` of the step `winograd` that a schedule has for it; 0 without."""


@dataclass(eq=False)
class Program:
    """A function, its symbols, its constants, and what draws its arguments."""

    symbols: list[Symbol]
    arguments: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    constants: dict[str, numbers.Array] = field(default_factory=dict)
    strided: set[str] = field(default_factory=set)
    strided_results: set[int] = field(default_factory=set)
    with_helper: bool = False

    def text(self) -> str:
        lines = ['constants "stored.npz"'] if self.constants else []
        if self.with_helper:
            lines.append("func @helper(%x: tensor<4xf32>) -> tensor<4xf32> {\n  tcp.return(%x)\n}")
        arguments = ", ".join(
            f"%{a.name}: {a.type}{' strided' if a.name in self.strided else ''}" for a in self.arguments
        )
        types = [r.type + (" strided" if k in self.strided_results else "") for k, r in enumerate(self.results)]
        results = types[0] if len(types) == 1 else f"({', '.join(types)})"
        symbols = f" symbols [{', '.join(s.declaration for s in self.symbols)}]" if self.symbols else ""
        name = "main" if self.with_helper else "drawn"
        lines.append(f"func @{name}({arguments}) -> {results}{symbols} {{")
        lines += [f"  {op.text}" for op in self.ops]
        lines.append(f"  tcp.return({', '.join('%' + r.name for r in self.results)})")
        return "\n".join([*lines, "}"]) + "\n"

    def draw_sizes(self, rng: Random, limit: int) -> dict[str, int]:
        return {s.name: s.draw(rng, limit) for s in self.symbols}

    def run(self, env: Env, arrays: Mapping[str, numbers.Array]) -> list[Num]:
        """The results for these sizes and arguments: the reference."""
        known = {id(a): Num.exact(a.dtype, arrays[a.name]) for a in self.arguments}
        with np.errstate(all="ignore"):
            for op in self.ops:
                found = op.compute(env, [known[id(v)] for v in op.operands])
                known.update({id(v): n for v, n in zip(op.results, found, strict=True)})
        return [known[id(r)] for r in self.results]


# ---------------------------------------------------------------- meaning of the operations on indexed operands

Index = Callable[[Mapping[str, numbers.Array]], Any]
"""An index expression: from the iteration dims, as open grids, to positions."""


def grids(extents: Mapping[str, int]) -> dict[str, numbers.Array]:
    """One array per dim, along an axis of its own."""
    rank = len(extents)
    return {
        name: np.arange(extent).reshape([extent if k == at else 1 for k in range(rank)])
        for at, (name, extent) in enumerate(extents.items())
    }


def gathered(operand: Num, indices: list[Index], grid: Mapping[str, numbers.Array], shape: tuple[int, ...]) -> Num:
    """The elements that an operand gives to each iteration."""
    if not indices:
        where: Any = ()
    else:
        where = tuple(np.broadcast_to(np.asarray(index(grid)), shape) for index in indices)
    value, error = operand.value[where], operand.error[where]
    return Num(operand.dtype, np.broadcast_to(value, shape), np.broadcast_to(error, shape))


def reordered(found: Num, left: list[str], wanted: list[str]) -> Num:
    """Dims in the order of the result."""
    order = [left.index(name) for name in wanted]
    return Num(found.dtype, found.value.transpose(order), found.error.transpose(order))


def contraction(
    env: Env, lhs: Num, rhs: Num, init: Num | None, dims: list[tuple[str, Dim, str]], maps: list[list[str]], dtype: str
) -> Num:
    """sum of lhs * rhs, both cast to the dtype of the result, over the dims that the result lacks."""
    extents = {name: dim.value(env) for name, dim, _ in dims}
    shape, grid = tuple(extents.values()), grids(extents)
    axes = tuple(k for k, name in enumerate(extents) if name not in maps[2])

    def read(operand: Num, names: list[str]) -> Num:
        return gathered(operand, [lambda g, n=name: g[n] for name in names], grid, shape)

    a, b = read(numbers.cast(lhs, dtype), maps[0]), read(numbers.cast(rhs, dtype), maps[1])
    terms = numbers.mul(a, b)
    total = numbers.reduce(terms, axes, "add")
    if lhs.dtype == rhs.dtype == "bf16" and dtype == "f32":
        extra = numbers.flushed_products(a, b, terms, axes)
        total = Num(dtype, total.value, np.where(total.error == 0, 0.0, total.error + extra))
    found = reordered(total, [name for name in extents if name in maps[2]], maps[2])
    if init is None:
        return found
    reach = reordered(numbers.reach(terms, axes), [name for name in extents if name in maps[2]], maps[2])
    return joined(found, init, "add", int(np.prod([shape[k] for k in axes], dtype=np.int64)), reach)


def joined(found: Num, init: Num, combiner: str, count: int, reach: Num) -> Num:
    """With an init, from which a computation may also go on: then each of `count` steps rounds it once more.

    `reach` is the sum of the magnitudes of the terms. A sum of integers is exact in any order, also from an integer on.
    """
    result = numbers.COMBINE[combiner](init, found)
    if combiner != "add" or not numbers.is_float(result.dtype):
        return result
    with np.errstate(invalid="ignore"):
        size = init.size_of()
        whole = (init.value == np.rint(init.value)) & (reach.value + size <= 1 / numbers.UNIT[result.dtype])
        exact = (result.error == 0) & (whole | ~np.isfinite(result.value))
        more = numbers.gamma(result.dtype, count) * (size + np.where(found.error == 0, reach.value, 0))
    return Num(result.dtype, result.value, np.where(exact, 0.0, result.error + more).astype(np.float64))
