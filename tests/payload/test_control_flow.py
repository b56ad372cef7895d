"""Branches and loops on values: their text, what they compute, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.builder import Builder, tensor
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.gml_st import Materialize, While, full_like
from tcpx.payload.ops.movement import Broadcast
from tcpx.payload.subsets import Tile
from tcpx.payload.types import f32, i1

BRANCH = """func @f(%x: tensor<[N]xf32>, %c: tensor<i1>) -> tensor<[N]xf32> symbols [N] {
  %go = gml_st.materialize(%c) tile [] [] : i1
  gml_st.if %go {
  }
  %y = gml_st.if %go {
    %a = tcp.add(%x, %x) : tensor<[N]xf32>
    tcp.yield(%a)
  } else {
    tcp.yield(%x)
  } : tensor<[N]xf32> name "choice"
  tcp.return(%y)
}
"""
HALVED = """func @f(%x: tensor<[N]xf32>, %below: tensor<f32>) -> (RESULTS) symbols [N: 1..] {
  %bound = gml_st.materialize(%below) tile [] [] : f32
  %yes = tcp.const {value = true} : i1
  %zero = tcp.const {value = 0.0} : f32
  %more, %y, %n = gml_st.while %i in 0 to 5 step 1 (%go = %yes, %d = %x, %k = %zero) {
    %h = tcp.mul(%d, 0.5) : tensor<[N]xf32>
    gml_st.yield(%h, %d) tile [0] [N]
    %m = tcp.reduce_max(%h) {dims = [0]} : tensor<f32>
    %mm = gml_st.materialize(%m) tile [] [] : f32
    %c = tcp.greater(%mm, %bound) : i1
    %one = tcp.const {value = 1.0} : f32
    %k1 = tcp.add(%k, %one) : f32
    gml_st.yield(%c, %go) tile [] []
    gml_st.yield(%k1, %k) tile [] []
  } : i1, tensor<[N]xf32>, f32
  %steps = tcp.broadcast(%n) {dims = []} : tensor<f32>
  %on = tcp.broadcast(%more) {dims = []} : tensor<i1>
  tcp.return(%y, %steps, %on)
}
""".replace("RESULTS", "tensor<[N]xf32>, tensor<f32>, tensor<i1>")
COUNTED = """func @f(%x: tensor<[N]xf32>, %c: tensor<2xsi32> in 0 to N + 1) -> tensor<[N]xf32> symbols [N] {
  %n = gml_st.materialize(%c) tile [1] [1] drop [0] : si32
  gml_st.bind(%n) {var = %k in 0 to N + 1}
  %y = gml_st.for %i in 0 to %k step 1 (%d = %x) {
    %e = gml_st.materialize(%d) tile [%k - %i - 1] [1] : tensor<1xf32>
    gml_st.yield(%e, %d) tile [%i] [1]
  } : tensor<[N]xf32>
  %z = gml_st.if %k > 2 {
    tcp.yield(%y)
  } else {
    tcp.yield(%x)
  } : tensor<[N]xf32>
  tcp.return(%z)
}
"""
UNBOUNDED = HALVED.replace(" %i in 0 to 5 step 1", "")


@pytest.mark.parametrize("text", [BRANCH, HALVED, COUNTED, UNBOUNDED])
def test_the_text_is_printed_as_it_is_read(text: str) -> None:
    assert tcpx.parse(text).text() == text


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("size", [0, 1, 7])
def test_one_branch(holds: bool, size: int) -> None:
    x = np.linspace(-1, 1, size, dtype=np.float32)
    np.testing.assert_array_equal(tcpx.evaluate(tcpx.parse(BRANCH), x, np.array(holds)), 2 * x if holds else x)


def halved(x: np.ndarray, below: float, most: int) -> tuple[np.ndarray, int, bool]:
    steps, more = 0, True
    while more and steps < most:
        x, steps = x * np.float32(0.5), steps + 1
        more = bool(x.max() > below)
    return x, steps, more


@pytest.mark.parametrize("below", [1.0, 1e-3, np.nan, np.inf])
@pytest.mark.parametrize(("text", "most"), [(HALVED, 5), (UNBOUNDED, 1000)])
def test_a_loop_while_a_value_is_large(text: str, most: int, below: float) -> None:
    x = np.array([3.0, -7.0, 20.0], np.float32)
    found = tcpx.evaluate(tcpx.parse(text), x, np.array(below, np.float32))
    for ours, theirs in zip(found, halved(x, below, most), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_loop_whose_condition_does_not_hold_at_first() -> None:
    text = HALVED.replace("value = true", "value = false")
    x = np.ones(3, np.float32)
    y, steps, more = tcpx.evaluate(tcpx.parse(text), x, np.array(0, np.float32))
    np.testing.assert_array_equal(y, x)
    assert (steps, more) == (0, False)


@pytest.mark.parametrize(("size", "count"), [(0, 0), (1, 1), (7, 0), (7, 2), (7, 7)])
def test_a_count_from_the_data(size: int, count: int) -> None:
    x = np.arange(size, dtype=np.float32)
    wanted = x.copy()
    for i in range(count):
        wanted[i] = wanted[count - 1 - i]
    found = tcpx.evaluate(tcpx.parse(COUNTED), x, np.array([9 % (size + 1), count], np.int32))
    np.testing.assert_array_equal(found, wanted if count > 2 else x)


def test_the_builder_makes_them() -> None:
    b = Builder()
    with b.func("f", {"x": tensor([4], f32), "c": tensor([], i1)}) as (x, c):
        first = b.value(Materialize([c], [i1], {"subset": full_like(c)}))
        no = b.op(Const, type_=i1, value=False)
        with b.loop(While, "i", (0, 3, 1), {"go": first, "d": x}, ["more", "y"]) as loop:
            go, d = loop.destinations
            choice = b.conditional_on(go, [x.type], ["chosen"])
            with b.inside(choice.then):
                b.hands_out(d)
            with b.inside(choice.orelse):
                b.hands_out(x)
            b.yields(choice.results[0], d)
            b.yields(no, go, Tile((), ()))
        b.returns(loop.results[1], b.op(Broadcast, [loop.results[0]], tensor([], i1), dims=()))
    module = b.finish()
    assert tcpx.parse(module.text()).text() == module.text()
    y, more = tcpx.evaluate(module, np.ones(4, np.float32), np.array(True))
    np.testing.assert_array_equal(y, np.ones(4))
    assert not more


HEAD = "func @f(%x: tensor<[N]x8xf32>, %r: tensor<8xf32>, %c: tensor<i1>, %n: tensor<si32> in 0 to N + 1)"
HEAD += " -> tensor<[N]x8xf32> symbols [N] {\n"
TAIL = "\n  tcp.return(%y)\n}"


def loop_of(line: str, head: str = "gml_st.for %i in 0 to N step 1 (%d = %x)", types: str = "tensor<[N]x8xf32>") -> str:
    results = "%go, %y" if types.startswith("i1") else "%y"
    return f"{HEAD}  {results} = {head} {{\n    {line}\n  }} : {types}{TAIL}"


READ = "  %k = gml_st.materialize(%n) point [] : si32\n"
BRANCH_ON = "  %y = gml_st.if %c {\n    tcp.yield(%x)\n  } else {\n    tcp.yield(%x)\n  } : tensor<[N]x8xf32>"
REFUSED = {
    "down": (
        loop_of("gml_st.yield(%r, %d) tile [%i, 0] [1, 8] drop [0]", "gml_st.for %i in 0 to N step -1 (%d = %x)"),
        "the step of a loop is positive",
        "count up, `%i in 0 to N step 1`, and use the index `N - 1 - %i`",
    ),
    "down by two": (
        loop_of("gml_st.yield(%r, %d) tile [%i, 0] [1, 8] drop [0]", "gml_st.for %i in N - 1 to -1 step -2 (%d = %x)"),
        "the step of a loop is positive",
        "count up, `%i in 0 to ceildiv(N, 2) step 1`, and use the index `N - 1 - 2 * %i`",
    ),
    "down to the second": (
        loop_of("gml_st.yield(%r, %d) tile [%i, 0] [1, 8] drop [0]", "gml_st.for %i in N - 1 to 0 step -1 (%d = %x)"),
        "the step of a loop is positive",
        "count up, `%i in 0 to N - 1 step 1`, and use the index `N - 1 - %i`",
    ),
    "backwards from the second": (
        loop_of("gml_st.yield(%r, %d) tile [%i, 0] [1, 8] drop [0]", "gml_st.for %i in 1 to N step -1 (%d = %x)"),
        "the step of a loop is positive",
        "count up, `%i in 0 to N - 1 step 1`, and use the index `N - 1 - %i`",
    ),
    "down by two between numbers": (
        loop_of("gml_st.yield(%r, %d) tile [%i, 0] [1, 8] drop [0]", "gml_st.for %i in 10 to 0 step -2 (%d = %x)"),
        "the step of a loop is positive",
        "count up, `%i in 0 to 5 step 1`, and use the index `10 - 2 * %i`",
    ),
    "a row yielded": (
        loop_of("gml_st.yield(%r, %d) tile [%i, 0] [1, 8]"),
        "gml_st.yield: value and subset have one shape",
        "drop the dims of size 1: tile [%i, 0] [1, 8] drop [0]",
    ),
    "a row read": (
        loop_of("%row = gml_st.materialize(%x) tile [%i, 0] [1, 8] : tensor<8xf32>"),
        "%row (gml_st.materialize): value and subset have one shape",
        "drop the dims of size 1: tile [%i, 0] [1, 8] drop [0]",
    ),
    "a row with its dim": (
        loop_of("%row = gml_st.materialize(%x) tile [%i, 0] [1, 8] drop [0] : tensor<1x8xf32>"),
        "%row (gml_st.materialize): value and subset have one shape",
        "keep the dims of size 1: tile [%i, 0] [1, 8]",
    ),
    "a tensor decides": (
        HEAD + BRANCH_ON + TAIL,
        "%y (gml_st.if): the condition of a branch is a truth value",
        "use %holds, before it: %holds = gml_st.materialize(%c) point [] : i1",
    ),
    "a number decides": (
        HEAD + READ + BRANCH_ON.replace("%c", "%k") + TAIL,
        "%y (gml_st.if): the condition of a branch is a truth value",
        "use %holds, before it: %holds = tcp.cast(%k) : i1",
    ),
    "branches of two types": (
        HEAD
        + "  %g = gml_st.materialize(%c) point [] : i1\n"
        + BRANCH_ON.replace("%c", "%g").replace("tcp.yield(%x)", "tcp.yield(%r)", 1)
        + TAIL,
        "%y (gml_st.if): each branch yields the results",
        "yield tensor<[N]x8xf32> in both branches",
    ),
    "no condition": (
        loop_of("gml_st.yield(%x, %d) full", "gml_st.while (%d = %x)"),
        "%y/step (gml_st.while): the first destination of a gml_st.while is its condition",
        "compute one truth value, as tcp.reduce_any of all dims, and read it: gml_st.materialize(..) point [] : i1",
    ),
    "nothing carried": (
        HEAD + "  %y = tcp.neg(%x) : tensor<[N]x8xf32>\n  gml_st.while %i in 0 to 3 {\n  }" + TAIL,
        "%i (gml_st.while): the first destination of a gml_st.while is its condition",
        None,
    ),
    "a tensor for a scalar": (
        HEAD
        + "  %g = gml_st.materialize(%c) point [] : i1\n  %go, %y = gml_st.while (%e = %g, %d = %x) {\n"
        + "    gml_st.yield(%c, %e) full\n  } : i1, tensor<[N]x8xf32>"
        + TAIL,
        "gml_st.yield: what a carried scalar becomes is a scalar",
        "before it: %next = gml_st.materialize(%c) point [] : i1",
    ),
    "a value for a size": (
        HEAD + READ + loop_of("gml_st.yield(%x, %d) full", "gml_st.for %i in 0 to %k step 1 (%d = %x)")[len(HEAD) :],
        "unknown loop variable %k",
        "make it a size: gml_st.bind(%k) {var = %size in 0 to END}, then %size is below END",
    ),
    "a tensor for a size": (
        loop_of("gml_st.yield(%x, %d) full", "gml_st.for %i in 0 to %n step 1 (%d = %x)"),
        "unknown loop variable %n",
        "read an element, gml_st.materialize(%n) point [..] : si32, and make that a size: gml_st.bind",
    ),
    "a size out of range": (
        HEAD + READ + "  gml_st.bind(%k) {var = %s in 0 to N}\n  %y = tcp.neg(%x) : tensor<[N]x8xf32>" + TAIL,
        "gml_st.bind: nothing says that %k is in the range of %s",
        "declare the range of the argument, `in 0 to N`, or limit the value by tcp.max and tcp.min",
    ),
    "a shape from data": (
        HEAD
        + READ
        + "  gml_st.bind(%k) {var = %s in 0 to N + 1}\n"
        + "  %part = gml_st.materialize(%x) tile [0, 0] [%s, 8] : tensor<[%s]x8xf32>\n"
        + "  %y = tcp.neg(%x) : tensor<[N]x8xf32>"
        + TAIL,
        "%part (gml_st.materialize): the shape of %part depends on data",
        "compute all that there may be, or one after the other: gml_st.for %i in 0 to %s",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    text, message, fix = REFUSED[case]
    with pytest.raises(tcpx.TcpxError) as caught:
        tcpx.parse(text)
    assert (caught.value.diagnostic.message, caught.value.diagnostic.fix) == (message, fix)


RANGE = "write the range of a loop so: %i in 0 to N step 1"
LOOP = "write a loop so: %y = gml_st.for %i in 0 to N step 1 (%d = %init) { .. } : TYPE"
WHILE = "write a loop on a condition so: gml_st.while (%go = %first, %d = %init) { .. } : i1, TYPE"
HABITS = {
    "gml_st.for %i = 0 to N step 1 {\n}": RANGE,
    "gml_st.for %i in range(N) {\n}": RANGE,
    "gml_st.for %i in 0 .. N {\n}": RANGE,
    "scf.for %i = 0 to N step 1 {\n}": LOOP,
    "%y = scf.while (%a = %x) {\n}": WHILE,
    "while %c {\n}": WHILE,
    "if %c {\n}": (
        "tcp.select(%c, %a, %b) chooses element by element; gml_st.if %c { .. } else { .. }, or gml_st.if N == 1, runs "
        "one branch"
    ),
    "gml_st.if(%c) {\n}": "write %c",
    "gml_st.if %c : i1 {\n}": "remove it: a condition has no type",
    "gml_st.if not %c {\n}": "compute the opposite before it: %other = tcp.not(%c) : i1",
    "gml_st.if %c and %c {\n}": "combine the truth values before it: %both = tcp.and(%a, %b) : i1",
    "%g = gml_st.materialize(%c) point [] : i1\ngml_st.if %g == 1 {\n}": "a truth value stands alone: gml_st.if %g {",
    "gml_st.for %i in 0 to 3 step 1 {\nbreak\n}": (
        "a loop that ends early is a gml_st.while; what an iteration may leave out stands in a gml_st.if"
    ),
}


@pytest.mark.parametrize("line", HABITS)
def test_habits_of_other_languages(line: str) -> None:
    with pytest.raises(tcpx.ParseError) as caught:
        tcpx.parse(f"{HEAD}{line}\n%y = tcp.neg(%x) : tensor<[N]x8xf32>{TAIL}")
    assert caught.value.diagnostic.fix == HABITS[line]


def test_the_fixes_work() -> None:
    """What the fixes of loops and rows say is accepted."""
    row = "gml_st.yield(%r, %d) tile [N - 1 - %i, 0] [1, 8] drop [0]"
    tcpx.parse(loop_of(row))
    tcpx.parse(loop_of(row.replace("- %i", "- 2 * %i"), "gml_st.for %i in 0 to ceildiv(N, 2) step 1 (%d = %x)"))
    holds = "  %holds = gml_st.materialize(%c) point [] : i1\n"
    tcpx.parse(HEAD + holds + BRANCH_ON.replace("%c", "%holds") + TAIL)
    holds = READ + "  %holds = tcp.cast(%k) : i1\n"
    tcpx.parse(HEAD + holds + BRANCH_ON.replace("%c", "%holds") + TAIL)
