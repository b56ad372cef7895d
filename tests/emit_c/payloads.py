"""Planned payloads at buffer level, written by hand: $L lanes of f32 are a $T, the type $V."""

from __future__ import annotations

from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt

import tcpx.payload.ops  # noqa: F401 - registers the operations
from tcpx.payload.constants import Constants
from tcpx.payload.evaluator import Evaluation, bind_symbols, poison
from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse
from tcpx.payload.types import dtype_of
from tcpx.target import Target, load_target

Array = npt.NDArray[Any]
GENERIC = load_target("generic")

COPY = """
func @copy(%x: buffer<[N]xf32, strides [1], space argument>, %r: buffer<[N]xf32, strides [1], space result>)
    symbols [N] {results = 1} {
  gml_st.for %i in 0 to N {
    %v = vector.read(%x) tile [%i] [1] drop [0] {row = "load_f32"} : f32
    vector.write(%v, %r) tile [%i] [1] drop [0] {row = "store_f32"}
  }
  tcp.return
}
"""

AXPY = """
func @axpy(%x: buffer<[N]xf32, strides [1], space argument>, %y: buffer<[N]xf32, strides [1], space argument>,
           %r: buffer<[N]xf32, strides [1], space result>) symbols [N] {results = 1} {
  %a = tcp.const {value = 2.5, row = "literal"} : f32
  %av = tcp.broadcast(%a) {dims = [], row = "splat_$T"} : $V
  gml_st.for %i in 0 to N step $L {
    %xv = vector.read(%x) tile [%i] [min($L, N - %i)] {row = "masked_load_$T"} : $V
    %yv = vector.read(%y) tile [%i] [min($L, N - %i)] {row = "masked_load_$T"} : $V
    %p = tcp.mul(%av, %xv) {row = "mul_$T"} : $V
    %s = tcp.add(%p, %yv) {row = "add_$T"} : $V
    vector.write(%s, %r) tile [%i] [min($L, N - %i)] {row = "masked_store_$T"}
  }
  tcp.return
}
"""

MATMUL = """
func @matmul(%a: buffer<[M]x[K]xf32, strides [K, 1], space argument>,
             %b: buffer<[K]x[N]xf32, strides [N, 1], space argument>,
             %c: buffer<[M]x[N]xf32, strides [N, 1], space result>) symbols [M, K, N] {results = 1} {
  gml_st.parallel %i in 0 to M step 2 {
    gml_st.for %j in 0 to N step $L {
      %z0 = tcp.const {value = 0.0, row = "zero_$T"} : $V
      %z1 = tcp.const {value = 0.0, row = "zero_$T"} : $V
      %r0, %r1 = gml_st.for %k in 0 to K (%acc0 = %z0, %acc1 = %z1) {
        %bv = vector.read(%b) tile [%k, %j] [1, min($L, N - %j)] drop [0] {row = "masked_load_$T"} : $V
        %a0 = vector.read(%a) tile [%i, %k] [1, 1] drop [0, 1] {row = "load_f32"} : f32
        %a1 = vector.read(%a) tile [%i + 1, %k] [min(1, M - %i - 1), 1] drop [0, 1] {row = "load_f32"} : f32
        %s0 = tcp.broadcast(%a0) {dims = [], row = "splat_$T"} : $V
        %s1 = tcp.broadcast(%a1) {dims = [], row = "splat_$T"} : $V
        %p0 = tcp.mul(%s0, %bv) {row = "mul_$T"} : $V
        %p1 = tcp.mul(%s1, %bv) {row = "mul_$T"} : $V
        %n0 = tcp.add(%acc0, %p0) {row = "add_$T"} : $V
        %n1 = tcp.add(%acc1, %p1) {row = "add_$T"} : $V
        gml_st.yield(%n0, %acc0) tile [0] [$L]
        gml_st.yield(%n1, %acc1) tile [0] [$L]
      } : $V, $V
      vector.write(%r0, %c) tile [%i, %j] [1, min($L, N - %j)] drop [0] {row = "masked_store_$T"}
      vector.write(%r1, %c) tile [%i + 1, %j] [min(1, M - %i - 1), min($L, N - %j)] drop [0] {row = "masked_store_$T"}
    }
  }
  tcp.return
}
"""

# Row maxima, with -inf behind the end of a row, then 1 or -1 by a branch on the row, with a conditional yield.
BRANCHES = """
func @branches(%x: buffer<[M]x[N]xf32, strides [N, 1], space argument>,
               %r: buffer<[M]xf32, strides [1], space result>, %q: buffer<[M]xf32, strides [1], space result>)
    symbols [M, N] {results = 2} {
  gml_st.for %i in 0 to M {
    %low = tcp.const {value = -inf, row = "literal"} : $V
    %zero = tcp.const {value = 0.0, row = "literal"} : f32
    %most, %count = gml_st.for %j in 0 to N step $L (%m = %low, %n = %zero) {
      %v = vector.read(%x) tile [%i, %j] [1, min($L, N - %j)] drop [0]
        {value = -inf, row = "masked_load_$T"} : $V
      %w = tcp.max(%m, %v) {row = "max_$T"} : $V
      gml_st.yield(%w, %m) tile [0] [$L]
      gml_st.if N - %j >= $L {
        %one = tcp.const {value = 1.0, row = "literal"} : f32
        %next = tcp.add(%n, %one) {row = "add_f32"} : f32
        gml_st.yield(%next, %n) tile [] []
      }
    } : $V, f32
    %top = vector.extract(%most) {lane = $LAST, row = "extract_$T"} : f32
    %sign = gml_st.if mod(%i, 2) == 0 {
      %plus = tcp.const {value = 1.0, row = "literal"} : f32
      tcp.yield(%plus)
    } else {
      tcp.yield(%count)
    } : f32
    %both = tcp.mul(%top, %sign) {row = "mul_f32"} : f32
    vector.write(%both, %r) tile [%i] [1] drop [0] {row = "store_f32"}
    vector.write(%count, %q) tile [%i] [1] drop [0] {row = "store_f32"}
  }
  tcp.return
}
"""

# Each row is copied to the thread's part of the workspace, then to the stack, then read backwards in strides of 2; a
# constant is added, and the sum of the first two rows of the shared part.
MEMORY = """
func @memory(%x: buffer<[M]x8xf32, strides [8, 1], space argument>, %r: buffer<[M]x4xf32, strides [4, 1], space result>)
    symbols [M: 1..] {results = 1, workspace = 256 + 64 * M, workspace_live = 192 + 32 * M} {
  %w = tcp.const {constant = "w/1"} : buffer<3xf32, strides [1], space constant>
  %v = tcp.const {constant = "v"} : buffer<4xf32, strides [1], space constant>
  %unused = tcp.const {constant = "w/1"} : buffer<3xf32, strides [1], space constant>
  %all = buffer.alloc {offset = 128} : buffer<[M]x8xf32, strides [16, 1], space arena>
  gml_st.parallel %i in 0 to M {
    %mine = buffer.alloc {offset = 128 + 64 * M, per_thread = 64} : buffer<8xf32, strides [1], space arena>
    %near = buffer.alloc : buffer<8xf32, strides [1], space stack>
    gml_st.for %j in 0 to 8 {
      %a = vector.read(%x) tile [%i, %j] [1, 1] drop [0, 1] {row = "load_f32"} : f32
      vector.write(%a, %mine) tile [%j] [1] drop [0] {row = "store_f32"}
    }
    gml_st.for %j in 0 to 8 step 4 {
      %b = vector.read(%mine) tile [%j] [4] {row = "load_f32x4"} : vector<4xf32>
      vector.write(%b, %near) tile [%j] [4] {row = "store_f32x4"}
      vector.write(%b, %all) tile [%i, %j] [1, 4] drop [0] {row = "store_f32x4"}
    }
    %c = vector.read(%near) tile [1] [4] [2] {row = "strided_load_f32x4"} : vector<4xf32>
    %d = vector.read(%v) tile [0] [4] {row = "load_f32x4"} : vector<4xf32>
    %e = vector.read(%w) tile [0] [3] {value = 7.0, row = "masked_load_f32x4"} : vector<4xf32>
    %f = tcp.add(%c, %d) {row = "add_f32x4"} : vector<4xf32>
    %g = tcp.add(%f, %e) {row = "add_f32x4"} : vector<4xf32>
    vector.write(%g, %r) tile [%i, 0] [1, 4] drop [0] {row = "store_f32x4"}
  }
  gml_st.for %once in 0 to 1 {
    buffer.prefetch(%all) tile [0, 0] [M, 8] {row = "prefetch_read"}
    %h = vector.read(%all) tile [0, %once] [1, 4] drop [0] {row = "load_f32x4"} : vector<4xf32>
    %k = vector.read(%r) tile [M - 1, 0] [1, 4] drop [0] {row = "load_f32x4"} : vector<4xf32>
    %l = tcp.add(%h, %k) {row = "add_f32x4"} : vector<4xf32>
    vector.write(%l, %r) tile [M - 1, 0] [1, 4] drop [0] {row = "store_f32x4"}
  }
  tcp.return
}
"""

MEMORY_CONSTANTS = {
    "w/1": np.array([10, 20, 30], dtype=np.float32),
    "v": np.array([0.5, -0.25, np.inf, -0.0], dtype=np.float32),
}


def module(text: str, lanes: int = 4, constants: dict[str, Array] | None = None) -> Module:
    """The payload of a text, for vectors of so many lanes."""
    filled = Template(text).substitute(L=lanes, LAST=lanes - 1, T=f"f32x{lanes}", V=f"vector<{lanes}xf32>")
    return parse(filled, constants=Constants(constants))


def lanes_of(target: Target) -> int:
    return target.lanes("f32")


def reference(payload: Module, *arrays: Array) -> tuple[Array, ...]:
    """What the evaluator makes of a function whose trailing arguments are its results."""
    func = payload.main
    count = func.attributes.get("results", 0)
    assert isinstance(count, int)
    split = len(func.args) - count
    sizes = bind_symbols_of(payload, arrays)
    evaluation = Evaluation(payload.constants, sizes)
    results = tuple(poison(evaluation.shape(v.type), dtype_of(v.type)) for v in func.args[split:])
    with np.errstate(all="ignore"):
        evaluation.run_block(func.body, [*(a.copy() for a in arrays), *results])
    return results


def bind_symbols_of(payload: Module, arrays: tuple[Array, ...]) -> dict[str, int]:
    """The sizes of the symbols, from the inputs."""
    func = payload.main
    inputs = type(func)(func.name, [(v.name, v.type) for v in func.args[: len(arrays)]], func.symbols)
    return bind_symbols(inputs, arrays)
