"""Random payloads that make bufferization hard: loops over overlapping subsets, reads behind writes, branches.

All values are integers, so that results are exact; sizes are a symbol N and what loops make of it.
"""

from __future__ import annotations

import random

from tcpx.payload.builder import Builder, tile
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import Module, Value
from tcpx.payload.ops.contract import Matmul
from tcpx.payload.ops.elementwise import Add, Max, Mul, Sub
from tcpx.payload.ops.gml_st import For, Loop, Materialize, Parallel
from tcpx.payload.ops.memory import Empty
from tcpx.payload.ops.movement import Broadcast, Fill, Transpose
from tcpx.payload.ops.reduce import ReduceSum
from tcpx.payload.ops.views import Pad, Reshape
from tcpx.payload.sizes import Dim, Symbol, Var, minimum
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.subsets import Tile
from tcpx.payload.types import TensorType, si32

WIDTH = 4
DEPTH = 2
Shape = tuple[Dim, ...]


class RandomProgram:
    """One program; the same seed gives the same one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.builder = Builder()
        self.symbol = Symbol("N", 0, 40)
        self.count = 0

    def make(self) -> Module:
        """A function of one or two arguments with one to three results, all [N]x4. The operations are v0, v1, .."""
        whole: Shape = (self.symbol.size(), WIDTH)
        args = {f"a{k}": TensorType(whole, si32) for k in range(self.random.choice([1, 2]))}
        with self.builder.func("f", args, [self.symbol]) as given:
            values = list(given)
            self.statements(self.random.randrange(2, 7), values, whole, 0, [], [])
            returned = [self.pick(values[-4:]) for _ in range(self.random.choice([1, 1, 2, 3]))]
            self.builder.returns(*returned)
        module = self.builder.finish()
        for number, op in enumerate(module.main.walk()):
            if isinstance(op, Tileable):
                op.name = op.result.name = f"v{number}"
        return module

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, values: list[Value]) -> Value:
        return self.random.choice(values)

    def recent(self, values: list[Value]) -> Value:
        """A value, mostly one of the last."""
        return self.pick(values[-3:] if self.chance(0.7) else values)

    def combine(self, values: list[Value]) -> Value:
        kind = self.random.choice([Add, Sub, Max, Mul])
        return self.builder.op(kind, [self.pick(values), self.pick(values)])

    def statements(
        self, count: int, values: list[Value], shape: Shape, depth: int, read: list[Value], variables: list[Var]
    ) -> None:
        """Append values of `shape`, made from each other; `read` are destinations of the loops around."""
        for _ in range(count):
            choice = self.random.random()
            if choice < 0.35 or (len(shape) == 1 and choice >= 0.42):
                values.append(self.combine(values))
            elif choice < 0.42:
                values.append(self.builder.op(Fill, [], values[0].type, value=self.random.randrange(5)))
            elif choice < 0.68:
                values.append(self.on_matrices(choice, values, shape))
            elif choice < 0.75:
                values += self.branches(values, shape, depth, read, variables)
            elif depth < DEPTH:
                values += self.loop(values, shape, depth, read, variables)

    def on_matrices(self, choice: float, values: list[Value], shape: Shape) -> Value:
        builder, value = self.builder, self.pick(values)
        rows = shape[0]
        if choice < 0.50:
            sums = builder.value(ReduceSum([value], [TensorType((rows,), si32)], {"dims": (1,)}))
            return builder.value(Broadcast.of(sums, [0], value.type))
        if choice < 0.56:
            turned = builder.value(Transpose.of(value, [1, 0]))
            square = builder.value(Matmul([value, turned], [TensorType((rows, rows), si32)]))
            init = [self.pick(values)] if self.chance(0.6) else []
            return builder.value(Matmul([square, self.pick(values), *init], [value.type]))
        if choice < 0.62:
            flat = builder.value(Reshape([value], [TensorType((rows * WIDTH,), si32)]))
            flat = builder.op(Add, [flat, flat]) if self.chance(0.5) else flat
            return builder.value(Reshape([flat], [value.type]))
        if choice < 0.65:
            padded = builder.value(Pad.of(value, (rows + 3, WIDTH + 1), self.random.randrange(9)))
            padded = builder.op(Add, [padded, padded]) if self.chance(0.5) else padded
            offsets = [self.random.choice([0, 1, 2]), self.random.choice([0, 1])]
            return builder.value(Materialize.of(padded, tile(offsets, [rows, WIDTH])))
        padded = builder.value(Pad.of(value, (2 * rows + 1, WIDTH), self.random.randrange(9)))
        every_second = tile([self.random.choice([0, 1]), 0], [rows, WIDTH], [2, 1])
        return builder.value(Materialize.of(padded, every_second))

    def condition(self, variables: list[Var]) -> Predicate:
        size = self.random.choice([self.symbol.size(), *(v.size() for v in variables)])
        return Predicate.of(self.random.choice(["<", ">=", "=="]), size, self.random.randrange(6))

    def branches(
        self, values: list[Value], shape: Shape, depth: int, read: list[Value], variables: list[Var]
    ) -> list[Value]:
        results = self.random.choice([1, 1, 2])
        made = self.builder.conditional(self.condition(variables), [values[0].type] * results)
        for block in made.regions:
            with self.builder.inside(block):
                inside = list(values)
                self.statements(self.random.randrange(3), inside, shape, depth + 2, read, variables)
                self.builder.hands_out(*(self.recent(inside) for _ in range(results)))
        return made.results

    # -- loops -----------------------------------------------------------------------------------------------------

    def name(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def loop(
        self, values: list[Value], shape: Shape, depth: int, read: list[Value], variables: list[Var]
    ) -> list[Value]:
        """A loop over rows, blocks of rows, or repetitions, with one to three destinations."""
        if len(shape) == 1:
            return [self.combine(values)]
        kind = self.random.choice(["blocks", "blocks", "parallel", "rows", "repeat"])
        step = 1 if kind == "rows" else self.random.choice([1, 2, 3])
        inits: dict[str, Value] = {}
        empty: list[bool] = []
        for _ in range(self.random.choice([1, 1, 1, 2, 2, 3])):
            empty.append(kind != "repeat" and self.chance(0.3))
            init = self.builder.op(Empty, [], values[0].type) if empty[-1] else self.pick(values)
            if not empty[-1] and self.chance(0.4):
                init = self.builder.value(Materialize.of(init, Tile.full(shape)))
            inits[self.name("d")] = init
        bounds = (0, self.random.choice([0, 1, 2, 3]), 1) if kind == "repeat" else (0, shape[0], step)
        with self.builder.loop(Parallel if kind == "parallel" else For, self.name("i"), bounds, inits) as made:
            self.body(made, kind, values, shape, depth, empty, read, [*variables, made.var])
        return made.results

    def body(
        self,
        loop: Loop,
        kind: str,
        values: list[Value],
        shape: Shape,
        depth: int,
        empty: list[bool],
        read: list[Value],
        variables: list[Var],
    ) -> None:
        here: Dim = 0 if kind == "repeat" else loop.var.size()
        step = loop.var.step if kind != "repeat" else 1
        rows = shape[0] if kind == "repeat" else minimum(step, shape[0] - loop.var.size())

        def part(offset: Dim) -> Tile:
            return tile([offset, 0], [1, WIDTH], drop=[0]) if kind == "rows" else tile([offset, 0], [rows, WIDTH])

        def elsewhere(probability: float) -> Tile:
            return part(0 if self.chance(probability) else here)

        def materialize(value: Value, subset: Tile) -> Value:
            return self.builder.value(Materialize.of(value, subset))

        started = [d for d, is_empty in zip(loop.destinations, empty, strict=True) if not is_empty]
        own = 0.0 if kind == "parallel" else 0.3
        inside = [materialize(v, elsewhere(0.4)) for v in values if self.chance(0.4)]
        inside += [materialize(d, part(0)) for d in read if self.chance(0.3)]
        inside += [materialize(d, elsewhere(own)) for d in started if self.chance(0.7)]
        inner = part(here).shape
        if not inside:
            inside.append(self.builder.op(Fill, [], TensorType(inner, si32), value=7))
        around = [*read, *(started if kind != "parallel" else [])]  # others write what lies elsewhere
        self.statements(self.random.randrange(4), inside, inner, depth + 1, around, variables)
        order = list(zip(loop.destinations, empty, strict=True))
        self.random.shuffle(order)
        for dest, is_empty in order:
            if depth < DEPTH and self.chance(0.3):
                self.statements(1, inside, inner, depth + 1, around, variables)
            choice = 0.0 if is_empty else self.random.random()
            if choice < 0.6:
                self.builder.yields(self.recent(inside), dest, part(here))
            elif choice < 0.8:
                self.guarded(inside, dest, part(here), loop.var)
            elif choice < 0.9 and kind != "parallel":
                self.builder.yields(self.pick(inside), dest, part(0))
            if not is_empty and self.chance(0.25):
                inside.append(materialize(dest, elsewhere(own)))

    def guarded(self, inside: list[Value], dest: Value, subset: Tile, var: Var) -> None:
        """A yield in one branch or in both."""
        made = self.builder.conditional(self.condition([var]))
        both = self.chance(0.5)
        for block in made.regions:
            with self.builder.inside(block):
                if block is made.then or both:
                    given = [*inside, self.combine(inside)] if self.chance(0.6) else inside
                    self.builder.yields(given[-1] if self.chance(0.7) else self.pick(given), dest, subset)
