"""A select that the next iteration waits for is no branch; one in iterations that are independent stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.target import load_target
from tests.optional_tools import require_cpu_of

CHAIN = """
func @f(%x: tensor<[N]xDTYPE>) -> (tensor<[N]xDTYPE>, tensor<DTYPE>) symbols [N: 0..] {
  %z = tcp.fill {value = 0.0} : tensor<DTYPE>
  %y, %last = gml_st.for %i in 1 to N step 1 (%d = %x, %e = %z) {
    %p = gml_st.materialize(%d) tile [%i - BACK] [1] drop [0] : tensor<DTYPE>
    %q = gml_st.materialize(%d) tile [%i] [1] drop [0] : tensor<DTYPE>
    %c = tcp.greater(%q, 0.5) : tensor<i1>
    %s = tcp.add(%p, %q) : tensor<DTYPE>
    %r = tcp.select(%c, %q, %s) : tensor<DTYPE>
    gml_st.yield(%r, %d) tile [%i] [1] drop [0]
    %last = CARRIED
    gml_st.yield(%last, %e) full
  } : tensor<[N]xDTYPE>, tensor<DTYPE>
  tcp.return(%y, %last)
}
"""
KEPT = "tcp.max(%r, %r) : tensor<DTYPE>"
CARRIED = "tcp.select(%c, %e, %r) : tensor<DTYPE>"


@pytest.mark.parametrize(
    ("target", "dtype", "back", "carried"),
    [
        ("x86_avx2", "f32", 1, CARRIED),
        ("x86_avx2", "f32", 0, KEPT),
        ("x86_avx512", "f64", 1, KEPT),
        ("generic", "f32", 1, CARRIED),
    ],
)
def test_selects_in_loops(target: str, dtype: str, back: int, carried: str) -> None:
    machine = load_target(target)
    require_cpu_of(machine)
    text = CHAIN.replace("CARRIED", carried).replace("DTYPE", dtype).replace("BACK", str(back))
    kernel = tcpx.compile(tcpx.parse(text), target=machine)
    is_x86, selects = target != "generic", 2 if carried == CARRIED else 1
    calls = sum(f"= tcpx_select_{dtype}(" in line for line in kernel.c_source.splitlines())
    assert calls == (selects if is_x86 and back else 0)
    for n in (0, 1, 2, 17):
        x = np.random.default_rng(n).normal(size=n).astype("f4" if dtype == "f32" else "f8")
        x[3:9:2] = [np.nan, np.inf, -0.0][: len(x[3:9:2])]
        for found, wanted in zip(kernel(x), tcpx.evaluate(tcpx.parse(text), x), strict=True):
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
