"""fuse_siblings: loops side by side become one, of every kind, size and copy."""

from __future__ import annotations

import pytest

from tcpx.payload.ops.gml_st import Loop, Materialize, Parallel
from tests.transform.payloads import Sizes, check, check_kernels, refusal

MOMENTS = """\
func @moments(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xf32>, tensor<[M]xf32>) symbols [M, N] {
  %y = tcp.add(%x, %x) : tensor<[M]x[N]xf32>
  %s = tcp.reduce_sum(%y) {dims = [1]} : tensor<[M]xf32>
  %z = tcp.mul(%y, %y) : tensor<[M]x[N]xf32>
  %q = tcp.reduce_sum(%z) {dims = [1]} : tensor<[M]xf32>
  %m = tcp.reduce_max(%y) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%s, %q, %m)
}
"""
QKV = """\
func @qkv(%x: tensor<[M]x[K]xf32>, %wq: tensor<[K]x[N]xf32>, %wk: tensor<[K]x[N]xf32>, %wv: tensor<[K]x[N]xf32>)
    -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>) symbols [M, N, K] {
  %s = tcp.matmul(%x, %wq) : tensor<[M]x[N]xf32>
  %q = tcp.matmul(%x, %wk) : tensor<[M]x[N]xf32>
  %e = tcp.add(%q, %q) : tensor<[M]x[N]xf32>
  %m = tcp.matmul(%x, %wv) : tensor<[M]x[N]xf32>
  tcp.return(%s, %e, %m)
}
"""
HEAD = "".join(f'let {name} = match one "{name}" in root\n' for name in "sqm")


def _both(tiles: str, names: str = "a, b", after: str = "") -> str:
    """Three operations in the same tiles, their loops fused from the outermost in."""
    text = HEAD
    loops = [name.strip() for name in names.split(",")]
    for op in "sqm":
        text += f"let {', '.join(f'{op}_{name}' for name in loops)} = tile({op}, {tiles})\n"
    for op in "qm":
        text += "".join(f"fuse_siblings({op}_{name}, into: s_{name})\n" for name in loops)
    return text + after


MOMENTS_CASES = {
    "rows": _both("[d0: 3]", "a"),
    "rows on threads": _both("[d0: 3], parallel: true", "a"),
    "rows and sums": _both("[d0: 3, d1: 5]"),
    "sums outside": _both("[d1: 5, d0: 3]"),
    "starts inside": _both("[d1: 5, d0: 3]", after="fuse(s.start, into: s_b)\nfuse(q.start, into: s_b)"),
    "producer behind": _both("[d0: 3, d1: 5]", after='let y = match one "y" in root\nfuse(y, into: s_b)'),
    "padded": _both("[d0: 3, d1: 5], tail: pad"),
    "vectorized": _both("[d0: 4, d1: 16], tail: pad", after="vectorize(s_a)"),
    "accumulators in registers": _both(
        "[d0: 1, d1: 16], tail: pad",
        after="vectorize(s_a)\nhoist_accumulator(s, out_of: s_b)\nhoist_accumulator(q, out_of: s_b)\n"
        "hoist_accumulator(m, out_of: s_b)",
    ),
    "copies": HEAD + "let a = tile(s, [d0: 4], tail: peel)\nlet b = tile(m, [d0: 4], tail: peel)\n"
    'fuse_siblings(b.copy("main"), into: a.copy("main"))\nfuse_siblings(b.copy("tail"), into: a.copy("tail"))',
}
QKV_CASES = {
    "columns": _both("[n: 5]", "a"),
    "all dims": _both("[m: 3, n: 5, k: 2]", "a, b, c"),
    "threads": _both("[m: 3, n: 5], parallel: true"),
    "a consumer behind": _both("[m: 3, k: 2]", after='let e = match one "e" in root\nfuse(e, into: s_a)'),
    "registers": _both(
        "[m: 2, n: 16, k: 1], tail: pad",
        "a, b, c",
        "vectorize(s_b)\n" + "".join(f"hoist_accumulator({op}, out_of: s_c)\n" for op in "sqm"),
    ),
}
CASES = {f"moments, {name}": (MOMENTS, body) for name, body in MOMENTS_CASES.items()}
CASES |= {f"products, {name}": (QKV, body) for name, body in QKV_CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_numbers_stay(name: str) -> None:
    check(*CASES[name])


def test_compiles() -> None:
    sizes: list[Sizes] = [{"M": m, "N": n, "K": k} for m, n, k in ((0, 3, 1), (7, 33, 0), (13, 0, 5), (5, 17, 5))]
    check_kernels(CASES, sizes)


def test_one_loop_reads_a_shared_operand_once() -> None:
    done = check(QKV, _both("[m: 3, k: 2]"))
    loops = [op for op in done.module.main.walk() if isinstance(op, Loop)]
    reads = [op for op in loops[1].walk() if isinstance(op, Materialize) and op.source.name.startswith("x")]
    assert [len(loop.results) for loop in loops] == [3, 3]
    assert len(reads) == 1


def test_handles_of_both_denote_the_loop() -> None:
    body = HEAD + "let a = tile(s, [d0: 4])\nlet b = tile(m, [d0: 4])\nlet l = fuse_siblings(b, into: a)\n"
    assert [type(op) for op in check(MOMENTS, body + "parallelize(a)").module.main.walk() if isinstance(op, Loop)] == [
        Parallel
    ]
    check(MOMENTS, body + "assert(l == a and l == b)\npeel(b)")


def test_a_loop_goes_by_the_dims_of_the_one_it_was_before() -> None:
    diagnostic = refusal(MOMENTS, _both("[d0: 3]", "a") + "peel(m.loop(d0))")
    assert diagnostic.message == "no loop steps `d0` of %m"
    assert diagnostic.found == "s/d01"
    assert diagnostic.fix is not None
    assert diagnostic.fix.endswith("a loop that it was fused into goes by the dims of what was there: keep its handle")


REFUSED = {
    "one loop": ("let a = tile(s, [d0: 4])\nfuse_siblings(a, into: a)", "do not stand side by side", "one loop"),
    "in each other": (
        "let a, b = tile(s, [d0: 4, d1: 3])\nfuse_siblings(b, into: a)",
        "do not stand side by side",
        "loops in different blocks",
    ),
    "kinds": (
        "let a = tile(s, [d0: 4])\nlet b = tile(m, [d0: 4], parallel: true)\nfuse_siblings(b, into: a)",
        "are loops of different kinds",
        "gml_st.parallel",
    ),
    "steps": (
        "let a = tile(s, [d0: 4])\nlet b = tile(m, [d0: 5])\nfuse_siblings(a, into: b)",
        "have the same iterations",
        "0 to M step 4",
    ),
    "ranges": (
        "let a = tile(s, [d0: 4])\nlet b = tile(m, [d1: 4])\nfuse_siblings(b, into: a)",
        "have the same iterations",
        "0 to N step 4",
    ),
    "one needs the other": (
        'let y = match one "y" in root\nlet a = tile(y, [d0: 4])\nlet b = tile(s, [d0: 4])\nfuse_siblings(a, into: b)',
        "s/d01 needs what y/d01 computes",
        "the path %y/d01 -> %s/d01",
    ),
    "by way of something": (
        'let y = match one "y" in root\nlet a = tile(y, [d0: 4])\nlet b = tile(q, [d0: 4])\nfuse_siblings(b, into: a)',
        "q/d01 needs what y/d01 computes",
        "the path %y/d01 -> %z -> %q/d01",
    ),
    "memory": (
        "let a = tile(s, [d0: 4])\nlet b = tile(m, [d0: 4])\nbufferize(root)\nfuse_siblings(b, into: a)",
        "writes to memory",
        "a loop on buffers",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    body, message, found = REFUSED[name]
    diagnostic = refusal(MOMENTS, HEAD + body)
    assert message in diagnostic.message
    assert diagnostic.found == found
