"""recognize: what is written by its parts is what it is, in whatever order, and nothing else is."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest

import tcpx
from tcpx.transform.recognition import ALIKE, UNDEFINED_AT_MINUS_INFINITY

STEP = "language 1\nschedule s(root: func) { recognize(root) }\n"
OPTIONAL = STEP.replace("recognize", "optional recognize")
FORMULAS = dict((*ALIKE, *UNDEFINED_AT_MINUS_INFINITY))
EPSILON = 0.125
ROWS, COLUMNS = 5, 7
REDUCED = {"max", "sum", "mean"}


@dataclass
class Writer:
    """Writes a formula as operations, in one of many ways."""

    rng: Random
    dtype: str = "f32"
    lines: list[str] = field(default_factory=list)

    def type(self, kind: str) -> str:
        return f"tensor<{'[M]' if kind == 'row' else '[M]x7'}x{self.dtype}>"

    def op(self, kind: str, name: str, *operands: str, attributes: str = "") -> str:
        result = f"%v{len(self.lines)}"
        self.lines.append(f"  {result} = tcp.{name}({', '.join(operands)}){attributes} : {self.type(kind)}")
        return result

    def join(self, name: str, left: tuple[str, str], right: tuple[str, str]) -> tuple[str, str]:
        """An operation on two of numbers, rows and whole tensors."""
        kind = "full" if "full" in (left[0], right[0]) else "row"
        operands = []
        for own, value in (left, right):
            repeated = own == "row" and kind == "full"
            operands.append(self.op("full", "broadcast", value, attributes=" {dims = [0]}") if repeated else value)
        return kind, self.op(kind, name, *operands)

    def write(self, node: ast.expr) -> tuple[str, str]:
        match node:
            case ast.Name(id="x"):
                return "full", "%x"
            case ast.Call(func=ast.Name(id=name), args=[inner]):
                kind, value = self.write(inner)
                if name not in REDUCED:
                    return kind, self.op(kind, name, value)
                if name != "mean" or self.rng.random() < 0.4:
                    return "row", self.op("row", f"reduce_{name}", value, attributes=" {dims = [1]}")
                total = self.op("row", "reduce_sum", value, attributes=" {dims = [1]}")
                if self.rng.random() < 0.5:
                    return self.join("div", ("row", total), ("number", "7.0"))
                return self.join("mul", ("row", total), ("number", repr(1 / COLUMNS)))
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return self.sum(node)
            case _:
                return self.product(node)

    def sum(self, node: ast.expr) -> tuple[str, str]:
        terms = _terms(node)
        self.rng.shuffle(terms)
        made: tuple[str, str] | None = None
        for sign, term in terms:
            number = _number(term)
            value = ("number", repr(sign * number)) if number is not None else self.write(term)
            if made is None:
                negative = number is None and sign < 0
                made = (value[0], self.op(value[0], "neg", value[1])) if negative else value
            elif number is not None or sign > 0:
                made = self.join("add", *self._any_order(made, value))
            elif self.rng.random() < 0.5:
                made = self.join("sub", made, value)
            else:
                made = self.join("add", *self._any_order(made, (value[0], self.op(value[0], "neg", value[1]))))
        assert made is not None
        return made

    def product(self, node: ast.expr) -> tuple[str, str]:
        number, factors = 1.0, []
        for exponent, factor in _factors(node):
            known = _number(factor)
            if known is not None:
                number *= known**exponent
            elif exponent == 2 and self.rng.random() < 0.5:
                factors.append((1, self.join("pow", self.write(factor), ("number", "2.0"))))
            else:
                factors += [(exponent // abs(exponent), self.write(factor))] * abs(exponent)
        if number != 1:
            factors.append((1, ("number", repr(number))))
        self.rng.shuffle(factors)
        (power, made), *rest = factors
        if power < 0:
            made = self._inverse(made)
        for exponent, value in rest:
            if exponent > 0:
                made = self.join("mul", *self._any_order(made, value))
            elif self.rng.random() < 0.5:
                made = self.join("div", made, value)
            else:
                made = self.join("mul", *self._any_order(made, self._inverse(value)))
        return made

    def _inverse(self, value: tuple[str, str]) -> tuple[str, str]:
        if self.rng.random() < 0.5:
            return self.join("div", ("number", "1.0"), value)
        return value[0], self.op(value[0], "reciprocal", value[1])

    def _any_order(self, left: tuple[str, str], right: tuple[str, str]) -> tuple[tuple[str, str], tuple[str, str]]:
        return (left, right) if self.rng.random() < 0.5 else (right, left)


def _number(node: ast.expr) -> float | None:
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    known = {"pi": math.pi, "e": EPSILON, "sqrt": math.sqrt}
    return None if names - set(known) else float(eval(ast.unparse(node), {}, known))  # noqa: S307


def _terms(node: ast.expr) -> list[tuple[int, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sign = 1 if isinstance(node.op, ast.Add) else -1
        return _terms(node.left) + [(sign * s, term) for s, term in _terms(node.right)]
    return [(1, node)]


def _factors(node: ast.expr) -> list[tuple[int, ast.expr]]:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return [(1, ast.Constant(-1.0)), *_factors(inner)]
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _factors(left) + _factors(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right) if _number(node) is None:
            return _factors(left) + [(-e, factor) for e, factor in _factors(right)]
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() as power)) if _number(node) is None:
            return [(power, left)]
        case _:
            return [(1, node)]


def written(formula: str, seed: object, dtype: str = "f32") -> tcpx.Module:
    writer = Writer(Random(str(seed)), dtype)
    kind, result = writer.write(ast.parse(formula, mode="eval").body)
    assert kind == "full"
    body = "\n".join(writer.lines)
    type_ = writer.type("full")
    return tcpx.parse(f"func @f(%x: {type_}) -> {type_} symbols [M: 0..] {{\n{body}\n  tcp.return({result})\n}}\n")


def opcodes(module: tcpx.Module) -> list[str]:
    assert module.main is not None
    return [op.opcode for op in module.main.walk()]


def special() -> np.ndarray:
    x = np.random.default_rng(3).normal(0, 3, (ROWS, COLUMNS)).astype(np.float32)
    x[1, 2], x[2, 3], x[3, 4] = np.nan, np.inf, -np.inf
    x[4] = -np.inf
    x[0, :4] = 0.0, -0.0, 90.0, -90.0
    return x


@pytest.mark.parametrize(("formula", "operation"), FORMULAS.items())
@pytest.mark.parametrize("seed", range(3))
def test_a_formula_in_any_order(formula: str, operation: str, seed: int) -> None:
    module = written(formula, seed)
    made = tcpx.apply_schedule(module, tcpx.parse_schedule(STEP)).module
    opcode = f"tcp.{operation.partition('(')[0]}"
    assert opcodes(made).count(opcode) == 1
    allowed = {opcode, "tcp.select", "tcp.equal", "tcp.fill", "tcp.const", "tcp.return", "func", "tcp.broadcast"}
    assert set(opcodes(made)) <= allowed | {made.main.opcode if made.main else ""}
    assert tcpx.parse(made.text()).text() == made.text()
    x = special()
    with np.errstate(all="ignore"):
        wanted, found = (np.asarray(tcpx.evaluate(each, x), np.float64) for each in (module, made))
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)  # NaN and infinities where they were


@pytest.mark.parametrize(
    "formula",
    [
        "exp(x) / sum(exp(x))",  # no softmax where powers overflow
        "exp(x - max(x)) / sum(exp(x))",
        "x / sqrt(mean(x**3) + e)",
        "(x - mean(x)) / sqrt(mean(x**2) + e)",
        "x * (1 + erf(x)) / 2",
        "x * (2 + erf(x / sqrt(2))) / 2",
        "x * (1 + tanh(sqrt(2 / pi) * (x + 0.0447 * x**3))) / 2",
        "x / (1 + exp(x))",
    ],
)
def test_another_formula(formula: str) -> None:
    module = written(formula, 0)
    text = module.text()
    assert tcpx.apply_schedule(module, tcpx.parse_schedule(OPTIONAL)).module.text() == text


def test_what_cancels_may_be_nan() -> None:
    text = """\
func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %p = tcp.mul(%x, %x) : tensor<4xf32>
  %q = tcp.div(%p, %x) : tensor<4xf32>
  %s = tcp.sigmoid(%x) : tensor<4xf32>
  %y = tcp.mul(%q, %s) : tensor<4xf32>
  tcp.return(%y)
}
"""
    made = tcpx.apply_schedule(tcpx.parse(text), tcpx.parse_schedule(OPTIONAL)).module
    assert made.text() == tcpx.parse(text).text()


SQUARE = """\
func @f(%x: tensor<7x7xf32>) -> tensor<7x7xf32> {{
  %m = tcp.reduce_max(%x) {{dims = [{max}]}} : tensor<7xf32>
  %s = tcp.sub(%x, broadcast(%m, [{kept}])) : tensor<7x7xf32>
  %e = tcp.exp(%s) : tensor<7x7xf32>
  %t = tcp.reduce_sum(%e) {{dims = [{sum}]}} : tensor<7xf32>
  %y = tcp.div(%e, broadcast(%t, [{last}])) : tensor<7x7xf32>
  tcp.return(%y)
}}
"""


@pytest.mark.parametrize("places", [(a, b, c, d) for a in (0, 1) for b in (0, 1) for c in (0, 1) for d in (0, 1)])
def test_all_goes_along_one_dim(places: tuple[int, int, int, int]) -> None:
    """In a square, rows may be repeated where columns were reduced."""
    reduced, kept, summed, last = places
    module = tcpx.parse(SQUARE.format(max=reduced, kept=kept, sum=summed, last=last))
    made = tcpx.apply_schedule(module, tcpx.parse_schedule(OPTIONAL)).module
    assert ("tcp.softmax" in opcodes(made)) == (reduced == summed == 1 - kept == 1 - last)


def test_parts_that_others_use_stay() -> None:
    text = """\
func @f(%x: tensor<4x7xf32>) -> (tensor<4x7xf32>, tensor<4x7xf32>) {
  %s = tcp.sigmoid(%x) : tensor<4x7xf32>
  %y = tcp.mul(%x, %s) : tensor<4x7xf32>
  tcp.return(%y, %s)
}
"""
    made = tcpx.apply_schedule(tcpx.parse(text), tcpx.parse_schedule(OPTIONAL)).module
    assert made.text() == tcpx.parse(text).text()


def test_small_floats_stay() -> None:
    """Their parts are rounded, and overflow, one by one."""
    module = written("x * sigmoid(x)", 0, "f16")
    assert tcpx.apply_schedule(module, tcpx.parse_schedule(OPTIONAL)).module.text() == module.text()
    wide = tcpx.apply_schedule(written("x * sigmoid(x)", 0, "f64"), tcpx.parse_schedule(STEP)).module
    assert "tcp.silu" in opcodes(wide)


@pytest.mark.parametrize(("name", "operand"), [("mul", "1.5"), ("mul", "%x"), ("add", "%x"), ("neg", "")])
def test_a_long_chain(name: str, operand: str) -> None:
    """No more than a few operations within each other are looked at."""
    given = f", {operand}" if operand else ""
    lines = [f"  %v{k} = tcp.{name}(%{f'v{k - 1}' if k else 's'}{given}) : tensor<4xf32>" for k in range(1200)]
    text = "\n".join(
        [
            "func @f(%x: tensor<4xf32>) -> tensor<4xf32> {",
            "  %n = tcp.neg(%x) : tensor<4xf32>\n  %e = tcp.exp(%n) : tensor<4xf32>",
            "  %d = tcp.add(%e, 1.0) : tensor<4xf32>\n  %i = tcp.reciprocal(%d) : tensor<4xf32>",
            "  %s = tcp.mul(%i, %x) : tensor<4xf32>",
            *lines,
            "  tcp.return(%v1199)\n}\n",
        ]
    )
    made = tcpx.apply_schedule(tcpx.parse(text), tcpx.parse_schedule(STEP)).module
    assert opcodes(made).count("tcp.silu") == 1


def test_nothing_to_recognize() -> None:
    with pytest.raises(tcpx.TcpxError) as caught:
        tcpx.apply_schedule(written("x / (1 + exp(x))", 0), tcpx.parse_schedule(STEP))
    assert caught.value.diagnostic.message == "`recognize` changes nothing here"


STATE = """\
func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %r = gml_st.for %t in 0 to 3 step 1 (%a = %x) {
    %s = tcp.sigmoid(%a) : tensor<4xf32>
    gml_st.yield(%y, %a) tile [0] [4]
    %p = tcp.mul(%a, %s) : tensor<4xf32>
    gml_st.yield(%p, %a) tile [0] [4]
  } : tensor<4xf32>
  tcp.return(%r)
}
"""


def test_a_state_that_changes_between_its_parts() -> None:
    module = tcpx.parse(STATE)
    made = tcpx.apply_schedule(module, tcpx.parse_schedule(OPTIONAL)).module
    x, y = np.arange(4, dtype=np.float32), np.arange(4, 8, dtype=np.float32)
    np.testing.assert_array_equal(tcpx.evaluate(made, x, y), tcpx.evaluate(module, x, y))
    assert "tcp.silu" not in opcodes(made)
