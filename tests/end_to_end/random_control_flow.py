"""Programs of branches and loops on values within one another, drawn at random: `program(seed)`."""

from __future__ import annotations

from random import Random
from typing import Final

T: Final = "tensor<[N]x4xf32>"
UNARY: Final = ("neg", "abs", "relu")
BINARY: Final = ("add", "sub", "max", "min")


class Drawn:
    """Draws statements; `values` are those that may be read where the next one stands."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def statements(self, values: list[str], count: int, depth: int) -> list[str]:
        kinds = [self.operation] * 3 + ([self.branch, self.repeated, self.counted] if depth < 2 else [])
        return [line for _ in range(count) for line in self.random.choice(kinds)(values, depth)]

    def operation(self, values: list[str], _: int) -> list[str]:
        made, a, b = self.name(), self.random.choice(values), self.random.choice(values)
        opcode = self.random.choice([*UNARY, *BINARY, "matmul", "reverse"])
        operands = {"matmul": f"{a}, %w"}.get(opcode, f"{a}, {b}" if opcode in BINARY else a)
        attributes = f" {{dims = [{self.random.choice([0, 1])}]}}" if opcode == "reverse" else ""
        values.append(made)
        return [f"{made} = tcp.{opcode}({operands}){attributes} : {T}"]

    def condition(self, values: list[str]) -> tuple[list[str], str]:
        """A truth value, of a sum that is an integer: it does not depend on the order of the sum."""
        total, element, number, made = (self.name() for _ in range(4))
        return [
            f"{total} = tcp.reduce_sum({self.random.choice(values)}) {{dims = [0, 1]}} : tensor<f32>",
            f"{element} = gml_st.materialize({total}) point [] : f32",
            f"{number} = tcp.const {{value = {self.random.choice(['0.5', '1.5', '-2.5'])}}} : f32",
            f"{made} = tcp.{self.random.choice(['less', 'greater'])}({element}, {number}) : i1",
        ], made

    def branch(self, values: list[str], depth: int) -> list[str]:
        lines, condition = self.condition(values)
        results = [self.name() for _ in range(self.random.choice([1, 1, 2]))]
        lines.append(f"{', '.join(results)} = gml_st.if {condition} {{")
        for end in ("} else {", f"}} : {', '.join([T] * len(results))}"):
            inner = list(values)
            lines += self.statements(inner, self.random.randint(0, 3), depth + 1)
            lines += [f"tcp.yield({', '.join(self.random.choice(inner) for _ in results)})", end]
        values += results
        return lines

    def carried(self, values: list[str]) -> tuple[list[str], list[str], str]:
        destinations = [self.name() for _ in range(self.random.choice([1, 2, 3]))]
        inits = ", ".join(f"{d} = {self.random.choice(values)}" for d in destinations)
        return destinations, [self.name() for _ in destinations], inits

    def yields(self, inner: list[str], destinations: list[str], depth: int) -> list[str]:
        """To some destinations; between yields, what is read of them is new."""
        lines: list[str] = []
        for destination in self.random.sample(destinations, self.random.randint(1, len(destinations))):
            lines.append(f"gml_st.yield({self.random.choice(inner)}, {destination}) full")
            if self.random.random() < 0.3:
                lines += self.statements(inner, 1, depth + 1)
        return lines

    def counted(self, values: list[str], depth: int) -> list[str]:
        destinations, results, inits = self.carried(values)
        inner, end = [*values, *destinations], self.random.choice(["0", "1", "3", "min(N, 2)"])
        head = f"{', '.join(results)} = gml_st.for {self.name()} in 0 to {end} step 1 ({inits}) {{"
        body = self.statements(inner, self.random.randint(1, 4), depth + 1)
        body += self.yields(inner, destinations, depth)
        values += results
        return [head, *body, f"}} : {', '.join([T] * len(results))}"]

    def repeated(self, values: list[str], depth: int) -> list[str]:
        lines, first = self.condition(values)
        destinations, results, inits = self.carried(values)
        go, last, inner = self.name(), self.name(), [*values, *destinations]
        bounds = f"{self.name()} in 0 to {self.random.choice([1, 2, 4])} step 1"
        lines.append(f"{last}, {', '.join(results)} = gml_st.while {bounds} ({go} = {first}, {inits}) {{")
        lines += self.statements(inner, self.random.randint(1, 3), depth + 1)
        is_early, changed = self.random.random() < 0.5, self.yields(inner, destinations, depth)
        test, again = self.condition(inner)
        decided = [*test, f"gml_st.yield({again}, {go}) full"]
        lines += [*decided, *changed] if is_early and not changed[1:] else [*changed, *decided]
        values += results
        return [*lines, f"}} : i1, {', '.join([T] * len(results))}"]


def program(seed: int) -> str:
    """A function of x, y and w; in every third one, y is state."""
    drawn, values = Drawn(seed), ["%x", "%y"]
    lines = drawn.statements(values, drawn.random.randint(3, 6), 0)
    outputs = f"{values[-1]}, {drawn.random.choice(values)}"
    state, result = ("inout ", "%y: ") if seed % 3 == 0 else ("", "")
    head = f"func @main(%x: {T}, %y: {state}{T}, %w: tensor<4x4xf32>) -> ({T}, {result}{T}) symbols [N] {{"
    return "\n".join([head, *lines, f"tcp.return({outputs})", "}", ""])
