"""Values that share a C variable: random programs of loops and branches that carry values, against the evaluator."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tcpx.emit_c.kernel import KernelRequest, build_many
from tests.emit_c.payloads import GENERIC, module, reference

PROGRAMS = 60
OUTPUTS = 4


class Program:
    """A random function of si64 scalars; its text is in `lines`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.lines: list[str] = []
        self.loops: list[str] = []
        values = self.constants(3, "  ")
        values = self.block(values, 0, "  ")
        for k in range(OUTPUTS):
            value = self.random.choice(values)
            self.lines.append(f'  vector.write({value}, %r) tile [{k}] [1] drop [0] {{row = "store_si64"}}')

    def text(self, name: str) -> str:
        head = f"func @{name}(%x: buffer<[N]xsi64, strides [1], space argument>, "
        head += f"%r: buffer<{OUTPUTS}xsi64, strides [1], space result>) symbols [N] {{results = 1}} {{"
        return "\n".join([head, *self.lines, "  tcp.return", "}"])

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def constants(self, count: int, indent: str) -> list[str]:
        names = [self.fresh() for _ in range(count)]
        for name in names:
            number = self.random.randint(-9, 9)
            self.lines.append(f'{indent}{name} = tcp.const {{value = {number}, row = "literal"}} : si64')
        return names

    def block(self, values: list[str], depth: int, indent: str) -> list[str]:
        """Random operations; the values visible after them."""
        values = list(values)
        for _ in range(self.random.randint(1, 4)):
            kind = self.random.random()
            if kind < 0.35 and depth < 3:
                values += self.loop(values, depth, indent)
            elif kind < 0.55 and depth < 4:
                values += self.branch(values, depth, indent)
            else:
                values.append(self.arithmetic(values, indent))
        return values

    def arithmetic(self, values: list[str], indent: str) -> str:
        name, op = self.fresh(), self.random.choice(["add", "sub", "mul"])
        a, b = self.recent(values), self.recent(values)
        self.lines.append(f'{indent}{name} = tcp.{op}({a}, {b}) {{row = "{op}_si64"}} : si64')
        return name

    def recent(self, values: list[str]) -> str:
        """Values defined last are taken more often, so that many are used just once."""
        return self.random.choice(values[-4:] if self.random.random() < 0.8 else values)

    def loop(self, values: list[str], depth: int, indent: str) -> list[str]:
        count = self.random.randint(1, 3)
        dests, results = [self.fresh() for _ in range(count)], [self.fresh() for _ in range(count)]
        inits = [self.recent(values) if self.random.random() < 0.7 else self.constants(1, indent)[0] for _ in dests]
        var = f"%i{self.count}"
        carried = ", ".join(f"{d} = {i}" for d, i in zip(dests, inits, strict=True))
        upper = self.random.choice(["0", "1", "2", "3", "N"])
        self.lines.append(f"{indent}{', '.join(results)} = gml_st.for {var} in 0 to {upper} ({carried}) {{")
        self.loops.append(var)
        inner = indent + "  "
        after = self.block(values + dests, depth + 1, inner)
        for dest in dests:
            kind = self.random.random()
            if kind < 0.7:
                self.lines.append(f"{inner}gml_st.yield({self.recent(after)}, {dest}) tile [] []")
            elif kind < 0.9:
                self.lines.append(f"{inner}gml_st.if {self.condition()} {{")
                made = self.arithmetic(after, inner + "  ") if self.random.random() < 0.5 else self.recent(after)
                self.lines.append(f"{inner}  gml_st.yield({made}, {dest}) tile [] []")
                self.lines.append(f"{inner}}}")
        self.loops.pop()
        self.lines.append(f"{indent}}} : {', '.join(['si64'] * count)}")
        return results

    def branch(self, values: list[str], depth: int, indent: str) -> list[str]:
        results = [self.fresh() for _ in range(self.random.randint(1, 2))]
        self.lines.append(f"{indent}{', '.join(results)} = gml_st.if {self.condition()} {{")
        for separator in ("} else {", "}"):
            inside = self.block(values, depth + 1, indent + "  ")
            given = ", ".join(self.recent(inside) for _ in results)
            self.lines.append(f"{indent}  tcp.yield({given})")
            end = f" : {', '.join(['si64'] * len(results))}" if separator == "}" else ""
            self.lines.append(f"{indent}{separator}{end}")
        return results

    def condition(self) -> str:
        subject = self.random.choice(self.loops) if self.loops else "N"
        return f"{subject} {self.random.choice(['<', '>=', '==', '!='])} {self.random.randint(0, 2)}"


@pytest.mark.parametrize("batch", range(2))
def test_random_programs(batch: int) -> None:
    texts = [Program(batch * PROGRAMS + k).text(f"p{k}") for k in range(PROGRAMS)]
    modules = [module(text) for text in texts]
    kernels = build_many([KernelRequest(m) for m in modules], GENERIC)
    for n in (0, 1, 3):
        x = np.zeros(n, dtype=np.int64)
        for kernel, payload, text in zip(kernels, modules, texts, strict=True):
            np.testing.assert_array_equal(kernel(x), reference(payload, x)[0], err_msg=f"N = {n}\n{text}")


def emitted(text: str) -> str:
    (kernel,) = build_many([KernelRequest(module(text))], GENERIC)
    return kernel.c_source


def test_an_accumulator_is_one_variable() -> None:
    source = emitted(
        """
        func @total(%x: buffer<[N]xsi64, strides [1], space argument>, %r: buffer<1xsi64, strides [1], space result>)
            symbols [N] {results = 1} {
          %zero = tcp.const {value = 0, row = "literal"} : si64
          %sum = gml_st.for %i in 0 to N (%acc = %zero) {
            %v = vector.read(%x) tile [%i] [1] drop [0] {row = "load_si64"} : si64
            %next = tcp.add(%acc, %v) {row = "add_si64"} : si64
            gml_st.yield(%next, %acc) tile [] []
          } : si64
          vector.write(%sum, %r) tile [0] [1] drop [0] {row = "store_si64"}
          tcp.return
        }
        """
    )
    assert "int64_t acc = 0;" in source
    assert "acc = (int64_t)((uint64_t)acc + (uint64_t)v);" in source
    assert "zero" not in source
    assert "next" not in source


def test_values_that_are_exchanged_are_assigned_at_once() -> None:
    text = """
    func @fibonacci(%x: buffer<[N]xsi64, strides [1], space argument>, %r: buffer<2xsi64, strides [1], space result>)
        symbols [N] {results = 1} {
      %zero = tcp.const {value = 0, row = "literal"} : si64
      %one = tcp.const {value = 1, row = "literal"} : si64
      %f, %g = gml_st.for %i in 0 to N (%a = %zero, %b = %one) {
        gml_st.yield(%b, %a) tile [] []
        gml_st.yield(%a, %b) tile [] []
      } : si64, si64
      vector.write(%f, %r) tile [0] [1] drop [0] {row = "store_si64"}
      vector.write(%g, %r) tile [1] [1] drop [0] {row = "store_si64"}
      tcp.return
    }
    """
    (kernel,) = build_many([KernelRequest(module(text))], GENERIC)
    assert np.asarray(kernel(np.zeros(3, dtype=np.int64))).tolist() == [1, 0]
