"""Scatter that sets, where the last wins; iterations at once where indices are declared `unique`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_module
from tests.guard_pages import run_guarded
from tests.outside import operations  # noqa: F401  (registers them)
from tests.transform.payloads import run

Array = npt.NDArray[Any]

PAYLOAD = """
func @f(%x: tensor<[N]x[D]xf32>, %ix: tensor<[N]xsi64> in 0 to V WORDS, %z: tensor<[V]x[D]xf32>) -> tensor<[V]x[D]xf32>
    symbols [V, D, N] {
  %p = tcp.mul(%x, %x) : tensor<[N]x[D]xf32>
  %v = OPERATION : tensor<[V]x[D]xf32>
  %c = tcp.add(%v, %z) : tensor<[V]x[D]xf32>
  tcp.return(%c)
}
"""
SET = """tcp.generic(%p, %ix, init = %z) {iterators = [["i", "sequential"], ["j", "parallel"]],
      maps = [[i, j], [i], [in1, j]], neutral = [0.0]} ({ (%a: f32, %at: si64, %before: f32):
    tcp.yield(%a)
  })"""
ADD = """tcp.generic(%p, %ix, init = %z) {iterators = [["i", "reduction"], ["j", "parallel"]],
      maps = [[i, j], [i], [in1, j]], combiner = "tcp.add"} ({ (%a: f32, %at: si64, %acc: f32):
    %s = tcp.add(%acc, %a) : f32
    tcp.yield(%s)
  })"""


def _set(x: Array, ix: Array, z: Array) -> Array:
    made = z.copy()
    for row, at in zip(x * x, ix, strict=True):
        made[at] = row
    return made + z


def _added(x: Array, ix: Array, z: Array) -> Array:
    made = z.copy()
    np.add.at(made, ix, x * x)
    return made + z


OPERATIONS: Mapping[str, tuple[str, Callable[[Array, Array, Array], Array]]] = {
    "set": (SET, _set),
    "set what nothing was in": (SET.replace(", init = %z", ""), lambda x, ix, z: _set(x, ix, np.zeros_like(z)) + z),
    "add": (ADD, _added),
    "add, of a class": ("outside.scatter_add(%p, %ix, init = %z)", _added),
}
IN_ORDER = {
    "as it is": "",
    "tiled": "let a, b = tile(v, [i: 3, j: 5])",
    "tiled the other way": "let a, b = tile(v, [j: 5, i: 3])",
    "columns on threads": "let a = tile(v, [j: 5], parallel: true)",
    "interchanged": "let g = interchange(v, [j, i])",
    "padded": "let a, b = tile(v, [i: 4, j: 8], tail: pad)",
    "peeled": "let a, b = tile(v, [j: 8, i: 4], tail: peel)",
    "producer fused": "let a, b = tile(v, [j: 5, i: 3])\nfuse(p, into: b)",
    "consumer fused": "let a = tile(v, [j: 5])\nfuse(c, into: a)",
    "fused as a producer": "let a = tile(c, [d1: 5])\nfuse(v, into: a)",
    "fused as a consumer": "let a = tile(p, [d1: 5])\nfuse(v, into: a)",
    "in a vectorized loop": "let a, b = tile(v, [j: 16, i: 4], tail: pad)\nfuse(p, into: b)\nvectorize(b)",
}
AT_ONCE = {
    "rows": "let a = tile(v, [i: 3], parallel: true)",
    "a grid": "let a, b = tile(v, [i: 3, j: 4], parallel: true)",
    "rows in columns": "let b = tile(v, [j: 4])\nlet a = tile(v, [i: 3], parallel: true)",
    "columns in rows": "let a = tile(v, [i: 3], parallel: true)\nlet b = tile(v, [j: 4])",
    "padded inside": "let a = tile(v, [i: 6], parallel: true)\nlet b, e = tile(v, [j: 8, i: 4], tail: pad)",
    "padded": "let a, b = tile(v, [i: 4, j: 8], parallel: true, tail: pad)",
    "peeled": "let a, b = tile(v, [i: 4, j: 8], parallel: true, tail: peel)",
    "a loop that was sequential": "let a = tile(v, [i: 3])\nlet b = parallelize(a)",
    "producer fused": "let a = tile(v, [i: 3], parallel: true)\nfuse(p, into: a)",
    "interchanged": "let g = interchange(v, [j, i])\nlet a = tile(g, [i: 3], parallel: true)",
    "in a vectorized loop": "let a, b = tile(v, [j: 16, i: 4], tail: pad, parallel: true)\n"
    "fuse(p, into: b)\nvectorize(b)",
}
SIZES = ((12, 5, 11), (8, 16, 8), (5, 33, 4), (0, 4, 0), (5, 0, 3), (9, 40, 1), (4, 8, 0), (40, 3, 37))
BODY = 'let v = match one "v" in root\nlet p = match one "p" in root\nlet c = match one "c" in root\n'


def _payload(name: str, words: str = "") -> str:
    return PAYLOAD.replace("OPERATION", OPERATIONS[name][0]).replace("WORDS", words)


def _arguments(v: int, d: int, n: int, unique: bool) -> list[Array]:
    """Whole numbers, which are added in any order."""
    random = np.random.default_rng(v + d + n)
    ix = random.permutation(v)[:n] if unique else random.integers(0, max(v, 1), n)
    x, z = (random.integers(-9, 9, shape).astype(np.float32) for shape in ((n, d), (v, d)))
    return [x, ix.astype(np.int64), z]


def _check(name: str, words: str, steps: str, threads: int) -> None:
    text, wanted = _payload(name, words), OPERATIONS[name][1]
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{BODY}{steps}\n}}\n")
    module, kernel = tcpx.parse(text), tcpx.compile(tcpx.parse(text), schedule=program, threads=threads)
    assert print_module(parse(print_module(module))) == print_module(module)
    after = run(text, f"{BODY}{steps}").module
    assert print_module(parse(print_module(after))) == print_module(after)
    for sizes in SIZES:
        given = _arguments(*sizes, unique=bool(words))
        expected = wanted(*given)
        assert np.array_equal(evaluate_func(module, module.main, given)[0], expected), sizes
        assert np.array_equal(evaluate_func(after, after.main, given, seed=sizes[0])[0], expected), sizes
        assert np.array_equal(run_guarded(kernel, *given)[0], expected), sizes


@pytest.mark.parametrize("schedule", IN_ORDER)
@pytest.mark.parametrize("name", ["set", "set what nothing was in"])
def test_the_last_wins(name: str, schedule: str) -> None:
    _check(name, "", IN_ORDER[schedule], 2 if "threads" in schedule else 1)


@pytest.mark.parametrize("schedule", AT_ONCE)
@pytest.mark.parametrize("name", OPERATIONS)
def test_what_writes_at_unique_indices_does_so_at_once(name: str, schedule: str) -> None:
    _check(name, "unique", AT_ONCE[schedule], 2)


@pytest.mark.parametrize("parallel", ["", ", parallel: true"], ids=["in order", "at once"])
def test_parts_of_a_scatter_are_combined_in_their_order(parallel: str) -> None:
    """Whole numbers would hide it: floats are the same on one thread and on four."""
    steps = f"{BODY}split_reduction(v, i, parts: 4{parallel})"
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{steps}\n}}\n")
    one, four = (tcpx.compile(tcpx.parse(_payload("add")), schedule=program, threads=n) for n in (1, 4))
    random = np.random.default_rng(0)
    x, z = (random.standard_normal(shape).astype(np.float32) for shape in ((301, 5), (7, 5)))
    ix = random.integers(0, 7, 301)
    first = one(x, ix, z)
    assert np.allclose(first, _added(x, ix, z), rtol=1e-4, atol=1e-3)
    assert all(np.array_equal(four(x, ix, z), first) for _ in range(20))


def test_padding_changes_no_row() -> None:
    """Not even the sign of a 0: what is added for padding is added to no row."""
    steps = f"{BODY}let a, b = tile(v, [i: 4, j: 8], tail: pad)"
    text = _payload("add, of a class").replace("tcp.add(%v, %z)", "tcp.add(%v, %v)")
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{steps}\n}}\n")
    kernel = tcpx.compile(tcpx.parse(text), schedule=program)
    (made,) = run_guarded(kernel, np.ones((1, 3), np.float32), np.array([1]), np.full((2, 3), -0.0, np.float32))
    assert np.signbit(made[0]).all()


REFUSED = {
    "indices that may be equal": (
        "",
        "let a = tile(v, [i: 3], parallel: true)",
        "`i` is a sequential dim and cannot be tiled in parallel: each goes on from the one before",
        "a parallel dim, or indices that are declared `unique`",
    ),
    "indices that are sorted": (
        "sorted",
        "let a = tile(v, [i: 3], parallel: true)",
        "`i` is a sequential dim and cannot be tiled in parallel: each goes on from the one before",
        "a parallel dim, or indices that are declared `unique`",
    ),
    "a loop over them": (
        "",
        "let a = tile(v, [i: 3])\nlet b = parallelize(a)",
        "iterations of v/i1 write one subset of %v",
        "disjoint subsets, proved from offset and step",
    ),
    "a consumer that needs the last": (
        "unique",
        "let a = tile(v, [i: 3], parallel: true)\nfuse(c, into: a)",
        "%c would be computed on one iteration of v/i1, and these are in no order",
        "a sequential loop, or one whose iterations compute tiles of what is fused",
    ),
    "parts of what is set": (
        "unique",
        "split_reduction(v, i, parts: 3)",
        "`i` of %v is a sequential dim: each iteration goes on from the one before it",
        "a reduction dim: it has none",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_an_order_is_refused(name: str) -> None:
    words, steps, message, required = REFUSED[name]
    with pytest.raises(tcpx.TcpxError) as caught:
        run(_payload("set", words), f"{BODY}{steps}")
    assert (caught.value.diagnostic.message, caught.value.diagnostic.required) == (message, required)


def test_first_values_are_not_made_on_one_of_several_iterations() -> None:
    steps = f"{BODY}let a = tile(v, [i: 3], parallel: true)\nfuse(v.start, into: a)"
    with pytest.raises(tcpx.ScheduleError, match="would be computed on one iteration of v/i1"):
        run(_payload("set what nothing was in", "unique"), steps)


LOOP = """
func @f(%x: tensor<[N]x[D]xf32>, %ix: tensor<[N]xsi64> in 0 to V unique, %iy: tensor<[N]xsi64> in 0 to V unique,
    %z: tensor<[V]x[D]xf32>) -> tensor<[V]x[D]xf32> symbols [V: 9.., D, N] {
  %r = gml_st.parallel %i in 0 to N step 4 (%d = %z) {
    %x.t = gml_st.materialize(%x) tile [%i, 0] [min(4, N - %i), D] : tensor<[min(4, N - %i)]x[D]xf32>
    %ix.t = gml_st.materialize(%INDEX) tile [OFFSET] [min(4, N - %i)] : tensor<[min(4, N - %i)]xsi64>
    %iy.t = gml_st.materialize(%iy) tile [%i] [min(4, N - %i)] : tensor<[min(4, N - %i)]xsi64>
    %acc = gml_st.materialize(%d) tile [0, 0] [V, D] : tensor<[V]x[D]xf32>
    %other = gml_st.materialize(%READ) tile [0, 0] [min(4, N - %i), D] : tensor<[min(4, N - %i)]x[D]xf32>
    %y = tcp.add(%x.t, %other) : tensor<[min(4, N - %i)]x[D]xf32>
    %v = tcp.generic(%y, %ix.t, init = %acc) {iterators = [["i", "sequential"], ["j", "parallel"]],
        maps = [[i, j], [i], [in1, j]], neutral = [0.0]RANGE} ({ (%a: f32, %at: si64, %before: f32):
      tcp.yield(%a)
    }) : tensor<[V]x[D]xf32>
    %w = tcp.generic(%x.t, %iy.t, init = %v) {iterators = [["i", "sequential"], ["j", "parallel"]],
        maps = [[i, j], [i], [in1, j]], neutral = [0.0]} ({ (%a: f32, %at: si64, %before: f32):
      tcp.yield(%a)
    }) : tensor<[V]x[D]xf32>
    gml_st.yield(%LAST, %d) tile [0, 0] [V, D]
  } : tensor<[V]x[D]xf32>
  tcp.return(%r)
}
"""
UNSAFE: dict[str, dict[str, str]] = {
    "as it is": {},
    "of two arguments": {"LAST": "w"},
    "one part for all iterations": {"OFFSET": "0"},
    "clamped": {"RANGE": ', out_of_range = "clamp"'},
    "read by something else": {"LAST": "v"},
    "read by something else, too": {"READ": "d"},
    "what was there at another place": {"LAST": "acc"},
}


@pytest.mark.parametrize("name", UNSAFE)
def test_a_parallel_loop_writes_where_unique_indices_say_or_is_refused(name: str) -> None:
    changed = {"LAST": "v", "OFFSET": "%i", "RANGE": "", "INDEX": "ix", "READ": "z", **UNSAFE[name]}
    text = LOOP
    if name != "read by something else" and changed["LAST"] == "v":
        text = (
            "".join(part for part in text.split("    %w = ")[:1]) + "    gml_st.yield" + text.split("gml_st.yield")[1]
        )
    for word, value in changed.items():
        text = text.replace(word, value)
    if name == "as it is":
        _check_loop(text)
        return
    with pytest.raises(tcpx.VerifyError, match="yields to %d are not proved disjoint"):
        parse(text)


def _check_loop(text: str) -> None:
    kernel = tcpx.compile(tcpx.parse(text), threads=2)
    x, ix, z = _arguments(12, 5, 11, unique=True)
    z0 = z.copy()
    z0[ix] = x + z[np.arange(11) % 4]
    assert np.array_equal(run_guarded(kernel, x, ix, ix, z)[0], z0)
    assert np.array_equal(tcpx.evaluate(tcpx.parse(text), x, ix, ix, z), z0)
