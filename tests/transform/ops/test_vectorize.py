"""vectorize: whole bodies on register tiles, masked at the ends."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Module
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.vector import Read, ToTensor
from tcpx.payload.types import VectorType, f32, shape_of, si32
from tests.transform.payloads import CHAIN, MM, PAYLOADS, PRODUCTS, RELU, ROWS, Sizes, check, refusal, run

SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 17, 0), (13, 17, 5), (1, 1, 1), (12, 16, 4))
)
R = 'let r = match one "r" in root\n'
TILED = "let j, i = tile(mm, [n: 8, m: 6], tail: pad)\nlet k = tile(mm, [k: 1])\n"


@pytest.mark.parametrize("payload", PRODUCTS)
@pytest.mark.parametrize(
    "before", ["", "let kc = tile(mm, [k: 2])\n"], ids=["one reduction loop", "a reduction loop outside"]
)
def test_products(before: str, payload: str) -> None:
    done = check(PAYLOADS[payload], MM + before + TILED + "vectorize(i)", SIZES)
    (loop,) = (op for op in done.module.walk() if isinstance(op, Loop) and op.name == "mm/m1")
    inside = [op for op in loop.walk() if isinstance(op, Structured)]
    body = {id(op) for op in inside for block in op.regions for op in block.ops}
    assert inside
    assert all(isinstance(op.result.type, VectorType) for op in inside if id(op) not in body)


LARGEST = """\
func @largest(%x: tensor<[M]x[K]xf32>) -> tensor<[M]xf32> symbols [M: 0.., K: 0..] {
  %e = tcp.exp(%x) : tensor<[M]x[K]xf32>
  %zero = tcp.const {value = 0.0} : f32
  %z = tcp.broadcast(%zero) {dims = []} : tensor<[M]x[K]xf32>
  %n = tcp.sub(%z, %e) : tensor<[M]x[K]xf32>
  %y = tcp.reduce_max(%n) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%y)
}
"""


def test_lanes_beyond_a_reduction_hold_its_neutral_element() -> None:
    """All numbers are negative: a lane of zeros would be the largest."""
    body = 'let y = match one "y" in root\nlet i, k = tile(y, [d0: 3, d1: 4], tail: pad)\nvectorize(i)'
    check(LARGEST, body, SIZES)


def test_with_start_and_epilogue() -> None:
    body = MM + R + "let kc = tile(mm, [k: 2])\n" + TILED + "fuse(mm.start, into: i)\nfuse(r, into: i)\nvectorize(i)"
    check(RELU, body, SIZES)


@pytest.mark.parametrize("across", ["", ", d1: 4"], ids=["rows", "vectors"])
@pytest.mark.parametrize("start", ["fuse(mm.start, into: i)\n", ""], ids=["registers", "memory"])
def test_a_loop_over_parts_of_what_is_computed(start: str, across: str) -> None:
    """The tile is kept in memory for the loop, which reads it in vectors of its own."""
    outer = "let kc = tile(mm, [k: 2])\n" if start else ""
    rows = f'fuse(r, into: i)\ntile(r, [d0: 1{across}], tail: pad)\nfuse(match one "s" in i, into: r.loop(d0))\n'
    done = check(RELU, f"{MM}{R}{outer}{TILED}{start}{rows}vectorize(i)", SIZES)
    assert kept_of(done.module, "r/d01") == {"mm/k2" if start else "mm/k1"}


def kept_of(module: Module, name: str) -> set[str]:
    """The names of what computes the tensors of which a loop over rows reads parts."""
    (loop,) = (op for op in module.walk() if isinstance(op, Loop) and op.name == name)
    reads = [op for op in loop.walk() if isinstance(op, Read)]
    made = [op.operands[0].defining_op for op in reads]
    assert all(d == 1 for op in reads for d in shape_of(op.result.type)[:-1])
    return {(op.name or op.operands[0].name).split(".")[0] for op in made if isinstance(op, Loop | ToTensor)}


def test_a_loop_over_parts_of_a_vector() -> None:
    body = 'let i, j = tile(match one "r" in root, [d0: 4, d1: 16], tail: pad)\nfuse(match one "q" in root, into: j)\n'
    done = check(CHAIN, f'{body}tile(match one "r" in root, [d0: 1])\nvectorize(j)', SIZES)
    assert kept_of(done.module, "r/d02") == {"q"}


@pytest.mark.parametrize("outer", ["", "let kc = tile(mm, [k: 2])\n"], ids=["no guard", "guarded"])
def test_a_loop_that_is_on_vectors_already(outer: str) -> None:
    """What it reads of the tile round it is kept in memory when that becomes a vector."""
    inner = "tile(r, [d1: 8], tail: pad)\nvectorize(r.loop(d1))\n"
    start = "fuse(mm.start, into: i)\n" if outer else ""
    done = check(RELU, f"{MM}{R}{outer}{TILED}{start}fuse(r, into: i)\n{inner}vectorize(i)", SIZES)
    (loop,) = (op for op in done.module.walk() if isinstance(op, Loop) and op.name == "mm/m1")
    structured = [op for op in loop.walk() if isinstance(op, Structured)]
    assert all(isinstance(op.result.type, VectorType) for op in structured)


@pytest.mark.parametrize("tail", ["pad", "none"])
def test_packed_operands(tail: str) -> None:
    nest = "let jc, pc, ic = tile(mm, [n: 16, k: 4, m: 12])\n"
    packs = "let b = pack(mm.rhs, [k, n], at: pc)\nlet a = pack(mm.lhs, [m, k pad 16], at: ic)\n"
    tiled = f"let j, i = tile(mm, [n: 8, m: 6], tail: pad)\n{packs}let k = tile(mm, [k: 1], tail: {tail})\n"
    check(RELU, MM + nest + tiled + "vectorize(i)", SIZES)


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        (CHAIN, 'let i, j = tile(match one "r" in root, [d0: 4, d1: 16], tail: pad)\n'
         'fuse(match one "p" in root, into: j)\nvectorize(j)'),
        (CHAIN, 'let j = tile(match one "p" in root, [d0: 1, d1: 16], tail: pad)\nvectorize(j)'),
        (ROWS, 'let j, i = tile(match one "s" in root, [d1: 8, d0: 4], tail: pad)\nvectorize(i)'),
    ],
)  # fmt: skip
def test_other_classes(payload: str, body: str) -> None:
    check(payload, body.replace("let j = tile", "let i, j = tile"), SIZES if payload == RELU else ())


SUMMED = """\
func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]xf32> symbols [M: 0.., N: 0..] {
  %e = tcp.max(%x, %x) : tensor<[M]x[N]xf32>
  %s = tcp.reduce_sum(%e) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%s)
}
"""
NAMED = 'let s = match one "s" in root\nlet e = match one "e" in root\nlet i = tile(s, [d0: 4], tail: pad)\n'
PADDED_SUM = f"{NAMED}let j = tile(s, [d1: 8], tail: pad)\nfuse(e, into: j)\nvectorize(j)"
PARTS = [{"M": m, "N": n} for m, n in ((0, 3), (3, 0), (5, 8), (4, 17))]


def test_a_producer_of_a_padded_reduction() -> None:
    """It is computed beyond the end too, where a number that adds nothing takes its place."""
    check(SUMMED, PADDED_SUM, PARTS)


@pytest.mark.parametrize("value", ["0.0", "-2.5", "inf"])
def test_what_is_computed_is_padded_with_any_number(value: str) -> None:
    """Rows and columns that the payload pads are no padding of a tile: they are in the sums."""
    payload = f"""\
func @f(%x: tensor<[M]x5xf32>) -> tensor<[M + 2]xf32> symbols [M: 0..] {{
  %e = tcp.exp(%x) : tensor<[M]x5xf32>
  %p = tcp.pad(%e) {{value = {value}}} : tensor<[M + 2]x8xf32>
  %s = tcp.reduce_sum(%p) {{dims = [1]}} : tensor<[M + 2]xf32>
  tcp.return(%s)
}}
"""
    body = 'let s = match one "s" in root\nlet e = match one "e" in root\n'
    tiled = f"{body}let i = tile(s, [d0: 4], tail: pad)\nlet j = tile(s, [d1: 8], tail: pad)\n"
    check(payload, f"{tiled}fuse(e, into: j)\nvectorize(j)", [{"M": m} for m in (0, 2, 5)], exact=False)
    check(payload, f"{tiled}fuse(e, into: j)\nvectorize(i)", [{"M": m} for m in (0, 2, 5)], exact=False)


WIDE = """\
func @f(%x: tensor<[M]x8192xf32>) -> tensor<[M]x8192xf32> symbols [M: 0..] {
  %a = tcp.exp(%x) : tensor<[M]x8192xf32>
  %s = tcp.reduce_sum(%a) {dims = [1]} : tensor<[M]xf32>
  %t = tcp.broadcast(%s) {dims = [0]} : tensor<[M]x8192xf32>
  %b = tcp.div(%a, %t) : tensor<[M]x8192xf32>
  tcp.return(%b)
}
"""
ROW_BUFFERS = """
let a = match one "a" in root
let s = match one "s" in root
let b = match one "b" in root
let i = tile(b, [d0: 4], tail: pad)
ROWS
fuse(a, into: i)
let jb = tile(b, [d1: 16])
tile(s, [d1: 16])
tile(a, [d1: 16])
vectorize(i)
"""


def test_what_a_loop_writes_in_parts_stays_in_memory_for_the_next() -> None:
    payload = """func @f(%x: tensor<16x[N]x17xf32>) -> tensor<[N]x16x17xf32> symbols [N: 1..] {
  %y = tcp.transpose(%x) {permutation = [1, 0, 2]} : tensor<[N]x16x17xf32>
  tcp.return(%y)
}
"""
    body = 'let y = match one "y" in root\ntile(y, [d0: 16, d2: 4], tail: scalar)\nvectorize(y.copy("main").loop(d0))'
    done = check(payload, body, [{"N": 1}, {"N": 18}])
    assert not [op for op in done.module.main.walk() if isinstance(op, ToTensor)]


@pytest.mark.parametrize("rows", ["", "let r = tile(b, [d0: 1])"])
def test_what_a_loop_writes_in_parts_is_copied_from_memory(rows: str) -> None:
    """A wide row that an inner loop computes and an outer loop yields a slice of: no vector of the whole row."""
    done = check(WIDE, ROW_BUFFERS.replace("ROWS", rows), [{"M": 0}, {"M": 5}], exact=False)
    vectors = [r.type for op in done.module.main.walk() for r in op.results if isinstance(r.type, VectorType)]
    assert vectors
    assert max(v.shape[-1] for v in vectors if v.shape) == 16


@pytest.mark.parametrize(
    ("body", "message", "fix"),
    [
        ("let i = tile(mm, [m: 6])\nvectorize(i)", "a tile of %x in the loop mm/m1 cannot be vectorized",
         "`tile(mm, [m: 6], tail: pad)` at <schedule>:4:1"),
        ("let i = tile(mm, [m: 6], tail: none)\nvectorize(i)", "a tile of %x in the loop mm/m1 cannot be vectorized",
         "`tile(mm, [m: 6], tail: pad)` at <schedule>:4:1"),
        ("let i, j = tile(mm, [m: 6, n: 8])\nlet k = tile(mm, [k: 1])\nvectorize(j)",
         "%mm.start in the loop mm/n1 cannot be vectorized", "`tile(mm, [m: 6, n: 8], tail: pad)` at <schedule>:4:1"),
        ("let i = tile(mm, [m: 6], tail: pad)\nvectorize(i)", "a tile of %x in the loop mm/m1 cannot be vectorized",
         "in place of it: `tile(mm, [n: 16], tail: pad); vectorize(mm.loop(n))`"),
        ("let r = match one \"r\" in root\nlet i, j = tile(r, [d0: 6, d1: 16])\nfuse(mm, into: j)\nvectorize(j)",
         "a tile of %x in the loop r/d11 cannot be vectorized",
         "`tile(r, [d0: 6, d1: 16], tail: pad)` at <schedule>:5:1"),
        ("let i = tile(\nmm, [m: 6])\nvectorize(i)", "a tile of %x in the loop mm/m1 cannot be vectorized",
         "`tail: pad` in the `tile` of `m` at <schedule>:4:1"),
        ("let i = tile(mm, [m: 6], tail: peel)\nlet j, k = tile(mm, [n: 8, k: 2], tail: pad)\nvectorize(j)",
         "%mm.start.1 in the loop mm/n2 cannot be vectorized",
         'vectorize the loop of whole tiles alone: `vectorize(j.copy("main"))`'),
    ],
)  # fmt: skip
def test_refused(body: str, message: str, fix: str) -> None:
    found = refusal(RELU, MM + body)
    assert found.message == message
    assert found.fix == fix


def test_the_statement_to_write_is_told_until_everything_is_static() -> None:
    """Each fix is done as it is told, where it is told; then the loop is on vectors."""
    body, fixes = MM + "tile(mm, [m: 6])\nvectorize(mm.loop(m))", list[str]()
    for _ in range(3):
        with pytest.raises(ScheduleError) as caught:
            run(RELU, body)
        fixes.append(caught.value.diagnostic.fix or "")
        told = fixes[-1].split("`")[1::2]
        *statements, last = body.split("\n")
        if "at <schedule>" in fixes[-1]:
            statements[1:2] = told
        else:
            *before, last = [*told[0].split("; "), last][:2]
            statements += before
        body = "\n".join([*statements, last])
    done = run(RELU, body)
    assert fixes == [
        "`tile(mm, [m: 6], tail: pad)` at <schedule>:4:1",
        "in place of it: `tile(mm, [n: 16], tail: pad); vectorize(mm.loop(n))`",
        "`tile(mm, [k: 1])` before it",
    ]
    assert any(isinstance(r.type, VectorType) for op in done.module.main.walk() for r in op.results)


def test_an_operation_in_the_loop_of_another_gets_a_tile_of_its_own() -> None:
    payload = """\
func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 1.., N: 1..] {
  %y = gml_st.for %i in 0 to M step 1 (%d = %x) {
    %r = gml_st.materialize(%x) tile [%i, 0] [1, N] : tensor<1x[N]xf32>
    %e = tcp.exp(%r) : tensor<1x[N]xf32>
    %s = tcp.reduce_sum(%e) {dims = [1]} : tensor<1xf32>
    %q = tcp.div(%e, broadcast(%s, [0])) : tensor<1x[N]xf32>
    gml_st.yield(%q, %d) tile [%i, 0] [1, N]
  } : tensor<[M]x[N]xf32>
  tcp.return(%y)
}
"""
    names = "".join(f'let {name} = match one "{name}" in root\n' for name in ("e", "q"))
    body = f"{names}let t = tile(q, [d1: 8])\nfuse(e, into: t)\nvectorize(parent(parent(q)))"
    assert refusal(payload, body).fix == "in place of it: `tile(e, [d1: 16], tail: pad); vectorize(e.loop(d1))`"


ROW_SUM = """\
func @f(%x: tensor<[M]x[K]xf32>) -> tensor<[M]xf32> symbols [M: 0.., K: 0..] {
  %y = tcp.reduce_sum(%x) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%y)
}
"""


def test_the_part_of_a_split_reduction_is_tiled_once_more() -> None:
    """`split_reduction` has no `tail: pad`."""
    body = 'let y = match one "y" in root\nlet s, c = split_reduction(y, d1, parts: 3)\n'
    tiled = "let i = tile(y, [d0: 4], tail: pad)\n"
    found = refusal(ROW_SUM, f"{body}{tiled}vectorize(i)")
    assert found.fix == "`tile(y, [d1: 1])` before it"
    check(
        ROW_SUM, f"{body}{tiled}tile(y, [d1: 1])\nvectorize(i)", [{"M": m, "K": k} for m, k in ((0, 3), (5, 0), (6, 7))]
    )


def test_a_padding_of_as_many_elements() -> None:
    """What two readers share is padded twice, once by nothing."""
    payload = """\
func @f(%x: tensor<[M]x[N]xsi32>, %y: si32) -> tensor<[M]x[N]xsi32> symbols [M: 0..9, N: 0..] {
  %b = tcp.broadcast(%y) {dims = []} : tensor<[M]x[N]xsi32>
  %m = tcp.mul(%x, %b) : tensor<[M]x[N]xsi32>
  %r = tcp.neg(%m) : tensor<[M]x[N]xsi32>
  tcp.return(%r)
}
"""
    body = """\
let b = match one broadcast "b" in root
let m = match one op "m" in root
let r = match one op "r" in root
pad(b, [d0: 66])
pad(m, [d0: 16])
let i, j = tile(r, [d0: 3, d1: 4], tail: pad)
fuse(m, into: j)
fuse(b, into: j)
vectorize(j)"""
    check(payload, body, [{"M": m, "N": n} for m, n in ((0, 3), (5, 0), (7, 9))])


@pytest.mark.parametrize(("index", "extent"), [("i", 32), ("i + k", 34), ("2*i + k", 65)])
def test_a_declared_dim_is_padded(index: str, extent: int) -> None:
    payload = f"""func @f(%x: tensor<{extent}xf32>) -> tensor<32xf32> {{
  %y = tcp.generic(%x) {{iterators = [["i", "parallel"], ["k", "reduction", 3]], maps = [[{index}], [i]],
      combiner = "tcp.add"}} ({{ (%e: f32, %acc: f32):
    %s = tcp.add(%acc, %e) : f32
    tcp.yield(%s)
  }}) : tensor<32xf32>
  tcp.return(%y)
}}
"""
    body = 'let y = match one "y" in root\nlet i, k = tile(y, [i: 16, k: 2])\n'
    found = refusal(payload, f"{body}vectorize(i)")
    assert found.fix == "`tile(y, [i: 16, k: 2], tail: pad)` at <schedule>:4:1"
    assert (found.found or "").endswith("the last tile that the loop y/k1 makes of `k` of %y may be shorter")
    check(payload, f"{body}tile(y, [k: 1])\nvectorize(i)")
    padded = body.replace("k: 2]", "k: 2], tail: pad")
    check(payload, f"{padded}vectorize(i)")
    check(payload, f"{padded}let l = tile(y, [k: 1])\nvectorize(i)")


def test_what_is_made_in_memory_is_read_where_all_see_it() -> None:
    """A reshaped tile is packed in a loop, and read behind that loop as well."""
    text = """func @f(%x: tensor<7x12xf64>) -> tensor<84xf64> {
      %v = tcp.reshape(%x) : tensor<84xf64>
      %w = tcp.multiply_add(%v, %v, %v) : tensor<84xf64>
      %y = tcp.max(%w, %w) : tensor<84xf64>
      tcp.return(%y)
    }
    """
    check(
        text,
        'let v = match one "v" in root\nlet w = match one "w" in root\nlet t = tile(v, sizes: [d0: 2])\n'
        "fuse(w, into: t, recompute: false)\nlet b = pack(w.a, layout: [d0], at: t)\nvectorize(t)",
    )


def test_a_read_of_too_many_registers_is_refused_where_it_is_made() -> None:
    text = """func @f(%x: tensor<[N]x5x8xf64>) -> tensor<[2*N + 1]x11x17xf64> symbols [N] {
      %v = tcp.pad(%x) {value = 0.0, low = [1, 1, 1]} : tensor<[2*N + 1]x11x17xf64>
      %y = tcp.min(%v, %v) : tensor<[2*N + 1]x11x17xf64>
      tcp.return(%y)
    }
    """
    found = refusal(
        text,
        'let y = match one "y" in root\nlet t = tile(y, sizes: [d0: 80], tail: pad)\nvectorize(t)',
    )
    assert "would hold" in found.message or "instructions" in found.message


CARRIED = """func @f(%a: tensor<8xf32>, %n: tensor<si32>) -> (tensor<8xf32>, tensor<si32>, tensor<f32>) {
  %lim = gml_st.materialize(%n) point [] : si32
  %zero = tcp.const {value = 0.0} : f32
  LOOP
    %s = tcp.add(%d, %a) : tensor<8xf32>
    gml_st.yield(%s, %d) full
    %k1 = tcp.add(%k, %lim) : si32
    gml_st.yield(%k1, %k) full
    %e = gml_st.materialize(%s) point [3] : f32
    %q1 = ELEMENT : f32
    gml_st.yield(%q1, %q) full
    STOP
  } : TYPES si32, f32, tensor<8xf32>
  %ct = tcp.broadcast(%c) {dims = []} : tensor<si32>
  %zt = tcp.broadcast(%z) {dims = []} : tensor<f32>
  tcp.return(%y, %ct, %zt)
}
"""
COUNTED = {"LOOP": "%c, %z, %y = gml_st.for %i in 0 to 4 (%k = %lim, %q = %zero, %d = %a) {", "STOP": "", "TYPES": ""}
ON_CONDITION = {
    "LOOP": """%most = tcp.const {value = 40} : si32
      %first = tcp.less(%lim, %most) : i1
      %g, %c, %z, %y = gml_st.while (%go = %first, %k = %lim, %q = %zero, %d = %a) {""",
    "STOP": "%more = tcp.less(%k1, %most) : i1 gml_st.yield(%more, %go) full",
    "TYPES": "i1,",
}


@pytest.mark.parametrize("loop", [COUNTED, ON_CONDITION])
@pytest.mark.parametrize("element", ["tcp.add(%q, %e)", "tcp.max(%e, %q)", ""])
def test_scalars_beside_vectors_stay_scalars(loop: dict[str, str], element: str) -> None:
    text = CARRIED.replace("%q1 = ELEMENT : f32", f"%q1 = {element} : f32" if element else "")
    text = text if element else text.replace("%q1", "%e")
    for word, by in loop.items():
        text = text.replace(word, by)
    schedule = tcpx.parse_schedule(
        'language 1\nschedule main(root: func) {\nlet s = match one "s" in root\nvectorize(parent(s))\n}'
    )
    done = run(text, 'let s = match one "s" in root\nvectorize(parent(s))')
    types = {op.name: op.results[0].type for op in done.module.main.walk() if op.opcode in ("tcp.add", "tcp.max")}
    assert types == {"s": VectorType((8,), f32), "k1": si32} | ({"q1": f32} if element else {})
    a, n = np.array([1.0, -0.0, np.inf, 2.5, np.nan, -3.0, 0.1, 7.0], np.float32), np.array(13, np.int32)
    wanted = tcpx.evaluate(tcpx.parse(text), a, n)
    for found in (tcpx.evaluate(done.module, a, n), tcpx.compile(tcpx.parse(text), schedule)(a, n)):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_branch_that_computes_for_nothing_what_is_yielded_behind_it() -> None:
    payload = """\
func @f(%x: tensor<[N]x4xsi32>) -> tensor<[N]x4xsi32> symbols [N: 0..40] {
  %y = gml_st.for %i in 0 to N step 1 (%d = %x) {
    %m = gml_st.materialize(%x) tile [%i, 0] [1, 4] drop [0] : tensor<4xsi32>
    %v = tcp.add(%m, %m) : tensor<4xsi32>
    gml_st.if N >= 1 {
      %w = tcp.add(%v, %m) : tensor<4xsi32>
    }
    gml_st.yield(%v, %d) tile [%i, 0] [1, 4] drop [0]
  } : tensor<[N]x4xsi32>
  tcp.return(%y)
}
"""
    check(payload, 'vectorize(parent(match one "v" in root))', [{"N": 0}, {"N": 3}])
