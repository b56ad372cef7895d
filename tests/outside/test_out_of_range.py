"""Indices that may be outside: what is read is a number and nothing else, what is written is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_module
from tcpx.payload.types import dtype_of
from tests.guard_pages import run_guarded
from tests.outside import operations  # noqa: F401  (registers them)
from tests.outside.test_indices import CASES, SCATTERING
from tests.transform.payloads import run

Array = npt.NDArray[Any]
BODY = "".join(f'let {name} = match one "{name}" in root\n' for name in "vpc")
BAD = (-1, 0, 2**31, 2**63 - 1, -(2**63))
"""Of which the second is taken as the extent."""
SIZES = ((7, 21, 11), (7, 5, 10), (1, 16, 8), (0, 21, 6), (0, 4, 0), (5, 0, 3), (3, 33, 1))


def _text(name: str) -> str:
    """A case in which nothing is said of the indices, and what is outside is 2.5, or 0 of a class."""
    text = CASES[name].payload.replace(" in 0 to V", "")
    text = text.replace("{axis = 0}", "{axis = 0, fills = true}").replace("{axis = 1}", "{axis = 1, fills = true}")
    return text.replace("maps =", 'out_of_range = "fill", fill = 2.5, maps =')


def _indices(text: str, v: int, n: int) -> Array:
    """Some inside, some outside: first, last, and in between."""
    dtype = dtype_of(parse(text).main.inputs[1].type).numpy
    random = np.random.default_rng(v + n)
    ix = random.integers(-2, v + 2, n).astype(dtype)
    bad = [b if k != 1 else v for k, b in enumerate(BAD) if np.iinfo(dtype.name).min <= b <= np.iinfo(dtype.name).max]
    for k, number in zip(random.permutation(n)[: len(bad)], bad, strict=False):
        ix[k] = number
    if n:
        ix[-1] = v
    return ix


def _compiled(text: str, steps: str, threads: int = 1) -> tcpx.Kernel:
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{BODY}{steps}\n}}\n")
    return tcpx.compile(tcpx.parse(text), schedule=program, threads=threads)


GATHERS = [
    (name, schedule)
    for name in ("gather rows", "gather columns", "gather in a generic")
    for schedule in CASES[name].schedules
    if not (schedule == "generalized" and name == "gather in a generic")
]


@pytest.mark.parametrize(("name", "schedule"), GATHERS)
def test_what_is_outside_reads_a_number(name: str, schedule: str) -> None:
    text, steps = _text(name), CASES[name].schedules[schedule]
    module = parse(text)
    assert print_module(parse(print_module(module))) == print_module(module)
    kernel = _compiled(text, steps, 2 if "threads" in schedule else 1)
    after = run(text, f"{BODY}{steps}").module
    assert print_module(parse(print_module(after))) == print_module(after)
    axis, rest = int(name == "gather columns"), 2.5 if "generic" in name else 0
    for v, d, n in SIZES:
        random = np.random.default_rng(v + d + n)
        x, z = (random.integers(-9, 9, shape).astype(np.float32) for shape in ((v, d), (n, d)))
        ix = _indices(text, v, n)
        wanted = np.full((n, d), rest, np.float32)
        inside = (ix >= 0) & (ix < v)
        wanted[inside] = (x * x)[ix[inside]]
        wanted += z
        given = [x.T.copy(), ix, z.T.copy()] if axis else [x, ix, z]
        wanted = wanted.T if axis else wanted
        assert np.array_equal(evaluate_func(module, module.main, given)[0], wanted), (v, d, n)
        assert np.array_equal(evaluate_func(after, after.main, given)[0], wanted), (v, d, n)
        assert np.array_equal(run_guarded(kernel, *given)[0], wanted), (v, d, n)


SETS = """tcp.generic(%p, %ix, init = %z) {iterators = [["i", "sequential"], ["j", "parallel"]],
      maps = [[i, j], [i], [in1, j]], neutral = [0.0]} ({ (%a: f32, %i: si64, %before: f32):
    tcp.yield(%a)
  })"""
ADDS = CASES["scatter-add in a generic"].payload
SCATTERS: Mapping[str, str] = {
    "adds": ADDS,
    "sets": ADDS[: ADDS.index("tcp.generic")] + SETS + ADDS[ADDS.index(" : tensor<[V]x[D]xf32>\n  %c") :],
}


@pytest.mark.parametrize("schedule", [schedule for schedule in SCATTERING if schedule != "generalized"])
@pytest.mark.parametrize("name", SCATTERS)
def test_what_is_outside_is_not_written(name: str, schedule: str) -> None:
    text = SCATTERS[name].replace(" in 0 to V", "").replace("maps =", 'out_of_range = "fill", maps =')
    module, kernel = parse(text), _compiled(text, SCATTERING[schedule], 2 if "threads" in schedule else 1)
    for v, d, n in SIZES:
        random = np.random.default_rng(v + d + n)
        x, z = (random.integers(-9, 9, shape).astype(np.float32) for shape in ((n, d), (v, d)))
        ix, wanted = _indices(text, v, n), z.copy()
        for row, at in zip(x * x, ix, strict=True):
            if 0 <= at < v:
                wanted[at] = row if name == "sets" else wanted[at] + row
        wanted += z
        assert np.array_equal(evaluate_func(module, module.main, [x, ix, z])[0], wanted), (v, d, n)
        assert np.array_equal(run_guarded(kernel, x, ix, z)[0], wanted), (v, d, n)


def test_unique_indices_of_which_some_are_outside_write_at_once() -> None:
    text = (
        SCATTERS["sets"].replace("in 0 to V", "in -3 to 2*V unique").replace("maps =", 'out_of_range = "fill", maps =')
    )
    kernel = _compiled(text, "let a = tile(v, [i: 3], parallel: true)", threads=2)
    random = np.random.default_rng(0)
    x, z = (random.integers(-9, 9, shape).astype(np.float32) for shape in ((17, 5), (9, 5)))
    ix, wanted = random.permutation(np.arange(-3, 18))[:17], z.copy()
    for row, at in zip(x * x, ix, strict=True):
        if 0 <= at < 9:
            wanted[at] = row
    assert np.array_equal(run_guarded(kernel, x, ix, z)[0], wanted + z)


TWICE = """
func @f(%x: tensor<[V]x[W]xf32>, %i: tensor<[N]xsi64>, %j: tensor<[N]xsi64>) -> tensor<[N]xf32> symbols [V, W, N] {
  %v = tcp.generic(%x, %i, %j) {iterators = [["n", "parallel"]], maps = [[in1, in2], [n], [n], [n]],
      out_of_range = "fill", fill = -1.0} ({ (%a: f32, %at: si64, %b: si64):
    tcp.yield(%a)
  }) : tensor<[N]xf32>
  tcp.return(%v)
}
"""


@pytest.mark.parametrize("steps", ["", "let a = tile(v, [n: 8], tail: pad)\nvectorize(a)"])
def test_one_of_two_indices_is_outside(steps: str) -> None:
    text = 'language 1\nschedule s(root: func) {\nlet v = match one "v" in root\n' + steps + "\n}\n"
    kernel = tcpx.compile(tcpx.parse(TWICE), schedule=tcpx.parse_schedule(text))
    for v, w, n in ((5, 4, 21), (0, 4, 9), (5, 0, 8)):
        x = np.arange(v * w, dtype=np.float32).reshape(v, w)
        i, j = (np.random.default_rng(n + k).integers(-2, extent + 2, n) for k, extent in enumerate((v, w)))
        inside = (i >= 0) & (i < v) & (j >= 0) & (j < w)
        wanted = np.full(n, -1, np.float32)
        wanted[inside] = x[i[inside], j[inside]]
        assert np.array_equal(run_guarded(kernel, x, i, j)[0], wanted)
        assert np.array_equal(tcpx.evaluate(tcpx.parse(TWICE), x, i, j), wanted)


INDICES = """
func @f(%x: tensor<[V]xf32>, %t: tensor<[W]xsi64> in 0 to V, %i: tensor<[N]xsi64>) -> tensor<[N]xf32>
    symbols [V, W, N] {
  %at = tcp.generic(%t, %i) {iterators = [["n", "parallel"]], maps = [[in1], [n], [n]],
      out_of_range = "fill", fill = FILL} ({ (%a: si64, %b: si64):
    tcp.yield(%a)
  }) : tensor<[N]xsi64>
  %v = tcp.generic(%x, %at) {iterators = [["n", "parallel"]], maps = [[in1], [n], [n]]} ({ (%a: f32, %b: si64):
    tcp.yield(%a)
  }) : tensor<[N]xf32>
  tcp.return(%v)
}
"""


def test_what_is_read_for_an_index_outside_is_none_of_the_range() -> None:
    """What says where to read is a table of indices itself, and 0 is none if the next table is empty."""
    for number in ("-1", "0"):
        with pytest.raises(tcpx.VerifyError, match="nothing says that it is inside"):
            parse(INDICES.replace("FILL", number))
    module = parse(INDICES.replace("FILL", "0").replace("[V, W, N]", "[V: 1.., W, N]"))
    x, t, i = np.arange(5, dtype=np.float32), np.array([4, 2]), np.array([0, 7, 1])
    assert np.array_equal(evaluate_func(module, module.main, [x, t, i])[0], [4, 0, 2])


@pytest.mark.parametrize("dtype", ["si8", "ui8", "si16", "si32"])
@pytest.mark.parametrize("standing", ["clamp", "fill"])
@pytest.mark.parametrize("steps", ["", "let a, b = tile(v, [d0: 4, d1: 8], tail: pad)\nvectorize(b)"])
def test_an_extent_that_the_type_of_the_indices_does_not_hold(dtype: str, standing: str, steps: str) -> None:
    text = CASES["gather in a generic"].payload.replace(" in 0 to V", "").replace("si64", dtype)
    text = text.replace("maps =", f'out_of_range = "{standing}", maps =').replace("[V, D, N]", "[V: 1.., D, N]")
    x = np.arange(70_000 * 2, dtype=np.float32).reshape(-1, 2)
    kernel, info = _compiled(text, steps), np.iinfo(dtype_of(parse(text).main.inputs[1].type).numpy.name)
    for v in (70_000, 300, 3):
        ix = np.array([0, 2, 3, info.max, info.min, 100], info.dtype)
        z, wide = np.zeros((6, 2), np.float32), ix.astype(np.int64)
        wanted = np.square(x[:v])[np.clip(wide, 0, v - 1)]
        if standing == "fill":
            wanted[(wide < 0) | (wide >= v)] = 0
        assert np.array_equal(kernel(x[:v], ix, z), wanted)


REFUSED = {
    "a number that the table cannot hold": (
        ("fill = 2.5", "fill = 1e300"),
        "the value of a constant is one of its type f32",
    ),
    "an index that si64 does not hold": (("si64", "ui64"), "`in1` is an index"),
    "another word": (('"fill"', '"wrap"'), "`out_of_range`"),
    "a number that is not read": (('"fill"', '"clamp"'), "`fill` is what is read where an index is outside"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_outside_is_refused(name: str) -> None:
    (old, new), message = REFUSED[name]
    text = _text("gather in a generic")
    assert old in text
    with pytest.raises(tcpx.TcpxError) as caught:
        parse(text.replace(old, new))
    assert message in caught.value.diagnostic.message
