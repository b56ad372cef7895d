"""Random nests of two loops over one destination, as payloads, and the order of their instances at small sizes.

An instance is one run of the body. It reads and writes the elements that it says, so what an order may change is known
without the transforms that are asked: two instances that touch one element, of which one writes it, keep their order.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product

SIZES = [{"N": n, "M": m} for n, m in product(range(6), repeat=2)]
EXTENT, BASE = 72, 20
"""The extent of each dim, and what is added to indices so that none is negative."""

Element = tuple[int, ...]
Order = Callable[["Instance"], tuple[int, ...]]


@dataclass(frozen=True)
class Affine:
    """`i * %i + j * %j + n * N + m * M + constant`."""

    i: int = 0
    j: int = 0
    n: int = 0
    m: int = 0
    constant: int = 0

    def at(self, i: int, j: int, sizes: Mapping[str, int]) -> int:
        return self.i * i + self.j * j + self.n * sizes["N"] + self.m * sizes["M"] + self.constant

    def text(self) -> str:
        parts = [(self.i, "%i"), (self.j, "%j"), (self.n, "N"), (self.m, "M")]
        terms = [f"{factor}*{name}" if factor != 1 else name for factor, name in parts if factor]
        return " + ".join([*terms, str(self.constant)])

    def moved(self, by: int) -> Affine:
        return Affine(self.i, self.j, self.n, self.m, self.constant + by)


@dataclass(frozen=True)
class Instance:
    """One run of a statement of the body."""

    i: int
    j: int
    statement: int
    reads: frozenset[Element]
    writes: frozenset[Element]


@dataclass(frozen=True)
class Statement:
    """`destination[write] = f(destination[read], ..)`, on `size` elements along each dim."""

    destination: str
    write: tuple[Affine, ...]
    reads: tuple[tuple[str, tuple[Affine, ...]], ...]
    size: tuple[int, ...]


@dataclass(frozen=True)
class Nest:
    """`for i in .. { for j in .. { statements } }`. `rows`: an iteration of the outer loop hands the inner one the row
    of the destination that it writes."""

    lower_i: Affine
    upper_i: Affine
    step_i: int
    lower_j: Affine
    upper_j: Affine
    step_j: int
    statements: tuple[Statement, ...]
    rows: bool

    @property
    def destinations(self) -> list[str]:
        return sorted({s.destination for s in self.statements} | {d for s in self.statements for d, _ in s.reads})

    @property
    def rank(self) -> int:
        return len(self.statements[0].write)

    def text(self) -> str:
        """The nest as a payload."""
        kind = f"tensor<{'x'.join([str(EXTENT)] * self.rank)}xsi32>"
        row = self.statements[0].write[0]
        inner_kind = f"tensor<1x{EXTENT}xsi32>" if self.rows else kind
        names = self.destinations
        whole = f"tile [{', '.join('0' * self.rank)}] [{', '.join([str(EXTENT)] * self.rank)}]"
        part = f"tile [{row.text()}, 0] [1, {EXTENT}]" if self.rows else whole

        def listed(prefix: str) -> str:
            return ", ".join(f"%{prefix}{d}" for d in names)

        def begin(results: str, formal: str, given: str) -> str:
            return ", ".join(f"%{formal}{d} = %{given}{d}" for d in names) if results else ""

        lines = [
            f"func @f({', '.join(f'%x{d}: {kind}' for d in names)}, %sizes: tensor<[N]x[M]xsi32>)"
            f" -> ({', '.join([kind] * len(names))}) "
            "symbols [N: 0..9, M: 0..9] {",
            f"{listed('r')} = gml_st.for %i in {self.lower_i.text()} to {self.upper_i.text()} step {self.step_i} "
            f"({begin('r', 'd', 'x')}) {{",
        ]
        if self.rows:
            lines += [f"%t{d} = gml_st.materialize(%d{d}) {part} : {inner_kind}" for d in names]
        lines.append(
            f"{listed('s')} = gml_st.for %j in {self.lower_j.text()} to {self.upper_j.text()} step {self.step_j} "
            f"({begin('s', 'e', 't' if self.rows else 'd')}) {{"
        )
        for number, statement in enumerate(self.statements):
            tile = f"tensor<{'x'.join(map(str, statement.size))}xsi32>"
            value = None
            for k, (name, at) in enumerate(statement.reads):
                subset = self._subset(at, statement.size)
                lines.append(f"%a{number}_{k} = gml_st.materialize(%e{name}) {subset} : {tile}")
                read = f"%a{number}_{k}"
                if value is not None:
                    lines.append(f"%m{number}_{k} = tcp.mul({value}, 3) : {tile}")
                    lines.append(f"%n{number}_{k} = tcp.sub(%m{number}_{k}, {read}) : {tile}")
                    read = f"%n{number}_{k}"
                value = read
            lines.append(
                f"%v{number} = tcp.add({value}, 7) : {tile}"
                if value
                else f"%v{number} = tcp.fill {{value = 7}} : {tile}"
            )
            lines.append(
                f"gml_st.yield(%v{number}, %e{statement.destination}) {self._subset(statement.write, statement.size)}"
            )
        lines.append(f"}} : {', '.join([inner_kind] * len(names))}")
        lines += [f"gml_st.yield(%s{d}, %d{d}) {part}" for d in names]
        lines.append(f"}} : {', '.join([kind] * len(names))}")
        lines += [f"tcp.return({listed('r')})", "}"]
        return "\n".join(lines) + "\n"

    def _subset(self, at: tuple[Affine, ...], size: tuple[int, ...]) -> str:
        offsets = [a.text() for a in at]
        if self.rows:
            offsets[0] = "0"
        return f"tile [{', '.join(offsets)}] [{', '.join(map(str, size))}]"

    def instances(self, sizes: Mapping[str, int]) -> Iterator[Instance]:
        """The runs of the statements, in their order."""

        def elements(at: tuple[Affine, ...], size: tuple[int, ...], i: int, j: int, name: str) -> Iterator[Element]:
            first = [a.at(i, j, sizes) for a in at]
            for offsets in product(*map(range, size)):
                yield (ord(name), *(a + b for a, b in zip(first, offsets, strict=True)))

        for i in range(self.lower_i.at(0, 0, sizes), self.upper_i.at(0, 0, sizes), self.step_i):
            for j in range(self.lower_j.at(i, 0, sizes), self.upper_j.at(i, 0, sizes), self.step_j):
                for number, s in enumerate(self.statements):
                    # What the statement before it has just written, it reads as a value.
                    before = [(b.destination, b.write, b.size) for b in self.statements[:number]]
                    memory = [(name, at) for name, at in s.reads if (name, at, s.size) not in before]
                    reads = [e for name, at in memory for e in elements(at, s.size, i, j, name)]
                    writes = elements(s.write, s.size, i, j, s.destination)
                    yield Instance(i, j, number, frozenset(reads), frozenset(writes))

    def keeps(self, order: Order) -> bool:
        """Whether instances that touch one element, of which one writes it, keep their order in another one, at all
        sizes. Equal places in that order are none: neither instance is before the other."""
        return all(order(a) < order(b) for sizes in reversed(SIZES) for a, b in self._dependent(sizes))

    def parallel(self, loop: str) -> bool:
        """Whether the iterations of a loop, `i` or `j`, may run at once: each depends on itself alone."""
        dependent = (pair for sizes in reversed(SIZES) for pair in self._dependent(sizes))
        return all(a.i == b.i if loop == "i" else a.i != b.i or a.j == b.j for a, b in dependent)

    def _dependent(self, sizes: Mapping[str, int]) -> Iterator[tuple[Instance, Instance]]:
        touching: dict[Element, list[tuple[Instance, bool]]] = defaultdict(list)
        for instance in self.instances(sizes):
            for element in instance.reads | instance.writes:
                touching[element].append((instance, element in instance.writes))
        for found in touching.values():
            for (a, writes), (b, also) in combinations(found, 2):
                if (writes or also) and a is not b:
                    yield a, b


def random_nest(seed: int, statements: int = 1) -> Nest:
    """Ranges that are rectangles, triangles or bands; accesses with the subscripts of stencils, sums, sweeps and
    diagonals."""
    chance = random.Random(seed)
    rank = chance.choice((1, 2, 2))
    rows = rank == 2 and chance.random() < 0.35
    step_i, step_j = chance.choice((1, 1, 1, 2, 3)), chance.choice((1, 1, 1, 2))
    lower_i = Affine(constant=chance.choice((0, 0, 1, 2)))
    upper_i = chance.choice((Affine(n=1), Affine(n=1, constant=-1), Affine(constant=4), Affine(m=1)))
    lower_j, upper_j = (
        Affine(constant=chance.choice((0, 0, 1))),
        chance.choice((Affine(m=1), Affine(m=1), Affine(m=1, constant=-1), Affine(constant=3), Affine(n=1))),
    )
    if chance.random() < 0.15:
        lower_j, upper_j = chance.choice(
            ((Affine(), Affine(i=1, constant=1)), (Affine(i=1), Affine(m=1)), (Affine(i=1), Affine(i=1, constant=3)))
        )
    plain = [(1, 0), (0, 1)] if rank == 2 else [chance.choice(((1, 0), (0, 1), (1, 1), (1, 2), (3, 1)))]
    if rank == 2 and not rows:
        kinds = (
            [(0, 1), (1, 0)],
            [(1, 1), (0, 1)],
            [(1, 0), (1, 0)],
            [(1, -1), (0, 1)],
            [(1, 1), (1, -1)],
            [(2, 0), (0, 1)],
        )
        plain = plain if chance.random() < 0.6 else chance.choice(kinds)
    names = "A" if chance.random() < 0.8 else "AB"

    def access(factors: list[tuple[int, int]], spread: int) -> tuple[Affine, ...]:
        return tuple(
            Affine(i=a, j=b, constant=BASE + (chance.randint(-spread, spread) if k or not rows else 0))
            for k, (a, b) in enumerate(factors)
        )

    def statement() -> Statement:
        size = tuple(1 if rows or chance.random() < 0.7 else 2 for _ in range(rank))
        size = (1, size[1]) if rows else size
        reads = []
        for _ in range(chance.choice((0, 1, 1, 2, 3))):
            factors = plain if rows or chance.random() < 0.85 else chance.sample([*plain, (0, 0), (1, 0)], rank)
            reads.append((chance.choice(names), access(factors, chance.choice((0, 1, 1, 2)))))
        return Statement(chance.choice(names), access(plain, chance.choice((0, 0, 1))), tuple(reads), size)

    found = tuple(statement() for _ in range(statements))
    while len({(s.destination, s.write, s.size) for s in found}) < statements:  # a subset is written once
        found = tuple(statement() for _ in range(statements))
    return Nest(lower_i, upper_i, step_i, lower_j, upper_j, step_j, found, rows)
