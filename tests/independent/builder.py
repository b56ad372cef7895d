"""What all drawers of operations share: a pool of values, fresh names, arguments, fills, constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from tests.independent import numbers
from tests.independent.dims import Dim, Env, Symbol, derived, draw_symbol
from tests.independent.numbers import Num
from tests.independent.program import Compute, Op, Program, Value

STATIC = [0, 1, 1, 2, 3, 3, 4, 5, 7, 8, 8, 9, 12, 13, 15, 16, 16, 17, 20, 24, 31, 32, 33, 40, 47, 48, 64, 65]
CAP = 33
"""The largest value that calls give to a symbol, if its declaration allows that."""
MOST_ELEMENTS = 6000
MOST_ITERATIONS = 60000

DTYPE_WEIGHTS = {
    "f32": 44,
    "f64": 10,
    "f16": 8,
    "bf16": 8,
    "si8": 5,
    "ui8": 5,
    "si32": 7,
    "si16": 3,
    "ui16": 2,
    "ui32": 2,
    "si64": 3,
    "ui64": 2,
    "index": 1,
    "i1": 1,
}


def literal(rng: Random, dtype: str) -> tuple[str, object]:
    """A literal of the dtype: its text and its value."""
    if numbers.is_float(dtype):
        choices = [0.0, 1.0, 0.5, -1.5, 0.25, 3.0, -2.0]
        value = rng.choice(choices)
        return rng.choice([repr(value), "-inf"]) if rng.random() < 0.04 else repr(value), value
    if dtype == "i1":
        truth = rng.random() < 0.5
        return "true" if truth else "false", truth
    low, high = numbers.int_range(dtype)
    number = rng.choice([0, 1, 2, 7, -3, low, high, 100])
    number = number if low <= number <= high else 1
    return str(number), number


class Builder:
    """A program that grows; every drawer adds one operation and the arguments it needs."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        names = rng.sample(["N", "M", "B"], rng.choice([0, 1, 1, 2, 2]))
        self.symbols: list[Symbol] = [draw_symbol(rng, name) for name in names]
        self.program = Program(self.symbols)
        self.cap = {s.name: max(s.least, min(CAP, CAP if s.high is None else s.high)) for s in self.symbols}
        pool = [Dim.static(rng.choice(STATIC)) for _ in range(rng.choice([1, 2, 2, 3]))]
        pool += [Dim.symbol(s.name) for s in self.symbols for _ in range(2)]
        pool += [derived(rng, Dim.symbol(s.name)) for s in self.symbols if rng.random() < 0.3]
        self.pool = pool
        self.values: list[Value] = []
        self.count = 0

    # ------------------------------------------------------------ draws

    def dtype(self) -> str:
        return self.rng.choices(list(DTYPE_WEIGHTS), list(DTYPE_WEIGHTS.values()))[0]

    def float_dtype(self) -> str:
        return self.rng.choices(numbers.FLOATS, [2, 10, 2, 2])[0]

    def dim(self) -> Dim:
        return Dim.static(self.rng.choice(STATIC)) if self.rng.random() < 0.2 else self.rng.choice(self.pool)

    def size(self, shape: Sequence[Dim]) -> int:
        return int(np.prod([max(1, d.value(self.cap)) for d in shape], dtype=np.int64))

    def shape(self, rank: int | None = None, most: int = MOST_ELEMENTS) -> tuple[Dim, ...]:
        rank = self.rng.choices(range(6), [3, 20, 40, 22, 10, 5])[0] if rank is None else rank
        dims = [self.dim() for _ in range(rank)]
        while self.size(dims) > most:
            at = max(range(rank), key=lambda k: dims[k].value(self.cap))
            dims[at] = Dim.static(self.rng.choice([1, 2, 3, 4, 5]))
        return tuple(dims)

    def pick(self, accept: Callable[[Value], bool] = lambda value: True) -> Value:
        """A value of the pool, the latest with preference; a new argument if none is accepted."""
        found = [v for v in self.values if not v.scalar and accept(v)]
        while not found:
            fresh = Value("", self.shape(), self.dtype())
            if accept(fresh):
                return self.argument(fresh.shape, fresh.dtype)
        return found[-1] if self.rng.random() < 0.65 else self.rng.choice(found)

    # ------------------------------------------------------------ values

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def argument(self, shape: tuple[Dim, ...], dtype: str, scalar: bool = False) -> Value:
        value = Value(self.fresh("x"), shape, dtype, scalar)
        self.program.arguments.append(value)
        self.values.append(value)
        return value

    def op(
        self,
        opcode: str,
        operands: list[Value],
        shape: tuple[Dim, ...],
        dtype: str,
        compute: Compute,
        *,
        attributes: str = "",
        roles: Sequence[str] = (),
        init: Value | None = None,
        dims: list[tuple[str, Dim, str]] | None = None,
        operand_dims: dict[str, list[str]] | None = None,
        region: str = "",
        family: str = "",
        scalar: bool = False,
    ) -> Value:
        """Append an operation with one result."""
        name = self.fresh("v")
        result = Value(name, shape, dtype, scalar)
        written = [f"%{v.name}" for v in operands] + ([f"init = %{init.name}"] if init else [])
        parts = [f"%{name} = tcp.{opcode}" + (f"({', '.join(written)})" if written else "")]
        parts += [f"{{{attributes}}}"] if attributes else []
        parts += [f"({{ {region} }})"] if region else []
        text = " ".join(parts) + f" : {result.type}"
        if self.rng.random() < 0.1:
            name = f"layer_{self.count}"
            text += f' name "{name}"'
        everything = [*operands, init] if init else operands
        if dims is None:
            dims = [(f"d{k}", d, "parallel") for k, d in enumerate(shape)]
        names = [*roles, "init"] if init else list(roles)
        by_role = dict(zip(names, everything, strict=True))
        made = Op(name, opcode, everything, [result], text, compute, dims, by_role, operand_dims or {}, family)
        self.program.ops.append(made)
        result.producer = made
        for value in {id(v): v for v in everything}.values():
            value.users.append(made)
        self.values.append(result)
        return result

    def fill(self, shape: tuple[Dim, ...], dtype: str, text: str | None = None) -> Value:
        if text is None:
            text = literal(self.rng, dtype)[0]
        value = {"true": 1.0, "false": 0.0}.get(text)
        number = float(text) if value is None and numbers.is_float(dtype) else int(text) if value is None else value
        static = all(d.is_static for d in shape)
        opcode = "const" if static and self.rng.random() < 0.3 else "fill"

        def compute(env: Env, _: list[Num]) -> list[Num]:
            whole = np.full([d.value(env) for d in shape], number, numbers.DTYPES[dtype])
            return [Num.exact(dtype, whole)]

        return self.op(opcode, [], shape, dtype, compute, attributes=f"value = {text}", family="fill")

    def stored(self, shape: tuple[Dim, ...], dtype: str) -> Value:
        """A constant with an array."""
        name = f"w{len(self.program.constants)}"
        seed = self.rng.randrange(2**32)
        array = draw_array(np.random.default_rng(seed), dtype, tuple(d.value({}) for d in shape), "normal")
        self.program.constants[name] = array
        return self.op(
            "const", [], shape, dtype, lambda env, _: [Num.exact(dtype, array)], attributes=f'constant = "{name}"'
        )

    def partner(self, shape: tuple[Dim, ...], dtype: str) -> Value:
        """A value of this type: one of the pool, an argument, a fill, a constant, or one of fewer dims, broadcast."""
        same = [v for v in self.values if v.shape == shape and v.dtype == dtype and not v.scalar]
        draw = self.rng.random()
        if same and draw < 0.45:
            return self.rng.choice(same)
        if draw < 0.6:
            return self.fill(shape, dtype)
        if draw < 0.85 and shape:
            kept = sorted(self.rng.sample(range(len(shape)), self.rng.randrange(len(shape))))
            lower = tuple(shape[k] for k in kept)
            small = [v for v in self.values if v.shape == lower and v.dtype == dtype]
            source = (
                self.rng.choice(small) if small else self.argument(lower, dtype, not lower and self.rng.random() < 0.4)
            )
            return self.broadcast(source, kept, shape)
        if draw < 0.93 and all(d.is_static for d in shape) and dtype != "i1":
            return self.stored(shape, dtype)
        return self.argument(shape, dtype)

    def broadcast(self, source: Value, placed: list[int], shape: tuple[Dim, ...]) -> Value:
        def compute(env: Env, nums: list[Num]) -> list[Num]:
            extents = [d.value(env) for d in shape]
            middle = [extents[k] if k in placed else 1 for k in range(len(shape))]
            value, error = (np.broadcast_to(a.reshape(middle), extents) for a in (nums[0].value, nums[0].error))
            return [Num(source.dtype, value, error)]

        return self.op(
            "broadcast", [source], shape, source.dtype, compute,
            attributes=f"dims = {placed}", roles=["operand"], operand_dims={"operand": [f"d{k}" for k in placed]},
        )  # fmt: skip


def draw_array(generator: np.random.Generator, dtype: str, shape: tuple[int, ...], style: str) -> numbers.Array:
    """An argument: floats normal, integral, or with infinities, NaN, zeros of both signs and denormals among them."""
    kind = numbers.DTYPES[dtype]
    if dtype == "i1":
        return generator.random(shape) < 0.5
    if not numbers.is_float(dtype):
        low, high = numbers.int_range(dtype)
        if style == "integers":
            low, high = max(low, -9), 9
        return np.asarray(generator.integers(low, high, shape, kind, endpoint=True))
    if style == "integers":
        return generator.integers(-4, 4, shape, endpoint=True).astype(kind)
    values = np.asarray(generator.standard_normal(shape)).astype(kind)
    if style == "special":
        odd = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 2.0**-14, -3.0, 88.0, -100.0, 0.5, 2.5]).astype(kind)
        values = np.where(generator.random(shape) < 0.15, odd[generator.integers(0, len(odd), shape)], values)
    return values
