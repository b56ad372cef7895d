"""Random loops over two states of three dims whose iterations read, reshape, join and yield parts of them in any order.

All values are integers, so that results are exact.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse

OPS = ("add", "sub", "max", "mul")


class StateProgram:
    """One program over [A]x[B]x[C] states, A static; the same seed gives the same one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.rows = self.random.choice([2, 3, 4])
        self.state = f"tensor<{self.rows}x[B]x[C]xsi32>"
        self.lines = list[str]()

    def make(self) -> Module:
        """A function of two states, with both as results."""
        self._loop("%y", "%z", ("%a", "%b"), ["%i"], self.random.choice(["K", "2", "3"]))
        behind, returned = [], "%y, %z"
        if self.random.random() < 0.4:
            behind, returned = [f"%q = tcp.sub(%y, {self.random.choice(['%a', '%z'])}) : {self.state}"], "%q, %z"
        head = f"func @m(%a: {self.state}, %b: {self.state}, %t: tensor<[K]xsi32>)"
        results = f"({self.state}, {self.state}) symbols [B: 0.., C: 0.., K: 0..3]"
        return parse("\n".join([f"{head} -> {results} {{", *self.lines, *behind, f"tcp.return({returned})", "}"]))

    def _loop(self, first: str, second: str, starts: Sequence[str], variables: Sequence[str], trips: str) -> None:
        """A loop on two states, with statements, and at times another loop that continues from it."""
        own = [f"%d{len(variables)}", f"%e{len(variables)}"]
        inits = ", ".join(f"{dest} = {start}" for dest, start in zip(own, starts, strict=True))
        self.lines.append(f"{first}, {second} = gml_st.for {variables[-1]} in 0 to {trips} step 1 ({inits}) {{")
        values = list[str]()
        for _ in range(self.random.randint(2, 5)):
            self._statement(own, values, variables)
        if len(variables) < 2 and self.random.random() < 0.4:
            inner = [self._fresh(), self._fresh()]
            begins = own if self.random.random() < 0.7 else own[::-1]
            self._loop(inner[0], inner[1], begins, [*variables, "%j"], "2")
            self.lines += [f"gml_st.yield({value}, {dest}) full" for value, dest in zip(inner, own, strict=True)]
        self.lines.append(f"}} : {self.state}, {self.state}")

    def _statement(self, states: Sequence[str], values: list[str], variables: Sequence[str]) -> None:
        """Rows, as [B*C], are read, computed of, or yielded."""
        chance = self.random.random()
        if chance < 0.4 or len(values) < 2:
            values.append(self._read(self.random.choice(states), variables))
        elif chance < 0.6:
            pair = [self.random.choice(values[-4:]) for _ in range(2)]
            values.append(self._add(f"tcp.{self.random.choice(OPS)}({pair[0]}, {pair[1]})", "[B*C]"))
        elif chance < 0.67:
            values.append(self._joined(self.random.choice(values[-3:]), self.random.choice(states), variables))
        if values and chance > 0.3:
            self._yield(self.random.choice(values[-3:]), self.random.choice(states), variables)

    def _row(self, variables: Sequence[str]) -> str:
        """The number of a row, in range."""
        last = self.rows - 1
        name = self.random.choice(variables)
        return self.random.choice([
            "0", str(last), f"min({name}, {last})", f"{last} - min({name}, {last})",
            f"mod({name}, 2)", f"mod({name} + 1, 2)",
        ])  # fmt: skip

    def _read(self, state: str, variables: Sequence[str]) -> str:
        row, kind = self._row(variables), self.random.randrange(5)
        if kind == 0:
            part = self._add(f"tcp.slice({state}) {{offsets = [{row}, 0, 0]}}", "1x[B]x[C]")
        elif kind == 1:
            drop = " drop [0]" if self.random.random() < 0.5 else ""
            shape = "[B]x[C]" if drop else "1x[B]x[C]"
            part = self._add(f"gml_st.materialize({state}) tile [{row}, 0, 0] [1, B, C]{drop}", shape)
        elif kind == 2:
            flat = self._add(f"tcp.reshape({state})", f"{self.rows}x[B*C]")
            part = self._add(f"gml_st.materialize({flat}) tile [{row}, 0] [1, B*C]", "1x[B*C]")
        elif kind == 3:
            flat = self._add(f"tcp.reshape({state})", f"[{self.rows}*B*C]")
            start = self.random.choice(["0", f"{self.rows - 1}*B*C", "B*C"])
            return self._add(f"gml_st.materialize({flat}) tile [{start}] [B*C]", "[B*C]")
        else:
            two = self._add(f"gml_st.materialize({state}) tile [0, 0, 0] [2, B, C]", "2x[B]x[C]")
            flat = self._add(f"tcp.reshape({two})", "2x[B*C]")
            part = self._add(f"tcp.slice({flat}) {{offsets = [{self.random.randrange(2)}, 0]}}", "1x[B*C]")
        return self._add(f"tcp.reshape({part})", "[B*C]")

    def _joined(self, value: str, state: str, variables: Sequence[str]) -> str:
        """A row and one that is read of a state, as two rows, of which one is a value again."""
        other = self._read(state, variables)
        parts = [self._add(f"tcp.reshape({v})", "1x[B*C]") for v in (value, other)]
        both = self._add(f"tcp.concat({parts[0]}, {parts[1]}) {{dim = 0}}", "2x[B*C]")
        if self.random.random() < 0.5:
            whole = self._add(f"tcp.reshape({both})", "2x[B]x[C]")
            self.lines.append(f"gml_st.yield({whole}, {state}) tile [{self.rows - 2}, 0, 0] [2, B, C]")
        one = self._add(f"tcp.slice({both}) {{offsets = [{self.random.randrange(2)}, 0]}}", "1x[B*C]")
        return self._add(f"tcp.reshape({one})", "[B*C]")

    def _yield(self, value: str, state: str, variables: Sequence[str]) -> None:
        row = self._row(variables)
        drop = self.random.random() < 0.5
        shape = "[B]x[C]" if drop else "1x[B]x[C]"
        whole = self._add(f"tcp.reshape({value})", shape)
        combine = f" combine tcp.{self.random.choice(OPS[2:])}" if self.random.random() < 0.1 else ""
        dropped = " drop [0]" if drop else ""
        self.lines.append(f"gml_st.yield({whole}, {state}) tile [{row}, 0, 0] [1, B, C]{dropped}{combine}")

    def _add(self, text: str, shape: str) -> str:
        name = self._fresh()
        self.lines.append(f"{name} = {text} : tensor<{shape}xsi32>")
        return name

    def _fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"
