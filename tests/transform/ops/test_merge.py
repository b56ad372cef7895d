"""merge: operations that compute alike become one."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.interp import Run, run_schedule
from tests.transform.payloads import Sizes, check, refusal, target

PAIR = """\
func @f(%x: tensor<[M]x5xf32>, %a: tensor<5x3xf32>, %b: tensor<5x[N]xf32>, %c: tensor<3xf32>, %d: tensor<[N]xf32>)
    -> (tensor<[M]x3xf32>, tensor<[M]x[N]xf32>) symbols [M: 0.., N: 0..] {
  %p = tcp.matmul(%x, %a) : tensor<[M]x3xf32>
  %pb = tcp.add(%p, broadcast(%c, [1])) : tensor<[M]x3xf32>
  %r = tcp.max(%pb, 0.0) : tensor<[M]x3xf32>
  %q = tcp.matmul(%x, %b) : tensor<[M]x[N]xf32>
  %qb = tcp.add(%q, broadcast(%d, [1])) : tensor<[M]x[N]xf32>
  %s = tcp.max(%qb, 0.0) : tensor<[M]x[N]xf32>
  tcp.return(%r, %s)
}
"""
HANDLES = 'let p = match one "p" in root\nlet q = match one "q" in root\n'
SIZES: tuple[Sizes, ...] = ({"M": 4, "N": 7}, {"M": 1, "N": 1}, {"M": 0, "N": 3}, {"M": 3, "N": 0})


def opcodes(run: Run) -> list[str]:
    return [op.opcode.removeprefix("tcp.") for op in run.module.main.body.ops]


def test_products_of_one_operand() -> None:
    done = check(PAIR, HANDLES + "merge([p, q], n)\nassert(p == q)", SIZES)
    made = opcodes(done)
    assert made[made.index("matmul") - 1 :][:4] == ["concat", "matmul", "slice", "slice"]
    assert made.count("matmul") == 1


def test_with_what_reads_them() -> None:
    done = check(PAIR, HANDLES + "let y = merge([p, q], n, readers: true)\nrequire y.is_a(max)", SIZES)
    made = opcodes(done)
    assert made == ["concat", "matmul", "concat", "broadcast", "add", "fill", "max", "slice", "slice", "return"]


def test_then_what_reads_them() -> None:
    sums = 'let a = match one "pb" in root\nlet b = match one "qb" in root\n'
    body = HANDLES + sums + "merge([p, q], n)\nmerge([b, a], d1)"
    text = check(PAIR, body, SIZES).module.text()
    assert text.count("tcp.add(") == 1, "the slices of the product, in another order, are a concat again"
    body = body.replace("[b, a]", "[a, b]")
    assert check(PAIR, body, SIZES).module.text().count("tcp.concat(") == 2


def test_rows() -> None:
    payload = """\
func @f(%x: tensor<[M]x5xf32>, %y: tensor<2x5xf32>, %w: tensor<5x4xf32>, %z: tensor<[M]x4xf32>, %v: tensor<2x4xf32>)
    -> (tensor<[M]x4xf32>, tensor<2x4xf32>) symbols [M: 0..] {
  %p = tcp.matmul(%x, %w, init = %z) : tensor<[M]x4xf32>
  %q = tcp.matmul(%y, %w, init = %v) : tensor<2x4xf32>
  tcp.return(%p, %q)
}
"""
    done = check(payload, HANDLES + "merge([p, q], m)", [{"M": 3}, {"M": 0}])
    assert opcodes(done) == ["concat", "concat", "matmul", "slice", "slice", "return"]


def test_dims_have_other_names() -> None:
    payload = PAIR.replace(
        "%q = tcp.matmul(%x, %b)", '%q = tcp.contract(%x, %b) {lhs = ["i", "c"], rhs = ["c", "j"], out = ["i", "j"]}'
    )
    assert opcodes(check(payload, HANDLES + "merge([p, q], n)", SIZES)).count("matmul") == 1


def test_three_layers_of_weights_are_constants() -> None:
    payload = """\
func @f(%x: tensor<[M]x4xf32>) -> tensor<[M]x2xf32> symbols [M: 0..] {
  %a = tcp.const {constant = "a"} : tensor<4x2xf32>
  %b = tcp.const {constant = "b"} : tensor<4x2xf32>
  %c = tcp.const {constant = "c"} : tensor<4x2xf32>
  %p = tcp.matmul(%x, %a) : tensor<[M]x2xf32>
  %e = tcp.exp(%p) : tensor<[M]x2xf32>
  %q = tcp.matmul(%x, %b) : tensor<[M]x2xf32>
  %r = tcp.matmul(%x, %c) : tensor<[M]x2xf32>
  %s = tcp.add(%q, %r) : tensor<[M]x2xf32>
  %t = tcp.mul(%e, %s) : tensor<[M]x2xf32>
  tcp.return(%t)
}
"""
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal((4, 2)).astype(np.float32) for name in "abc"}
    module = tcpx.parse(payload, constants=arrays)
    body = 'let r = match one "r" in root\nlet y = merge([p, q, r], n, readers: true)\nconstant_fold(producer(y.rhs))'
    program = tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{HANDLES}{body}\n}}")
    done = run_schedule(module, program, target()).module
    assert [op.opcode for op in done.main.body.ops][:2] == ["tcp.const", "tcp.matmul"]
    x = rng.standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_array_equal(tcpx.evaluate(done, x), tcpx.evaluate(module, x))


REFUSED = {
    "another operand": (
        PAIR.replace("matmul(%x, %b)", "matmul(%y, %b)").replace("%c: ", "%y: tensor<[M]x5xf32>, %c: "),
        "merge([p, q], n)",
        "%q and %p cannot be one operation",
        "%x and %y, which do not lie along `n`",
    ),
    "another operation": (
        PAIR,
        'merge([p, match one "s" in root], n)',
        "%s and %p cannot be one operation",
        "has 3 dims, not 2",
    ),
    "a reduction": (
        PAIR,
        "merge([p, q], k)",
        "the results of %p cannot follow one another along `k`",
        "k",
    ),
    "one": (PAIR, "merge([p], n)", "there is nothing to merge", "%p"),
    "no rows to share": (
        PAIR,
        "merge([p, q], m)",
        "%q and %p cannot be one operation",
        "%b: tensor<5x[N]xf32>",
    ),
    "a chain": (
        PAIR.replace("%q = tcp.matmul(%x, %b)", "%q = tcp.matmul(%y, %b)")
        .replace("%b: tensor<5x[N]xf32>", "%b: tensor<3x[N]xf32>")
        .replace("%q =", "%y = tcp.max(%p, 0.0) : tensor<[M]x3xf32>\n  %q ="),
        "merge([p, q], n)",
        "%q and %p cannot be one operation",
        "%y: tensor<[M]x3xf32>",
    ),
    "no structured operation": (
        PAIR.replace("%s =", "%t, %u = tcp.cumsum(%r) {dim = 0} : tensor<[M]x3xf32>, tensor<3xf32>\n  %s ="),
        'merge([match one "t" in root, p], n)',
        "%t cannot be a part of another operation",
        "tcp.cumsum",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    payload, step, message, found = REFUSED[name]
    diagnostic = refusal(payload, HANDLES + step)
    assert (diagnostic.message, diagnostic.found) == (message, found)


def test_copies_in_two_loops() -> None:
    payload = PAIR.replace("[M]", "8")
    diagnostic = refusal(payload, HANDLES + "let i = tile(p, [m: 2])\nsplit(i, at: 4)\nmerge([p, q], n)")
    assert diagnostic.found == "%p~high in another block"


def test_one_needs_the_other() -> None:
    payload = """\
func @f(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %p = tcp.add(%x, %y) : tensor<4x4xf32>
  %e = tcp.exp(%p) : tensor<4x4xf32>
  %q = tcp.add(%x, %e) : tensor<4x4xf32>
  tcp.return(%q)
}
"""
    diagnostic = refusal(payload, HANDLES + "merge([p, q], d1)")
    assert (diagnostic.message, diagnostic.found) == ("%e leads from one of the operations to another", "%p, %q")


def test_one_reads_the_other() -> None:
    payload = """\
func @f(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %p = tcp.add(%x, %y) : tensor<4x4xf32>
  %q = tcp.add(%p, %x) : tensor<4x4xf32>
  tcp.return(%q)
}
"""
    diagnostic = refusal(payload, HANDLES + "merge([p, q], d1)")
    assert (diagnostic.message, diagnostic.found) == ("%q needs another of the operations", "%p, %q")


def test_readers_of_which_one_reads_the_other_stay() -> None:
    payload = """\
func @f(%x: tensor<[M]x4xf32>, %y: tensor<[M]x4xf32>) -> tensor<[M]x4xf32> symbols [M: 0..] {
  %p = tcp.exp(%x) : tensor<[M]x4xf32>
  %q = tcp.exp(%y) : tensor<[M]x4xf32>
  %a = tcp.add(%p, %x) : tensor<[M]x4xf32>
  %b = tcp.add(%q, %a) : tensor<[M]x4xf32>
  tcp.return(%b)
}
"""
    check(payload, HANDLES + "merge([p, q], d0, readers: true)", [{"M": 0}, {"M": 3}])
