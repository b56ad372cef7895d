"""peel: a main loop of whole steps and a tail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tcpx.payload.ir import Module
from tcpx.payload.ops.gml_st import If, Loop
from tcpx.payload.sizes import to_text
from tests.transform.payloads import CHAIN, MM, PAYLOADS, PRODUCTS, RELU, Sizes, check, refusal

SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 17, 0), (13, 17, 5), (12, 16, 4), (5, 7, 1))
)
BODIES = {
    "one loop": "let i = tile(mm, [m: 6])\npeel(i)",
    "a reduction": "let k = tile(mm, [k: 2])\npeel(k)",
    "nested": "let k, j, i = tile(mm, [k: 2, n: 8, m: 6])\npeel(i)\npeel(j)\npeel(k)",
    "outside in": "let k, j, i = tile(mm, [k: 2, n: 8, m: 6])\npeel(k)\npeel(j)\npeel(i)",
    "scalar tail of a reduction": "let k = tile(mm, [k: 4])\npeel(k, scalar: true)",
    "scalar tail of three": "let k, i, j = tile(mm, [k: 4, m: 4, n: 5], tail: scalar)",
    "scalar tail in parallel": "let i = tile(mm, [m: 6], parallel: true)\npeel(i, scalar: true)",
    "scalar tail": "let i = tile(mm, [m: 6])\npeel(i, scalar: true)",
    "with a start": "let k = tile(mm, [k: 2])\nlet i = tile(mm, [m: 6])\nfuse(mm.start, into: i)\npeel(k)\npeel(i)",
    "padded": "let i = tile(mm, [m: 6], tail: pad)\npeel(i)",
    "parallel": "let i = tile(mm, [m: 6], parallel: true)\npeel(i)",
}


@pytest.mark.parametrize("payload", PRODUCTS)
@pytest.mark.parametrize("name", BODIES)
def test_computes_the_same(name: str, payload: str) -> None:
    check(PAYLOADS[payload], MM + BODIES[name], SIZES)


def test_the_main_loop_has_whole_tiles() -> None:
    body = 'let i = tile(mm, [m: 6])\npeel(i)\nlet j = tile(mm.copy("main"), [n: 8])\nrequire len(mm) == 2 "two"'
    done = check(RELU, MM + body, SIZES)
    main = next(op for op in done.module.walk() if isinstance(op, Loop))
    assert "min(6" not in main.text().split("mm/n1")[0]


SYMBOLIC = """\
func @product(%x: tensor<[M]x9xf32>, %w: tensor<9x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., N: 0..] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
STATIC = SYMBOLIC.replace("[M]", "12").replace("[N]", "17").replace(" symbols [M: 0.., N: 0..]", "")


def ranges(module: Module) -> list[str]:
    """The loops in program order."""
    loops = [op for op in module.walk() if isinstance(op, Loop)]
    return [f"{op.name}: {to_text(op.var.lower)} to {to_text(op.var.upper)}" for op in loops]


def test_no_tail_is_provably_empty() -> None:
    done = check(STATIC, MM + "tile(mm, [m: 6, n: 8], tail: peel)")
    assert ranges(done.module) == ["mm/m1: 0 to 12", "mm/n1: 0 to 16", "mm/n1~tail: 16 to 17"]
    done = check(STATIC, MM + "let i = tile(mm, [m: 8])\nlet j = tile(mm, [m: 5])\npeel(j)\npeel(i)")
    assert ranges(done.module) == [
        *("mm/m1: 0 to 8", "mm/m2: 0 to 5", "mm/m2~tail: 5 to 8"),
        *("mm/m1~tail: 8 to 12", "mm/m2~tail~tail: 0 to 12 - %mm/m1~tail"),
    ]


def sizes_of(payload: str) -> Sequence[Sizes]:
    return [{"M": m, "N": n} for m, n in ((0, 1), (1, 0), (7, 17), (13, 5), (12, 16))] if "[M]" in payload else ()


@pytest.mark.parametrize(
    ("payload", "copies"),
    [(SYMBOLIC, {"main": ["mm"], "tail": ["mm~tail", "mm~tail.1", "mm~tail~tail"]}), (STATIC, {"main": ["mm"]})],
)
def test_main_copies_are_of_whole_tiles(payload: str, copies: Mapping[str, list[str]]) -> None:
    body = "tile(mm, [m: 6, n: 8], tail: peel)\n"
    shown = "\n".join(f'for x in mm.copy("{side}") {{ emit_remark(x, "{side}") }}' for side in copies)
    done = check(payload, MM + body + shown, sizes_of(payload))
    said = [line.text.partition(": %")[2] for line in done.trace.output]
    assert said == [f"{name}: {side}" for side, names in copies.items() for name in names]
    check(payload, MM + body + 'vectorize(mm.copy("main").loop(n))', sizes_of(payload))


def test_a_selection_keeps_the_copies_that_later_splits_make() -> None:
    body = 'tile(mm, [m: 6], tail: peel)\nlet main = mm.copy("main")\nlet tail = mm.copy("tail")\n'
    done = check(
        SYMBOLIC,
        MM + body + "tile(main, [n: 8], tail: peel)\nrequire len(main) == 2 and len(tail) == 1",
        sizes_of(SYMBOLIC),
    )
    assert len(ranges(done.module)) == 4


def test_tails_inside_the_loop_are_named() -> None:
    found = refusal(SYMBOLIC, MM + 'tile(mm, [m: 6, n: 8], tail: peel)\nvectorize(mm.copy("main").loop(m))')
    assert (
        found.fix == 'vectorize mm/n1, the loop of whole tiles inside: `x.copy("main").loop(..)` of the innermost dim'
    )
    found = refusal(SYMBOLIC, MM + 'tile(mm, [m: 6, n: 8], tail: peel)\nlet c = mm.copy("tail").copy("main")')
    assert found.required == "a copy of whole tiles"


def test_refused() -> None:
    body = "let i = tile(mm, [m: 6])\npeel(i)\npeel(i)"
    assert refusal(RELU, MM + body).message == "the loop mm/m1 has no tail"


def test_a_tile_read_in_a_loop_that_may_be_empty() -> None:
    """In the part of a range that only some sizes have, the variable is 0; what that says of the size is kept."""
    payload = CHAIN.replace("M: 0..", "M: 1..13")
    body = 'let r = match one "r" in root\nlet i = tile(r, [d0: 8], tail: pad)\nsplit(i, at: 8)\npeel(i)'
    check(payload, body, [{"M": m, "N": 3} for m in (1, 7, 8, 9, 13)])


@pytest.mark.parametrize("last", ["peel(i)", "split(i, at: 5)", "split(i, at: 10)"])
def test_a_loop_round_a_loop_of_one_iteration(last: str) -> None:
    """The inner one is peeled while it has one; what becomes of the outer one does not matter."""
    body = 'let r = match one "r" in root\nlet i = tile(r, [d0: 5])\n'
    body += f"specialize r when size(r.d0) >= 3 {{ tile(r, [d0: 5], tail: peel) }} else {{ }}\n{last}"
    check(CHAIN.replace("M: 0..", "M: 1..13"), body, [{"M": m, "N": 3} for m in (1, 4, 5, 7, 13)])


def test_what_is_equal_in_the_whole_range_is_equal_in_its_parts() -> None:
    """A version knows more of a size than what stands in it; less can be proved of the part of a part."""
    payload = """func @square(%x: tensor<[M]x3xf32>, %w: tensor<3x[M]xf32>) -> tensor<[M]x[M]xf32> symbols [M: 0..40] {
      %mm = tcp.matmul(%x, %w) : tensor<[M]x[M]xf32>
      tcp.return(%mm)
    }"""
    body = "let j = tile(mm, [n: max(1, ceildiv(size(mm.n), 2))], tail: peel)\n"
    body += "specialize mm when size(mm.m) >= 20 { tile(mm, [m: 4], tail: pad) } else { tile(mm, [m: 1]) }\npeel(j)"
    check(payload, MM + body, [{"M": m} for m in (0, 1, 2, 19, 20, 21, 39, 40)])


def test_what_a_version_knows_bounds_the_loops_too() -> None:
    """A copy of the operand that is made outside of the version runs over nothing where the version has nothing."""
    payload = RELU.replace("[M: 0.., K: 0.., N: 0..]", "[M: 0.., K multiple_of 4, N: 0..]")
    body = """tile(mm, [m: 5])
    specialize mm when size(mm.k) >= 3 { tile(mm, [k: 4], tail: pad) } else { tile(mm, [k: 5], tail: peel) }
    pack(mm.lhs, [k, m])
    """
    done = check(payload, MM + body, [{"M": m, "K": k, "N": 3} for m in (0, 7) for k in (0, 4, 12)])
    assert "in 0 to 0 step 5" in done.module.text()


PACKED = """func @f(%x: tensor<6x8xf32>, %y: tensor<6x8xf32>) -> tensor<6x8xf32> {
  %d = tcp.sub(%x, %x) : tensor<6x8xf32>
  %r = tcp.sub(%d, %y) : tensor<6x8xf32>
  tcp.return(%r)
}
"""


def test_a_scalar_tail_does_not_read_slots_of_whole_steps() -> None:
    """The tail reads one slot of a packed operand, from its start to what is left: one element would be the first."""
    body = (
        'let d = match one "d" in root\nlet r = match one "r" in root\nlet i = tile(d, [d1: 5])\n'
        "fuse(r, into: i, padded: false)\npack(r.rhs, [d1, d0])\npeel(i, scalar: SCALAR)"
    )
    found = refusal(PACKED, body.replace("SCALAR", "true"))
    assert found.message.endswith("cannot step by 1: a subset in its body is numbered by whole steps")
    assert found.fix == "peel without `scalar`, or before the operand is packed"
    check(PACKED, body.replace("SCALAR", "false"))


def test_a_scalar_tail_of_vectors_does_not_read_slots_of_whole_steps() -> None:
    """The number of a slot is the same at every step of 1 in it: each element of the tail would be the first one."""
    payload = """func @f(%x: tensor<[N]x17xf32>) -> tensor<[N]x17xf32> symbols [N: 0..] {
      %y = tcp.exp(%x) : tensor<[N]x17xf32>
      tcp.return(%y)
    }"""
    body = 'let y = match one "y" in root\nlet j, i = tile(y, [d1: 7, d0: 4], tail: pad)\n'
    pack = "pack(y.operand, layout: [d1])\n"
    found = refusal(payload, body + pack + "vectorize(j)\npeel(j, scalar: true)")
    assert found.message.endswith("cannot step by 1: a subset in its body is numbered by whole steps")
    assert found.found == "floordiv(%y/d11~tail, 7)"
    assert found.fix == "peel without `scalar`, or before the operand is packed"
    check(payload, body + pack + "vectorize(j)\npeel(j)", [{"N": n} for n in (0, 1, 4, 9)])
    check(payload, body + "vectorize(j)\npeel(j, scalar: true)", [{"N": n} for n in (0, 1, 4, 9)])


@pytest.mark.parametrize(
    ("number", "value"),
    [("%q = tcp.fill {value = %i}", "%q"), ("%q = tcp.index_value {value = 2*%i}", "broadcast(%q, [])")],
)
def test_a_scalar_tail_has_no_numbers_that_are_of_the_whole_step(number: str, value: str) -> None:
    tile, of_one = "tensor<[min(4, N - %i)]xsi64>", "si64" if "index" in number else "tensor<[min(4, N - %i)]xsi64>"
    payload = f"""func @f(%x: tensor<[N]xsi64>) -> tensor<[N]xsi64> symbols [N: 0..] {{
      %y = gml_st.for %i in 0 to N step 4 (%d = %x) {{
        %a = gml_st.materialize(%x) tile [%i] [min(4, N - %i)] : {tile}
        {number} : {of_one}
        %r = tcp.add(%a, {value}) : {tile}
        gml_st.yield(%r, %d) tile [%i] [min(4, N - %i)]
      }} : tensor<[N]xsi64>
      tcp.return(%y)
    }}"""
    body = 'let i = parent(match one "r" in root)\n'
    found = refusal(payload, body + "peel(i, scalar: true)")
    assert found.message.endswith("cannot step by 1: a number in its body depends on the step")
    check(payload, body + "peel(i)", [{"N": n} for n in (0, 3, 8, 17)])


def test_a_scalar_tail_of_a_part_computes_what_is_left_of_that_part() -> None:
    payload = """func @f(%x: tensor<[N]x2xf32>) -> tensor<[N]x2xf32> symbols [N: 0..] {
      %y = tcp.exp(%x) : tensor<[N]x2xf32>
      tcp.return(%y)
    }"""
    body = 'let i = tile(match one "y" in root, [d0: 7], parallel: true, tail: pad)\nvectorize(i)\nsplit(i, at: 14)\n'
    found = refusal(payload, body + "peel(i, scalar: true)")
    assert found.message.endswith(ELSEWHERE)
    assert (found.required, found.fix) == ("tiles that end at min(14, N)", NOT_ELSEWHERE)
    check(payload, body + "peel(i)", [{"N": n} for n in (0, 6, 14, 17)])


def test_a_scalar_tail_round_a_loop_has_tiles_of_one_element() -> None:
    """What is left is one whole step of the loop inside."""
    check(STATIC, MM + "let j = tile(mm, [n: 3])\nlet i = tile(mm, [n: 2])\npeel(j, scalar: true)", [{}])


ELSEWHERE = "cannot step by 1: a tile in its body ends where another range does"
NOT_ELSEWHERE = "peel without `scalar` or before the loop is split, or tile without `tail: pad`"


def test_a_scalar_tail_of_a_padded_tile_computes_all_of_it() -> None:
    """The tile ends where the sizes say, the loop over it behind the padding: at its last step nothing may be left."""
    payload = """func @f(%x: tensor<[N]x3xf32>) -> tensor<[N]x3xf32> symbols [N: 0..] {
      %y = tcp.exp(%x) : tensor<[N]x3xf32>
      tcp.return(%y)
    }"""
    body = 'let y = match one "y" in root\nlet o = tile(y, [d0: 14]PAD)\nlet i = tile(y, [d0: 8]PAD)\n'
    padded, plain = body.replace("PAD", ", tail: pad"), body.replace("PAD", "")
    found = refusal(payload, padded + "vectorize(i)\npeel(i, scalar: true)")
    assert found.message.endswith(ELSEWHERE)
    assert (found.required, found.fix) == ("tiles that end at 14", NOT_ELSEWHERE)
    sizes = [{"N": n} for n in (0, 1, 9, 15, 23)]
    check(payload, padded + "vectorize(i)\npeel(i)", sizes)
    check(payload, plain + "peel(i, scalar: true)", sizes)


def test_a_scalar_tail_does_not_hold_a_peeled_loop_of_longer_tiles() -> None:
    """Of 4 or 5 left, the loop inside makes one whole tile of 4: its range is a constant, but too long for 1."""
    body = MM + "let o = tile(mm, [n: 5])\nlet i = tile(mm, [n: 4])\npeel(i)\npeel(o, scalar: true)"
    payload = STATIC.replace("17", "29")
    assert refusal(payload, body).message.endswith(ELSEWHERE)
    check(payload, body.replace("o, scalar: true", "o"), [{}])


BRANCHED = """\
func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %e = tcp.empty : tensor<[N]xf32>
  %y = gml_st.for %i in 0 to N step 3 (%o = %e) {
    %t = gml_st.materialize(%x) tile [%i] [min(3, N - %i)] : tensor<[min(3, N - %i)]xf32>
    %r = gml_st.if CONDITION {
      %p = tcp.exp(%t) : tensor<[min(3, N - %i)]xf32>
      tcp.yield(%p)
    } else {
      %q = tcp.abs(%t) : tensor<[min(3, N - %i)]xf32>
      tcp.yield(%q)
    } : tensor<[min(3, N - %i)]xf32>
    gml_st.yield(%r, %o) tile [%i] [min(3, N - %i)]
  } : tensor<[N]xf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize(
    ("condition", "branches"), [("N == 1", 1), ("N < 3", 1), ("N >= 3", 1), ("N == 4", 2), ("mod(N, 3) == 0", 1)]
)
def test_a_branch_that_contradicts_a_part_goes(condition: str, branches: int) -> None:
    """Of a loop of whole steps, no iteration has an N below 3; of its tail, none has an N that 3 divides."""
    payload = BRANCHED.replace("CONDITION", condition)
    body = "let p = match one exp in root\npeel(parent(parent(p)))"
    made = check(payload, body, [{"N": n} for n in (0, 1, 2, 3, 4, 8)])
    assert sum(isinstance(op, If) for op in made.module.main.walk()) == branches


def test_a_branch_that_says_more_of_sizes_than_its_result() -> None:
    """Where 3 divides N, a tile has 3 elements; the result of the branch has at most 3."""
    payload = BRANCHED.replace("CONDITION", "mod(N, 3) == 0")
    body = "let p = match one exp in root\nsplit(parent(parent(p)), 3)"
    check(payload, body, [{"N": n} for n in (0, 1, 3, 4, 6)])


def test_rests_of_what_a_peeled_part_leaves_are_read_again() -> None:
    text = """\
func @f(%a: tensor<[M]x[K]xi1>) -> tensor<[M]x[K]xi1> symbols [M: 0..40, K] {
  %y = tcp.and(%a, %a) : tensor<[M]x[K]xi1>
  tcp.return(%y)
}
"""
    steps = 'let y = match one "y" in root\nlet t = tile(y, [d1: 5], parallel: true, tail: none, num_threads: [3])\n'
    check(text, f"{steps}vectorize(y)\npeel(t)")


WINDOWS = """\
func @f(%x: tensor<[N]xf32>, %w: tensor<5xf32>) -> tensor<[N]xf32> symbols [N: 1..] {
  %p = tcp.pad(%x) {value = 0.0, low = [2]} : tensor<[N + 4]xf32>
  %y = tcp.convolution(%p, %w) {input = ["h+k"], filter = ["k"], out = ["h"]} : tensor<[N]xf32>
  tcp.return(%y)
}
"""
Y = 'let y = match one "y" in root\n'


def of_twenty(payload: str) -> str:
    """The payload with 20 windows."""
    return payload.replace("[N + 4]", "24").replace("[N]", "20").replace(" symbols [N: 1..]", "")


@pytest.mark.parametrize("inner", ["", "tile(y, [k: 1])\n"])
@pytest.mark.parametrize("size", [1, 3, 4, 6])
def test_borders_are_peeled(size: int, inner: str) -> None:
    steps = f"{Y}let i = tile(y, [h: {size}])\n{inner}peel(i, borders: true)"
    check(WINDOWS, steps, [{"N": n} for n in (1, 2, 3, 4, 5, 7, 8, 9, 13, 24)])
    check(of_twenty(WINDOWS), steps, ())


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (4, ["y/h1: 0 to 4", "y/h1~main: 4 to 16", "y/h1~main~tail: 16 to 20"]),
        (3, ["y/h1: 0 to 3", "y/h1~main: 3 to 18", "y/h1~main~tail: 18 to 20"]),
        (1, ["y/h1: 0 to 2", "y/h1~main: 2 to 18", "y/h1~main~tail: 18 to 20"]),
    ],
)
def test_tiles_of_the_main_loop_have_no_padding(size: int, wanted: list[str]) -> None:
    done = check(of_twenty(WINDOWS), f"{Y}let i = tile(y, [h: {size}])\npeel(i, borders: true)", ())
    assert ranges(done.module) == wanted
    main = next(op for op in done.module.walk() if isinstance(op, Loop) and op.name == "y/h1~main")
    assert "tcp.pad" not in main.text()


def test_a_loop_without_borders() -> None:
    error = refusal(STATIC, MM + "let i = tile(mm, [m: 6])\npeel(i, borders: true)")
    assert error.message == "the loop mm/m1 has no tail, and its tiles have no padding in some steps alone"
    assert error.required == "a range that is not a whole number of steps, or padding that some steps do not read"
    assert error.found == "0 to 12 step 6"
