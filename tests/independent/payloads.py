"""Programs: some of common forms, so that there is something to fuse, some at random."""

from __future__ import annotations

from random import Random

from tests.independent import movement, norms, numbers, products
from tests.independent.builder import Builder
from tests.independent.dims import Dim
from tests.independent.program import Program, Value
from tests.independent.windows import convolution


def chain(b: Builder, v: Value, length: int) -> Value:
    """An elementwise chain."""
    for _ in range(length):
        drawers = [movement.binary] * 5 + [movement.ternary, movement.cast]
        if numbers.is_float(v.dtype):
            drawers += [movement.unary] * 3 + [movement.scaled]
        v = b.rng.choice(drawers)(b, v)
    return v


def layer(b: Builder) -> Value:
    """A product, of something computed or of an argument, with what follows it."""
    rank = b.rng.choice([2, 2, 2, 3, 1])
    source = b.argument(b.shape(rank, 2000), b.dtype())
    if b.rng.random() < 0.35:
        source = chain(b, source, b.rng.choice([1, 1, 2]))
    if b.rng.random() < 0.12 and source.shape:
        source = movement.padded(b, source)
    if b.rng.random() < 0.12 and len(source.shape) > 1:
        source = movement.transpose(b, source)
    draw = products.matmul if rank == 2 and b.rng.random() < 0.6 else products.contract
    v = chain(b, draw(b, source), b.rng.choice([0, 1, 1, 2, 3]))
    if b.rng.random() < 0.3 and v.shape:
        v = b.rng.choice([products.softmax, products.reduction, movement.transpose, products.reduction])(b, *_fit(v))
    if b.rng.random() < 0.25:
        v = chain(b, v, 1)
    return v


def quantized(b: Builder) -> Value:
    """A product of narrow factors: cast and less a zero point, or as they are; with an epilogue."""
    narrow = b.rng.choice(["ui8", "si8", "si8", "si16", "f16", "bf16"])
    source = b.argument(b.shape(2, 2000), narrow)
    wide = "f32" if numbers.is_float(narrow) else "si32"
    v, draw = source, b.rng.random()
    if draw < 0.65:
        v = movement.cast(b, v, wide)
    if draw < 0.4:
        zero = b.fill(v.shape, wide) if b.rng.random() < 0.7 else b.partner(v.shape, wide)
        v = movement.elementwise(b, "sub", [v, zero], wide)
    other = narrow if numbers.is_float(narrow) else b.rng.choice(["si8", "ui8", "si8", narrow])
    v = products.matmul(b, v, other if draw > 0.65 or b.rng.random() < 0.6 else wide, wide)
    return chain(b, movement.cast(b, v, "f32") if b.rng.random() < 0.5 else v, b.rng.choice([0, 1, 2]))


def _fit(v: Value) -> tuple[Value, ...]:
    return (v,) if len(v.shape) >= 2 else ()


def reduced(b: Builder) -> Value:
    """Elementwise, reduced, and broadcast again: normalizations."""
    v = chain(b, b.argument(b.shape(b.rng.choice([1, 2, 2, 3])), b.dtype()), b.rng.choice([0, 1, 2]))
    if b.rng.random() < 0.3 and numbers.is_float(v.dtype) and v.shape:
        return b.rng.choice([products.softmax, norms.layer_norm])(b, v)
    if not v.shape:
        return v
    total = products.reduction(b, v)
    return chain(b, total, b.rng.choice([0, 1, 2]))


def grouped(b: Builder) -> Value:
    """A norm of groups of channels, and elementwise operations."""
    return chain(b, norms.groups(b), b.rng.choice([0, 1, 2]))


def windows(b: Builder) -> Value:
    v = products.generic(b)
    return chain(b, v, b.rng.choice([0, 1, 1, 2]))


def filters(b: Builder) -> Value:
    """A convolution, and elementwise operations."""
    return chain(b, convolution(b), b.rng.choice([0, 1, 1, 2]))


WALK = [
    (movement.unary, 4),
    (movement.binary, 8),
    (movement.ternary, 3),
    (movement.scaled, 1),
    (movement.cast, 3),
    (movement.broadcast, 3),
    (movement.transpose, 3),
    (movement.padded, 3),
    (movement.taken, 3),
    (movement.reshape, 3),
    (movement.loop, 2),
    (products.contract, 5),
    (products.matmul, 3),
    (products.reduction, 4),
    (products.softmax, 2),
    (norms.layer_norm, 1),
    (products.generic, 6),
]


def walk(b: Builder) -> Value:
    for _ in range(b.rng.randint(1, 7)):
        drawer = b.rng.choices([d for d, _ in WALK], [w for _, w in WALK])[0]
        drawer(b)
    return b.values[-1]


FORMS = [(layer, 10), (quantized, 4), (reduced, 4), (grouped, 2), (windows, 4), (filters, 3), (walk, 10)]


def draw_program(rng: Random) -> Program:
    """A program with one to three results and at most a few arguments."""
    b = Builder(rng)
    last = rng.choices([f for f, _ in FORMS], [w for _, w in FORMS])[0](b)
    program = b.program
    if not program.ops:
        last = movement.binary(b, last)
    results = [last]
    sinks = [v for v in b.values if v.producer and not v.users and v is not last]
    results += sinks[: rng.choice([1, 2, 2])]
    if rng.random() < 0.08:
        results.append(rng.choice([v for v in b.values if not v.scalar]))
    if rng.random() < 0.2:
        rng.shuffle(results)
    program.results = [r for k, r in enumerate(results) if r not in results[:k]][:3]
    for symbol in program.symbols:
        if not any(d.text == symbol.name for a in program.arguments for d in a.shape):
            b.argument((Dim.symbol(symbol.name),), "f32")
    if rng.random() < 0.2:
        program.strided = {a.name for a in program.arguments if len(a.shape) >= 2 and rng.random() < 0.7}
        program.strided_results = {k for k, r in enumerate(program.results) if len(r.shape) >= 2 and rng.random() < 0.5}
    program.with_helper = rng.random() < 0.05
    return program
