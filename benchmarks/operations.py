"""Every operation under the default schedule beside NumPy that writes to an array which is there (`out=`).

    make bench-operations                      # all, written to docs/operation-speed.md
    make bench-operations ARGS='sqrt softmax'  # some, on the terminal
    make bench-operations ARGS='sqrt --against main'  # beside another revision of tcpx instead of NumPy

At four sizes, of small calls and of what only memory holds, and in two layouts: rows side by side, and rows that lie
apart. Kernels know no size. In each round both run in turn for some milliseconds; what counts is the least of each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import tcpx
from benchmarks.slow_cells import Cell, report
from tcpx.cli.measuring import add_ledger, add_measuring
from tcpx.measure.kernel_peer import told
from tcpx.measure.timer import SHORTEST, least_seconds

Array = npt.NDArray[Any]
SIZES: Final = ((8, 100), (100, 333), (512, 768), (2048, 3000))
LAYOUTS: Final[Sequence[str]] = ("side by side", "apart")
GAP: Final = 24
"""Elements between rows that lie apart."""
ROUNDS: Final = 7
BAR: Final = 0.9
PAGE: Final = Path(__file__).parents[1] / "docs" / "operation-speed.md"
X: Final = "tensor<[M]x[N]xf32>"
D: Final = "tensor<[M]x[N]xf64>"
NUMPY: Final = {"f32": np.float32, "f64": np.float64, "si32": np.int32, "si64": np.int64, "i1": np.bool_}


@dataclass(frozen=True)
class Case:
    """An operation: its text on %x, %y, .., and the same in NumPy, which takes the arrays behind the result."""

    name: str
    text: str
    run: Callable[..., object]
    arguments: tuple[str, ...] = (X,)
    result: str = X
    draw: Callable[[np.random.Generator, tuple[int, ...]], Array] | None = None

    def payload(self, layout: str) -> str:
        """The function, whose matrices lie so."""
        strided = " strided" if layout == "apart" else ""
        given = ", ".join(
            f"%{name}: {kind}{' in 0 to M' if 'si64' in kind else ''}{strided if kind.count('x[') else ''}"
            for name, kind in zip("xyzw", self.arguments, strict=False)
        )
        body = self.text if "%r" in self.text else f"%r = {self.text} : {self.result}"
        return f"func @f({given}) -> {self.result} symbols [M: 1.., N: 1..] {{\n  {body}\n  tcp.return(%r)\n}}\n"

    def arrays(self, m: int, n: int, layout: str) -> list[Array]:
        """Arguments of these sizes in this layout."""
        random = np.random.default_rng(m + n)
        return [self._array(random, kind, m, n, layout) for kind in self.arguments]

    def _array(self, random: np.random.Generator, kind: str, m: int, n: int, layout: str) -> Array:
        shape = shape_of(kind, m, n)
        dtype = NUMPY[kind.rstrip(">").rsplit("x", 1)[1]]
        if dtype is np.int64:
            return random.integers(0, m, shape)
        usual = _truth if dtype is np.bool_ else lambda r, s: r.uniform(0.5, 4, s)
        draw = self.draw or usual
        *outer, inner = shape
        made = np.zeros((*outer, inner + (GAP if layout == "apart" and outer else 0)), dtype)
        view = made[..., :inner]
        view[...] = draw(random, shape)
        return view


def shape_of(kind: str, m: int, n: int) -> tuple[int, ...]:
    """The shape of a type for these sizes."""
    dims = kind.removeprefix("tensor<").rstrip(">").rsplit("x", 1)[0].split("x")
    known = {"[M]": m, "[N]": n, "[M + 7]": m + 7, "[N + 5]": n + 5, "[2*M]": 2 * m, "[2*N]": 2 * n, "[3*N]": 3 * n}
    return tuple(known[d] if d in known else int(d) for d in dims)


def _truth(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.integers(0, 2, shape)


def _rarely_true(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.random(shape) < 0.001


def _mostly_true(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.random(shape) >= 0.001


def _signed(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.uniform(-4, 4, shape)


def _unary(name: str, run: Callable[..., object], result: str = X) -> Case:
    return Case(name, f"tcp.{name}(%x)", run, result=result, draw=_signed)


def _powers(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.uniform(0.1, 2, shape)


def _whole(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.integers(1, 30, shape)


def _sigmoid(out: Array, x: Array) -> None:
    np.negative(x, out=out)
    np.exp(out, out=out)
    out += 1
    np.reciprocal(out, out=out)


def _silu(out: Array, x: Array) -> None:
    _sigmoid(out, x)
    out *= x


def _softplus(out: Array, x: Array) -> None:
    np.exp(x, out=out)
    np.log1p(out, out=out)


def _hardsigmoid(out: Array, x: Array) -> None:
    np.add(x, 3, out=out)
    np.clip(out, 0, 6, out=out)
    out /= 6


def _hardswish(out: Array, x: Array) -> None:
    _hardsigmoid(out, x)
    out *= x


def _gelu(out: Array, x: Array) -> None:
    np.power(x, 3, out=out)
    out *= 0.044715
    out += x
    out *= 0.7978845608
    np.tanh(out, out=out)
    out += 1
    out *= x
    out *= 0.5


def _softmax(out: Array, x: Array) -> None:
    np.subtract(x, x.max(1, keepdims=True), out=out)
    np.exp(out, out=out)
    out /= out.sum(1, keepdims=True)


def _log_softmax(out: Array, x: Array) -> None:
    np.subtract(x, x.max(1, keepdims=True), out=out)
    out -= np.log(np.exp(out).sum(1, keepdims=True))


def _layer_norm(out: Array, x: Array) -> None:
    np.subtract(x, x.mean(1, keepdims=True), out=out)
    out /= np.sqrt(np.square(out).mean(1, keepdims=True) + 1e-5)


def _rms_norm(out: Array, x: Array) -> None:
    np.divide(x, np.sqrt(np.square(x).mean(1, keepdims=True) + 1e-5), out=out)


def _rsqrt(out: Array, x: Array) -> None:
    np.sqrt(x, out=out)
    np.reciprocal(out, out=out)


def _swiglu(out: Array, x: Array, y: Array) -> None:
    _silu(out, x)
    out *= y


def _l2(out: Array, x: Array, dim: int) -> None:
    np.sqrt(np.square(x).sum(dim), out=out)


def _logsumexp(out: Array, x: Array, dim: int) -> None:
    most = x.max(dim, keepdims=True)
    np.log(np.exp(x - most).sum(dim), out=out)
    out += most.squeeze(dim)


def _rope(out: Array, x: Array, cos: Array, sin: Array) -> None:
    half = x.shape[1] // 2
    first, second = x[:, :half], x[:, half:]
    np.subtract(first * cos, second * sin, out=out[:, :half])
    np.add(second * cos, first * sin, out=out[:, half:])


def _attention(out: Array, x: Array, y: Array, z: Array, _sizes: Array) -> None:
    scores = np.matmul(x, y.swapaxes(1, 2))
    scores *= x.shape[2] ** -0.5
    scores -= scores.max(2, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(2, keepdims=True)
    np.matmul(scores, z, out=out)


def _one_hot(out: Array, x: Array, _sizes: Array) -> None:
    np.equal(x[:, None], np.arange(out.shape[1]), out=out)


def _select(out: Array, c: Array, x: Array, y: Array) -> None:
    np.copyto(out, y)
    np.copyto(out, x, where=c)


def _pad(out: Array, x: Array) -> None:
    out[...] = 0
    out[2 : 2 + x.shape[0], 3 : 3 + x.shape[1]] = x


def _chain(out: Array, x: Array, y: Array) -> None:
    np.add(x, y, out=out)
    np.multiply(out, x, out=out)
    np.maximum(out, 0.5, out=out)
    np.sqrt(out, out=out)


B: Final = "tensor<[M]x[N]xi1>"
I: Final = "tensor<[M]x[N]xsi32>"
ROW: Final = "tensor<[N]xf32>"
COLUMN: Final = "tensor<[M]xf32>"
PLACES: Final = "tensor<[M]xsi64>"
PAIRS: Final = "tensor<[M]x[N]xsi64>"
WIDE: Final = "tensor<[M]x[2*N]xf32>"
HEADS: Final = "tensor<4x[M]x64xf32>"


def _reductions() -> Iterator[Case]:
    simple = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod, "mean": np.mean, "variance": np.var}
    for dim, result in ((1, COLUMN), (0, ROW)):
        for name, run in simple.items():
            text = f"tcp.reduce_{name}(%x) {{dims = [{dim}]}}"
            yield Case(f"{name} over {dim}", text, lambda out, x, r=run, d=dim: r(x, d, out=out), result=result)
        places = result.replace("f32", "si64")
        text = f"%v, %r = tcp.reduce_argmax(%x) {{dims = [{dim}]}} : {result}, {places}"
        yield Case(f"argmax over {dim}", text, lambda out, x, d=dim: np.argmax(x, d, out=out), result=places)
        for name, run in {"l2": _l2, "logsumexp": _logsumexp}.items():
            text = f"tcp.reduce_{name}(%x) {{dims = [{dim}]}}"
            yield Case(f"{name} over {dim}", text, lambda out, x, r=run, d=dim: r(out, x, d), result=result)
        truth = result.replace("f32", "i1")
        for name, run, draw in (("any", np.any, _rarely_true), ("all", np.all, _mostly_true)):
            text = f"tcp.reduce_{name}(%x) {{dims = [{dim}]}}"
            yield Case(f"{name} over {dim}", text, lambda out, x, r=run, d=dim: r(x, d, out=out), (B,), truth, draw)


def _double_precision() -> Iterator[Case]:
    """Functions of real numbers in f64."""
    positive = {
        "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
        "log1p": np.log1p,
    }  # fmt: skip
    signed = {"tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan}
    for functions, draw in ((positive, None), (signed, _signed)):
        for name, f in functions.items():
            yield Case(f"{name} of f64", f"tcp.{name}(%x)", lambda out, x, f=f: f(x, out=out), (D,), D, draw)
    yield Case("pow of f64", "tcp.pow(%x, %y)", lambda out, x, y: np.power(x, y, out=out), (D, D), D, _powers)
    yield Case("sigmoid of f64", "tcp.sigmoid(%x)", _sigmoid, (D,), D, _signed)
    yield Case("softmax of f64", "tcp.softmax(%x) {dim = 1}", _softmax, (D,), D)


CASES: Final[Sequence[Case]] = (
    *(
        Case(name, f"tcp.{name}(%x)", lambda out, x, f=f: f(x, out=out))
        for name, f in {
            "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
            "log10": np.log10, "log1p": np.log1p, "reciprocal": np.reciprocal,
        }.items()
    ),
    *(
        _unary(name, lambda out, x, f=f: f(x, out=out))
        for name, f in {
            "neg": np.negative, "abs": np.abs, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan,
            "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "sign": np.sign,
        }.items()
    ),
    _unary("relu", lambda out, x: np.maximum(x, 0, out=out)),
    _unary("sigmoid", _sigmoid),
    _unary("silu", _silu),
    _unary("softplus", _softplus),
    _unary("hardswish", _hardswish),
    _unary("hardsigmoid", _hardsigmoid),
    Case("rsqrt", "tcp.rsqrt(%x)", _rsqrt),
    Case("pow", "tcp.pow(%x, %y)", lambda out, x, y: np.power(x, y, out=out), (X, X), draw=_powers),
    Case("swiglu", "tcp.swiglu(%x, %y)", _swiglu, (X, X), draw=_signed),
    *_double_precision(),
    Case("gelu", 'tcp.gelu(%x) {approximate = "tanh"}', _gelu, draw=_signed),
    _unary("isnan", lambda out, x: np.isnan(x, out=out), result=B),
    _unary("isinf", lambda out, x: np.isinf(x, out=out), result=B),
    *(
        Case(name, f"tcp.{name}(%x, %y)", lambda out, x, y, f=f: f(x, y, out=out), (X, X))
        for name, f in {
            "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
            "min": np.minimum, "mod": np.mod, "floordiv": np.floor_divide, "rem": np.fmod,
        }.items()
    ),
    *(
        Case(f"{name} of si32", f"tcp.{name}(%x, %y)", lambda out, x, y, f=f: f(x, y, out=out), (I, I), I, _whole)
        for name, f in {
            "add": np.add, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.mod, "and": np.bitwise_and,
            "or": np.bitwise_or, "xor": np.bitwise_xor, "shift_left": np.left_shift, "shift_right": np.right_shift,
        }.items()
    ),
    Case("not of si32", "tcp.not(%x)", lambda out, x: np.invert(x, out=out), (I,), I, _whole),
    Case("not of i1", "tcp.not(%x)", lambda out, x: np.logical_not(x, out=out), (B,), B),
    *(
        Case(f"{name} of i1", f"tcp.{name}(%x, %y)", lambda out, x, y, f=f: f(x, y, out=out), (B, B), B)
        for name, f in {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.items()
    ),
    *(
        Case(name, f"tcp.{name}(%x, %y)", lambda out, x, y, f=f: f(x, y, out=out), (X, X), B)
        for name, f in {"less": np.less, "equal": np.equal}.items()
    ),
    Case("select", "tcp.select(%x, %y, %z)", _select, (B, X, X)),
    Case("clamp", "tcp.clamp(%x, 1.0, 2.0)", lambda out, x: np.clip(x, 1, 2, out=out)),
    Case("cast to si32", "tcp.cast(%x)", lambda out, x: np.copyto(out, x, casting="unsafe"), result=I),
    Case("cast to f64", "tcp.cast(%x)", np.copyto, result="tensor<[M]x[N]xf64>"),
    Case("add of a row", "tcp.add(%x, broadcast(%y, [1]))", lambda out, x, y: np.add(x, y, out=out), (X, ROW)),
    Case(
        "add of a column", "tcp.add(%x, broadcast(%y, [0]))", lambda out, x, y: np.add(x, y[:, None], out=out),
        (X, COLUMN),
    ),
    Case(
        "chain of 4",
        f"%a = tcp.add(%x, %y) : {X}\n  %b = tcp.mul(%a, %x) : {X}\n  %c = tcp.max(%b, 0.5) : {X}\n"
        f"  %r = tcp.sqrt(%c) : {X}",
        _chain,
        (X, X),
    ),
    Case("transpose", "tcp.transpose(%x) {permutation = [1, 0]}", lambda out, x: np.copyto(out, x.T),
         result="tensor<[N]x[M]xf32>"),
    Case("broadcast of a row", "tcp.broadcast(%x) {dims = [1]}", lambda out, x, y: np.copyto(out, x), (ROW, X)),
    Case("broadcast of a column", "tcp.broadcast(%x) {dims = [0]}", lambda out, x, y: np.copyto(out, x[:, None]),
         (COLUMN, X)),
    Case("reverse of rows", "tcp.reverse(%x) {dims = [1]}", lambda out, x: np.copyto(out, x[:, ::-1])),
    Case("reverse of columns", "tcp.reverse(%x) {dims = [0]}", lambda out, x: np.copyto(out, x[::-1])),
    Case("concat of rows", "tcp.concat(%x, %y) {dim = 0}", lambda out, x, y: np.concatenate((x, y), 0, out=out),
         (X, X), "tensor<[2*M]x[N]xf32>"),
    Case("concat of columns", "tcp.concat(%x, %y) {dim = 1}", lambda out, x, y: np.concatenate((x, y), 1, out=out),
         (X, X), "tensor<[M]x[2*N]xf32>"),
    Case("pad", "tcp.pad(%x) {value = 0.0, low = [2, 3]}", _pad, result="tensor<[M + 7]x[N + 5]xf32>"),
    Case("slice", "tcp.slice(%x) {offsets = [7, 5]}", lambda out, x, y: np.copyto(out, x[7:, 5:]),
         ("tensor<[M + 7]x[N + 5]xf32>", X)),
    Case("slice of every second", "tcp.slice(%x) {offsets = [0, 0], strides = [1, 2]}",
         lambda out, x, y: np.copyto(out, x[:, ::2]), ("tensor<[M]x[2*N]xf32>", X)),
    Case("gather of rows", "tcp.gather(%x, %y) {dim = 0}", lambda out, x, y: np.take(x, y, 0, out=out, mode="clip"),
         (X, PLACES)),
    Case("gather of elements", "tcp.gather(%x, %y) {dim = 0}",
         lambda out, x, y: np.take(x, y, out=out, mode="clip"), (COLUMN, PAIRS)),
    Case("gather of pairs", "tcp.gather_nd(%x, %y, %z) {dim = 0}", lambda out, x, y, z: np.copyto(out, x[y, z]),
         ("tensor<[M]x[M]xf32>", PAIRS, PAIRS)),
    Case("repeat of elements", "tcp.repeat(%x) {dim = 1, repeats = 3}",
         lambda out, x: np.copyto(out.reshape(*x.shape, 3), x[:, :, None]), result="tensor<[M]x[3*N]xf32>"),
    Case("tile of rows", "tcp.tile(%x) {repeats = [2, 1]}",
         lambda out, x: np.copyto(out.reshape(2, *x.shape), x), result="tensor<[2*M]x[N]xf32>"),
    Case("one_hot", "tcp.one_hot(%x) {dim = 1}", _one_hot, (PLACES, X)),
    Case("iota", "tcp.iota() {dim = 1}", lambda out, x: np.copyto(out, np.arange(out.shape[1])), (X,), I),
    Case("cumsum along rows", f"%r, %s = tcp.cumsum(%x) {{dim = 1}} : {X}, {COLUMN}",
         lambda out, x: np.cumsum(x, 1, out=out)),
    Case("cumsum along columns", f"%r, %s = tcp.cumsum(%x) {{dim = 0}} : {X}, {ROW}",
         lambda out, x: np.cumsum(x, 0, out=out)),
    Case("cummax along rows", f"%r, %s = tcp.cummax(%x) {{dim = 1}} : {X}, {COLUMN}",
         lambda out, x: np.maximum.accumulate(x, 1, out=out)),
    Case("cummax along columns", f"%r, %s = tcp.cummax(%x) {{dim = 0}} : {X}, {ROW}",
         lambda out, x: np.maximum.accumulate(x, 0, out=out)),
    *_reductions(),
    Case("softmax", "tcp.softmax(%x) {dim = 1}", _softmax),
    Case("log_softmax", "tcp.log_softmax(%x) {dim = 1}", _log_softmax),
    Case("layer_norm", "tcp.layer_norm(%x) {dims = [1], epsilon = 0.00001}", _layer_norm),
    Case("rms_norm", "tcp.rms_norm(%x) {dims = [1], epsilon = 0.00001}", _rms_norm),
    Case("rope", "tcp.rope(%x, %y, %z) {dims = [0]}", _rope, (WIDE, X, X), WIDE, _signed),
    Case("attention", "tcp.attention(%x, %y, %z)", _attention, (HEADS, HEADS, HEADS, X), HEADS, _signed),
)  # fmt: skip
"""Those that NumPy has, in f32 where nothing else is said.

NumPy has no error function, and a loop in Python would measure Python: `tcp.erf` has no row. Attention has 4 heads of
64 and as many queries and keys as there are rows; the products of NumPy take one thread, too.
"""


def expected_of(case: Case, arrays: Sequence[Array], m: int, n: int) -> tuple[Array, float]:
    """What NumPy makes of the arrays, and how far a result may be from it, absolutely and relatively."""
    wanted = np.zeros(shape_of(case.result, m, n), NUMPY[case.result.rstrip(">").rsplit("x", 1)[1]])
    case.run(wanted, *arrays)
    return wanted, 1e-9 if wanted.dtype == np.float64 else 2e-3


def ratio(case: Case, kernel: tcpx.Kernel, m: int, n: int, layout: str) -> float:
    """How many times as fast as NumPy the kernel is. Raises ValueError where the results differ."""
    arrays = case.arrays(m, n, layout)
    given = arrays[: len(kernel.signature.inputs)]
    wanted, tolerance = expected_of(case, arrays, m, n)
    out = np.zeros_like(wanted)
    call = kernel.bind(*given, out=out)
    call()
    if not np.allclose(out, wanted, rtol=tolerance, atol=tolerance):
        raise ValueError(f"{case.name} of {m}x{n}, {layout}: {out} differs from {wanted}")

    def numpy() -> object:
        return case.run(wanted, *arrays)

    best = least_seconds({"tcpx": call, "numpy": numpy}, ROUNDS, SHORTEST / 3)
    return best["numpy"] / best["tcpx"]


def measure(case: Case, threads: int = 1) -> dict[str, list[Cell]]:
    """Layout -> cells by size, those that are slow with the remarks on them."""
    found: dict[str, list[Cell]] = {}
    for layout in LAYOUTS:
        module = tcpx.parse(case.payload(layout))
        kernel = tcpx.compile(module, threads=threads)
        found[layout] = [_cell(case, module, kernel, m, n, layout) for m, n in SIZES]
    return found


def _cell(case: Case, module: tcpx.Module, kernel: tcpx.Kernel, m: int, n: int, layout: str) -> Cell:
    name, threads = f"{case.name} of {m}x{n}, {layout}", kernel.signature.threads
    cell = Cell(name, threads, ratio(case, kernel, m, n, layout), "numpy")
    if not cell.is_slow:
        return cell
    known = {symbol.name for symbol in kernel.signature.symbols}
    sizes = {name: size for name, size in {"M": m, "N": n}.items() if name in known}
    return replace(cell, remarks=told(tcpx.remarks_of(module, sizes=sizes, threads=threads)))


def table(rows: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """The page."""
    sizes = [f"{m}x{n}" for m, n in SIZES]
    head = ["operation", *(f"{size}, {layout}" for layout in LAYOUTS for size in sizes)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, found in rows.items():
        cells = [f"{r:.2f}" if r >= BAR else f"**{r:.2f}**" for layout in LAYOUTS for r in found[layout]]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    every = [r for found in rows.values() for ratios in found.values() for r in ratios]
    below = sum(r < BAR for r in every)
    said = (
        "# The speed of each operation\n\n<!-- Made by `make bench-operations`; do not edit. -->\n\n"
        "How many times as fast as NumPy with `out=` a kernel is that `tcpx.compile` makes without a schedule, on one\n"
        f"thread, for `{tcpx.load_target('native').name}`. Kernels know no sizes. *Apart*: rows of operands do not\n"
        f"lie side by side. Below {BAR}: bold, {below} of {len(every)}; geometric mean "
        f"{np.exp(np.mean(np.log(every))):.2f}.\n\n"
    )
    return said + "\n".join(lines) + "\n"


def main() -> int:
    """Measure beside NumPy, print, and write the page if all of them were; or measure beside another revision."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.operations", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="OPERATION", help="some of them; default: all")
    add_measuring(parser)
    add_ledger(parser)
    parser.add_argument("--check", action="store_true", help="with --against: exit status 1 if something is slower")
    options = parser.parse_args()
    unknown = set(options.names) - {case.name for case in CASES}
    if unknown:
        parser.error(f"there is no operation {', '.join(sorted(unknown))}")
    if not options.against and options != parser.parse_args(options.names):
        parser.error("options are for --against REV; beside NumPy, names alone are taken")
    wanted = [case for case in CASES if not options.names or case.name in options.names]
    if options.against:
        from benchmarks.operations_beside import measured_beside

        try:
            return measured_beside(wanted, options)
        except tcpx.ArgumentError as error:
            print(error.diagnostic.render(), file=sys.stderr)
            return 1
    cells: list[Cell] = []
    rows: dict[str, dict[str, list[float]]] = {}
    for case in wanted:
        started = perf_counter()
        measured = measure(case)
        cells += [cell for layout in LAYOUTS for cell in measured[layout]]
        rows[case.name] = {layout: [cell.ratio for cell in measured[layout]] for layout in LAYOUTS}
        ratios = "   ".join(" ".join(f"{r:6.2f}" for r in rows[case.name][layout]) for layout in LAYOUTS)
        print(f"{case.name:24}{ratios}   {perf_counter() - started:5.1f} s", flush=True)
    print(report(cells))
    if not options.names:
        PAGE.write_text(table(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
