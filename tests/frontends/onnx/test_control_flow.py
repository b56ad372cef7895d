"""Branches and loops that the inputs of a model decide, next to ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.reference
import pytest

import tcpx
from tcpx.payload.types import dtype_of
from tests.frontends.onnx.models import loaded, model_of


def agrees(text: str, *calls: dict[str, np.ndarray]) -> str:
    """The evaluator gives what the reference does; returns the payload."""
    model = model_of(text)
    module = tcpx.onnx.load(model).module
    reference = onnx.reference.ReferenceEvaluator(model)
    for arrays in calls:
        found: Any = tcpx.evaluate(module, *(arrays[given.name] for given in model.graph.input))
        wanted: Any = reference.run(None, arrays)
        for ours, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    return module.text()


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


IF = """f (float[N] x, bool c) => (float[N] y, float[N] z) <float[1] w = {3.0}> {
  y, z = If (c) <
    then_branch = a () => (float[N] a0, float[N] a1) { b = Mul (x, w) a0 = Exp (b) a1 = Identity (x) },
    else_branch = d () => (float[N] d0, float[N] d1) { d0 = Mul (x, w) d1 = Identity (x) }
  >
}"""


def test_one_of_two_branches() -> None:
    text = agrees(IF, *({"x": f32(*range(n)), "c": np.array(c)} for n in (1, 5) for c in (True, False)))
    assert text.count("gml_st.if ") == 1
    assert "tcp.select" not in text
    branch = text[text.index("gml_st.if ") :]
    assert branch.index("tcp.exp") < branch.index("} else {")


def test_one_of_two_branches_compiled() -> None:
    kernel, module = tcpx.compile(loaded(IF).module), loaded(IF).module
    for c in (True, False):
        x = np.linspace(-1, 1, 37, dtype=np.float32)
        found, wanted = kernel(x, np.array(c)), tcpx.evaluate(module, x, np.array(c))
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_what_both_branches_know_stays_known() -> None:
    """A shape that both branches give is a shape behind them."""
    text = """f (float[6] x, bool c) => (float[2, 3] y) {
      s = If (c) <
        then_branch = a () => (int64[2] s0) { s0 = Constant <value_ints = [2, 3]> () },
        else_branch = b () => (int64[2] s1) { s1 = Constant <value_ints = [2, 3]> () }
      >
      y = Reshape (x, s)
    }"""
    assert "gml_st.if" not in agrees(text, {"x": f32(*range(6)), "c": np.array(True)})


def test_branches_within_a_branch() -> None:
    text = """f (float[N] x, bool c, bool d) => (float[N] y) {
      y = If (c) <
        then_branch = a () => (float[N] p) {
          p = If (d) <
            then_branch = e () => (float[N] q) { q = Neg (x) },
            else_branch = g () => (float[N] r) { r = Abs (x) }
          >
        },
        else_branch = b () => (float[N] s) { s = Add (x, x) }
      >
    }"""
    calls = [{"x": f32(-1, 2), "c": np.array(c), "d": np.array(d)} for c in (True, False) for d in (True, False)]
    assert agrees(text, *calls).count("gml_st.if ") == 2


WHILE = """f (float[N] x, float most) => (float[N] y, int64 steps) <int64 zero = {0}, bool yes = {1}> {
  y, steps = Loop (, yes, x, zero) <body = b (int64 i, bool go, float[N] s, int64 n)
      => (bool again, float[N] t, int64 m) <float half = {0.5}, int64 one = {1}> {
    t = Mul (s, half)
    m = Add (n, one)
    top = ReduceMax <keepdims = 0> (t)
    again = Greater (top, most)
  }>
}"""


def test_a_loop_whose_condition_is_carried() -> None:
    text = agrees(WHILE, *({"x": f32(*v), "most": np.array(m, np.float32)} for v in ((3, 100), (0.5,)) for m in (1, 7)))
    assert "gml_st.while" in text


def test_a_loop_whose_condition_is_carried_compiled() -> None:
    module = loaded(WHILE).module
    x, most = np.linspace(1, 900, 37, dtype=np.float32), np.array(2, np.float32)
    for ours, theirs in zip(tcpx.compile(module)(x, most), tcpx.evaluate(module, x, most), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_loop_that_an_input_begins() -> None:
    """The condition is an input at first, the number of iterations another one; a limit is carried as it is."""
    text = """f (float[2] x, bool c, int64 m, int64 limit) => (float[2] y, int64 last) {
      y, last, same = Loop (m, c, x, limit, limit) <body = b (int64 i, bool go, float[2] s, int64 n, int64 l)
          => (bool again, float[2] t, int64 o, int64 k) <int64 one = {1}> {
        t = Add (s, s)
        o = Sub (n, one)
        k = Identity (l)
        again = Less (i, l)
      }>
    }"""
    calls = [
        {"x": f32(1, -2), "c": np.array(c), "m": np.array(m), "limit": np.array(limit)}
        for c in (True, False)
        for m in (-3, 0, 2, 9)
        for limit in (0, 4)
    ]
    payload = agrees(text, *calls)
    assert payload.count("gml_st.while") == 1


def test_values_that_change_places() -> None:
    text = """f (float[2] a, float[2] b, int64 m) => (float[2] y, float[2] z) <bool yes = {1}> {
      y, z = Loop (m, yes, a, b) <body = g (int64 i, bool go, float[2] p, float[2] q)
          => (bool again, float[2] r, float[2] s) { again = Identity (go) r = Identity (q) s = Identity (p) }>
    }"""
    payload = agrees(text, *({"a": f32(1, 2), "b": f32(3, 4), "m": np.array(m)} for m in (0, 1, 2, 5)))
    assert "gml_st.for" in payload


SUMS = """f (float[{n}, 3] x) => (float[3] last, float[K, 3] every) <bool yes = {{1}}, float[3] none = {{0, 0, 0}}> {{
  shape = Shape <start = 0, end = 1> (x)
  axes = Constant <value_ints = [0]> ()
  m = Squeeze (shape, axes)
  last, every = Loop (m, yes, none) <body = b (int64 i, bool go, float[3] s) => (bool again, float[3] t, float[3] e) {{
    again = Identity (go)
    row = Gather <axis = 0> (x, i)
    t = Add (s, row)
    e = Mul (t, t)
  }}>
}}"""


@pytest.mark.parametrize("size", ["N", "0", "300"])
def test_a_result_with_a_row_for_each_iteration(size: str) -> None:
    lengths = (1, 7) if size == "N" else (int(size),)
    rng = np.random.default_rng(0)
    calls = [{"x": rng.standard_normal((n, 3)).astype(np.float32)} for n in lengths]
    if size == "0":
        x = np.zeros((0, 3), np.float32)
        last, every = tcpx.evaluate(loaded(SUMS.format(n=size)).module, x)
        np.testing.assert_array_equal(last, np.zeros(3))
        assert every.shape == (0, 3)
        return
    model = loaded(SUMS.format(n=size)).module
    assert model.text().count("gml_st.for") == 1
    for call in calls:
        last, every = tcpx.evaluate(model, call["x"])
        sums = np.cumsum(call["x"], axis=0, dtype=np.float32)
        np.testing.assert_allclose(np.asarray(every, np.float32), sums * sums, rtol=1e-5)
        np.testing.assert_allclose(np.asarray(last, np.float32), sums[-1], rtol=1e-5)


SCAN = """f (float[T, 2] x, float[2] s) => (float[2] last, float[2, T] every, float[T, 2] back) {
  last, every, back = Scan (s, x) <num_scan_inputs = 1, scan_output_axes = [1, 0], scan_output_directions = [0, 1],
      scan_input_directions = [DIRECTION], body = b (float[2] a, float[2] e) => (float[2] c, float[2] d, float[2] g) {
    c = Add (a, e)
    d = Mul (c, e)
    g = Identity (e)
  }>
}"""


@pytest.mark.parametrize("direction", ["0", "1"])
def test_a_scan_whose_length_a_call_decides(direction: str) -> None:
    text = SCAN.replace("DIRECTION", direction)
    module = loaded(text).module
    assert module.text().count("gml_st.for") == 1
    for length in (1, 2, 5):
        x, s = np.random.default_rng(length).standard_normal((length, 2)).astype(np.float32), f32(1, 2)
        rows = x[::-1] if direction == "1" else x
        sums = s + np.cumsum(rows, axis=0, dtype=np.float32)
        last, every, back = tcpx.evaluate(module, x, s)
        np.testing.assert_allclose(np.asarray(last, np.float32), sums[-1], rtol=1e-5)
        np.testing.assert_allclose(np.asarray(every, np.float32), (sums * rows).T, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(back, rows[::-1])


REFUSED = {
    "branches of two shapes": (
        """f (float[4] x, bool c) => (float y) {
          y = If (c) <
            then_branch = a () => (float p) { p = Concat <axis = 0> (x, x) },
            else_branch = b () => (float q) { q = Neg (x) }
          >
        }""",
        "branches with results of other shapes, p: f32[8] and q: f32[4], and a condition that is not known: a shape "
        "must not depend on it",
    ),
    "a list that grows": (
        """f (float[1] x, int64 m) => (float y) <bool yes = {1}> {
          y = Loop (m, yes, x) <body = b (int64 i, bool go, float s) => (bool again, float t) {
            again = Identity (go)
            t = Concat <axis = 0> (s, x)
          }>
        }""",
        "a loop that carries x: f32[1] and then t: f32[2]: its shape would depend on the data",
    ),
    "a row for each of the iterations that the data want": (
        """f (float[1] x, int64 m) => (float y, float z) <bool yes = {1}> {
          y, z = Loop (m, yes, x) <body = b (int64 i, bool go, float s) => (bool again, float t, float u) {
            again = Identity (go)
            t = Add (s, x)
            u = Identity (t)
          }>
        }""",
        "a result with a part for each iteration of a loop whose length the data decide",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_shapes_do_not_depend_on_data(case: str) -> None:
    text, reason = REFUSED[case]
    with pytest.raises(tcpx.onnx.OnnxError) as caught:
        _ = loaded(text).module
    assert reason in str(caught.value)


@pytest.mark.parametrize("case", ["a list that grows", "a row for each of the iterations that the data want"])
@pytest.mark.parametrize("m", [1, 9])
def test_shapes_depend_on_a_number_of_iterations_that_is_given(case: str, m: int) -> None:
    model = loaded(REFUSED[case][0])
    assert model.needs == ("m",)
    x, known = f32(2), {"m": np.array(m)}
    found: Any = tcpx.evaluate(model.specialized(known).module, x)
    wanted: Any = onnx.reference.ReferenceEvaluator(model.proto).run(None, {"x": x, **known})
    for ours, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_input_that_decides_a_shape_within_a_loop_is_asked_for() -> None:
    """The condition is an input, too: the iterations are known by both."""
    model = loaded(
        """f (float[9] x, int64 m, bool c, float[1] s) => (float[1] y) <int64[1] one = {1}> {
      y = Loop (m, c, s) <body = b (int64 i, bool go, float[1] t) => (bool again, float[1] u) {
        again = Identity (go)
        begin = Unsqueeze (i, zero)
        end = Add (begin, one)
        part = Slice (x, begin, end)
        u = Add (t, part)
      }>
    }""".replace("one = {1}", "one = {1}, int64[1] zero = {0}")
    )
    assert model.needs == ("c", "m")
    x = np.arange(9, dtype=np.float32)
    for m in (0, 3, 9):
        module = model.specialized({"m": np.array(m), "c": np.array(True)}).module
        np.testing.assert_array_equal(tcpx.evaluate(module, x, f32(5)), 5 + x[:m].sum(keepdims=True))


def test_a_condition_of_data_keeps_the_number_of_rows_unknown() -> None:
    with pytest.raises(tcpx.onnx.UnsupportedError, match="a loop whose length the data decide, and depends on x"):
        _ = loaded("""f (float[2, 2] x, int64 m, float top) => (float[2, 2] y, float z) <bool yes = {1}> {
          y, z = Loop (m, yes, x) <body = b (int64 i, bool go, float[2, 2] s) => (bool again, float[2, 2] t, float u) {
            t = Add (s, s)
            u = ReduceMax <keepdims = 0> (t)
            again = Less (u, top)
          }>
        }""").module


STEPS = """f (float[{n}, 3] x) => (float[3] last, float[{n}, 3] every, float[{n}, 3] rows) <int64 n = {{{n}}},
    bool yes = {{1}}, float[3] none = {{0, 0, 0}}> {{
  last, every = Loop (n, yes, none) <body = b (int64 i, bool go, float[3] s) => (bool again, float[3] t, float[3] e) {{
    again = Identity (go)
    {row}
    t = Add (s, row)
    e = Mul (t, t)
  }}>
  other, rows = Scan <num_scan_inputs = 1, body = d (float[3] a, float[3] e) => (float[3] f, float[3] g) {{
    f = Add (a, e)
    g = Sub (f, e)
  }}> (last, every)
}}"""
GATHERED = "row = Gather <axis = 0> (x, i)"
SLICED = """begin = Reshape (i, one) end = Add (begin, one) part = Slice (x, begin, end)
  flat = Constant <value_ints = [3]> ()
  row = Reshape (part, flat)"""
NUMBERED = SLICED.replace("begin =", "one = Constant <value_ints = [1]> () begin =")


@pytest.mark.parametrize(("n", "row", "loops"), [(7, GATHERED, 0), (8, GATHERED, 2), (8, NUMBERED, 1)])
def test_eight_iterations_are_a_loop_where_they_need_not_know_their_number(n: int, row: str, loops: int) -> None:
    """The third one has a slice that begins at the number of the iteration."""
    x = np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32)
    assert agrees(STEPS.format(n=n, row=row), {"x": x}).count("gml_st.for") == loops


def test_what_iterations_know_of_themselves_stays_known() -> None:
    """A shape that a loop computes is one after it, and so are numbers that its results depend on alone."""
    module = loaded(
        """f (float[24] x) => (float[A, B] y, int64[9] squares) <int64 n = {9}, bool yes = {1}, int64[2] s = {-1, 3}> {
          shape, squares = Loop (n, yes, s) <body = b (int64 i, bool go, int64[2] p)
              => (bool again, int64[2] q, int64 r) {
            again = Identity (go)
            q = Abs (p)
            r = Mul (i, i)
          }>
          axis = Constant <value_ints = [0]> ()
          eight = Constant <value_ints = [8]> ()
          most = Mul (shape, eight)
          last = Constant <value_ints = [1]> ()
          rows = Slice (most, axis, last)
          columns = Slice (shape, last, eight)
          both = Concat <axis = 0> (rows, columns)
          y = Reshape (x, both)
        }"""
    ).module
    y, squares = tcpx.evaluate(module, np.arange(24, dtype=np.float32))
    np.testing.assert_array_equal(y, np.arange(24).reshape(8, 3))
    np.testing.assert_array_equal(squares, np.arange(9) ** 2)
    assert "gml_st.for" not in module.text()


def test_a_loop_of_eight_steps_compiled() -> None:
    module = loaded(STEPS.format(n=9, row=GATHERED)).module
    x = np.random.default_rng(0).standard_normal((9, 3)).astype(np.float32)
    for ours, theirs in zip(tcpx.compile(module)(x), tcpx.evaluate(module, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_an_input_that_decides_a_shape_by_a_branch_is_asked_for() -> None:
    """As in the body of AffineGrid, whose size says which branch a size of the result is computed by."""
    text = """f (float[4] x, int64[1] size) => (float[M] y) <int64[1] one = {1}> {
      is_one = Equal (size, one)
      y = If (is_one) <
        then_branch = a () => (float p) { p = Concat <axis = 0> (x, x) },
        else_branch = b () => (float q) { q = Neg (x) }
      >
    }"""
    session = tcpx.onnx.Session(loaded(text))
    x = f32(1, 2, 3, 4)
    for size, wanted in ((1, [*x, *x]), (2, -x)):
        model = session.specialized({"x": x, "size": np.array([size])})
        np.testing.assert_array_equal(tcpx.evaluate(model.module, x), wanted)


def test_results_of_iterations_and_conditions_are_those_before_the_state_changes() -> None:
    agrees(
        """f (float[1] s, float[T,1] x) => (float[1] last, float[T,1] every) {
          last, every = Scan <num_scan_inputs = 1, body = b (float[1] old, float[1] e) => (float[1] new, float[1] out) {
            new = Add (old, e)
            out = Identity (old)
          }> (s, x)
        }""",
        {"s": f32(0), "x": np.ones((9, 1), np.float32)},
    )
    agrees(
        """f (float v, float lim, bool k) => (bool goes, float last) <bool yes = {1}, float one = {1.0}> {
          goes, last = Loop ("", yes, k, v) <body = b (int64 i, bool c, bool k0, float v0)
              => (bool again, bool k1, float v1) {
            again = Identity (k0)
            k1 = Less (v0, lim)
            v1 = Add (v0, one)
          }>
        }""",
        *({"v": np.float32(0), "lim": np.float32(7.5), "k": np.array(held)} for held in (True, False)),
    )


DECIDING = {
    "If": """f (float[N] x, bool[K] c) => (float[N] y) {
  y = If (c) <then_branch = a () => (float[N] a0) { a0 = Relu (x) },
    else_branch = d () => (float[N] d0) { d0 = Neg (x) }>
}""",
    "the condition of a Loop": """f (float[N] x, bool[K] c) => (float[N] y) <int64 n = {3}> {
  y = Loop (n, c, x) <
    body = b (int64 i, bool go, float[N] s) => (bool on, float[N] t) { on = Identity (go) t = Neg (s) }>
}""",
    "how often a Loop runs": """f (float[N] x, int64[K, M] c) => (float[N] y) {
  y = Loop (c, , x) <
    body = b (int64 i, bool go, float[N] s) => (bool on, float[N] t) { on = Identity (go) t = Neg (s) }>
}""",
}


@pytest.mark.parametrize("case", DECIDING)
def test_one_element_decides(case: str) -> None:
    model = model_of(DECIDING[case])
    with pytest.raises(tcpx.onnx.OnnxError) as caught:
        _ = tcpx.onnx.load(model).module
    names = [name for name in "KM" if f"{name}]" in DECIDING[case] or f"{name}," in DECIDING[case]]
    told = ", ".join(f'"{name}": 1' for name in names)
    assert caught.value.diagnostic.message.endswith("`y`: one element decides what runs")
    assert caught.value.diagnostic.fix == f"sizes={{{told}}}, or {' '.join(f'--size {name}=1' for name in names)}"
    module = tcpx.onnx.load(model, sizes=dict.fromkeys(names, 1)).module
    x, given = f32(-1, 2, -3), next(value.type for value in module.main.args if value.name == "c")
    for number in (1, 0):
        c = np.full([1] * len(names), number, dtype_of(given).numpy)
        (found,) = np.atleast_2d(tcpx.evaluate(module, x, c))
        wanted = (np.maximum(x, 0) if number else -x) if case == "If" else (-x if number else x)
        np.testing.assert_array_equal(found, wanted)


def test_several_elements_decide_nothing() -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match="one element decides what runs") as caught:
        _ = loaded(DECIDING["If"].replace("[K]", "[3]")).module
    assert caught.value.diagnostic.fix is None
