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


VERSIONS = """
func @main(%x: tensor<[M]x16xf32>, %y: tensor<5x16xf32>, %z: tensor<40x16xf32>, %w: tensor<16x16xf32>)
    -> (tensor<[M]x16xf32>, tensor<5x16xf32>, tensor<40x16xf32>) symbols [M: 0..] {
  %a = tcp.call @layer(%x, %w) : tensor<[M]x16xf32>
  %b = tcp.call @layer(%y, %w) : tensor<5x16xf32>
  %c = tcp.call @layer(%z, %w) : tensor<40x16xf32>
  tcp.return(%a, %b, %c)
}
func @layer(%x: tensor<[N]x16xf32>, %w: tensor<16x16xf32>) -> tensor<[N]x16xf32> symbols [N: 0..] {
  %mm = tcp.matmul(%x, %w) : tensor<[N]x16xf32>
  %r = tcp.max(%mm, %mm) : tensor<[N]x16xf32>
  tcp.return(%r)
}
"""
MATCHES = "".join(f'let {name} = match one "{name}" in root\n' for name in ("a", "b", "c", "mm", "r"))
BY_SIZE = """specialize [@mm, @r] when size((@mm).m) <= 8 { let i = tile(@mm, [m: 2])
 fuse(@r, into: i) } else when size((@mm).m) <= 33 { let i = tile(@mm, [m: 3])
 fuse(@r, into: i) } else { let i = tile(@mm, [m: 7])
 fuse(@r, into: i) }
"""
INSIDE = BY_SIZE.replace("@mm", "mm").replace("@r", "r").replace("(mm).m", "mm.m")
BY_CALL = BY_SIZE.replace("@mm", "mm in k").replace("@r", "r in k")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("body", "copies"),
    [
        (INSIDE, 0),
        (f"{INSIDE}clone(b)\noptional canonicalize(root)", 1),
        (f"clone(b)\nfor k in [a, b] {{ {BY_CALL} }}", 1),
    ],
    ids=["as they are", "cloned behind", "cloned before"],
)
def test_versions_are_chosen_at_each_call(body: str, copies: int, threads: int) -> None:
    """One function with its branches; a clone for a call with numbers for sizes has the version for them alone."""
    module = tcpx.parse(VERSIONS)
    schedule = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{MATCHES}{body}\n}}\n")
    kernel = tcpx.compile(module, schedule, target="generic", threads=threads)
    report = kernel.report()
    assert (report.functions, report.clones) == (1 + copies, copies)
    layer = kernel.sources["layer.c"]
    assert ("if (N <= 8)" in layer, "if (N <= 33)" in layer) == (True, True)
    assert [f"N; mm_m{k} += {step})" in layer for k, step in enumerate((2, 3, 7), 1)] == [True] * 3
    if copies:
        own = kernel.sources["layer_1.c"]
        assert (" if (" in own, "mm_m1 < 5; mm_m1 += 2)" in own, "N" in own.partition("layer_1(")[2]) == (
            False,
            True,
            False,
        )
        assert "layer_1(y, w, out_1" in kernel.sources["main_.c"]
    for m in (0, 1, 7, 8, 9, 33, 34, 41):
        arrays = tcpx.random_inputs(module, m, sizes={"M": m})
        for found, wanted in zip(kernel(*arrays), tcpx.evaluate(module, *arrays), strict=True):
            np.testing.assert_allclose(
                *(np.asarray(held, np.float64) for held in (found, wanted)), rtol=1e-4, atol=1e-4
            )


def test_versions_of_the_default_schedule_in_a_function() -> None:
    module = tcpx.parse(VERSIONS)
    kernel = tcpx.compile(module)
    for m in (0, 1, 3, 4, 12, 13, 48, 49, 101):
        arrays = tcpx.random_inputs(module, m, sizes={"M": m})
        for found, wanted in zip(kernel(*arrays), tcpx.evaluate(module, *arrays), strict=True):
            np.testing.assert_allclose(
                *(np.asarray(held, np.float64) for held in (found, wanted)), rtol=1e-4, atol=1e-4
            )
