"""fuse, keep: true: a producer is computed in the loop, and what the loop yields of it is what all others use."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse
from tests.outside import operations  # noqa: F401  (registers them)
from tests.transform.payloads import Sizes, arguments, check, check_kernels, refusal, run, same_numbers
from tests.transform.test_fuse_through_views import VIEWS
from tests.transform.test_fuse_through_views import payload as through_view

PAIR = """\
func @pair(%x: tensor<[M]x[N]xf32>, %y: tensor<[M]x[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>)
    symbols [M: 0.., N: 0..] {
  %p = tcp.mul(%x, %y) : tensor<[M]x[N]xf32>
  %e = tcp.sub(%p, %x) : tensor<[M]x[N]xf32>
  %r = tcp.min(%p, %y) : tensor<[M]x[N]xf32>
  tcp.return(%r, %e)
}
"""
LAYER = """\
func @layer(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]x[K]xf32>)
    symbols [M: 0.., N: 1.., K: 0..] {
  %p = tcp.mul(%x, %x) : tensor<[M]x[K]xf32>
  %r = tcp.matmul(%p, %w) : tensor<[M]x[N]xf32>
  tcp.return(%r, %p)
}
"""
ROWS = """\
func @rows(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]x[N]xf32>) symbols [M: 0.., N: 0..] {
  %p = tcp.mul(%x, %x) : tensor<[M]x[N]xf32>
  %r = tcp.reduce_sum(%p) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%r, %p)
}
"""
WINDOWS = """\
func @windows(%x: tensor<[M + 2]x[N]xf32>, %z: tensor<[M]xf32>) ->
    (tensor<[M]x[N]xf32>, tensor<[M + 2]x[N]xf32>) symbols [M: 1.., N: 0..] {
  %p = tcp.mul(%x, %x) : tensor<[M + 2]x[N]xf32>
  %r = tcp.generic(%p) {iterators = [["i", "parallel"], ["j", "parallel"], ["t", "reduction", 3]],
      maps = [[i + t, j], [i, j]], combiner = "tcp.add"} ({ (%e: f32, %acc: f32):
    %sum = tcp.add(%acc, %e) : f32
    tcp.yield(%sum)
  }) : tensor<[M]x[N]xf32>
  tcp.return(%r, %p)
}
"""
LARGEST = """\
func @largest(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xf32>, tensor<[M]xsi64>)
    symbols [M: 0.., N: 1..] {
  %p, %at = tcp.generic(%x) {iterators = [["i", "parallel"], ["j", "reduction"]], maps = [[i, j], [i], [i]],
      positions = [j], neutral = [-inf, 9223372036854775807], commutative = true} ({ (%e: f32, %here: si64):
    tcp.yield(%e, %here)
  }, { (%a: f32, %i: si64, %b: f32, %k: si64):
    %below = tcp.less(%a, %b) : i1
    %n = tcp.select(%below, %k, %i) : si64
    %m = tcp.max(%a, %b) : f32
    tcp.yield(%m, %n)
  }) : tensor<[M]xf32>, tensor<[M]xsi64>
  %r = tcp.add(%p, %p) : tensor<[M]xf32>
  tcp.return(%r, %p, %at)
}
"""
SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((1, 1, 0), (3, 5, 1), (7, 17, 5), (12, 16, 6), (13, 2, 7))
)
HEAD = 'let p = match one "p" in root\nlet r = match one "r" in root\n'
KEPT: Mapping[str, tuple[str, str]] = {
    "rows": (PAIR, "let i = tile(r, [d0: 3])\nfuse(p, into: i, keep: true)"),
    "columns": (PAIR, "let j = tile(r, [d1: 5])\nfuse(p, into: j, keep: true)"),
    "both": (PAIR, "let i, j = tile(r, [d0: 3, d1: 5])\nfuse(p, into: j, keep: true)"),
    "the outer loop": (PAIR, "let i, j = tile(r, [d0: 3, d1: 5])\nfuse(p, into: i, keep: true)"),
    "tiles of tiles": (
        PAIR,
        "let i, j = tile(r, [d0: 6, d1: 8])\nlet k = tile(r, [d0: 4])\nfuse(p, into: k, keep: true)",
    ),
    "threads": (PAIR, "let i = tile(r, [d0: 3], parallel: true)\nfuse(p, into: i, keep: true)"),
    "a grid of threads": (PAIR, "let i, j = tile(r, [d0: 3, d1: 5], parallel: true)\nfuse(p, into: j, keep: true)"),
    "padded": (PAIR, "let i, j = tile(r, [d0: 3, d1: 8], tail: pad)\nfuse(p, into: j, keep: true)"),
    "vectors": (PAIR, "let i, j = tile(r, [d0: 3, d1: 8], tail: pad)\nfuse(p, into: j, keep: true)\nvectorize(j)"),
    "then peeled": (PAIR, "let i = tile(r, [d0: 3])\nfuse(p, into: i, keep: true)\npeel(i)"),
    "then its other user": (
        PAIR,
        'let i = tile(r, [d0: 3])\nfuse(p, into: i, keep: true)\nlet e = match one "e" in root\nfuse(e, into: i)',
    ),
    "a left factor": (LAYER, "let i = tile(r, [m: 4])\nfuse(p, into: i, keep: true)"),
    "a left factor, in each column": (LAYER, "let i, j = tile(r, [m: 4, n: 5])\nfuse(p, into: j, keep: true)"),
    "a left factor, in steps": (LAYER, "let i, k = tile(r, [m: 4, k: 3])\nfuse(p, into: k, keep: true)"),
    "what is summed": (ROWS, "let i, j = tile(r, [d0: 4, d1: 8], tail: pad)\nfuse(p, into: j, keep: true)"),
    "what is summed, columns first": (
        ROWS,
        "let j, i = tile(r, [d1: 4, d0: 2])\nfuse(r.start, into: i)\nfuse(p, into: i, keep: true)",
    ),
    "windows": (WINDOWS, "let i = tile(r, [i: 3])\nfuse(p, into: i, keep: true)"),
    "windows, columns on threads": (WINDOWS, "let j = tile(r, [j: 3], parallel: true)\nfuse(p, into: j, keep: true)"),
    "several results": (LARGEST, "let i = tile(r, [d0: 3])\nfuse(p, into: i, keep: true)"),
}


@pytest.mark.parametrize("name", KEPT)
def test_numbers_stay(name: str) -> None:
    payload, body = KEPT[name]
    done = check(payload, HEAD + body + "\nassert(len(p) >= 1)", SIZES)
    outside = {op.name for op in done.module.main.body.ops}
    assert "p" not in outside, "the producer is computed in the loop only"


def test_compiles() -> None:
    sizes: list[Sizes] = [{"M": m, "N": n, "K": k} for m, n, k in ((1, 3, 1), (7, 33, 0), (13, 17, 5))]
    check_kernels({name: (text, HEAD + body) for name, (text, body) in KEPT.items()}, sizes)


def test_handles_follow_the_producer_into_the_loop() -> None:
    check(PAIR, HEAD + "let i = tile(r, [d0: 3])\nfuse(p, into: i, keep: true)\nassert(parent(p) == i and len(p) == 1)")


def test_users_before_the_loop_move_behind_it() -> None:
    text = check(PAIR, HEAD + "let i = tile(r, [d0: 3])\nfuse(p, into: i, keep: true)").module.text()
    assert text.index("gml_st.for") < text.index("tcp.sub")


COVERED = (
    "slice without a dim",
    "reverse",
    "broadcast",
    "transpose",
    "reshape",
    "concat of columns",
)
"""Views whose tiles are known to show all of their operand: no clamped places, no indices."""


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "scatter"])
def test_through_views(view: str) -> None:
    """What each view shows of the producer is all of it, or nothing proves it."""
    text = through_view(view).replace(") -> tensor", ") -> (tensor<[N]x[M]xf32>, tensor", 1)
    text = text.replace("> symbols", ">) symbols", 1).replace("return(%y)", "return(%p, %y)")
    body = HEAD.replace('let r = match one "r"', 'let y = match one "y"') + "let i = tile(y, [d0: 3])\n"
    body += "fuse(p, into: i, keep: true)"
    if view in COVERED:
        module, original = run(text, body).module, parse(text)
        for n, m in ((2, 0), (3, 1), (7, 8)):
            given = arguments(original, {"N": n, "M": m, "K": 0, "V": 1})
            given[3][:] = 0
            found, wanted = (evaluate_func(each, each.main, given) for each in (module, original))
            assert same_numbers(found, wanted)
    else:
        assert refusal(text, body).message == "nothing proves that the tiles of %p in y/d01 are all of it"


SUMMED = """\
func @summed(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>) symbols [M: 0.., N: 0..] {
  %p = tcp.mul(%x, %x) : tensor<[M]x[N]xf32>
  %q = tcp.reduce_sum(%p) {dims = [1]} : tensor<[M]xf32>
  %b = tcp.broadcast(%q) {dims = [0]} : tensor<[M]x[N]xf32>
  %r = tcp.sub(%p, %b) : tensor<[M]x[N]xf32>
  tcp.return(%r, %p)
}
"""
EPILOGUE = """\
func @epilogue(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>, %y: tensor<[M]x[N]xf32>)
    -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>) symbols [M: 0.., N: 0.., K: 1..] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  %p = tcp.mul(%y, %y) : tensor<[M]x[N]xf32>
  %r = tcp.add(%mm, %p) : tensor<[M]x[N]xf32>
  tcp.return(%r, %p)
}
"""
REFUSED = {
    "alone": (
        PAIR.replace("%e = tcp.sub(%p, %x)", "%e = tcp.sub(%y, %x)"),
        "let i = tile(r, [d0: 3])\nfuse(p, into: i, keep: true)",
        "nothing outside of the loop r/d01 uses %p",
        "one that only the loop uses",
    ),
    "and recomputed": (
        PAIR,
        "let i = tile(r, [d0: 3])\nfuse(p, into: i, keep: true, recompute: true)",
        "%p would be computed once, and again",
        "both",
    ),
    "consumer": (
        PAIR,
        "let i = tile(p, [d0: 3])\nfuse(r, into: i, keep: true)",
        "%r follows the loop p/d01, and stays visible anyway",
        "a consumer",
    ),
    "start": (
        LAYER,
        "let i, k = tile(r, [m: 3, k: 2])\nfuse(r.start, into: k, keep: true)",
        "no operation in the loop r/k1 reads %r.start",
        "one that starts its destination",
    ),
    "windows on threads": (
        WINDOWS,
        "let i = tile(r, [i: 3], parallel: true)\nfuse(p, into: i, keep: true)",
        "iterations of r/i1 would write the same elements of %p at once",
        "tile [%r/i1, 0] [min(3, M - %r/i1) + 2, N]",
    ),
    "windows of nothing": (
        WINDOWS.replace("M: 1..", "M: 0.."),
        "let i = tile(r, [i: 3])\nfuse(p, into: i, keep: true)",
        "nothing proves that the tiles of %p in r/i1 are all of it",
        "tile [%r/i1, 0] [min(3, M - %r/i1) + 2, N] of tensor<[M + 2]x[N]xf32>",
    ),
    "columns of nothing": (
        LAYER.replace("N: 1..", "N: 0.."),
        "let i, j = tile(r, [m: 4, n: 5])\nfuse(p, into: j, keep: true)",
        "nothing proves that the tiles of %p in r/m1 are all of it",
        "tile [%r/m1, 0] [min(4, M - %r/m1), K] of tensor<[M]x[K]xf32>",
    ),
    "on each thread": (
        LAYER,
        "let j = tile(r, [n: 5], parallel: true)\nfuse(p, into: j, keep: true)",
        "iterations of r/n1 would write the same elements of %p at once",
        "tile [0, 0] [M, K]",
    ),
    "in a copy": (
        PAIR,
        'let i = tile(r, [d0: 3], tail: peel)\nfuse(p, into: i.copy("main"), keep: true)',
        "nothing proves that the tiles of %p in r/d01 are all of it",
        "tile [%r/d01, 0] [3, N] of tensor<[M]x[N]xf32>",
    ),
    "on the way": (
        SUMMED,
        'tile(match one "q" in root, [d0: 2])\nlet i = tile(r, [d0: 3])\nfuse(p, into: i, keep: true)',
        "r/d01 needs %p before it has computed it",
        "the path %p -> %q/d01 -> %r/d01",
    ),
    "beside": (
        PAIR,
        'let i = tile(r, [d0: 3])\nlet e = match one "e" in root\nlet a = tile(e, [d0: 3])\n'
        "fuse_siblings(a, into: i)\nlet j = tile(r, [d1: 5])\nfuse(p, into: j, keep: true)",
        "r/d01 needs %p before it has computed it",
        "the use by a tile of %p",
    ),
    "in a branch": (
        EPILOGUE,
        'let mm = match one "mm" in root\nlet k, i = tile(mm, [k: 2, m: 3])\nfuse(r, into: i)\n'
        "fuse(p, into: i, keep: true)",
        "%p would be yielded in a branch, which may leave parts of it out",
        "a read in a `gml_st.if`",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    payload, body, message, found = REFUSED[name]
    diagnostic = refusal(payload, HEAD + body)
    assert (diagnostic.message, diagnostic.found) == (message, found)
