"""The reference evaluator computes a generic for many points at once: bit for bit what it computes point by point."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.ir import Operation
from tcpx.payload.ops import batched_body, generic
from tcpx.payload.ops.batched_body import is_batchable
from tcpx.payload.progress import EvaluationProgress

Array = npt.NDArray[np.generic]
FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = {"si8": np.int8, "ui8": np.uint8, "si16": np.int16, "si32": np.int32, "ui32": np.uint32, "si64": np.int64}
CASES = 400
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e30, 65504.0)


@dataclass
class Drawn:
    """A payload of one generic, and its inputs."""

    text: str
    arrays: list[Array]
    seen: set[str] = field(default_factory=set)


def _expression(rng: random.Random, names: Sequence[str]) -> str:
    a, b = rng.choice(names), rng.choice(names)
    return rng.choice(
        [f"2*{a} + 1", f"{a} + {b}", f"{a} + 2*{b}", f"31 - {a}", f"floordiv({a}, 2)", f"mod({a}, 3)", "3", f"{a} + 4"]
        + [f"min({a}, 2)", f"max({a}, {b})", f"2*floordiv({a} + {b}, 2)"]
    )


def _value(expression: str, at: dict[str, int]) -> int:
    functions = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max}
    return int(eval(expression, {"__builtins__": {}}, {**functions, **at}))  # noqa: S307 - text of this file


def _body(rng: random.Random, dtype: str, inputs: int, combiner: str | None, seen: set[str]) -> str:
    """A body of random operations; values are %e0.., %acc, and what was computed."""
    known = [f"%e{k}" for k in range(inputs)]
    lines: list[str] = []

    def add(text: str, type_: str = dtype) -> str:
        name = f"%t{len(lines)}"
        lines.append(f"    {name} = {text} : {type_}")
        return name

    steps = rng.randrange(4)
    for _ in range(steps):
        pick = lambda: rng.choice(known)  # noqa: E731 - drawn anew each time
        kind = rng.choice(["add", "mul", "max", "min", "const", "select", "fma", "exp", "cast"])
        if kind in ("fma", "exp") and dtype not in FLOATS:
            kind = "mul"
        seen.add(kind)
        if kind == "const":
            known.append(add("tcp.const {value = " + ("1.5" if dtype in FLOATS else "3") + "}"))
        elif kind == "select":
            known.append(add(f"tcp.select({add(f'tcp.less({pick()}, {pick()})', 'i1')}, {pick()}, {pick()})"))
        elif kind == "fma":
            known.append(add(f"tcp.fma({pick()}, {pick()}, {pick()})"))
        elif kind == "exp":
            known.append(add(f"tcp.exp({pick()})"))
        elif kind == "cast":
            known.append(add(f"tcp.cast({add(f'tcp.cast({pick()})', 'si32')})"))
        else:
            known.append(add(f"tcp.{kind}({pick()}, {pick()})"))
    if combiner is not None:
        style = rng.choice(["combine", "combine", "combine", "where", "ignore"])
        seen.add(f"accumulator: {style}")
        if style == "ignore":
            known.append("%acc")
        else:
            element = rng.choice(known)
            known.append(add(f"tcp.{combiner}(%acc, {element})"))
        if style == "where":
            known.append(add(f"tcp.select({add(f'tcp.less({known[0]}, {element})', 'i1')}, {known[-1]}, %acc)"))
    return "\n".join([*lines, f"    tcp.yield({known[-1]})"])


def _array(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    if dtype not in FLOATS:
        return rng.integers(0, 100, shape).astype(INTEGERS[dtype])
    values = np.asarray(rng.standard_normal(shape))
    values = np.where(rng.random(shape) < 0.05, rng.choice(SPECIAL, shape), values)
    (numpy,) = tcpx.argument_dtypes(tcpx.parse(_identity(dtype))).values()
    with np.errstate(over="ignore"):
        return values.astype(numpy)


def _identity(dtype: str) -> str:
    return f"func @f(%x: tensor<2x{dtype}>) -> tensor<2x{dtype}> {{\n  tcp.return(%x)\n}}\n"


def draw(seed: int) -> Drawn:
    """A generic of 1 to 5 dims in any order, some reduced, over one or two inputs with affine and other maps."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    seen: set[str] = set()
    names = list("abcde"[: rng.randint(1, 5)])
    kinds = {name: rng.choice(["parallel", "reduction"]) for name in names}
    extents = {name: rng.choice([0, 1, 2, 3, 5] if rng.random() < 0.2 else [1, 2, 3, 5]) for name in names}
    seen |= {"empty"} if 0 in extents.values() else set()
    declared = {name for name in names if rng.random() < 0.3}
    parallel = [name for name in names if kinds[name] == "parallel"]
    rng.shuffle(parallel)
    dtype = rng.choice([*FLOATS, *INTEGERS])
    count = rng.randint(1, 2)
    maps = [[name for name in names if name not in declared and (kinds[name] == "reduction" or rng.random() < 0.5)]]
    if count == 2:
        maps.append([rng.choice(names) if rng.random() < 0.4 else _expression(rng, names) for _ in range(2)])
        seen |= {"diagonal"} if maps[1][0] == maps[1][1] else set()
    shapes = []
    for each in maps:
        points = [dict(zip(names, at, strict=True)) for at in product(*(range(extents[n]) or [-1] for n in names))]
        longer = [rng.randrange(3) if e in declared else 0 for e in each]
        seen |= {"longer"} if any(longer) else set()
        needed = [extents[e] if e in names else max(0, 1 + max(_value(e, p) for p in points)) for e in each]
        shapes.append([n + more for n, more in zip(needed, longer, strict=True)])
    initial = rng.random() < 0.3
    accumulates = initial or any(kind == "reduction" for kind in kinds.values())
    result = [extents[name] for name in parallel]
    arrays = [_array(numbers, shape, dtype) for shape in [*shapes, *([result] if initial else [])]]
    types = ["x".join(["tensor<", *[str(d) for d in a.shape], f"{dtype}>"]).replace("<x", "<") for a in arrays]
    formals = [f"%x{k}: {type_}" for k, type_ in enumerate(types)]
    given = [f"%x{k}" for k in range(count)] + ([f"init = %x{count}"] if initial else [])
    elements = [f"%e{k}: {dtype}" for k in range(count)] + ([f"%acc: {dtype}"] if accumulates else [])
    combiner = rng.choice(["add", "add", "max", "min", "mul"]) if accumulates else None
    body = _body(rng, dtype, count, combiner, seen)
    entries = {
        name: f'"{name}", "{kinds[name]}"' + (f", {extents[name]}" if name in declared else "") for name in names
    }
    iterators = ", ".join(f"[{entries[name]}]" for name in names)
    listed = ", ".join(f"[{', '.join(each)}]" for each in [*maps, parallel])
    kind = f"tensor<{''.join(f'{d}x' for d in result)}{dtype}>"
    named = "" if combiner is None else f', combiner = "tcp.{combiner}"'
    attributes = f"{{iterators = [{iterators}], maps = [{listed}]{named}}}"
    text = (
        f"func @drawn({', '.join(formals)}) -> {kind} {{\n"
        f"  %y = tcp.generic({', '.join(given)}) {attributes} ({{ ({', '.join(elements)}):\n{body}\n  }}) : {kind}\n"
        "  tcp.return(%y)\n}\n"
    )
    return Drawn(text, arrays, seen | {dtype} | ({combiner} if combiner else set()))


def numbers(array: Array) -> npt.NDArray[np.float64]:
    """The elements, exactly; zeros are alike, for max and min leave their sign open."""
    return array.astype(np.float64) + 0.0


def test_batches_compute_what_points_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    exercised: Counter[str] = Counter()
    for seed in range(CASES):
        drawn = draw(seed)
        module = tcpx.parse(drawn.text)
        (op,) = [op for op in module.main.body.ops if isinstance(op, generic.Generic)]
        assert is_batchable(op.regions[0])
        monkeypatch.setattr(batched_body, "ELEMENTS", (1, 4, 50, 1 << 15)[seed % 4])
        found = tcpx.evaluate(module, *drawn.arrays)
        with monkeypatch.context() as patch:
            patch.setattr(generic, "is_batchable", lambda _: False)
            wanted = tcpx.evaluate(module, *drawn.arrays)
        assert isinstance(found, np.ndarray)
        assert isinstance(wanted, np.ndarray)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(numbers(found), numbers(wanted), err_msg=drawn.text)
        exercised.update(drawn.seen)
    for what in (*FLOATS, *INTEGERS, "empty", "diagonal", "select", "fma", "cast", "const", "exp", "longer"):
        assert exercised[what] >= 10, exercised
    for what in ("combine", "where", "ignore"):
        assert exercised[f"accumulator: {what}"] >= 10, exercised


SEVERAL = {
    "a region that combines tuples, and positions": """\
func @f(%x: tensor<[M]x[N]xf32>) -> (tensor<[N]xf32>, tensor<[N]xsi64>) symbols [M, N] {
  %v, %k = tcp.generic(%x) {iterators = [["i", "reduction"], ["j", "parallel"]], maps = [[i, j], [j], [j]],
      positions = [2*i + j], neutral = [-inf, -1]} ({ (%e: f32, %at: si64):
    %t = tcp.add(%at, %at) : si64
    tcp.yield(%e, %t)
  }, { (%a: f32, %ka: si64, %b: f32, %kb: si64):
    %less = tcp.less(%a, %b) : i1
    %k1 = tcp.select(%less, %kb, %ka) : si64
    %m = tcp.max(%a, %b) : f32
    tcp.yield(%m, %k1)
  }) : tensor<[N]xf32>, tensor<[N]xsi64>
  tcp.return(%v, %k)
}
""",
    "results in different orders, one of another dtype": """\
func @f(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[N]x[M]xsi32>) symbols [M: 0..100, N: 0..100] {
  %v, %w = tcp.generic(%x) {iterators = [["i", "parallel"], ["j", "parallel"]], maps = [[i, j], [i, j], [j, i]],
      positions = [i + 3*j]} ({ (%e: f32, %at: si32):
    %s = tcp.add(%e, %e) : f32
    tcp.yield(%s, %at)
  }) : tensor<[M]x[N]xf32>, tensor<[N]x[M]xsi32>
  tcp.return(%v, %w)
}
""",
    "what does not commute, from a start, not all of it valid": """\
func @f(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xf32>) symbols [M, N: 2..] {
  %s = tcp.fill {value = 2.0} : tensor<[M]xf32>
  %v, %w = tcp.generic(%x, init = (%s, %s)) {iterators = [["i", "parallel"], ["j", "reduction"]],
      maps = [[i, j], [i], [i]], neutral = [1.0, 0.0], valid = [["j", N - 1]]} ({ (%e: f32):
    tcp.yield(%e, %e)
  }, { (%a: f32, %b: f32, %c: f32, %d: f32):
    %m = tcp.mul(%a, %c) : f32
    %n = tcp.mul(%b, %c) : f32
    %o = tcp.add(%n, %d) : f32
    tcp.yield(%m, %o)
  }) : tensor<[M]xf32>, tensor<[M]xf32>
  tcp.return(%v, %w)
}
""",
}


@pytest.mark.parametrize("elements", [1, 4, 50, 1 << 15])
@pytest.mark.parametrize("name", SEVERAL)
def test_several_results_are_batched(name: str, elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tcpx.parse(SEVERAL[name])
    monkeypatch.setattr(batched_body, "ELEMENTS", elements)
    for shape in ((7, 9), (1, 2), (0, 4), (20, 30)):
        x = np.random.default_rng(shape[0]).standard_normal(shape).astype(np.float32)
        progress = Counted()
        found = evaluate_func(module, module.main, [x], observer=progress)
        assert elements < 50 or progress.started <= 12 * max(shape)
        with monkeypatch.context() as patch:
            patch.setattr(generic, "is_batchable", lambda _: False)
            wanted = evaluate_func(module, module.main, [x])
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(numbers(a), numbers(b))


def test_more_reduction_points_than_a_block_are_accumulated_in_order() -> None:
    """A sum of f32 in the order of the definition: pairwise summation, or one in f64, would give another."""
    x = np.random.default_rng(0).standard_normal(300_001).astype(np.float32)
    module = tcpx.parse(
        "func @f(%x: tensor<300001xf32>) -> tensor<f32> {\n"
        '  %y = tcp.generic(%x) {iterators = [["i", "reduction"]], maps = [[i], []], combiner = "tcp.add"} '
        "({ (%e: f32, %acc: f32):\n    %s = tcp.add(%acc, %e) : f32\n    tcp.yield(%s)\n  }) : tensor<f32>\n"
        "  tcp.return(%y)\n}\n"
    )
    found = tcpx.evaluate(module, x)
    assert isinstance(found, np.ndarray)
    assert found == np.add.accumulate(x)[-1] != np.sum(x)


def test_the_start_of_an_accumulation_is_not_changed() -> None:
    module = tcpx.parse(
        "func @f(%x: tensor<4xf32>, %s: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  %y = tcp.generic(%x, init = %s) {iterators = [["i", "parallel"]], maps = [[i], [i]], combiner = "tcp.add"} '
        "({ (%e: f32, %acc: f32):\n    tcp.yield(%acc)\n  }) : tensor<4xf32>\n"
        "  %z = tcp.add(%y, %s) : tensor<4xf32>\n  tcp.return(%z)\n}\n"
    )
    start = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(tcpx.evaluate(module, start, start), 2 * start)
    np.testing.assert_array_equal(start, np.arange(4, dtype=np.float32))


def test_a_convolution_takes_a_batch_for_each_point_that_it_reduces_over() -> None:
    """Point by point it would be 460,800 runs of the body: `tcpx run --check` said nothing for minutes."""
    module = tcpx.parse(
        "func @convolution(%x: tensor<8x42x42xf32>, %w: tensor<4x8x3x3xf32>) -> tensor<4x40x40xf32> {\n"
        '  %y = tcp.generic(%x, %w) {iterators = [["co", "parallel"], ["oh", "parallel"], ["ow", "parallel"], '
        '["ci", "reduction"], ["kh", "reduction"], ["kw", "reduction"]], '
        'maps = [[ci, oh + kh, ow + kw], [co, ci, kh, kw], [co, oh, ow]], combiner = "tcp.add"} '
        "({ (%e: f32, %f: f32, %acc: f32):\n    %p = tcp.mul(%e, %f) : f32\n    %s = tcp.add(%acc, %p) : f32\n"
        "    tcp.yield(%s)\n  }) : tensor<4x40x40xf32>\n  tcp.return(%y)\n}\n"
    )
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((8, 42, 42), (4, 8, 3, 3)))
    progress = Counted()
    (found,) = evaluate_func(module, module.main, [x, w], observer=progress)
    assert progress.fraction == 1
    assert progress.points == 460_800
    assert progress.started <= 2 * 72 + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    wanted = np.zeros((4, 40, 40), np.float32)
    for ci, kh, kw in product(range(8), range(3), range(3)):
        wanted += windows[ci, :, :, kh, kw] * w[:, ci, kh, kw].reshape(4, 1, 1)
    np.testing.assert_array_equal(found, wanted)


class Counted(EvaluationProgress):
    """Counts the operations that begin."""

    __slots__ = ("started",)

    def __init__(self) -> None:
        super().__init__()
        self.started = 0

    def start(self, op: Operation) -> None:
        self.started += 1
        super().start(op)
