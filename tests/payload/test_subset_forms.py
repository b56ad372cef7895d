"""Subsets `full`, `point` and `filter`, and yields that combine: as they are written, evaluated and compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.diagnostics import ParseError, VerifyError
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse
from tests.guard_pages import run_guarded

Array = npt.NDArray[Any]

HEAD = """func @f(%x: tensor<[N]x[D]xf32>, %ix: tensor<[N]xsi64> in 0 to V UNIQUE, %z: tensor<[V]x[D]xf32>)
    -> tensor<[V]x[D]xf32> symbols [N, D, V] {
"""
END = """
  tcp.return(%y)
}
"""
POINTS = """  %y = gml_st.KIND %i in 0 to V step 1 (%d = %z) {
    %row = gml_st.materialize(%d) tile [%i, 0] [1, D] : tensor<1x[D]xf32>
    %c = gml_st.for %j in 0 to D step 1 (%e = %row) {
      %p = gml_st.materialize(%z) point [%i, %j] : tensor<f32>
      %q = tcp.mul(%p, %p) : tensor<f32>
      gml_st.yield(%q, %e) point [0, %j]
    } : tensor<1x[D]xf32>
    gml_st.yield(%c, %d) tile [%i, 0] [1, D]
  } : tensor<[V]x[D]xf32>"""
FULL = """  %y = gml_st.for %i in 0 to 3 step 1 (%d = %z) {
    %all = gml_st.materialize(%d) full : tensor<[V]x[D]xf32>
    %more = tcp.add(%all, %z) : tensor<[V]x[D]xf32>
    gml_st.yield(%more, %d) full
  } : tensor<[V]x[D]xf32>"""
TILES = """  %y = gml_st.KIND %i in 0 to N step 4 (%d = %z) {
    %ix.t = gml_st.materialize(%ix) tile [%i] [min(4, N - %i)] : tensor<[min(4, N - %i)]xsi64>
    %x.t = gml_st.materialize(%x) tile [%i, 0] [min(4, N - %i), D] : tensor<[min(4, N - %i)]x[D]xf32>
    BODY
  } : tensor<[V]x[D]xf32>"""
UPDATED = """%old = gml_st.materialize(%z, %ix.t) filter [0] : tensor<[min(4, N - %i)]x[D]xf32>
    %new = tcp.sub(%old, %x.t) : tensor<[min(4, N - %i)]x[D]xf32>
    gml_st.yield(%new, %ix.t, %d) filter [0]"""
COLUMNS = """  %o = tcp.transpose(%z) {permutation = [1, 0]} : tensor<[D]x[V]xf32>
  %xt = tcp.transpose(%x) {permutation = [1, 0]} : tensor<[D]x[N]xf32>
  %c = gml_st.parallel %i in 0 to D step 3 (%d = %o) {
    %v = gml_st.materialize(%xt) tile [%i, 0] [min(3, D - %i), N] : tensor<[min(3, D - %i)]x[N]xf32>
    %row = gml_st.materialize(%d) tile [%i, 0] [min(3, D - %i), V] : tensor<[min(3, D - %i)]x[V]xf32>
    %s = gml_st.for %k in 0 to 1 step 1 (%e = %row) {
      gml_st.yield(%v, %ix, %e) filter [1] combine tcp.add
    } : tensor<[min(3, D - %i)]x[V]xf32>
    gml_st.yield(%s, %d) tile [%i, 0] [min(3, D - %i), V]
  } : tensor<[D]x[V]xf32>
  %y = tcp.transpose(%c) {permutation = [1, 0]} : tensor<[V]x[D]xf32>"""
SUMS = """  %y = gml_st.KIND %i in 0 to V step 2 (%d = %z) {
    %z.t = gml_st.materialize(%z) tile [%i, 0] [min(2, V - %i), D] : tensor<[min(2, V - %i)]x[D]xf32>
    gml_st.yield(%z.t, %d) tile [%i, 0] [min(2, V - %i), D] combine COMBINER
  } : tensor<[V]x[D]xf32>"""
SUM_OF_ALL = """  %y = gml_st.for %i in 0 to 4 step 1 (%d = %z) {
    gml_st.yield(%z, %d) full combine tcp.add
  } : tensor<[V]x[D]xf32>"""


def _scattered(x: Array, ix: Array, z: Array) -> Array:
    made = z.copy()
    for row, at in zip(x, ix, strict=True):
        made[at] = z[at] - row
    return made


def _added(x: Array, ix: Array, z: Array) -> Array:
    made = z.copy()
    np.add.at(made, ix, x)
    return made


def _filtered(body: str, kind: str = "for") -> str:
    return TILES.replace("KIND", kind).replace("BODY", body)


ADDED = "gml_st.yield(%x.t, %ix.t, %d) filter [0] combine tcp.add"
PROGRAMS: Mapping[str, tuple[str, bool, Callable[[Array, Array, Array], Array]]] = {
    "point": (POINTS.replace("KIND", "for"), False, lambda x, ix, z: z * z),
    "point, at once": (POINTS.replace("KIND", "parallel"), False, lambda x, ix, z: z * z),
    "full": (FULL, False, lambda x, ix, z: 4 * z),
    "filter": (_filtered(UPDATED), False, _scattered),
    "filter, at once": (_filtered(UPDATED, "parallel"), True, _scattered),
    "filter, added": (_filtered(ADDED), False, _added),
    "filter, added at once": (_filtered(ADDED, "parallel"), True, _added),
    "filter of columns, added": (COLUMNS, False, _added),
    "combined": (SUMS.replace("KIND", "for").replace("COMBINER", "tcp.add"), False, lambda x, ix, z: z + z),
    "combined, at once": (
        SUMS.replace("KIND", "parallel").replace("COMBINER", "tcp.mul"),
        False,
        lambda x, ix, z: z * z,
    ),
    "the largest": (SUMS.replace("KIND", "for").replace("COMBINER", "tcp.max"), False, lambda x, ix, z: z),
    "combined in each iteration": (SUM_OF_ALL, False, lambda x, ix, z: 5 * z),
}
SIZES = ((7, 5, 9), (1, 1, 1), (0, 3, 4), (13, 0, 13), (12, 33, 17))


def _text(name: str) -> str:
    body, unique, _ = PROGRAMS[name]
    return HEAD.replace(" UNIQUE", " unique" if unique else "") + body + END


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers(name: str) -> None:
    module, wanted = parse(_text(name)), PROGRAMS[name][2]
    assert parse(module.text()).text() == module.text()
    program = tcpx.parse_schedule("language 1\nschedule s(root: func) {\n}\n")
    kernel = tcpx.compile(parse(_text(name)), schedule=program, threads=2)
    for n, d, v in SIZES:
        random = np.random.default_rng(n + d + v)
        ix = random.permutation(v)[:n] if PROGRAMS[name][1] else random.integers(0, v, n)
        x, z = (random.integers(-9, 9, shape).astype(np.float32) for shape in ((n, d), (v, d)))
        given = [x, ix.astype(np.int64), z]
        expected = wanted(*given)
        assert np.array_equal(evaluate_func(module, module.main, given, seed=n)[0], expected), (n, d, v)
        assert np.array_equal(run_guarded(kernel, *given)[0], expected), (n, d, v)


def test_they_are_printed_as_what_they_stand_for() -> None:
    text = parse(_text("point")).text()
    assert "gml_st.materialize(%z) tile [%i, %j] [1, 1] drop [0, 1] : tensor<f32>" in text
    assert "gml_st.materialize(%d) tile [0, 0] [V, D] : tensor<[V]x[D]xf32>" in parse(_text("full")).text()
    text = parse(_text("combined")).text()
    assert "%d.t = gml_st.materialize(%d) tile [%i, 0] [min(2, V - %i), D]" in text
    assert "%d.t1 = tcp.add(%d.t, %z.t)" in text


def test_a_filter_is_a_producer_that_is_fused() -> None:
    text = """func @f(%x: tensor<[V]x[D]xf32>, %ix: tensor<[N]xsi64> in 0 to V) -> tensor<[N]x[D]xf32>
    symbols [V, D, N] {
  %r = gml_st.materialize(%x, %ix) filter [0] : tensor<[N]x[D]xf32>
  %y = tcp.add(%r, %r) : tensor<[N]x[D]xf32>
  tcp.return(%y)
}"""
    body = 'let i, j = tile(match one "y" in root, [d0: 3, d1: 16], tail: pad)\nfuse(match one "r" in root, into: j)\n'
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{body}vectorize(j)\n}}\n")
    kernel = tcpx.compile(parse(text), schedule=program)
    x, ix = np.arange(35, dtype=np.float32).reshape(5, 7), np.array([4, 0, 4, 1], np.int64)
    assert np.array_equal(run_guarded(kernel, x, ix)[0], 2 * x[ix])


REFUSED = {
    "a combiner that is none": (
        SUMS.replace("KIND", "for").replace("COMBINER", "tcp.sub"),
        "a yield combines by one of a few operations",
        "combine tcp.sub",
    ),
    "a read that combines": (
        FULL.replace("materialize(%d) full", "materialize(%d) full combine tcp.add"),
        "this operation has no such subset",
        "gml_st.materialize with 1 operand",
    ),
    "a filter without indices": (
        FULL.replace("materialize(%d) full", "materialize(%d) filter [0]"),
        "this operation has no such subset",
        "gml_st.materialize with 1 operand",
    ),
    "another operation": (
        FULL.replace("tcp.add(%all, %z)", "tcp.add(%all, %z) filter [0]"),
        "this operation has no such subset",
        "tcp.add with 2 operands",
    ),
    "another dim": (
        _filtered(UPDATED.replace("%d) filter [0]", "%d) filter [2]")),
        "a filter has indices along one dim",
        "[2]",
    ),
    "two dims": (
        _filtered(UPDATED.replace("%d) filter [0]", "%d) filter [0, 1]")),
        "a filter has indices along one dim",
        "[0, 1]",
    ),
    "a point with too few places": (
        POINTS.replace("KIND", "for").replace("point [%i, %j]", "point [%i]"),
        "%p (gml_st.materialize): a subset has an offset and a size per dim",
        "tile [%i] [1] drop [0]",
    ),
    "all of it, at once": (
        SUM_OF_ALL.replace("for", "parallel"),
        "%i (gml_st.parallel): yields to %d are not proved disjoint",
        "the yield of %d.t1 to tile [0, 0] [V, D] at <text>:4:5",
    ),
    "indices that may be equal, at once": (
        _filtered(UPDATED, "parallel"),
        "%i (gml_st.parallel): yields to %d are not proved disjoint",
        "the yield of %d.t1 to tile [0, 0] [V, D] at <text>:8:5",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    body, message, found = REFUSED[name]
    with pytest.raises((ParseError, VerifyError)) as caught:
        parse(HEAD.replace(" UNIQUE", "") + body + END)
    assert (caught.value.diagnostic.message, caught.value.diagnostic.found) == (message, found)


def test_indices_of_unknown_range_are_refused() -> None:
    text = HEAD.replace(" in 0 to V UNIQUE", "") + _filtered(UPDATED) + END
    with pytest.raises(VerifyError) as caught:
        parse(text)
    assert caught.value.diagnostic.message.endswith(
        "is an index into dim 0 of `operand 0`, and nothing says that it is inside"
    )
    assert caught.value.diagnostic.fix == 'clamp them: {out_of_range = "clamp"}'
    clamped = text.replace("filter [0]", 'filter [0] {out_of_range = "clamp"}')
    module = parse(clamped.replace("D, V]", "D, V: 1..]"))
    given = [np.ones((2, 3), np.float32), np.array([-3, 9], np.int64), np.zeros((4, 3), np.float32)]
    assert np.array_equal(evaluate_func(module, module.main, given)[0][:, 0], [-1, 0, 0, -1])
