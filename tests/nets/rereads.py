"""Random loops whose iterations read again what they have yielded: steps must not move a read past a yield.

All values are integers, so that results are exact.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse

DEPTH = 2
"""So many loops stand in each other at most."""


class RereadProgram:
    """One program: a loop over two matrices, [N]x[N] or of a small size; the same seed gives the same one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.is_symbolic = self.random.random() < 0.3
        self.size = "N" if self.is_symbolic else str(self.random.choice([2, 3, 4]))
        self.whole = self.typed(self.size, self.size)
        self.row = self.typed("1", self.size)

    def make(self) -> Module:
        """A function of two matrices, and at times of a number of iterations, with two results."""
        chance, choice = self.random.random, self.random.choice
        dests, values, inits = ["%d", "%e"], ["%a", "%b"], ["%a", "%b"]
        body = self.statements(self.random.randint(3, 9), values, dests, ["%i"])
        body += [f"gml_st.yield({values[-1]}, {dest}) full" for dest in dests if chance() < 0.6]
        before, behind, returned = "", "", "%y"
        if chance() < 0.3:
            before, inits[self.random.randrange(2)] = f"%p = tcp.add(%a, %b) : {self.whole}", "%p"
        if chance() < 0.4:
            kind = choice(["add", "matmul", "sub"])
            behind, returned = f"%q = tcp.{kind}(%y, %z) : {self.whole}", "%q"
        trips = "K" if chance() < 0.2 else str(self.random.randint(1, 3))
        known = ["N: 1..5"] * self.is_symbolic + ["K: 0..3"] * (trips == "K")
        argument = ", %k: index as [K]" * (trips == "K")
        symbols = f" symbols [{', '.join(known)}]" if known else ""
        lines = [
            f"func @m(%a: {self.whole}, %b: {self.whole}{argument}) -> ({self.whole}, {self.whole}){symbols} {{",
            before,
            f"%y, %z = gml_st.for %i in 0 to {trips} (%d = {inits[0]}, %e = {inits[1]}) {{",
            *body,
            f"}} : {self.whole}, {self.whole}",
            behind,
            f"tcp.return({returned}, %z)",
            "}",
        ]
        return parse("\n".join(lines))

    def typed(self, *sizes: str) -> str:
        return f"tensor<{''.join(f'[{s}]x' if not s.isdigit() else f'{s}x' for s in sizes)}si32>"

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def statements(self, count: int, values: list[str], dests: Sequence[str], variables: Sequence[str]) -> list[str]:
        """Statements that append to `values`, read destinations as often, and yield to the last of these."""
        lines: list[str] = []

        def source() -> str:
            return self.random.choice([*values[-4:], *dests, *dests])

        for _ in range(count):
            kinds = [self.arithmetic] * 7 + [self.moved] * 3 + [self.reduced] * 3 + [self.rows, self.branch]
            kinds += [self.loop] * (len(variables) < DEPTH)
            made = self.random.choice(kinds)(source, dests, variables)
            lines += made
            if made[-1] == "}":  # what a branch makes stays there
                continue
            last = made[-1] if made[-1].startswith("%") else made[0]
            values.append(last.split(" ")[0].rstrip(","))
            if self.random.random() < 0.45:
                dest = dests[-1] if len(variables) > 1 else self.random.choice(dests)
                lines += self.yielded(self.random.choice(values[-3:]), dest, source)
        return lines

    def yielded(self, value: str, dest: str, source: Callable[[], str]) -> list[str]:
        """A yield of all, or of a row."""
        draw = self.random.random()
        if draw < 0.75:
            combines = f" combine tcp.{self.random.choice(['add', 'max'])}" if draw < 0.15 else ""
            return [f"gml_st.yield({value}, {dest}) full{combines}"]
        row = self.fresh()
        part = f"gml_st.materialize({self.random.choice([value, source()])}) tile [0, 0] [1, {self.size}]"
        return [
            f"{row} = {part} : {self.row}",
            f"gml_st.yield({row}, {dest}) tile [{self.size} - 1, 0] [1, {self.size}]",
        ]

    # -- kinds of statements: they end with the line that makes a matrix ---------------------------------------------

    def arithmetic(self, source: Callable[[], str], dests: Sequence[str], variables: Sequence[str]) -> list[str]:
        kind, name = self.random.choice(["add", "sub", "mul", "max", "min", "neg", "scaled"]), self.fresh()
        if kind == "neg":
            return [f"{name} = tcp.neg({source()}) : {self.whole}"]
        if kind == "scaled":
            return [f"{name} = tcp.mul({source()}, 3) : {self.whole}"]
        return [f"{name} = tcp.{kind}({source()}, {source()}) : {self.whole}"]

    def moved(self, source: Callable[[], str], dests: Sequence[str], variables: Sequence[str]) -> list[str]:
        kind, name = self.random.randrange(3), self.fresh()
        if kind == 0:
            return [f"{name} = tcp.transpose({source()}) {{permutation = [1, 0]}} : {self.whole}"]
        if kind == 1 or self.is_symbolic:
            flat = self.typed("N*N" if self.is_symbolic else str(int(self.size) ** 2))
            return [f"{name}f = tcp.reshape({source()}) : {flat}", f"{name} = tcp.reshape({name}f) : {self.whole}"]
        part = self.typed(str(int(self.size) - 1), self.size)
        return [
            f"{name}s = tcp.slice({source()}) {{offsets = [1, 0]}} : {part}",
            f"{name} = tcp.pad({name}s) {{low = [1, 0], value = 5}} : {self.whole}",
        ]

    def reduced(self, source: Callable[[], str], dests: Sequence[str], variables: Sequence[str]) -> list[str]:
        kind, name, dim = self.random.randrange(3), self.fresh(), self.random.randrange(2)
        sums = self.typed(self.size)
        if kind == 0:
            init = f", init = {source()}" if self.random.random() < 0.3 else ""
            return [f"{name} = tcp.matmul({source()}, {source()}{init}) : {self.whole}"]
        if kind == 1:
            return [f"{name}, {name}t = tcp.cumsum({source()}) {{dim = {dim}}} : {self.whole}, {sums}"]
        return [
            f"{name}r = tcp.reduce_{self.random.choice(['max', 'sum'])}({source()}) {{dims = [{dim}]}} : {sums}",
            f"{name} = tcp.broadcast({name}r) {{dims = [{self.random.randrange(2)}]}} : {self.whole}",
        ]

    def branch(self, source: Callable[[], str], dests: Sequence[str], variables: Sequence[str]) -> list[str]:
        name, condition = self.fresh(), f"{self.random.choice(variables)} {self.random.choice(['<', '>=', '=='])} 1"
        return [
            f"gml_st.if {condition} {{",
            f"{name} = tcp.add({source()}, {source()}) : {self.whole}",
            f"gml_st.yield({name}, {dests[-1]}) full",
            "}",
        ]

    def rows(self, source: Callable[[], str], dests: Sequence[str], variables: Sequence[str]) -> list[str]:
        """A loop over rows of one matrix that reads, and at times writes, rows before and behind its own."""
        name, size = self.fresh(), self.size
        index, dest, read = f"%i{name[2:]}", f"%d{name[2:]}", self.random.choice([source(), f"%d{name[2:]}"])
        lines = [
            f"{name} = gml_st.for {index} in {self.random.choice(['0', '0', '1'])} to {size} ({dest} = {source()}) {{",
            f"{name}x = gml_st.materialize({read}) tile [{index}, 0] [1, {size}] : {self.row}",
            f"{name}y = gml_st.materialize({dest}) tile [0, 0] [1, {size}] : {self.row}",
            f"{name}z = tcp.{self.random.choice(['add', 'sub', 'max'])}({name}x, {name}y) : {self.row}",
            f"gml_st.yield({name}z, {dest}) tile [{self.random.choice([index, index, '0'])}, 0] [1, {size}]",
        ]
        if self.random.random() < 0.5:
            again = self.random.choice([dest, read])
            lines += [
                f"{name}w = gml_st.materialize({again}) tile [{index}, 0] [1, {size}] : {self.row}",
                f"{name}q = tcp.add({name}w, {name}x) : {self.row}",
                f"gml_st.yield({name}q, {dest}) tile [{index}, 0] [1, {size}]",
            ]
        return [*lines, f"}} : {self.whole}"]

    def loop(self, source: Callable[[], str], dests: Sequence[str], variables: Sequence[str]) -> list[str]:
        """A loop on one or two destinations, which begin with what a destination outside of it holds, or a value."""
        name = self.fresh()
        index, own = f"%i{name[2:]}", [f"%d{name[2:]}", f"%e{name[2:]}"][: self.random.choice([1, 1, 2])]
        values = [source(), source()]
        inits = ", ".join(f"{dest} = {source()}" for dest in own)
        around = list(dests) if self.random.random() < 0.4 else []
        lines = self.statements(self.random.randint(1, 4), values, [*around, *own], [*variables, index])
        lines += [f"gml_st.yield({self.random.choice(values[-2:])}, {dest}) full" for dest in own]
        results = [name, f"{name}b"][: len(own)]
        head = f"{', '.join(results)} = gml_st.for {index} in 0 to {self.random.randint(1, 3)} ({inits}) {{"
        return [head, *lines, f"}} : {', '.join([self.whole] * len(own))}"]
