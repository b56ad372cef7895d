"""Payloads built in Python."""

from __future__ import annotations

import numpy as np
import pytest

from tcpx.payload.builder import Builder, buffer, tensor, tile, vector
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.ops.elementwise import Add
from tcpx.payload.ops.gml_st import For, Parallel, StYield
from tcpx.payload.ops.memory import Alloc, Empty
from tcpx.payload.sizes import Symbol
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import f32, f64, si32


def test_builder_makes_every_kind_of_region() -> None:
    m = Symbol("M", 1, 64)
    b = Builder()
    with b.func("f", {"x": tensor([m, 8], f32)}, [m]) as (x,):
        w = b.constant("w", np.ones(8, np.float32))
        empty = b.op(Empty, type_=x.type)
        with b.loop(Parallel, "i", (0, m, 1), {"o": empty}, ["r"]) as rows:
            i = rows.var
            with b.loop(For, "i", (0, 2, 1), {"c": b.op(Empty, type_=f32)}) as inner:
                b.yields(inner.destinations[0], inner.destinations[0])
            subset = tile([i, 0], [1, 8])
            branch = b.conditional(Predicate.of("<", m.size(), 8), [w.type], ["p"])
            with b.inside(branch.then):
                b.hands_out(w)
            with b.inside(branch.orelse):
                b.hands_out(b.op(Add, [w, w]))
            empty_branch = b.conditional(Predicate.of("==", i.size(), 0))
            for block in empty_branch.regions:
                with b.inside(block):
                    b.insert(StYield.of(b.op(Empty, type_=tensor([1, 8], f32)), rows.destinations[0], subset))
        b.returns(rows.results[0])
    text = b.finish().text()
    assert (
        text
        == """func @f(%x: tensor<[M]x8xf32>) -> tensor<[M]x8xf32> symbols [M: 1..64] {
  %w = tcp.const {constant = "w"} : tensor<8xf32>
  %empty = tcp.empty : tensor<[M]x8xf32>
  %r = gml_st.parallel %i in 0 to M step 1 (%o = %empty) {
    %empty.1 = tcp.empty : f32
    %for = gml_st.for %i.1 in 0 to 2 step 1 (%c = %empty.1) {
      gml_st.yield(%c, %c) tile [] []
    } : f32
    %p = gml_st.if M < 8 {
      tcp.yield(%w)
    } else {
      %add = tcp.add(%w, %w) : tensor<8xf32>
      tcp.yield(%add)
    } : tensor<8xf32>
    gml_st.if %i == 0 {
      %empty.2 = tcp.empty : tensor<1x8xf32>
      gml_st.yield(%empty.2, %o) tile [%i, 0] [1, 8]
    } else {
      %empty.3 = tcp.empty : tensor<1x8xf32>
      gml_st.yield(%empty.3, %o) tile [%i, 0] [1, 8]
    }
  } : tensor<[M]x8xf32>
  tcp.return(%r)
}
"""
    )


def test_builder_types() -> None:
    m = Symbol("M")
    assert str(buffer([m, 4], f32, "arena")) == "buffer<[M]x4xf32, strides [4, 1], space arena>"
    assert str(vector([2, 4], f64)) == "vector<2x4xf64>"
    assert tile([m], [m * 2], [2], [0]).text() == "tile [M] [2*M] [2] drop [0]"


def test_builder_refuses() -> None:
    b = Builder()
    with pytest.raises(VerifyError, match="an operation stands in a function"):
        b.op(Empty, type_=si32)
    with b.func("f", {}):
        b.insert(Alloc.of(buffer([4], f32)))
        b.returns()
    with pytest.raises(VerifyError, match="the function @f is defined twice"), b.func("f", {}):
        pass
    with pytest.raises(VerifyError, match="has no element type here"):
        b.constant("c", np.zeros(2, np.complex64))
    with b.func("g", {}):
        pass
    with pytest.raises(VerifyError, match=r"a function ends in a tcp\.return"):
        b.finish()


def test_errors_show_the_line_of_python() -> None:
    b = Builder()
    with b.func("f", {"x": tensor([4], f32)}) as (x,):
        b.returns(b.op(Add, [x, x], tensor([5], f32)))
    with pytest.raises(VerifyError) as caught:
        b.finish()
    place = caught.value.diagnostic.payload
    assert place is not None
    assert (place.file, place.span) == (__file__, "b.op(Add, [x, x], tensor([5], f32))")
    assert b.module.main.location is not None
    assert b.module.main.location.file == __file__
