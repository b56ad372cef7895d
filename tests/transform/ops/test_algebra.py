"""The identities of `canonicalize`: every line of the tables is applied, and gives what was there on edge values."""

from __future__ import annotations

import ast
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.ir import operation_classes
from tcpx.payload.types import SCALARS, ScalarKind, ScalarType, f16, f32, i1
from tcpx.transform.identities import EXACT, INEXACT, REPEATED, Kinds, identities
from tests.payload.test_elementwise_edges import edges, same
from tests.transform.payloads import check, run

Array = npt.NDArray[Any]
DTYPES = [t for t in SCALARS.values() if t.kind is not ScalarKind.INDEX]
LINES = [("", *line) for line in EXACT] + [(option, *line) for option, table in INEXACT.items() for line in table]
COLUMNS = 2


class Written:
    """The left side of an identity as a payload."""

    def __init__(self, pattern: str, dtype: ScalarType) -> None:
        self.dtype, self.lines = dtype, list[str]()
        self.arguments: dict[str, str] = {}
        self.wide = f"tensor<[N]x{COLUMNS}x{dtype}>"
        made = self.value(ast.parse(pattern, mode="eval").body, self.wide)
        head = ", ".join(f"%{name}: {type_}" for name, type_ in self.arguments.items())
        body = "\n".join(self.lines)
        self.text = f"func @f({head}) -> {self.wide} symbols [N] {{\n{body}\n  tcp.return({made})\n}}\n"

    def value(self, node: ast.expr, type_: str) -> str:
        """The statements that make a value, and its name."""
        match node:
            case ast.Name(id=name):
                self.arguments[name] = type_
                return f"%{name}"
            case ast.Call(func=ast.Name(id=name), args=args):
                types = [type_] * len(args)
                if name == "select":
                    types[0] = self.wide.replace(f"x{self.dtype}>", "xi1>")
                if name == REPEATED:
                    types = [f"tensor<[N]x{self.dtype}>"]
                given = ", ".join(self.value(arg, t) for arg, t in zip(args, types, strict=True))
                self.lines.append(f"  %v{len(self.lines)} = tcp.{name.rstrip('_')}({given}) : {type_}")
                if name == REPEATED:
                    self.lines[-1] = f"  %v{len(self.lines) - 1} = tcp.broadcast({given}) {{dims = [0]}} : {type_}"
            case _:
                is_float = self.dtype.is_float and not type_.endswith("xi1>")
                number = float(ast.literal_eval(node)) if is_float else ast.literal_eval(node)
                self.lines.append(f"  %v{len(self.lines)} = tcp.fill {{value = {number}}} : {type_}")
        return f"%v{len(self.lines) - 1}"

    def arrays(self) -> list[Array]:
        """Every combination of edges, as rows of which the first column is it."""
        values = [edges(i1 if type_.endswith("xi1>") else self.dtype) for type_ in self.arguments.values()]
        chosen = np.array(list(product(*(range(len(v)) for v in values))))[:, ::-1][:4000, ::-1]
        found = [v[chosen[:, k]] for k, v in enumerate(values)]
        wide = [f"x{COLUMNS}x" in type_ for type_ in self.arguments.values()]
        return [np.stack([a, a[::-1]], axis=1).copy() if w else a.copy() for a, w in zip(found, wide, strict=True)]


def opcodes(module: tcpx.Module) -> list[str]:
    """The operations that are left, without constants."""
    found = [op.opcode for op in module.main.body.ops]
    return sorted(name for name in found if name not in ("tcp.fill", "tcp.return"))


def wanted(pattern: str) -> list[str]:
    calls = [node for node in ast.walk(ast.parse(pattern, mode="eval")) if isinstance(node, ast.Call)]
    names = [node.func.id for node in calls if isinstance(node.func, ast.Name)]
    return sorted("tcp.broadcast" if name == REPEATED else f"tcp.{name.rstrip('_')}" for name in names)


@pytest.mark.parametrize(
    ("option", "left", "right", "kinds"),
    LINES,
    ids=lambda part: part.replace(" ", "") if isinstance(part, str) else "+".join(sorted(kind.value for kind in part)),
)
def test_line(option: str, left: str, right: str, kinds: Kinds) -> None:
    statement = f"canonicalize(root, {option}: true)" if option else "canonicalize(root)"
    for dtype in (dtype for dtype in DTYPES if dtype.kind in kinds):
        written = Written(left, dtype)
        module = tcpx.parse(written.text)
        done = run(written.text, statement).module
        assert opcodes(done) == wanted(right), done.text()
        arrays = written.arrays()
        before, after = (np.asarray(tcpx.evaluate(m, *arrays)) for m in (module, done))
        if not option:
            assert same(after, before).all(), (dtype, [a[~same(after, before)][:3] for a in (before, after)])
        else:
            close(dtype, arrays, before, after, option)


def close(dtype: ScalarType, arrays: list[Array], before: Array, after: Array, option: str) -> None:
    """An inexact line gives the number but for what its option says does not matter."""
    with np.errstate(all="ignore"):
        usual = np.ones(before.shape, bool)
        for array in arrays:
            size = np.abs(array.astype(np.float64)).reshape(before.shape if array.ndim > 1 else (-1, 1))
            usual &= np.isfinite(size) & ((size == 0) | (size > 1e-3)) & (size < 1e3)
        usual &= np.isfinite(before)
        x, y = before[usual].astype(np.float64), after[usual].astype(np.float64)
        unit = 2.0 ** -{8: 52, 4: 23, 2: 10 if dtype == f16 else 7}[dtype.bytes]
        scale = 1.0 if option != "fma" else 1e6
        assert (np.abs(x - y) <= 2 * unit * np.maximum(np.abs(x), scale * (option == "fma"))).all()


def test_every_operation_of_the_tables_is_there() -> None:
    known = set(operation_classes())
    assert set(identities(*INEXACT)) <= known


KEPT = (
    ("add(x, 0)", f32, "the sum of -0.0 and 0.0 is 0.0"),
    ("sub(x, -0.0)", f32, "so is this difference"),
    ("sub(0, x)", f32, "0.0 - 0.0 is no -0.0"),
    ("mul(x, 0)", f32, "of NaN and infinities it is NaN"),
    ("sub(x, x)", f32, "likewise"),
    ("add(mul(x, y), z)", f32, "another rounding"),
    ("div(x, repeated(y))", f32, "another rounding"),
)


@pytest.mark.parametrize(("pattern", "dtype", "why"), KEPT)
def test_what_is_not_exact_is_kept(pattern: str, dtype: ScalarType, why: str) -> None:
    text = Written(pattern, dtype).text
    assert opcodes(run(text, "optional canonicalize(root)").module) == wanted(pattern), why


CASTS = (
    ("si8", "si32", "si8", 0),
    ("ui8", "si16", "f32", 1),
    ("si16", "f32", "si16", 0),
    ("si32", "f64", "f16", 1),
    ("f16", "f32", "f64", 1),
    ("bf16", "f32", "bf16", 0),
    ("f32", "f64", "si16", 1),
    ("i1", "si32", "f32", 1),
    ("si32", "f32", "si32", 2),
    ("f32", "f16", "f32", 2),
    ("f16", "bf16", "f16", 2),
    ("bf16", "f16", "bf16", 2),
    ("ui8", "si8", "ui8", 2),
    ("si64", "f64", "si64", 2),
    ("f32", "si32", "f32", 2),
    ("si8", "f16", "f32", 1),
    ("ui8", "f32", "ui8", 0),
    ("si16", "f32", "si8", 2),  # the float saturates, the integer wraps around
    ("si8", "f32", "ui8", 2),
    ("ui32", "f64", "si32", 2),
    ("ui8", "f16", "si16", 1),
    ("i1", "bf16", "si8", 1),
    ("si16", "f32", "i1", 1),
    ("f32", "i1", "f32", 2),
    ("f64", "f32", "si32", 2),
)


@pytest.mark.parametrize(("first", "between", "last", "left"), CASTS)
def test_casts_that_lose_nothing(first: str, between: str, last: str, left: int) -> None:
    text = (
        f"func @f(%x: tensor<[N]x{first}>) -> tensor<[N]x{last}> symbols [N] {{\n"
        f"  %a = tcp.cast(%x) : tensor<[N]x{between}>\n  %b = tcp.cast(%a) : tensor<[N]x{last}>\n  tcp.return(%b)\n}}\n"
    )
    done = run(text, "optional canonicalize(root)").module
    assert len(opcodes(done)) == left
    x = edges(SCALARS[first])
    before, after = (np.asarray(tcpx.evaluate(m, x)) for m in (tcpx.parse(text), done))
    assert same(after, before).all()


def chains(first: ScalarType) -> str:
    """A payload of every two casts after each other that begin with a dtype."""
    wide = {f"{a}_{b}": (a, b) for a in DTYPES for b in DTYPES}
    body = [f"  %{a} = tcp.cast(%x) : tensor<[N]x{a}>\n" for a in DTYPES]
    body += [f"  %{name} = tcp.cast(%{a}) : tensor<[N]x{b}>\n" for name, (a, b) in wide.items()]
    types, names = (
        ", ".join(part) for part in ([f"tensor<[N]x{b}>" for _, b in wide.values()], [f"%{n}" for n in wide])
    )
    return f"func @f(%x: tensor<[N]x{first}>) -> ({types}) symbols [N] {{\n{''.join(body)}  tcp.return({names})\n}}\n"


def beyond(dtype: ScalarType) -> Array:
    """The edges of a dtype, and the numbers of it next to the limits of every integer."""
    limits = [int(limit) + k for t in DTYPES if t.is_integer for limit in (t.minimum, t.maximum) for k in (-1, 0, 1)]
    if dtype.is_integer:
        limits = [n for n in limits if dtype.minimum <= n <= dtype.maximum]
    with np.errstate(over="ignore"):
        near = np.array(limits, np.float64).astype(dtype.numpy) if dtype.is_float else np.array(limits, dtype.numpy)
    return np.concatenate([edges(dtype), near])


@pytest.mark.parametrize("first", DTYPES, ids=str)
def test_every_two_casts_after_each_other(first: ScalarType) -> None:
    text, x = chains(first), beyond(first)
    module, done = tcpx.parse(text), run(text, "optional canonicalize(root)").module
    before, after = (tcpx.evaluate(m, x) for m in (module, done))
    assert len(opcodes(done)) < len(opcodes(module))
    pairs = product(DTYPES, DTYPES)
    bad = [
        pair for pair, a, b in zip(pairs, after, before, strict=True) if not same(np.asarray(a), np.asarray(b)).all()
    ]
    assert not bad


MOVED = """func @f(%x: tensor<[M]x[N]x4xf32>, %v: tensor<4xf32>)
    -> (tensor<4x[M]x[N]xf32>, tensor<[M]x[N]x4xf32>, tensor<[M]x4x[N]xf32>) symbols [M, N] {
  %a = tcp.transpose(%x) {permutation = [2, 1, 0]} : tensor<4x[N]x[M]xf32>
  %b = tcp.transpose(%a) {permutation = [0, 2, 1]} : tensor<4x[M]x[N]xf32>
  %c = tcp.transpose(%a) {permutation = [2, 1, 0]} : tensor<[M]x[N]x4xf32>
  %d = tcp.broadcast(%v) {dims = [0]} : tensor<4x[N]xf32>
  %e = tcp.broadcast(%d) {dims = [1, 2]} : tensor<[M]x4x[N]xf32>
  tcp.return(%b, %c, %e)
}
"""


def test_transposes_and_broadcasts_of_each_other() -> None:
    text = check(MOVED, "canonicalize(root)").module.text()
    assert 'tcp.transpose(%x) {permutation = [2, 0, 1]} : tensor<4x[M]x[N]xf32> name "b"' in text
    assert 'tcp.broadcast(%v) {dims = [1]} : tensor<[M]x4x[N]xf32> name "e"' in text
    assert text.count("tcp.transpose") == 1
    assert text.count("tcp.broadcast") == 1


SUNK = """func @f(%v: tensor<4xf32>, %w: tensor<4xf32>, %n: tensor<[N]xf32>) -> tensor<[N]x4xf32> symbols [N] {
  %a = tcp.broadcast(%v) {dims = [1]} : tensor<[N]x4xf32>
  %b = tcp.broadcast(%w) {dims = [1]} : tensor<[N]x4xf32>
  %one = tcp.fill {value = 2.0} : tensor<[N]x4xf32>
  %s = tcp.add(%a, %b) : tensor<[N]x4xf32>
  %m = tcp.mul(%s, %one) : tensor<[N]x4xf32>
  %c = tcp.less(%m, %a) : tensor<[N]x4xi1>
  %y = tcp.select(%c, %m, %a) : tensor<[N]x4xf32>
  tcp.return(%y)
}
"""


def test_what_is_repeated_alike_is_computed_before() -> None:
    """Handles go with the results."""
    done = check(SUNK, 'let y = match one "y" in root\ncanonicalize(root)\nprint(y)')
    ops = [op for op in done.module.main.body.ops if op.opcode.startswith("tcp.") and op.results]
    assert [op.opcode for op in ops if "N" in str(op.result.type)] == ["tcp.broadcast"]
    assert ops[-1].name == "y"


def test_names_of_dims_stay() -> None:
    named = Written("abs(neg(x))", f32).text.replace("tcp.abs(%v0) :", 'tcp.abs(%v0) {dim_names = ["r", "c"]} :')
    assert '{dim_names = ["r", "c"]}' in run(named, "canonicalize(root)").module.text()


@pytest.mark.parametrize(
    "neutral",
    [
        "tcp.cast(%x)",
        "tcp.transpose(%x) {permutation = [0, 1]}",
        "tcp.broadcast(%x) {dims = [0, 1]}",
        "tcp.mul(%x, 1.0)",
    ],
)
def test_what_changes_nothing_is_left_out(neutral: str) -> None:
    type_ = "tensor<[N]x3xf32>"
    text = f"func @f(%x: {type_}) -> {type_} symbols [N] {{\n  %y = {neutral} : {type_}\n  tcp.return(%y)\n}}\n"
    done = run(text, "canonicalize(root)").module
    assert opcodes(done) == []
    assert done.text().count("tcp.return(%x)") == 1
    kernel = tcpx.compile(
        tcpx.parse(text), tcpx.parse_schedule("language 1\nschedule s(root: func) { canonicalize(root) }")
    )
    assert "memcpy(" in kernel.c_source
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(kernel(x), x)


def test_sums_with_zeros_are_none_and_do_not_become_products_that_are_added() -> None:
    text = """
    func @f(%a: tensor<[N]xf32>, %c: tensor<[N]xf32>) -> (tensor<[N]xf32>, tensor<[N]xf32>, tensor<[N]xf32>)
        symbols [N] {
      %p = tcp.mul(%a, 3.0) : tensor<[N]xf32>
      %y = tcp.add(%p, 0.0) : tensor<[N]xf32>
      %q = tcp.mul(%a, 0.0) : tensor<[N]xf32>
      %z = tcp.add(%q, %c) : tensor<[N]xf32>
      %u = tcp.fma(%a, 0.0, %c) : tensor<[N]xf32>
      tcp.return(%y, %z, %u)
    }
    """
    program = tcpx.parse_schedule("language 1\nschedule s(root: func) { canonicalize(root, fma: true, zeros: true) }")
    func = tcpx.apply_schedule(tcpx.parse(text), program).module.main
    assert [op.opcode for op in func.body.ops] == ["tcp.fill", "tcp.mul", "tcp.return"]
    assert [value.name for value in func.returned] == ["p", "c", "c"]


def test_a_scalar_of_a_tensor_without_dims_stays_a_scalar() -> None:
    text = """
    func @f(%s: tensor<f32>, %x: tensor<[N]xf32>) -> (tensor<[N]xf32>, f32) symbols [N] {
      %p = gml_st.materialize(%s) point [] : f32
      %y = gml_st.for %i in 0 to N step 1 (%d = %x) {
        %q = gml_st.materialize(%x) point [%i] : f32
        %r = tcp.mul(%p, %q) : f32
        gml_st.yield(%r, %d) point [%i]
      } : tensor<[N]xf32>
      tcp.return(%y, %p)
    }
    """
    program = tcpx.parse_schedule("language 1\nschedule s(root: func) { optional canonicalize(root) }")
    done = tcpx.apply_schedule(tcpx.parse(text), program).module
    for module in (done, tcpx.compile(tcpx.parse(text), target="generic")):
        given = np.asarray(2, np.float32), np.arange(3, dtype=np.float32)
        found = module(*given) if isinstance(module, tcpx.Kernel) else tcpx.evaluate(module, *given)
        assert [np.asarray(value).tolist() for value in found] == [[0.0, 2.0, 4.0], 2.0]
