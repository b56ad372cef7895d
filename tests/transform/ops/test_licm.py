"""licm and hoist: what iterations compute alike, before the loop."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.payload.ir import Operation, is_in
from tcpx.payload.ops.gml_st import Loop
from tests.transform.payloads import CHAIN, MM, RELU, check, check_kernels, refusal, run

POWERS = """\
func @powers(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>, %b: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %e = tcp.max(%w, %w) : tensor<[K]x[N]xf32>
  %d = tcp.add(%e, %e) : tensor<[K]x[N]xf32>
  %mm = tcp.matmul(%x, %d) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""  # noqa: E501
BOUND = f'{MM}let e = match one "e" in root\nlet d = match one "d" in root\n'
ROWS = "let i = tile(mm, [m: 4])\nfuse(d, into: i)\nfuse(e, into: i)\n"
NEST = "let j, i = tile(mm, [n: 8, m: 3])\nfuse(d, into: i)\nfuse(e, into: i)\n"
PACKED = "let j, k, i = tile(mm, [n: 8, k: 4, m: 3])\nlet b = pack(mm.rhs, [n, k], at: i)\n"
SUMS = "let i, k = tile(mm, [m: 4, k: 2])\nlet a = pack(mm.lhs, [m, k], at: k)\n"
CASES = {
    "a product's factor": (POWERS, f"{BOUND}{ROWS}licm(i)"),
    "one operation with what it needs": (POWERS, f"{BOUND}{ROWS}hoist(d, out_of: i)"),
    "out of the inner loop": (POWERS, f"{BOUND}{NEST}hoist(d, out_of: i)"),
    "a packed operand": (RELU, f"{MM}{PACKED}hoist(b, out_of: i)"),
    "a packed operand, by licm": (RELU, f"{MM}{PACKED}licm(i)"),
    "out of a parallel loop": (POWERS, f"{BOUND}let i = tile(mm, [m: 4], parallel: true)\nfuse(d, into: i)\nlicm(i)"),
}
SIZES = [{"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (3, 4, 3), (4, 17, 0), (13, 17, 5))]


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same(name: str) -> None:
    check(*CASES[name])


def test_kernels() -> None:
    check_kernels(CASES, SIZES)


def nesting(done: tcpx.Module, name: str) -> list[str]:
    """The loops round an operation, innermost first."""
    (op,) = [op for op in done.walk() if op.name == name]
    return [a.name for a in op.ancestors() if isinstance(a, Loop)]


def test_where_they_end_up() -> None:
    assert nesting(run(*CASES["a product's factor"]).module, "d") == []
    assert nesting(run(*CASES["a product's factor"]).module, "e") == []
    assert nesting(run(*CASES["out of the inner loop"]).module, "d") == ["mm/n1"]
    assert nesting(run(*CASES["a packed operand"]).module, "mm.rhs/pack1") == ["mm/k1", "mm/n1"]


def test_handles_follow() -> None:
    body = f"{BOUND}{ROWS}hoist(d, out_of: i)\nlet t = tile(d, [d1: 4])\nfuse(e, into: t)"
    done = check(POWERS, body)
    assert nesting(done.module, "e") == ["d/d11"]


def test_what_starts_sums_stays() -> None:
    done = run(RELU, f"{MM}let i, k = tile(mm, [m: 1, k: 2])\noptional licm(i)")
    (loop,) = [op for op in done.module.walk() if isinstance(op, Loop) and op.name == "mm/m1"]
    (inner,) = [op for op in loop.body.ops if isinstance(op, Loop)]
    starts: list[Operation | None] = [value.defining_op for value in inner.operands]
    assert all(made is not None and is_in(made, loop) for made in starts)


@pytest.mark.parametrize(
    ("payload", "body", "said"),
    [
        (CHAIN, 'let r = match one "r" in root\nlet i = tile(r, [d0: 4])\nlicm(i)',
         ("the iterations of r/d01 compute nothing alike",
          "an operation in its body that does not depend on %r/d01", "none", "write `optional licm(i)`")),
        (CHAIN, 'let r = match one "r" in root\nlet i = tile(r, [d0: 4])\nhoist(r, out_of: i)',
         ("%r is another one in each iteration of r/d01: it needs a tile of %q",
          "an operation that computes the same in every iteration", "it depends on %r/d01", None)),
        (POWERS, f"{BOUND}{NEST}hoist(d, out_of: j)",
         ("%d is another one in each iteration of mm/n1: it needs a tile of %w",
          "an operation that computes the same in every iteration", "it depends on %mm/n1", None)),
        (RELU, f"{MM}{SUMS}hoist(a, out_of: k)",
         ("%mm.lhs/pack1 is another one in each iteration of mm/k1: it needs %mm.lhs.buffer",
          "an operation that computes the same in every iteration", "it depends on %mm/k1", None)),
        (POWERS, f"{BOUND}let i = tile(mm, [m: 4])\nhoist(d, out_of: i)",
         ("%d is not in mm/m1", "an operation inside of the loop", "in no loop", None)),
        (RELU, f"{MM}let i, k = tile(mm, [m: 4, k: 2])\nhoist(mm, out_of: k)",
         ("%mm is another one in each iteration of mm/k1: it needs a tile of %x",
          "an operation that computes the same in every iteration", "it depends on %mm/k1", None)),
    ],
)  # fmt: skip
def test_refusals(payload: str, body: str, said: tuple[str, str, str, str | None]) -> None:
    found = refusal(payload, body)
    assert (found.message, found.required, found.found, found.fix) == said


FIRST_ROW = """\
func @f(%x: tensor<[N]x4xf32>, %y: tensor<[N]x4xf32>) -> tensor<[N]x4xf32> symbols [N: 0..] {
  %z = gml_st.for %i in 0 to N step 1 (%d = %y) {
    %first = gml_st.materialize(%x) tile [0, 0] [1, 4] : tensor<1x4xf32>
    %e = tcp.exp(%first) : tensor<1x4xf32>
    gml_st.yield(%e, %d) tile [%i, 0] [1, 4]
  } : tensor<[N]x4xf32>
  tcp.return(%z)
}
"""


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("licm(parent(e))", "none"),
        ("hoist(e, out_of: parent(e))", "tile [0, 0] [1, 4] may not be there where the loop has no iteration"),
    ],
)
def test_what_is_not_there_without_an_iteration_stays(step: str, found: str) -> None:
    """The first row of no rows."""
    body = f'let e = match one "e" in root\n{step}'
    assert refusal(FIRST_ROW, body).found == found
    check(FIRST_ROW.replace("N: 0..", "N: 1.."), body, [{"N": 1}, {"N": 3}])
