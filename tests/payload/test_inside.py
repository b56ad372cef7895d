"""Subsets that a payload writes stay inside of their tensors in each iteration that runs, or are refused."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.builder import Builder, tensor, tile
from tcpx.payload.diagnostics import UnprovenError, VerifyError
from tcpx.payload.ops.gml_st import For, Materialize
from tcpx.payload.sizes import Symbol
from tcpx.payload.text.parser import parse
from tcpx.payload.types import f32
from tests.guard_pages import run_guarded

HEAD = "func @f(%x: tensor<[N]x[D]xf32>, %z: tensor<[N]x[D]xf32>) -> tensor<[N]x[D]xf32> symbols [N, D] {\n"
END = "\n  tcp.return(%y)\n}\n"
ROW, ROWS = "tensor<1x[D]xf32>", "tensor<[min(4, N - %i)]x[D]xf32>"
NEST = """  %y = gml_st.for %i in 0 to N step 4 (%d = %z) {
    %part = gml_st.materialize(%d) tile [%i, 0] [min(4, N - %i), D] : tensor<[min(4, N - %i)]x[D]xf32>
    %made = gml_st.for %j in 0 to min(4, N - %i) step 1 (%e = %part) {
      %p = gml_st.materialize(%x) tile [PLACE, 0] [1, D] : tensor<1x[D]xf32>
      gml_st.yield(%p, %e) tile [%j, 0] [1, D]
    } : tensor<[min(4, N - %i)]x[D]xf32>
    gml_st.yield(%made, %d) tile [%i, 0] [min(4, N - %i), D]
  } : tensor<[N]x[D]xf32>"""

BLOCK = "max(1, ceildiv(N, 2))"
TILE = f"min(N - %i, {BLOCK})"
WHOLE = f"0 to N - mod(N, {BLOCK}) step {BLOCK}"
TAIL = f"""  %y = gml_st.for %i in {WHOLE} (%d = %z) {{
    %part = gml_st.materialize(%d) tile [%i, 0] [{TILE}, D] : tensor<[{TILE}]x[D]xf32>
    %made = gml_st.for %j in {TILE} - mod({TILE}, 2) to {TILE} step 2 (%e = %part) {{
      %p = gml_st.materialize(%x) tile [%i + {TILE} - mod({TILE}, REST), 0] [1, D] : {ROW}
      gml_st.yield(%p, %e) tile [{TILE} - mod({TILE}, 2), 0] [1, D]
    }} : tensor<[{TILE}]x[D]xf32>
    gml_st.yield(%made, %d) tile [%i, 0] [{TILE}, D]
  }} : tensor<[N]x[D]xf32>"""
"""Rows that are left over within tiles, in the loop of the tiles that are whole."""


def looped(body: str, over: str = "0 to N step 1", head: str = HEAD) -> str:
    return f"{head}  %y = gml_st.for %i in {over} (%d = %z) {{\n    {body}\n  }} : tensor<[N]x[D]xf32>{END}"


def moved(read: str, written: str, size: str = "1", type_: str = ROW) -> str:
    """Rows that are read at one place and written at another."""
    return f"%r = gml_st.materialize(%x) tile [{read}, 0] [{size}, D] : {type_}\n" + (
        f"    gml_st.yield(%r, %d) tile [{written}, 0] [{size}, D]"
    )


SAY = 'say it at the start of the function: `tcp.assert {{any = [{}], message = ".."}}`'
WHERE = "use it only where that holds: `gml_st.if {} {{ .. }}`"
OF_X, OF_D = "%x is tensor<[N]x[D]xf32>", "%d is tensor<[N]x[D]xf32>"
READ = "%r (gml_st.materialize): nothing says that the subset stays inside of %x in dim 0"
REFUSED = {
    "a tile that is whole at the end": (
        looped(moved("%i", "%i", "4", "tensor<4x[D]xf32>"), "0 to N step 4"),
        READ,
        f"%i + 4 <= N: {OF_X}",
        "tile [%i, 0] [4, D]",
        "end it with what is left: the size `min(4, N - %i)`",
    ),
    "one row ahead": (
        looped(moved("%i + 1", "%i")),
        READ,
        f"%i + 2 <= N: {OF_X}",
        "tile [%i + 1, 0] [1, D]",
        WHERE.format("%i + 2 <= N"),
    ),
    "one row behind": (
        looped(moved("%i - 1", "%i")),
        READ,
        f"0 <= %i - 1: {OF_X}",
        "tile [%i - 1, 0] [1, D]",
        WHERE.format("0 <= %i - 1"),
    ),
    "on both sides": (
        looped(moved("N - %i - 2", "%i", "2", "tensor<2x[D]xf32>")),
        READ,
        f"0 <= N - %i - 2: {OF_X}",
        "tile [N - %i - 2, 0] [2, D]",
        WHERE.format("0 <= N - %i - 2"),
    ),
    "a window that is cut too late": (
        looped(
            "%r = gml_st.materialize(%x) tile [max(0, %i - 2), 0] [min(3, max(0, N - %i + 3)) - max(0, 2 - %i), D]"
            " : tensor<[min(3, max(0, N - %i + 3)) - max(0, 2 - %i)]x[D]xf32>",
            "0 to N + 2 step 3",
        ),
        READ,
        f"max(0, %i - 2) - max(0, 2 - %i) + min(3, N - %i + 3) <= N: {OF_X}",
        "tile [max(0, %i - 2), 0] [min(3, max(0, N - %i + 3)) - max(0, 2 - %i), D]",
        "end it with what is left: the size `min(N - max(0, %i - 2), min(3, max(0, N - %i + 3)) - max(0, 2 - %i))`",
    ),
    "a yield": (
        looped(moved("%i", "%i + 1")),
        "gml_st.yield: nothing says that the subset stays inside of %d in dim 0",
        f"%i + 2 <= N: {OF_D}",
        "tile [%i + 1, 0] [1, D]",
        WHERE.format("%i + 2 <= N"),
    ),
    "a point": (
        looped("%r = gml_st.materialize(%x) point [%i, %i] : tensor<f32>\n    gml_st.yield(%r, %d) point [%i, 0]"),
        "%r (gml_st.materialize): nothing says that the subset stays inside of %x in dim 1",
        f"%i + 1 <= D: {OF_X}",
        "tile [%i, %i] [1, 1] drop [0, 1]",
        WHERE.format("%i + 1 <= D"),
    ),
    "in steps": (
        looped("%r = gml_st.materialize(%x) tile [%i, 0] [ceildiv(N, 2), D] [2, 1] : tensor<[ceildiv(N, 2)]x[D]xf32>"),
        READ,
        f"%i + 2*ceildiv(N, 2) - 1 <= N: {OF_X}",
        "tile [%i, 0] [ceildiv(N, 2), D] [2, 1]",
        WHERE.format("%i + 2*ceildiv(N, 2) - 1 <= N"),
    ),
    "backwards": (
        looped("%r = gml_st.materialize(%x) tile [N - 2, 0] [N, D] [-1, 1] : tensor<[N]x[D]xf32>"),
        "%r (gml_st.materialize): the subset leaves %x in dim 0",
        f"0 <= -1: {OF_X}",
        "tile [N - 2, 0] [N, D] [-1, 1]",
        None,
    ),
    "in every iteration": (
        looped(moved("N + %i", "%i")),
        "%r (gml_st.materialize): the subset leaves %x in dim 0",
        f"N + %i + 1 <= N: {OF_X}",
        "tile [N + %i, 0] [1, D]",
        None,
    ),
    "in a loop of a loop": (
        f"{HEAD}{NEST.replace('PLACE', '%i + %j + 1')}{END}",
        "%p (gml_st.materialize): nothing says that the subset stays inside of %x in dim 0",
        f"%i + %j + 2 <= N: {OF_X}",
        "tile [%i + %j + 1, 0] [1, D]",
        WHERE.format("%i + %j + 2 <= N"),
    ),
    "outside of loops": (
        f"{HEAD}  %y = gml_st.materialize(%x) tile [0, 0] [8, D] : tensor<8x[D]xf32>{END}".replace(
            "-> tensor<[N]", "-> tensor<8"
        ),
        "%y (gml_st.materialize): nothing says that the subset stays inside of %x in dim 0",
        f"8 <= N: {OF_X}",
        "tile [0, 0] [8, D]",
        SAY.format("8 <= N"),
    ),
    "a tail by another step than the loop has": (
        f"{HEAD}{TAIL.replace('REST', '3')}{END}",
        "%p (gml_st.materialize): nothing says that the subset stays inside of %x in dim 0",
        f"%i + {TILE} - mod({TILE}, 3) + 1 <= N: {OF_X}",
        f"tile [%i + {TILE} - mod({TILE}, 3), 0] [1, D]",
        WHERE.format(f"%i + {TILE} - mod({TILE}, 3) + 1 <= N"),
    ),
    "the part of a filter": (
        looped(
            "%at = gml_st.materialize(%ix) tile [%i] [4] : tensor<4xsi64>\n"
            "    %r = gml_st.materialize(%x, %at) filter [0] : tensor<4x[D]xf32>",
            head=HEAD.replace("%z:", "%ix: tensor<[N]xsi64> in 0 to N, %z:"),
        ),
        "%at (gml_st.materialize): nothing says that the subset stays inside of %ix in dim 0",
        "%i + 4 <= N: %ix is tensor<[N]xsi64>",
        "tile [%i] [4]",
        "end it with what is left: the size `min(4, N - %i)`",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_leave_is_refused(name: str) -> None:
    text, message, required, found, fix = REFUSED[name]
    with pytest.raises(VerifyError) as caught:
        parse(text, "f.tcp")
    diagnostic = caught.value.diagnostic
    assert (diagnostic.message, diagnostic.required, diagnostic.found, diagnostic.fix) == (
        message, required, found, fix,
    )  # fmt: skip
    assert diagnostic.payload is not None
    assert diagnostic.payload.file == "f.tcp"
    assert isinstance(caught.value, UnprovenError) == ("nothing says" in message)


ACCEPTED = {
    "what is left": looped(moved("%i", "%i", "min(4, N - %i)", ROWS), "0 to N step 4"),
    "whole tiles": looped(
        moved("%i", "%i", "4", "tensor<4x[D]xf32>"), "0 to N step 4", HEAD.replace("[N, D]", "[N multiple_of 4, D]")
    ),
    "whole tiles of a part": looped(moved("%i", "%i", "4", "tensor<4x[D]xf32>"), "0 to N - mod(N, 4) step 4"),
    "one row ahead, but for the last": looped(moved("%i + 1", "%i"), "0 to N - 1 step 1"),
    "one row ahead, by a branch": looped("gml_st.if %i + 2 <= N {\n" + moved("%i + 1", "%i") + "\n}"),
    "the last row, where there is one": looped(moved("N - 1", "%i")),
    "backwards": looped(moved("N - 1 - %i", "%i")),
    "a loop that never runs": looped(moved("%i", "%i"), "7 to 7 step 1"),
    "a branch that is never taken": looped("gml_st.if N < 0 {\n" + moved("%i + 7", "%i") + "\n}"),
    "a window that is cut at both ends": looped(
        "%r = gml_st.materialize(%x) tile [max(0, %i - 2), 0] [min(3, max(0, N - %i + 2)) - max(0, 2 - %i), D]"
        " : tensor<[min(3, max(0, N - %i + 2)) - max(0, 2 - %i)]x[D]xf32>\n"
        "    gml_st.yield(%r, %d) tile [0, 0] [min(3, max(0, N - %i + 2)) - max(0, 2 - %i), D]",
        "0 to N + 2 step 3",
    ),
    "no rows": looped("%r = gml_st.materialize(%x) tile [N + 5, 0] [0, D] : tensor<0x[D]xf32>"),
    "from the end": looped("%r = gml_st.materialize(%x) tile [N - 1, 0] [N, D] [-1, 1] : tensor<[N]x[D]xf32>\n"
                           "    gml_st.yield(%r, %d) full"),
    "every other row": looped(
        "%r = gml_st.materialize(%x) tile [0, 0] [ceildiv(N, 2), D] [2, 1] : tensor<[ceildiv(N, 2)]x[D]xf32>\n"
        "    gml_st.yield(%r, %d) tile [0, 0] [ceildiv(N, 2), D]"
    ),
    "points": looped(
        "%r = gml_st.materialize(%x) point [%i, 0] : tensor<f32>\n    gml_st.yield(%r, %d) point [N - 1 - %i, 0]",
        head=HEAD.replace("[N, D]", "[N, D: 1..]"),
    ),
    "points, as is asserted": looped(
        "%r = gml_st.materialize(%x) point [%i, %i] : tensor<f32>\n    gml_st.yield(%r, %d) point [%i, 0]",
        head=HEAD + '  tcp.assert {any = [N <= D], message = "wide"}\n',
    ),
    "the only odd number below three": looped(
        "gml_st.if N < 3 {\n"
        "%s = gml_st.materialize(%x) tile [0, 0] [mod(N, 2), D] : tensor<[mod(N, 2)]x[D]xf32>\n"
        "%r = gml_st.materialize(%s) tile [0, 0] [N, D] : tensor<[N]x[D]xf32>\n"
        "gml_st.yield(%r, %d) tile [0, 0] [N, D]\n}",
        "N - mod(N, 2) to N step 2",
    ),
    "in a loop of a loop": f"{HEAD}{NEST.replace('PLACE', '%i + %j')}{END}",
    "a tail in a loop of whole tiles": f"{HEAD}{TAIL.replace('REST', '2')}{END}",
    "a tail in a loop of whole tiles, by a branch": looped(
        f"gml_st.if 1 <= mod({TILE}, 2) {{\n"
        f"{moved(f'%i + {TILE} - mod({TILE}, 2)', f'%i + {TILE} - mod({TILE}, 2)')}\n}}", WHOLE,
    ),
}  # fmt: skip
SIZES = ((0, 3), (1, 1), (4, 5), (5, 5), (8, 16), (13, 17))


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_stays_inside_runs_between_guard_pages(name: str) -> None:
    module = parse(ACCEPTED[name])
    plain = tcpx.parse_schedule("language 1\nschedule s(root: func) {\n}\n")
    for kernel in (tcpx.compile(parse(ACCEPTED[name])), tcpx.compile(parse(ACCEPTED[name]), schedule=plain)):
        for n, d in SIZES:
            if n % 4 and "multiple_of" in ACCEPTED[name]:
                continue
            x, z = (np.random.default_rng(n + k).standard_normal((n, d), np.float32) for k in (0, 1))
            assert np.array_equal(run_guarded(kernel, x, z)[0], np.asarray(tcpx.evaluate(module, x, z))), (n, d)


def test_one_of_two_assertions_is_known_in_a_branch() -> None:
    """`expand` reads the first column of what is not as wide as the result, and so is 1 wide."""
    text = """func @f(%x: tensor<[N]x[D]xf32>, %z: tensor<[N]x[W]xf32>) -> tensor<[N]x[D]xf32> symbols [N, D, W] {
  tcp.assert {any = [W == D, W == 1], message = "one column, or all"}
  %y = gml_st.if W == D {
    tcp.yield(%x)
  } else {
    %c = gml_st.materialize(%z) tile [0, 0] [N, 1] drop [1] : tensor<[N]xf32>
    %b = tcp.broadcast(%c) {dims = [0]} : tensor<[N]x[D]xf32>
    tcp.yield(%b)
  } : tensor<[N]x[D]xf32>
  tcp.return(%y)
}
"""
    parse(text)
    with pytest.raises(UnprovenError, match="1 <= W"):
        parse(text.replace("W == D, W == 1", "W == D, W <= 1"))


def test_what_a_builder_makes_is_checked() -> None:
    n, b = Symbol("N"), Builder()
    with b.func("f", {"x": tensor([n], f32)}, [n]) as (x,):
        with b.loop(For, "i", (0, n, 4), {"d": x}, ["y"]) as loop:
            (d,) = loop.destinations
            at = tile([loop.var], [4])
            b.yields(b.value(Materialize.of(x, at)), d, at)
        b.returns(loop.results[0])
    with pytest.raises(UnprovenError, match="nothing says that the subset stays inside of %x in dim 0") as caught:
        b.finish()
    assert caught.value.diagnostic.payload is not None
    assert caught.value.diagnostic.payload.file == __file__


@pytest.mark.parametrize("body", [
    "let j, i = tile(e, [d0: 6, d1: 16], tail: pad)",
    "let j, i = tile(e, [d0: 6, d1: 16], tail: pad)\nvectorize(i)\npeel(i)",
    "let i = tile(e, [d0: 6])\npeel(i, scalar: true)",
    "let i = tile(e, [d0: 6], tail: shift)",
    "let a, b = tile(e, [d0: 3, d0: max(1, ceildiv(size(e.d0), 2))], tail: peel)\npeel(a)",
    "let a, b = tile(e, [d0: 4, d0: 3], tail: peel)\npeel(a)",
    "let a, c, b = tile(e, [d0: 4, d1: 8, d0: 3], tail: peel)\npeel(a)",
])  # fmt: skip
def test_the_print_of_what_a_schedule_made_is_read(body: str) -> None:
    text = f"{HEAD}  %e = tcp.add(%x, %z) : tensor<[N]x[D]xf32>{END}".replace("%y", "%e")
    program = tcpx.parse_schedule(f'language 1\nschedule s(root: func) {{\nlet e = match one "e" in root\n{body}\n}}\n')
    made = tcpx.apply_schedule(parse(text), program).module
    assert parse(made.text()).text() == made.text()


def test_a_part_that_begins_late_stays_inside_in_each_case() -> None:
    """The second part of a tile of two parts: before M it begins at 0 and is short, after M it is a whole step."""
    size = "8*ceildiv(M, 12) - min(8*ceildiv(M, 12), max(0, M - %i))"
    text = f"""
func @f(%x: tensor<[M]xf32>, %z: tensor<[2*M]xf32>) -> tensor<[2*M]xf32> symbols [M: 1..13] {{
  %y = gml_st.for %i in 0 to 2*M - mod(2*M, 8*ceildiv(M, 12)) step 8*ceildiv(M, 12) (%d = %z) {{
    %p = gml_st.materialize(%x) tile [max(0, %i - M)] [{size}] : tensor<[{size}]xf32>
    gml_st.yield(%p, %d) tile [%i] [{size}]
  }} : tensor<[2*M]xf32>
  tcp.return(%y)
}}
"""
    parse(text)
    with pytest.raises(UnprovenError, match="nothing says that the subset stays inside of %x"):
        parse(text.replace("max(0, %i - M)] [", "max(0, %i + 1 - M)] ["))
