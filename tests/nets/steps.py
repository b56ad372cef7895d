"""Random loops over up to three states of elements that depend on those at their own place, in most programs: rows of a
state, states that are handed on, numbers and rows that an iteration reads, reads behind yields.

All values are integers, so that results are exact.
"""

from __future__ import annotations

import random

LEADING = ("", "", "[K + 2]x", "3x")
ROWS = {"[K + 2]x": ("%t", "%t + 1", "0", "K + 1", "K - %t"), "3x": ("0", "2", "mod(%t, 3)", "mod(%t + 1, 3)")}


class StepsProgram:
    """One program; the same seed gives the same one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pick = self.random.choice
        self.element = self.pick(["[N]", "[N]", "[N]x[M]"])
        self.whole, self.first = ("N", "0") if self.element == "[N]" else ("N, M", "0, 0")
        self.states = [self.pick(LEADING) for _ in range(self.random.randint(1, 3))]
        self.lines = list[str]()
        self.values = list[str]()

    def make(self) -> str:
        """The text of a function of all states, %x, rows %p and numbers %w."""
        self._read()
        for _ in range(self.random.randint(0, 5)):
            self._statement()
        for number in self.random.sample(range(len(self.states)), len(self.states)):
            self._yield(number)
            for _ in range(self.pick([0, 0, 1, 2])):
                self._statement()
            if self.random.random() < 0.2:
                self._yield(number)
        kinds = [f"tensor<{leading}{self.element}xsi32>" for leading in self.states]
        given = ", ".join(f"%a{k}: {kind}" for k, kind in enumerate(kinds))
        begin = ", ".join(f"%d{k} = %a{k}" for k in range(len(kinds)))
        results, types = ", ".join(f"%r{k}" for k in range(len(kinds))), ", ".join(kinds)
        other = "M: 0.., " if "M" in self.element else ""
        return "\n".join([
            f"func @m({given}, %x: {self._kind}, %p: tensor<[K + 1]x{self.element}xsi32>, %w: tensor<[K]xsi32>)",
            f"-> {types if len(kinds) == 1 else f'({types})'} symbols [N: 0.., {other}K: 0..9] {{",
            f"{results} = gml_st.for %t in 0 to K step 1 ({begin}) {{", *self.lines, f"}} : {types}",
            f"tcp.return({results})", "}", "",
        ])  # fmt: skip

    @property
    def _kind(self) -> str:
        return f"tensor<{self.element}xsi32>"

    def _add(self, text: str, kind: str = "") -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text} : {kind or self._kind}")
        self.values += [] if kind else [name]
        return name

    def _row(self, at: str) -> str:
        return f"tile [{at}, {self.first}] [1, {self.whole}] drop [0]"

    def _read(self) -> None:
        number = self.random.randrange(len(self.states))
        leading = self.states[number]
        if leading:
            self._add(f"gml_st.materialize(%d{number}) {self._row(self.pick(ROWS[leading]))}")
        else:
            self._add(self.pick([f"gml_st.materialize(%d{number}) full", f"tcp.add(%d{number}, %x)"]))

    def _statement(self) -> None:
        chance, recent = self.random.random(), self.values[-3:]
        if chance < 0.15:
            self._add(f"gml_st.materialize(%p) {self._row('%t')}")
        elif chance < 0.25:
            number = self._add("gml_st.materialize(%w) tile [%t] [1] drop [0]", "tensor<si32>")
            self._add(f"tcp.add({self.pick(recent)}, broadcast({number}, []))")
        elif chance < 0.45:
            self._read()
        elif chance < 0.48:
            self._add(f"tcp.reverse({self.pick(recent)}) {{dims = [0]}}")
        else:
            name = self.pick(["add", "sub", "max"])
            self._add(f"tcp.{name}({self.pick(recent)}, {self.pick([*recent, '%x', '3'])})")

    def _yield(self, number: int) -> None:
        leading = self.states[number]
        part = self._row(self.pick(ROWS[leading])) if leading else "full"
        others = [f"%d{k}" for k, other in enumerate(self.states) if not (other or leading or k == number)]
        value = self.pick(others) if others and self.random.random() < 0.25 else self.pick(self.values[-3:])
        self.lines.append(f"gml_st.yield({value}, %d{number}) {part}")
