"""Functions that are too long for a C compiler are partitioned, by the default schedule and by others."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tcpx
from tcpx.api import lowered
from tcpx.limits import LONGEST_FUNCTION, LONGEST_PART

OWN = tcpx.parse_schedule("""language 1
schedule s(root: func) {
  let x = match one "v3" in root
  let i = tile(x, [d0: 8], tail: pad)
  vectorize(i)
}""")


def chain(length: int, period: int = 0) -> tcpx.Module:
    """A chain of operations, at random, or repeating."""
    drawn = random.Random(1)
    kinds = [drawn.choice(("add", "mul", "max", "min", "sub")) for _ in range(period or length)]
    lines, last = list[str](), "x"
    for k in range(length):
        lines.append(f"  %v{k} = tcp.{kinds[k % len(kinds)]}(%{last}, %y) : tensor<[N]xf32>")
        last = f"v{k}"
    head = "func @chain(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {"
    return tcpx.parse("\n".join([head, *lines, f"  tcp.return(%{last})", "}", ""]))


def scans(length: int) -> tcpx.Module:
    """A chain of operations that the default schedule does not fuse: each reads all that the one before it wrote."""
    drawn = random.Random(1)
    lines, last = list[str](), "x"
    for k in range(length):
        kind = drawn.choice(("cummax", "cummin"))
        lines.append(f"  %v{k}, %t{k} = tcp.{kind}(%{last}) {{dim = 0}} : tensor<[N]xf32>, tensor<f32>")
        last = f"v{k}"
    head = "func @chain(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {"
    return tcpx.parse("\n".join([head, *lines, f"  tcp.return(%{last})", "}", ""]))


def check(module: tcpx.Module, kernel: tcpx.Kernel) -> None:
    for n in (0, 1, 7, 16):
        arrays = tcpx.random_inputs(module, n, sizes={"N": n})
        found, wanted = np.asarray(kernel(*arrays)), np.asarray(tcpx.evaluate(module, *arrays))
        assert np.array_equal(found.astype(np.float64), wanted.astype(np.float64))


@pytest.mark.parametrize("schedule", [None, OWN], ids=["default", "own"])
def test_a_long_function_is_partitioned(schedule: object) -> None:
    module = chain(LONGEST_FUNCTION + 1) if schedule is OWN else scans(LONGEST_FUNCTION + 1)
    kernel = tcpx.compile(module, OWN if schedule is OWN else None, target="x86_avx2")
    check(module, kernel)
    (remark,) = [held for held in kernel.remarks if "partitioned" in held.message]
    assert remark.message == "@chain is partitioned: a C compiler takes too long for all of it at once"
    assert remark.required == f"at most {LONGEST_FUNCTION} operations in the body of a function"
    assert len(kernel.sources) > LONGEST_FUNCTION // LONGEST_PART
    assert kernel.trace is not None


def test_a_shorter_one_is_not() -> None:
    kernel = tcpx.compile(chain(LONGEST_FUNCTION), target="generic")
    assert list(kernel.sources) == ["chain.c"]
    assert kernel.sources["chain.c"] == kernel.c_source
    assert not [remark for remark in kernel.remarks if not remark.factor]


@pytest.mark.parametrize("period", [1, 10, 25, 40])
def test_what_repeats_is_compiled_once(period: int) -> None:
    module = chain(400, period)
    kernel = tcpx.compile(module, target="generic")
    check(module, kernel)
    assert len(kernel.sources) <= 5, list(kernel.sources)


def test_parts_are_cut_where_few_values_cross() -> None:
    """Blocks of four operations that hand on one value, and compute with two."""
    lines, last = list[str](), "x"
    kinds = random.Random(2)
    for k in range(60):
        a, b = (kinds.choice(("add", "mul", "max", "min", "sub")) for _ in range(2))
        lines.append(f"  %a{k} = tcp.{a}(%{last}, %{last}) : tensor<[N]xf32>")
        lines.append(f"  %b{k} = tcp.{b}(%{last}, %a{k}) : tensor<[N]xf32>")
        lines.append(f"  %c{k} = tcp.{a}(%b{k}, %a{k}) : tensor<[N]xf32>")
        last = f"c{k}"
    head = "func @blocks(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {"
    module = tcpx.parse("\n".join([head, *lines, f"  tcp.return(%{last})", "}", ""]))
    kernel = tcpx.compile(module, target="generic")
    run = lowered(tcpx.CompileRequest(module), tcpx.load_target("generic"), 1)
    assert all(len(func.args) == 2 for func in run.module.funcs.values())
    x = np.linspace(-1, 1, 5).astype(np.float32)
    found, wanted = np.asarray(kernel(x)), np.asarray(tcpx.evaluate(module, x))
    assert np.array_equal(found.astype(np.float64), wanted.astype(np.float64), equal_nan=True)


def test_what_is_on_vectors_stays() -> None:
    """Values that no call hands over keep the operations between them in one function."""
    lines, last = ["  %v = vector.read(%x) tile [0] [8] {value = 0.0} : vector<8xf32>"], "v"
    for k in range(LONGEST_FUNCTION + 10):
        lines.append(f"  %v{k} = tcp.add(%{last}, %v) : vector<8xf32>")
        last = f"v{k}"
    text = "\n".join(["func @f(%x: tensor<8xf32>) -> vector<8xf32> {", *lines, f"  tcp.return(%{last})", "}", ""])
    kernel = tcpx.compile(tcpx.parse(text), target="x86_avx2")
    assert list(kernel.sources) == ["f.c"]
    assert not [remark for remark in kernel.remarks if not remark.factor]
    x = np.arange(8, dtype=np.float32)
    assert np.array_equal(np.asarray(kernel(x), np.float32), x * (LONGEST_FUNCTION + 11))


def test_what_has_effects_stays_between_its_neighbours() -> None:
    module = chain(LONGEST_FUNCTION + 2)
    schedule = tcpx.parse_schedule("""language 1
schedule s(root: func) {
  let x = match one "v60" in root
  specialize x when size(x.d0) >= 4 {
    let i = tile(x, [d0: 4])
    prefetch(x.lhs, at: i, ahead: 2)
  } else {
  }
}""")
    check(module, tcpx.compile(module, schedule, target="generic"))


def test_loops_whose_first_step_an_element_decides_stay_with_it() -> None:
    """`stream` binds the first index of a loop to a value, which no function can be passed."""
    module = chain(LONGEST_FUNCTION + 2)
    schedule = tcpx.parse_schedule("""language 1
schedule s(root: func) {
  let x = match one "v60" in root
  tile(x, [d0: 16])
  peel(x.loop(d0))
  stream(x.loop(d0))
}""")
    kernel = tcpx.compile(module, schedule, target="generic")
    check(module, kernel)
    (remark,) = kernel.remarks
    assert remark.found == "131: they are calls of 4 functions now"
