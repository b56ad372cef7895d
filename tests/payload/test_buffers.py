"""Buffers: views, functions that fill the buffers of their results, races between parallel iterations."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tcpx.payload.diagnostics import ArgumentError, VerifyError
from tcpx.payload.evaluator import evaluate_buffers, evaluate_func
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_module
from tcpx.payload.verifier import verify_module

VIEW = """
func @view(%x: buffer<[N]x6xf32, strides [6, 1], space argument>, %r: buffer<[N]x6xf32, strides [6, 1], space result>)
    symbols [N] {results = 1} {
  %v = buffer.reshape(%x) : buffer<[6*N]xf32, strides [1], space argument>
  %w = buffer.reshape(%r) : buffer<[6*N]xf32, strides [1], space result>
  gml_st.parallel %i in 0 to 6*N {
    %e = vector.read(%v) tile [%i] [1] drop [0] : f32
    vector.write(%e, %w) tile [6*N - 1 - %i] [1] drop [0]
  }
  tcp.return
}
"""


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_view_is_the_same_memory(rows: int) -> None:
    module = parse(VIEW)
    x = np.arange(6 * rows, dtype=np.float32).reshape(rows, 6)
    for evaluate in (evaluate_buffers, evaluate_func):
        (found,) = evaluate(module, module.main, [x])
        np.testing.assert_array_equal(found, x[::-1, ::-1])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[6*N]xf32, strides [1], space argument", "[5*N]xf32, strides [1], space argument", "number of elements"),
        ("[6*N]xf32, strides [1], space argument", "[6*N]xf32, strides [2], space argument", "contiguous"),
        ("[6*N]xf32, strides [1], space argument", "[6*N]xf32, strides [1], space arena", "dtype and space"),
        ("strides [6, 1], space argument", "strides [8, 1], space argument", "contiguous"),
    ],
)
def test_what_is_no_view_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        parse(VIEW.replace(old, new))


def test_a_race_on_a_buffer_is_an_error() -> None:
    module = parse(VIEW.replace("tile [6*N - 1 - %i] [1]", "tile [0] [1]"))
    with pytest.raises(VerifyError, match="a race in a parallel loop"):
        evaluate_buffers(module, module.main, [np.zeros((2, 6), np.float32)])


NESTED = """
func @f(%x: buffer<[N]xf32, strides [1], space argument>, %r: buffer<[N]xf32, strides [1], space result>) symbols [N]
    {{results = 1}} {{
  gml_st.parallel %i in 0 to N {{
    %v = vector.read(%x) tile [%i] [1] drop [0] {{value = 0.0}} : f32
    {}
    {} %j in 0 to 1 {{
      vector.write(%v, %r) tile [%i] [1] drop [0]
    }}
  }}
  tcp.return
}}
"""


@pytest.mark.parametrize("inner", ["gml_st.for", "gml_st.parallel"])
def test_loops_in_a_parallel_loop(inner: str) -> None:
    x = np.arange(3, dtype=np.float32)
    module = parse(NESTED.format("", inner))
    np.testing.assert_array_equal(evaluate_buffers(module, module.main, [x])[0], x)
    module = parse(NESTED.format("vector.write(%v, %r) tile [0] [1] drop [0]", inner))
    with pytest.raises(VerifyError, match="a race in a parallel loop"):
        evaluate_buffers(module, module.main, [x])


def test_results_are_not_arguments_of_the_caller() -> None:
    module = parse(VIEW)
    x = np.zeros((2, 6), np.float32)
    with pytest.raises(ArgumentError, match="takes 1 argument"):
        evaluate_buffers(module, module.main, [x, x])


def test_memory_nobody_wrote_is_poison() -> None:
    module = parse(VIEW.replace("0 to 6*N {", "0 to 6*N - 1 {"))
    (found,) = evaluate_buffers(module, module.main, [np.ones((1, 6), np.float32)])
    assert np.isnan(found[0, 0].astype(np.float64))
    assert not np.isnan(found[0, 1:].astype(np.float64)).any()


COPY = """
func @copy(%x: buffer<[N]x6xf32, strides [6, 1], space argument>, %y: buffer<8x6xsi32, strides [6, 1], space argument>,
    %r: buffer<[N]x6xf32, strides [6, 1], space result>) symbols [N] {results = 1} {
  %v = buffer.reshape(%r) : buffer<[6*N]xf32, strides [1], space result>
  buffer.copy(%x, %r) tile [0, 0] [1, 6] drop [0] {part = tile [0, 0] [1, 6] drop [0]}
  tcp.return
}
"""


PART = "part = tile [0, 0] [1, 6] drop [0]"
SIDE_BY_SIDE = (
    "buffer.copy: what is copied lies side by side",
    "one dim that is not dropped, in steps of one element",
)
AS_MANY = "buffer.copy: as many elements of one dtype are written as are read"
X = "%x: buffer<[N]x6xf32, strides [6, 1], space argument>"


@pytest.mark.parametrize(
    ("old", "new", "message", "required", "found"),
    [
        ("copy(%x, %r)", "copy(%v, %r)", "buffer.copy: a copy goes to other memory", "two buffers",
         "one memory, %v and %r"),
        (PART, "part = tile [0, 0] [6, 1] drop [1]", *SIDE_BY_SIDE, f"tile [0, 0] [6, 1] drop [1] of {X}"),
        (PART, "part = tile [0, 0] [1, 6]", *SIDE_BY_SIDE, f"tile [0, 0] [1, 6] of {X}"),
        ("part = tile [0, 0] [1, 6]", "part = tile [0, 0] [1, 3] [1, 2]", *SIDE_BY_SIDE,
         f"tile [0, 0] [1, 3] [1, 2] drop [0] of {X}"),
        ("part = tile [0, 0] [1, 6]", "part = tile [0, 0] [1, 5]", AS_MANY, "5 of f32", "6 of f32"),
        ("copy(%x, %r)", "copy(%y, %r)", AS_MANY, "6 of si32", "6 of f32"),
        (" {part = tile [0, 0] [1, 6] drop [0]}", "", "buffer.copy: the subset is missing", "tile [offsets] [sizes]",
         "no tile"),
        ("part = tile [0, 0] [1, 6]", "part = tile [0] [1]", "buffer.copy: a copy is of parts of buffers", "a buffer",
         f"tile [0] [1] drop [0] of {X}"),
    ],
)  # fmt: skip
def test_a_copy_is_checked(old: str, new: str, message: str, required: str, found: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(message)) as caught:
        verify_module(parse(COPY.replace(old, new)))
    held = caught.value.diagnostic
    assert (held.message, held.required, held.found) == (message, required, found)


ROWS_IN_A_VECTOR = """
func @rows(%x: buffer<[N]x4xf32, strides [4, 1], space argument>, %r: buffer<[N]x4xf32, strides [4, 1], space result>)
    symbols [N] {results = 1} {
  gml_st.for %i in 0 to N step 2 {
    %v = vector.read(%x) tile [%i, 0] [min(2, N - %i), 4] {value = 0.0} : vector<8xf32>
    vector.write(%v, %r) tile [%i, 0] [min(2, N - %i), 4]
  }
  tcp.return
}
"""


def test_a_vector_holds_rows_one_behind_the_other() -> None:
    module = parse(ROWS_IN_A_VECTOR)
    verify_module(module)
    assert print_module(parse(print_module(module))) == print_module(module)
    given = np.arange(20, dtype=np.float32).reshape(5, 4)
    (found,) = evaluate_buffers(module, module.main, [given])
    np.testing.assert_array_equal(found, given)
    with pytest.raises(VerifyError, match="value and subset have one shape"):
        verify_module(parse(ROWS_IN_A_VECTOR.replace("[%i, 0] [min(2, N - %i), 4]\n", "[%i, 0] [min(2, N - %i), 3]\n")))
