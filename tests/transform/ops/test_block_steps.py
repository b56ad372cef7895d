"""block_steps: all iterations of a loop for one block of elements, then for the next."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.ops.gml_st import Loop, Parallel
from tests.nets.steps import StepsProgram
from tests.transform.payloads import check, check_kernels, refusal, run

E = 'let e = match one "e" in root\n'
STEPS = f"{E}block_steps(parent(e), 5)"
FLAT = f"{E}coalesce(e)\n{STEPS.removeprefix(E)}"


def loop(states: str, body: str, more: str = "") -> str:
    """A function with a loop over states, by their names and their dims before N."""
    names = [(each[0], each[1:]) for each in states.split()]
    types = [f"tensor<{leading}[N]xf32>" for _, leading in names]
    arguments = ", ".join(f"%{name}0: {type_}" for (name, _), type_ in zip(names, types, strict=True))
    results = ", ".join(f"%{name}1" for name, _ in names)
    inits = ", ".join(f"%{name} = %{name}0" for name, _ in names)
    returned = ", ".join(types) if len(types) == 1 else f"({', '.join(types)})"
    return f"""\
func @f({arguments}, %v: tensor<[N]xf32>, %p: tensor<[M]x[N]xf32>, %w: tensor<[M]xf32>{more}) -> {returned}
    symbols [M: 0.., N: 0..] {{
  {results} = gml_st.for %t in 0 to M step 1 ({inits}) {{
{body}
  }} : {", ".join(types)}
  tcp.return({results})
}}
"""


ROW, NEXT = "tile [%t, 0] [1, N] drop [0]", "tile [%t + 1, 0] [1, N] drop [0]"
UPDATE = loop("d", "%e = tcp.add(%d, %v) : tensor<[N]xf32>\ngml_st.yield(%e, %d) full")
HISTORY = loop(
    "d[M+1]x",
    f"%a = gml_st.materialize(%d) {ROW} : tensor<[N]xf32>\n%b = gml_st.materialize(%p) {ROW} : tensor<[N]xf32>\n"
    f"%e = tcp.max(%a, %b) : tensor<[N]xf32>\ngml_st.yield(%e, %d) {NEXT}",
)
BEFORE = loop(
    "d[M+1]x",
    f"%a = gml_st.materialize(%d) {NEXT} : tensor<[N]xf32>\n%e = tcp.add(%a, %v) : tensor<[N]xf32>\n"
    f"gml_st.yield(%e, %d) {ROW}",
)
NUMBERS = loop(
    "d",
    "%x = gml_st.materialize(%w) tile [%t] [1] drop [0] : tensor<f32>\n"
    '%e = tcp.generic(%d, %x) {iterators = [["i", "parallel"]], maps = [[i], [], [i]]} ({ (%a: f32, %b: f32):\n'
    "%c = tcp.mul(%a, %b) : f32\ntcp.yield(%c)\n}) : tensor<[N]xf32>\ngml_st.yield(%e, %d) full",
)
HANDED_ON = loop("c d", "%e = tcp.add(%c, %d) : tensor<[N]xf32>\ngml_st.yield(%d, %c) full\ngml_st.yield(%e, %d) full")
POSITIONS = loop(
    "d",
    '%e = tcp.generic(%d) {iterators = [["i", "parallel"]], maps = [[i], [i]], positions = [i]} '
    "({ (%a: f32, %i: si64):\n%x = tcp.cast(%i) : f32\n%c = tcp.add(%a, %x) : f32\ntcp.yield(%c)\n}) "
    ": tensor<[N]xf32>\ngml_st.yield(%e, %d) full",
)
TWO_DIMS = """\
func @f(%d0: tensor<[M]x[N]xf32>, %v: tensor<[K]x[M]x[N]xf32>) -> tensor<[M]x[N]xf32>
    symbols [M: 0.., N: 0.., K: 0..] {
  %r = gml_st.for %t in 0 to K step 1 (%d = %d0) {
    %a = gml_st.materialize(%d) full : tensor<[M]x[N]xf32>
    %b = gml_st.materialize(%v) tile [%t, 0, 0] [1, M, N] drop [0] : tensor<[M]x[N]xf32>
    %e = tcp.sub(%b, %a) : tensor<[M]x[N]xf32>
    gml_st.yield(%e, %d) full
  } : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""
CASES = {
    "an update": (UPDATE, STEPS),
    "one parallel loop": (UPDATE, f"{E}block_steps(parent(e), 5, parallel: true)"),
    "a row from the one before": (HISTORY, STEPS),
    "a row from the one behind": (BEFORE, STEPS),
    "numbers": (NUMBERS, STEPS),
    "states that are handed on": (HANDED_ON, STEPS),
    "positions": (POSITIONS, STEPS),
    "two dims as one": (TWO_DIMS, FLAT),
}


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same(name: str) -> None:
    done = check(*CASES[name])
    blocks = [op for op in done.module.walk() if isinstance(op, Loop)]
    assert ["/block" in op.var.name for op in blocks] == [True, False]
    assert isinstance(blocks[0], Parallel) == (name == "one parallel loop")


def test_kernels() -> None:
    check_kernels(CASES, [{"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 1), (3, 0, 2), (1, 17, 0), (4, 13, 3))])


FIRST = loop(
    "d",
    "%a = tcp.add(%d, %v) : tensor<[N]xf32>\n%s = gml_st.materialize(%a) tile [0] [1] drop [0] : tensor<f32>\n"
    "%e = tcp.sub(%a, broadcast(%s, [])) : tensor<[N]xf32>\ngml_st.yield(%e, %d) full",
).replace("N: 0..", "N: 1..")
REQUIRED = "elementwise operations of one dim, on all of it, and yields of all elements of that dim"
APART = "elements of t do not depend on those at their own place alone"


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (loop("d", "%e = tcp.reverse(%d) {dims = [0]} : tensor<[N]xf32>\ngml_st.yield(%e, %d) full"),
         (APART, REQUIRED, "%e = tcp.reverse")),
        (loop("d", "%a = tcp.add(%d, %v) : tensor<[N]xf32>\n%m = tcp.reduce_max(%a) {dims = [0]} : tensor<f32>\n"
              "%e = tcp.sub(%a, broadcast(%m, [])) : tensor<[N]xf32>\ngml_st.yield(%e, %d) full"),
         (APART, REQUIRED, "%m = tcp.reduce_max")),
        (TWO_DIMS, (APART, REQUIRED, "%a = gml_st.materialize")),
        (FIRST, (APART, REQUIRED, "%s = gml_st.materialize")),
        (loop("d", "%e = tcp.add(%v, %v) : tensor<[N]xf32>\ngml_st.yield(%e, %d) full"),
         ("t reads nothing of what it carries: its elements need not stay in the caches",
          "a loop in which an iteration reads what others yielded", "1 destination(s), none of them read")),
    ],
)  # fmt: skip
def test_refusals(payload: str, said: tuple[str, str, str]) -> None:
    found = refusal(payload, STEPS)
    assert (found.message, found.required, found.found) == said


def test_neighbours_are_refused() -> None:
    text = """\
func @f(%u: tensor<[N + 2]xf32>, %s: tensor<[M]xf32>) -> tensor<[N + 2]xf32> symbols [M: 0.., N: 0..] {
  %y = gml_st.for %t in 0 to M step 1 (%d = %u) {
    %l = gml_st.materialize(%d) tile [0] [N] : tensor<[N]xf32>
    %r = gml_st.materialize(%d) tile [2] [N] : tensor<[N]xf32>
    %e = tcp.add(%l, %r) : tensor<[N]xf32>
    gml_st.yield(%e, %d) tile [1] [N]
  } : tensor<[N + 2]xf32>
  tcp.return(%y)
}
"""
    found = refusal(text, STEPS)
    assert (found.message, found.found) == (APART, "gml_st.yield")


def test_a_block_has_elements() -> None:
    found = refusal(UPDATE, f"{E}block_steps(parent(e), 0)")
    assert (found.message, found.required, found.found) == ("a block has no elements", "a size of 1 or more", "0")


def test_the_default_runs_all_steps_block_by_block() -> None:
    """NaN and infinities stay at their places."""
    kernel = tcpx.compile(tcpx.parse(UPDATE), threads=1)
    assert "d1/block" in kernel.c_source
    for n, m in ((1, 3), (4099, 2), (4099, 0)):
        d, v = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
        d[n // 2], v[n // 3], v[n - 1] = np.nan, np.inf, -np.inf
        found = kernel(d, v, np.zeros((m, n), np.float32), np.zeros(m, np.float32))
        np.testing.assert_array_equal(found, d + m * v if m else d)


def test_the_handle_is_of_the_loop_over_blocks() -> None:
    run(UPDATE, f'{E}let t = parent(e)\nlet b = block_steps(t, 4)\nrequire parent(t) == b and parent(e) == t "so"')


ALL = """\
for ops in clusters(match any op in root) {
  try {
    let e = fuse_elementwise(ops)
    optional coalesce(e)
    optional block_steps(parent(e), 3)
  }
}"""


def test_random_loops() -> None:
    """Of 40 programs, most run in blocks, and all compute the same."""
    blocked = 0
    for seed in range(40):
        text = StepsProgram(seed).make()
        sizes = [{"N": n, "M": m, "K": k} for n, m, k in ((0, 1, 2), (1, 1, 1), (4, 2, 3))]
        names = [symbol.name for symbol in tcpx.parse(text).main.symbols]
        done = check(text, ALL, [{name: each[name] for name in names} for each in sizes])
        blocked += "/block" in done.module.text()
    assert blocked >= 20


def test_the_default_reads_an_element_of_what_an_iteration_computes() -> None:
    d = np.arange(6000, dtype=np.float32)
    rows, numbers = np.zeros((1, 6000), np.float32), np.zeros(1, np.float32)
    found = tcpx.compile(tcpx.parse(FIRST), threads=1)(d, np.ones_like(d), rows, numbers)
    np.testing.assert_array_equal(found, d)
