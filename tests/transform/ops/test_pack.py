"""pack: every operand, every order, one and two levels, shared or not."""

from __future__ import annotations

import pytest

from tcpx.payload.interfaces import Structured
from tcpx.payload.ops.gml_st import If
from tcpx.payload.traits.tree import Tree
from tests.transform.payloads import INTEGERS, MM, PAYLOADS, RELU, TRANSPOSED, TWO_K, Sizes, check, refusal

SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 17, 0), (13, 17, 5), (1, 1, 1), (12, 16, 4))
)
NEST = (
    "let jc = tile(mm, [n: 16])\nlet pc = tile(mm, [k: 4])\nlet ic = tile(mm, [m: 12])\n"
    "let jr, ir = tile(mm, [n: 8, m: 6], tail: pad)\n"
)
PACKS = {
    "rhs": "let b = pack(mm.rhs, [k, n], at: pc)",
    "rhs, transposed": "let b = pack(mm.rhs, [n, k], at: pc)",
    "lhs": "let a = pack(mm.lhs, [m, k], at: ic)",
    "lhs, transposed": "let a = pack(mm.lhs, [k, m], at: ic)",
    "lhs with a pitch": "let a = pack(mm.lhs, [m, k pad 16], at: ic)",
    "both": "let b = pack(mm.rhs, [k, n], at: pc)\nlet a = pack(mm.lhs, [k, m], at: ic)",
    "shared": "let b = pack(mm.rhs, [k, n], at: pc, parallel: true)",
    "by lists of dims": 'let depths = mm.dims("reduction")\nlet none = without(depths, depths)\n'
    "let n = innermost(dims(mm.out))\nlet b = pack(mm.rhs, [depths, none, n], at: pc)",
    "shared by all loops": "let b = pack(mm.rhs, [k, n], parallel: true)",
    "two levels": "let b = pack(mm.rhs, [k, n], at: pc)\nlet c = pack(mm.rhs, [n, k], at: jr)",
    "in the innermost loop": "let a = pack(mm.lhs, [k, m], at: ir)",
}


@pytest.mark.parametrize("payload", ["relu", "integers"])
@pytest.mark.parametrize("name", PACKS)
def test_computes_the_same(name: str, payload: str) -> None:
    check(PAYLOADS[payload], MM + NEST + PACKS[name], SIZES)


ROWS_OF_TILES = "let pc = tile(mm, [k: 4])\nlet jr, ir = tile(mm, [n: 8, m: 6], tail: pad)\nlet kk = tile(mm, [k: 1])\n"
FIRST_READS = {
    "a tile": ROWS_OF_TILES + "let f = pack(mm.rhs, [k, n], at: jr, filled_by: ir)",
    "a tile, transposed": ROWS_OF_TILES + "let f = pack(mm.rhs, [n, k], at: jr, filled_by: ir)",
    "a panel": "let pc = tile(mm, [k: 4])\nlet ir, jr = tile(mm, [m: 6, n: 8])\n"
    "let f = pack(mm.rhs, [k, n], at: pc, filled_by: ir)",
    "the other operand": "let pc = tile(mm, [k: 4])\nlet ir, jr = tile(mm, [m: 6, n: 8], tail: pad)\n"
    "let f = pack(mm.lhs, [m, k], at: ir, filled_by: jr)",
    "by an inner loop": "let jr = tile(mm, [n: 8])\nlet ir = tile(mm, [m: 6])\nlet i = tile(mm, [m: 2])\n"
    "let f = pack(mm.rhs, [k, n], at: ir, filled_by: i)",
    "split": ROWS_OF_TILES + "let f = pack(mm.rhs, [k, n], at: jr, filled_by: ir)\nsplit(ir, at: 6)",
    "vectorized": ROWS_OF_TILES
    + "pack(mm.rhs, [k, n], at: jr, filled_by: ir)\nvectorize(ir)\nhoist_accumulator(mm, out_of: kk)",
    "vectorized and split": ROWS_OF_TILES
    + "pack(mm.rhs, [k, n], at: jr, filled_by: ir)\nvectorize(ir)\nhoist_accumulator(mm, out_of: kk)\nsplit(ir, at: 6)",
}


@pytest.mark.parametrize("payload", ["relu", "transposed", "integers", "two_k"])
@pytest.mark.parametrize("name", FIRST_READS)
def test_filled_by_the_first_that_reads(name: str, payload: str) -> None:
    body = FIRST_READS[name]
    if payload in ("integers", "two_k"):
        body = body.partition("vectorize")[0]
    if payload == "two_k":
        body = body.replace("[k, n]", "[k, j, n]").replace("[n, k]", "[n, k, j]").replace("[m, k]", "[m, j, k]")
    if name == "by an inner loop":
        body = "let kk = tile(mm, [k: 4])\n" + body
    check(PAYLOADS[payload], MM + body, SIZES)


def test_the_first_iteration_reads_what_it_always_did_and_stores_it() -> None:
    body = FIRST_READS["a tile"]
    done = check(RELU, MM + body, SIZES)
    (branch,) = [op for op in done.module.walk() if isinstance(op, If)]
    assert branch.predicate.to_text() == "%mm/m1 == 0"
    assert [op.opcode for op in branch.then.ops] == ["gml_st.materialize", "tcp.pad", "gml_st.yield", "tcp.yield"]
    assert [op.opcode for op in branch.orelse.ops] == ["gml_st.materialize", "tcp.yield"]
    split = check(RELU, MM + body + "\nsplit(ir, at: 6)", SIZES)
    assert not [op for op in split.module.walk() if isinstance(op, If)]


def test_what_is_made_in_the_loop_is_not_filled_by_its_first_iteration() -> None:
    body = 'let k = tile(mm, [k: 3])\nfuse(match one "x2" in root, into: k, recompute: true)\n'
    payload = RELU.replace(
        "  %mm = tcp.matmul(%x,", "  %x2 = tcp.exp(%x) : tensor<[M]x[K]xf32>\n  %mm = tcp.matmul(%x2,"
    )
    found = refusal(payload, MM + "let i = tile(mm, [m: 4])\n" + body + "pack(mm.lhs, [m, k], at: i, filled_by: k)")
    assert found.message.endswith("too late to pack it there")


def test_two_reduction_dims() -> None:
    check(TWO_K, MM + NEST + "let b = pack(mm.rhs, [k, j, n], at: pc)\nlet a = pack(mm.lhs, [j, m, k], at: ic)", SIZES)


@pytest.mark.parametrize("layout", ["[k, n]", "[n, k]"])
def test_a_transposed_operand(layout: str) -> None:
    check(TRANSPOSED, MM + NEST + f"let b = pack(mm.rhs, {layout}, at: pc)", SIZES)


def test_tiles_that_get_shorter() -> None:
    body = "let j = tile(mm, [n: 8])\nlet i, k = tile(mm, [m: 6, k: 4])\nlet b = pack(mm.rhs, [k, n], at: j)"
    check(INTEGERS, MM + body, SIZES)


@pytest.mark.parametrize("inner", [4, 8])
def test_a_loop_whose_range_depends_on_another(inner: int) -> None:
    """The buffer has slots for the longest range, and each is filled as far as its own goes."""
    body = f"let i, j = tile(mm, [m: 4, n: 6])\nlet k = tile(mm, [k: 4])\ntile(mm, [n: {inner}])\n"
    check(RELU, MM + body + "pack(mm.rhs, [n, k], at: i)", SIZES)


@pytest.mark.parametrize("payload", ["relu", "transposed", "integers"])
def test_a_padded_reduction_dim_is_packed_with_zeros(payload: str) -> None:
    """What one operand holds beyond k is multiplied with what the other holds there: both must be 0."""
    body = "let i, j, k = tile(mm, [m: 6, n: 8, k: 4], tail: pad)\n"
    body += "let b = pack(mm.rhs, [k, n], at: i)\nlet a = pack(mm.lhs, [m, k], at: i)"
    check(PAYLOADS[payload], MM + body, SIZES)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('let i = tile(match one "r" in root, [d0: 4])\npack(mm.rhs, [k, n], at: i)', "%mm is not in the loop r/d01"),
        (NEST + "pack(mm.rhs, [k, m], at: pc)", "the layout [n, k, m] does not fit the operand"),
        (NEST + "pack(mm.out, [m, n], at: pc)", "pack takes an operand of an operation, not a value"),
        ("let i = tile(mm, [m: 4])\npack(mm.rhs, [k, n], at: i)", "the tile of %w has no bound in dim 0"),
        (NEST + "pack(mm.rhs, [k, n], at: ic, filled_by: jc)", "mm/n1 does not stand between the buffer and %mm"),
        (
            NEST + "pack(mm.rhs, [k, n], at: ic, filled_by: jr)",
            "the iterations of mm/n2 do not all read the same tiles of %mm",
        ),
        (
            "let i = tile(mm, [m: 4])\nlet k = tile(mm, [k: 4])\nlet j = tile(mm, [n: 8])\nparallelize(j)\n"
            "pack(mm.lhs, [m, k], at: k, filled_by: j)",
            "mm/n1 is parallel: its iterations hand no buffer to the next",
        ),
    ],
)
def test_refused(body: str, message: str) -> None:
    assert refusal(RELU, MM + body).message == message


ROUND = """func @f(%x: tensor<[M]x7xf32>) -> tensor<[M]xf32> symbols [M: 0..] {
  %s = tcp.reduce_max(%x) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%s)
}
"""


def test_what_a_loop_that_may_be_empty_reads_is_not_packed_outside_of_it() -> None:
    body = 'let s = match one "s" in root\nlet i = tile(s, [d0: 5])\n'
    body += "specialize s when size(s.d0) < 5 { tile(s, [d0: 2]) } else { tile(s, [d0: 4], tail: peel) }\n"
    body += "split(i, at: 15)\n"
    found = refusal(ROUND, body + "pack(s.operand, [d1, d0], at: i)")
    assert found.message == ("a tile of %x may end behind it where it is packed: the loop that reads it may be empty")


FIRST_ROW = """func @f(%x: tensor<[N]x4xf32>, %w: tensor<4x4xf32>) -> tensor<[N]x4xf32> symbols [N: 0..] {
  %e = tcp.empty : tensor<[N]x4xf32>
  %r = gml_st.for %i in 0 to N step 1 (%d = %e) {
    %t = gml_st.materialize(%x) tile [0, 0] [1, 4] : tensor<1x4xf32>
    %p = tcp.pad(%t) {value = 2.0} : tensor<4x5xf32>
    %o = tcp.empty : tensor<1x4xf32>
    %q = gml_st.for %j in 0 to 1 step 2 (%dd = %o) {
      %u = gml_st.materialize(%t) tile [%j, 0] [1 - %j, 4] : tensor<[1 - %j]x4xf32>
      %mm = tcp.matmul(%u, %w) : tensor<[1 - %j]x4xf32>
      gml_st.yield(%mm, %dd) tile [%j, 0] [1 - %j, 4]
    } : tensor<1x4xf32>
    gml_st.yield(%q, %d) tile [%i, 0] [1, 4]
  } : tensor<[N]x4xf32>
  tcp.return(%r)
}
"""


def test_other_views_of_a_tile_do_not_say_that_it_is_there() -> None:
    """A pad of the row that the loop reads has nothing to do with the operand: at N = 0 there is no row to pack."""
    found = refusal(FIRST_ROW, MM + "pack(mm.lhs, [m, k])")
    assert found.message == ("a tile of %x may end behind it where it is packed: the loop that reads it may be empty")
    assert found.fix == "pack further inside, in the loop that reads the tile"


@pytest.mark.parametrize("tail", ["none", "pad"])
@pytest.mark.parametrize("condition", ["size(s.d0) == 8", "size(s.d0) <= 8", "size(s.d0) % 4 == 0"])
def test_what_a_branch_says_of_sizes_is_not_known_where_its_operand_is_packed(condition: str, tail: str) -> None:
    """The buffer is filled outside of the branch, for all sizes."""
    body = 'let s = match one "s" in root\ntile(s, [d1: 4])\n'
    first, second = (f"tile(s, [d0: {size}], tail: {tail})" for size in (3, 8))
    body += f"specialize s when {condition} {{ {first} }} else {{ {second} }}\n"
    check(ROUND, body + "pack(s.operand, [d1, d0 pad 8])", [{"M": m} for m in (0, 1, 4, 8, 9, 16, 20)])


def test_a_padded_tile_whose_size_depends_on_a_loop() -> None:
    body = (
        'let s = match one "s" in root\nlet i = tile(s, [d0: 5])\nlet j = tile(s, [d0: 3])\nlet o = pad(s, [d1: 8])\n'
    )
    check(ROUND, body + "pack(o.operand, [d1, d0], at: i)", [{"M": m} for m in (0, 1, 5, 11)])


WINDOWS = """func @f(%x: tensor<[2*N + 12]x[C]xf32>, %w: tensor<3x[C]xf32>, %s: tensor<[N]xf32>) -> tensor<[N]xf32>
    symbols [N: 0..40, C: 0..10] {
  %y = tcp.generic(%x, %w, init = %s) {iterators = [["i", "parallel"], ["k", "reduction"], ["c", "reduction"]],
      maps = [[2*i + 3*k + 1, c], [k, c], [i]], combiner = "tcp.add"} ({ (%a: f32, %b: f32, %acc: f32):
    %p = tcp.mul(%a, %b) : f32
    %t = tcp.add(%acc, %p) : f32
    tcp.yield(%t)
  }) : tensor<[N]xf32>
  tcp.return(%y)
}
"""
Y = 'let y = match one "y" in root\n'
IN_TILES = "let i, c = tile(y, [i: 4, c: 3])\n"
PADDED = "let i, k, c = tile(y, [i: 4, k: 2, c: 3], tail: pad)\n"


@pytest.mark.parametrize(
    "body",
    [
        "pack(y.in0, [c])",
        "pack(y.in0, [i, k, c])",
        IN_TILES + "pack(y.in0, [c], at: i)",
        IN_TILES + "pack(y.in0, [c pad 8], at: c)",
        IN_TILES + "pack(y.in0, [i, k, c], at: i)",
        IN_TILES + "pack(y.in0, [k, c, i], at: c)",
        IN_TILES + "pack(y.in0, [k, c, i])",
        IN_TILES + "pack(y.in0, [k, i], at: i, parallel: true)",
        PADDED + "pack(y.in0, [c], at: i)\ntile(y, [k: 1])",
        PADDED + "pack(y.in0, [k, i, c], at: k)\ntile(y, [i: 2])\nvectorize(c)",
        PADDED + "pack(y.in0, [c/2, k, i, c%2], at: k)",
        PADDED + "pack(y.in0, [c/2, c%2], at: k)",
        PADDED + "pack(y.in0, [c], at: i)\npack(y.in0, [k, i, c], at: c)",
        "let j = tile(y, [i: 8])\nlet c, i = tile(y, [c: 3, i: 4])\npack(y.in1, [k, c], at: c, filled_by: i)\n"
        "pack(y.in0, [k, i, c], at: i)",
    ],
)
def test_windows_are_stored_as_they_lie_or_by_the_dims_they_move_along(body: str) -> None:
    check(WINDOWS, Y + body, [{"N": n, "C": c} for n, c in ((0, 3), (1, 1), (4, 6), (9, 7), (5, 0))])


def test_a_halo_tile_holds_each_element_once() -> None:
    body = "let i = tile(y, [i: 4], tail: pad)\npack(y.in0, [c], at: i)"
    module = check(WINDOWS, Y + body, [{"N": 9, "C": 7}]).module
    (buffer,) = (op for op in module.walk() if op.name == "y.in0.buffer")
    assert str(buffer.result.type) == "tensor<1x13x[C]xf32>"
    assert "maps = [[2*i + 3*k, c], [k, c], [i]]" in module.text()


def test_what_was_stored_by_dims_is_a_contraction() -> None:
    module = check(WINDOWS, Y + "let i = tile(y, [i: 4])\npack(y.in0, [k, c, i], at: i)", [{"N": 9, "C": 7}]).module
    (op,) = (op for op in module.walk() if op.name == "y" and isinstance(op, Structured))
    assert "contract" in Tree(op).tree_classes()


@pytest.mark.parametrize(
    ("layout", "message", "found"),
    [
        ("[i, c]", "the layout [i, c] does not fit the operand", "i, c"),
        ("[i, k, k, c]", "the layout [i, k, k, c] does not fit the operand", "i, k, k, c"),
    ],
)
def test_a_layout_names_all_dims_of_a_window_or_none(layout: str, message: str, found: str) -> None:
    told = refusal(WINDOWS, f"{Y}{IN_TILES}pack(y.in0, {layout}, at: i)")
    assert (told.message, told.found) == (message, found)
    assert told.required == "dims of i, k, c, each at most once, whole or by its digits"


def test_an_operand_that_is_read_at_differences_has_no_layout() -> None:
    payload = WINDOWS.replace("2*i + 3*k + 1", "2*i - k + 2")
    found = refusal(payload, Y + "pack(y.in0, [i, k, c])")
    assert (found.message, found.found) == ("%y reads the operand at `2*i - k + 2`", "`2*i - k + 2`, of i, k")


DIAGONAL = """
func @f(%x: tensor<8x8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %mm = tcp.generic(%x, %y) {iterators = [["i", "parallel"]], maps = [[i, i], [i], [i]]} ({ (%a: f32, %b: f32):
    %p = tcp.mul(%a, %b) : f32
    tcp.yield(%p)
  }) : tensor<8xf32>
  tcp.return(%mm)
}
"""


def test_a_diagonal_is_refused() -> None:
    found = refusal(DIAGONAL, 'let mm = match one "mm" in root\npack(mm.in0, [i])')
    assert found.message == "%x is read along a diagonal and cannot be packed"
    assert (found.required, found.found) == ("an operand that holds each of its dims once", "[i, i]")


LONGER = """func @f(%x: tensor<[M]x20xf32>, %w: tensor<50x16xf32>) -> tensor<[M - 3]x16xf32> symbols [M: 3..64] {
  %mm = tcp.generic(%x, %w) {iterators = [["m", "parallel"], ["n", "parallel"], ["k", "reduction", 12]],
                             maps = [[m, k], [k, n], [m, n]], combiner = "tcp.add"} ({ (%a: f32, %b: f32, %acc: f32):
    %p = tcp.mul(%a, %b) : f32
    %s = tcp.add(%acc, %p) : f32
    tcp.yield(%s)
  }) : tensor<[M - 3]x16xf32>
  tcp.return(%mm)
}
"""


@pytest.mark.parametrize("before", ["", "let i = tile(mm, [m: 4])\n", "let k = tile(mm, [k: 5], tail: pad)\n"])
@pytest.mark.parametrize("pack", ["mm.rhs, [n, k]", "mm.rhs, [k, n]", "mm.lhs, [k, m]", "mm.rhs, [k/4, n, k%4]"])
def test_an_operand_that_is_longer_than_its_dims(pack: str, before: str) -> None:
    """Outside of all loops it was refused as a tile that changes its size inside the loop."""
    check(LONGER, f"{MM}{before}pack({pack})", [{"M": m} for m in (3, 4, 10)])


def test_the_rest_of_a_step_that_depends_on_a_size_has_one_slot() -> None:
    """The tail runs at most once: that its tile has an element where it runs does not follow from its length alone."""
    payload = """func @f(%a: tensor<[K]xf32>, %b: tensor<[K]xf32>) -> tensor<[K]xf32> symbols [K: 0..20] {
      %x = tcp.add(%a, %b) : tensor<[K]xf32>
      tcp.return(%x)
    }"""
    tiled = (
        "let x = match one add in root\nlet i, j = tile(x, [d0: 4, d0: max(1, ceildiv(size(x.d0), 2))], tail: peel)\n"
    )
    sizes = [{"K": k} for k in (0, 1, 2, 5, 6, 8, 20)]
    check(payload, tiled + "pack(x.lhs, [d0])", sizes)
    check(payload, tiled + "pack(x.lhs, [d0], at: i)", sizes)
