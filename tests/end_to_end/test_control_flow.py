"""Branches and loops on values, compiled: they compute what the evaluator does, and change in place what they may."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcpx
from tests.end_to_end.random_control_flow import program

PLAIN = tcpx.parse_schedule("language 1\nschedule s(root: func) { print(root) }")


def agree(kernel: Any, module: tcpx.Module, *arrays: np.ndarray) -> None:
    wanted: Any = tcpx.evaluate(module, *arrays)
    found: Any = kernel(*(array.copy() for array in arrays))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def operands(seed: int, rows: int) -> list[np.ndarray]:
    random = np.random.default_rng(1000 * seed + rows)
    shapes = (rows, 4), (rows, 4), (4, 4)
    return [random.integers(-2, 3, shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("seed", range(16))
def test_programs_at_random(seed: int) -> None:
    """All numbers are small integers: the results are equal. Every fourth program is scheduled by default."""
    module = tcpx.parse(program(seed))
    assert tcpx.parse(module.text()).text() == module.text()
    kernel = tcpx.compile(module) if seed % 4 == 0 else tcpx.compile(module, PLAIN, target="generic")
    for rows in (0, 1, 5):
        agree(kernel, module, *operands(seed, rows))


SWAP = """func @main(%x: tensor<[N]xf32>, %y: inout tensor<[N]xf32>, %c: tensor<2xi1>)
    -> (tensor<[N]xf32>, %y: tensor<[N]xf32>) symbols [N] {
  %first = gml_st.materialize(%c) point [0] : i1
  %second = gml_st.materialize(%c) point [1] : i1
  %go, %a, %b = gml_st.while %i in 0 to 3 step 1 (%g = %first, %p = %x, %q = %y) {
    %old = tcp.add(%p, 1.0) : tensor<[N]xf32>
    gml_st.yield(%q, %p) full
    gml_st.yield(%old, %q) full
    gml_st.yield(%second, %g) full
  } : i1, tensor<[N]xf32>, tensor<[N]xf32>
  %r, %s = gml_st.if %second {
    tcp.yield(%b, %a)
  } else {
    tcp.yield(%a, %b)
  } : tensor<[N]xf32>, tensor<[N]xf32>
  tcp.return(%r, %s)
}
"""


@pytest.mark.parametrize("flags", [(False, False), (False, True), (True, False), (True, True)])
def test_what_is_carried_changes_places(flags: tuple[bool, bool]) -> None:
    """Two values that are exchanged in each iteration, one of which is state, and once more by a branch."""
    module = tcpx.parse(SWAP)
    for rows in (0, 1, 19):
        x, y = np.arange(rows, dtype=np.float32), -np.ones(rows, np.float32)
        agree(tcpx.compile(module), module, x, y, np.array(flags))


IN_PLACE = """func @main(%x: inout tensor<[N]xf32>, %c: tensor<i1>) -> %x: tensor<[N]xf32> symbols [N] {
  %go = gml_st.materialize(%c) point [] : i1
  %y = gml_st.if %go {
    %a = tcp.exp(%x) : tensor<[N]xf32>
    tcp.yield(%a)
  } else {
    tcp.yield(%x)
  } : tensor<[N]xf32>
  tcp.return(%y)
}
"""


def test_a_branch_changes_state_in_place() -> None:
    """Nothing is copied, and where nothing is to be done, nothing is written."""
    kernel = tcpx.compile(tcpx.parse(IN_PLACE), target="generic")
    assert not [remark for remark in kernel.remarks if "copies" in remark.message]
    x = np.zeros(5, np.float32)
    assert kernel(x, np.array(False)) is x
    np.testing.assert_array_equal(x, np.zeros(5))
    kernel(x, np.array(True))
    np.testing.assert_array_equal(x, np.ones(5))


COSTLY = """func @main(%x: tensor<[N]xf32>, %c: tensor<i1>) -> tensor<[N]xf32> symbols [N] {
  %go = gml_st.materialize(%c) point [] : i1
  %y = gml_st.if %go {
    %a = tcp.tanh(%x) : tensor<[N]xf32>
    tcp.yield(%a)
  } else {
    tcp.yield(%x)
  } : tensor<[N]xf32>
  %n, %z = gml_st.while (%g = %go, %d = %y) {
    %b = tcp.erf(%d) : tensor<[N]xf32>
    gml_st.yield(%b, %d) full
    %no = tcp.const {value = false} : i1
    gml_st.yield(%no, %g) full
  } : i1, tensor<[N]xf32>
  tcp.return(%z)
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_in_them_is_scheduled(threads: int) -> None:
    """The vectors of a branch and of a loop are in the C of a branch and a loop on a value."""
    module = tcpx.parse(COSTLY)
    code = tcpx.emit(module, target="x86_avx2", threads=threads).c_source
    assert code.count("if (go") == 1
    assert "&& g" in code
    inside = code[code.index("if (go") :]
    assert "_mm256" in inside[: inside.index("&& g")]
    assert "_mm256" in inside[inside.index("&& g") :]


KEPT = [
    "%r = tcp.slice(%d) {offsets = [0]} : tensor<4xf32>",
    "%r = tcp.reshape(%d) : tensor<4xf32>",
    "%r = tcp.reverse(%d) {dims = [0]} : tensor<4xf32>",
    "%r = tcp.relu(%d) : tensor<4xf32>",
    "%r = tcp.mul(%d, 1.0) : tensor<4xf32>",
    "%r = tcp.max(%d, %d) : tensor<4xf32>",
    "%m = tcp.neg(%d) : tensor<4xf32>\n%r = tcp.neg(%m) : tensor<4xf32>",
    "%m = tcp.reshape(%d) : tensor<2x2xf32>\n%r = tcp.reshape(%m) : tensor<4xf32>",
    "%r = gml_st.materialize(%d) full : tensor<4xf32>",
    "%r = gml_st.if %go {\ntcp.yield(%d)\n} else {\ntcp.yield(%z)\n} : tensor<4xf32>",
]


def test_what_was_read_before_a_yield_stays() -> None:
    """A value that was computed of a destination is what it was, though a yield changes the destination, and though
    the same operation is there again behind the yield."""
    loops: list[str] = []
    for number, line in enumerate(KEPT):
        again = line.replace("%r", "%q").replace("%m", "%n")
        stored = "gml_st.yield(%z, %d) full"
        end = "%s = tcp.sub(%r, %q) : tensor<4xf32>\ngml_st.yield(%s, %d) full"
        body = "\n".join([line, stored, again, end])
        loops.append(f"%y{number} = gml_st.for %i in 0 to 3 step 1 (%d = %x) {{\n{body}\n}} : tensor<4xf32>")
    types = ", ".join(["tensor<4xf32>"] * len(KEPT))
    text = "\n".join(
        [
            f"func @main(%x: tensor<4xf32>, %z: tensor<4xf32>, %c: tensor<i1>) -> ({types}) {{",
            "%go = gml_st.materialize(%c) point [] : i1",
            *loops,
            f"tcp.return({', '.join(f'%y{k}' for k in range(len(KEPT)))})\n}}",
        ]
    )
    x, z = np.arange(4, dtype=np.float32), np.array([5, -6, 7, 8], np.float32)
    wanted: list[np.ndarray] = []
    for line in KEPT:
        value = x
        for _ in range(3):
            read = [np.flip(v) if "reverse" in line else np.maximum(v, 0) if "relu" in line else v for v in (value, z)]
            value = read[0] - read[1]
        wanted.append(value)
    module = tcpx.parse(text)
    for schedule in (PLAIN, None):
        kernel = tcpx.compile(module, schedule, target="generic")
        found: Any = kernel(x, z, np.array(True))
        evaluated: Any = tcpx.evaluate(module, x, z, np.array(True))
        for ours, theirs, reference in zip(found, evaluated, wanted, strict=True):
            np.testing.assert_array_equal(theirs, reference)
            np.testing.assert_array_equal(ours, reference)


STATEMENTS = {
    "unroll(w, factor: 2)": "unroll",
    "peel(w)": "peel",
    "parallelize(w)": "parallelize",
    "split(w, at: 4)": "split",
    "coalesce(w)": "coalesce",
    "fuse(e, into: w, keep: true)": "fuse",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_schedule_does_not_change_how_often_they_run(statement: str) -> None:
    text = """func @main(%x: tensor<8xf32>, %c: tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>) {
  %go = gml_st.materialize(%c) point [] : i1
  %e = tcp.exp(%x) : tensor<8xf32>
  %n, %y = gml_st.while %i in 0 to 8 step 1 (%g = %go, %d = %x) {
    %part = gml_st.materialize(%e) tile [%i] [1] : tensor<1xf32>
    gml_st.yield(%part, %d) tile [%i] [1]
    gml_st.yield(%go, %g) full
  } : i1, tensor<8xf32>
  tcp.return(%y, %e)
}
"""
    matches = "let e = match one exp in root\n  let w = match one loop in root"
    schedule = f"language 1\nschedule s(root: func) {{\n  {matches}\n  {statement}\n}}"
    with pytest.raises(tcpx.TcpxError) as caught:
        tcpx.apply_schedule(tcpx.parse(text), tcpx.parse_schedule(schedule))
    found = caught.value.diagnostic
    assert found.message == "how often i runs, only the data say"
    assert found.required == f"a loop with a number of iterations for `{STATEMENTS[statement]}`"
    assert found.fix == "transform the operations in it"
