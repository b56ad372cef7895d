"""Random loops over up to three states whose iterations read parts of them that overlap, hand one on as another, and
yield all or a part, in any order.

All values are integers, so that results are exact.
"""

from __future__ import annotations

import random

from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse

WHOLE, PART = "tensor<[N + 4]xsi32>", "tensor<[N]xsi32>"
RANGES = ("0 to T step 1", "1 to T + 2 step 1", "0 to 2*T step 2", "0 to 3 step 1", "1 to 2*T step 3")


class TurnsProgram:
    """One program; the same seed gives the same one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = list[str]()
        self.values: dict[str, list[str]] = {WHOLE: [], PART: []}
        self.count = 0

    def make(self) -> Module:
        """A function of three states, with all of them as results."""
        own = ["%d0", "%d1", "%d2"][: self.random.randint(1, 3)]
        for state in own:
            if self.random.random() < 0.8:
                self._read(state)
        for _ in range(self.random.randint(1, 4)):
            self._statement(own)
        left = self.random.sample(own, len(own))
        for state in left:
            self._yield(own, state)
            if self.random.random() < 0.3:
                self._statement(own)
        if self.random.random() < 0.15:
            self._yield(own, self.random.choice(own))
        inits = [f"{d} = {self.random.choice(['%a', '%b', '%c'])}" for d in own]
        results = ", ".join(f"%r{k}" for k in range(len(own)))
        types = ", ".join([WHOLE] * len(own))
        where = self.random.choice(RANGES)
        text = [
            f"func @m(%a: {WHOLE}, %b: {WHOLE}, %c: {WHOLE}, %n: {PART}, %s: tensor<[T]xsi32>) -> ({types})",
            "symbols [N: 0.., T: 0..4] {",
            f"{results} = gml_st.for %t in {where} ({', '.join(inits)}) {{",
            *self.lines,
            f"}} : {types}",
            f"tcp.return({results})",
            "}",
        ]
        return parse("\n".join(text))

    def _statement(self, own: list[str]) -> None:
        type_ = self.random.choice([WHOLE, PART, PART])
        known = self.values[type_]
        if self.random.random() < 0.4 or not known:
            self._read(self.random.choice(own))
            return
        first, second = (self.random.choice(known[-3:]) for _ in range(2))
        self._add(f"tcp.{self.random.choice(['add', 'sub', 'max'])}({first}, {second})", type_)

    def _read(self, state: str) -> None:
        if self.random.random() < 0.3:
            self._add(f"gml_st.materialize({state}) full", WHOLE)
        elif self.random.random() < 0.2:
            self._add(f"tcp.add({state}, {self.random.choice([state, '1'])})", WHOLE)
        else:
            self._add(f"gml_st.materialize({state}) tile [{self.random.randint(0, 4)}] [N]", PART)

    def _yield(self, own: list[str], state: str) -> None:
        chance = self.random.random()
        if chance < 0.3:
            self.lines.append(f"gml_st.yield({self.random.choice(own)}, {state}) full")
        elif chance < 0.6 and self.values[WHOLE]:
            self.lines.append(f"gml_st.yield({self.random.choice(self.values[WHOLE][-2:])}, {state}) full")
        elif self.values[PART]:
            at = self.random.choice(["2", "2", "0", "min(%t, 4)"])
            self.lines.append(f"gml_st.yield({self.random.choice(self.values[PART][-2:])}, {state}) tile [{at}] [N]")

    def _add(self, text: str, type_: str) -> None:
        self.count += 1
        self.lines.append(f"%v{self.count} = {text} : {type_}")
        self.values[type_].append(f"%v{self.count}")
