"""Schedules over functions that call each other: one schedule of a layer serves all calls."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx

HEAD = (
    "func @net(%x: tensor<[M]x16xf32>, %w: tensor<3x16x16xf32>, %b: tensor<16xf32>) -> tensor<[M]x16xf32> symbols [M] {"
)
LAYER = """\
  %t{0} = gml_st.materialize(%w) tile [{0}, 0, 0] [1, 16, 16] drop [0] : tensor<16x16xf32>
  %mm{0} = tcp.matmul(%{1}, %t{0}) : tensor<[M]x16xf32>
  %bb{0} = tcp.broadcast(%b) {{dims = [1]}} : tensor<[M]x16xf32>
  %s{0} = tcp.add(%mm{0}, %bb{0}) : tensor<[M]x16xf32>
  %zero{0} = tcp.fill {{value = 0.0}} : tensor<[M]x16xf32>
  %r{0} = tcp.max(%s{0}, %zero{0}) : tensor<[M]x16xf32>
"""
NET = "\n".join([HEAD, *(LAYER.format(k, f"r{k - 1}" if k else "x") for k in range(3)), "  tcp.return(%r2)", "}", ""])
ONCE = """language 1
schedule s(root: func) {
  for mm in match some contract in root { outline([mm, epilogue(mm)]) }
  for mm in match some contract in root {
    let i = tile(mm, [m: 8])
    fuse(epilogue(mm), into: i)
  }
}"""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_layer_is_scheduled_once(threads: int) -> None:
    module = tcpx.parse(NET)
    run = tcpx.apply_schedule(module, tcpx.parse_schedule(ONCE))
    assert list(run.module.funcs) == ["net", "net.r0"]
    assert [entry.transform for entry in run.trace.entries] == ["outline", "outline", "outline", "tile", "fuse"]
    kernel = tcpx.compile(module, tcpx.parse_schedule(ONCE), threads=threads)
    for m in (0, 1, 7, 19):
        arrays = tcpx.random_inputs(module, m, sizes={"M": m})
        found, wanted = (np.asarray(held, np.float64) for held in (kernel(*arrays), tcpx.evaluate(module, *arrays)))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_match_goes_through_calls() -> None:
    body = """
  let calls = match some call in root
  let found = match some contract in root
  require len(calls) == 3 and len(found) == 1
}"""
    tcpx.apply_schedule(tcpx.parse(NET), tcpx.parse_schedule(ONCE.rstrip("}").rstrip() + body))


def test_every_step_is_checked_and_explained() -> None:
    module, schedule = tcpx.parse(NET), tcpx.parse_schedule(ONCE)
    explained = tcpx.explain(module, schedule)
    assert explained.error is None
    assert any("func @net.r0(" in line for step in explained.steps for edit in step.edits or () for line in edit.added)
    assert tcpx.verify_steps(module, schedule).wrong is None
