"""canonicalize, cse and dce."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tests.transform.payloads import RELU, check, refusal, run

TWICE = """\
func @twice(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %p = tcp.pad(%x) {value = 0.0} : tensor<[N]xf32>
  %t = gml_st.materialize(%p) tile [0] [N] : tensor<[N]xf32>
  %a = tcp.exp(%t) : tensor<[N]xf32>
  %b = tcp.exp(%x) : tensor<[N]xf32>
  %dead = tcp.add(%a, %a) : tensor<[N]xf32>
  %deader = tcp.add(%dead, %a) : tensor<[N]xf32>
  %c = tcp.add(%a, %b) : tensor<[N]xf32>
  tcp.return(%c)
}
"""


def opcodes(body: str) -> list[str]:
    """The operations that are left."""
    return [op.opcode.split(".")[-1] for op in check(TWICE, body).module.walk()][1:-1]


def test_canonicalize() -> None:
    assert opcodes("canonicalize(root)") == ["exp", "add"]


def test_an_argument_keeps_its_declared_sizes() -> None:
    """A pad by a size that is 0 for all values leaves `[N]` what a call tells."""
    size = "N + max(0, min(ceildiv(N - 1, 1), ceildiv(N, 1) - 1) - N + 1)"
    text = f"""\
func @f(%x: tensor<[N]xf32>) -> tensor<[{size}]xf32> symbols [N: 0..] {{
  %p = tcp.pad(%x) {{value = 0.0}} : tensor<[{size}]xf32>
  %r = tcp.neg(%p) : tensor<[{size}]xf32>
  tcp.return(%r)
}}
"""
    done = check(text, "canonicalize(root)")
    assert [op.opcode for op in done.module.main.body.ops] == ["tcp.neg", "tcp.return"]
    assert str(done.module.main.args[0].type) == "tensor<[N]xf32>"
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(tcpx.compile(tcpx.parse(text), target="x86_avx2")(x), -x)


def test_a_number_that_is_read_as_a_tensor_is_one() -> None:
    text = """\
func @f(%a: f32, %s: inout tensor<f32>) -> (tensor<f32>, %s: tensor<f32>) {
  %t = tcp.reshape(%a) : tensor<f32>
  %y = tcp.add(%t, %s) : tensor<f32>
  tcp.return(%t, %y)
}
"""
    done = check(text, "canonicalize(root)")
    assert [op.opcode for op in done.module.main.body.ops] == ["tcp.add", "tcp.return"]
    assert str(done.module.main.args[0].type) == "tensor<f32>"


NEUTRAL = """\
func @neutral(%x: tensor<[N]xf32>, %y: tensor<2x[N]xf32>) -> tensor<2x[N]xf32> symbols [N: 0..] {
  %a = tcp.mul(%x, 1.0) : tensor<[N]xf32>
  %b = tcp.exp(%a) : tensor<[N]xf32>
  %c = tcp.broadcast(%b) {dims = [1]} : tensor<2x[N]xf32>
  %d = tcp.broadcast(%b) {dims = [1]} : tensor<2x[N]xf32>
  %e = tcp.relu(%c) : tensor<2x[N]xf32>
  %f = tcp.mul(%d, %y) : tensor<2x[N]xf32>
  %g = tcp.add(%e, %f) : tensor<2x[N]xf32>
  tcp.return(%g)
}
"""


def test_canonicalize_without_merging() -> None:
    done = check(NEUTRAL, "canonicalize(root, merge: false)")
    left = [op.opcode.split(".")[-1] for op in done.module.main.body.ops]
    assert left == ["exp", "broadcast", "broadcast", "relu", "mul", "add", "return"]


def test_canonicalize_without_merging_may_change_nothing() -> None:
    twice = "canonicalize(root, merge: false)\ncanonicalize(root, merge: false)"
    assert refusal(NEUTRAL, twice).message == "`canonicalize` changes nothing here"


def test_cse() -> None:
    assert opcodes("canonicalize(root)\noptional cse(root)") == ["exp", "add"]
    handles = 'let a = match one "a" in root\nlet b = match one "b" in root\ncanonicalize(root)\nrequire a == b "one"'
    run(TWICE, handles)


def test_cse_alone() -> None:
    same = TWICE.replace("tcp.exp(%t)", "tcp.exp(%x)")
    done = check(same, "cse(root)")
    assert [op.opcode for op in done.module.walk()].count("tcp.exp") == 1


ROWS_AND_COLUMNS = """\
func @sum(%x: tensor<[N]xf32>) -> tensor<[N]x[N]xf32> symbols [N: 0..] {
  %r = tcp.broadcast(%x) {dims = [0]} : tensor<[N]x[N]xf32>
  %c = tcp.broadcast(%x) {dims = [1]} : tensor<[N]x[N]xf32>
  %d = tcp.broadcast(%x) {dims = [1]} : tensor<[N]x[N]xf32>
  %s = tcp.add(%r, %c) : tensor<[N]x[N]xf32>
  %t = tcp.mul(%s, %d) : tensor<[N]x[N]xf32>
  tcp.return(%t)
}
"""


def test_cse_keeps_operations_that_differ_in_an_attribute() -> None:
    done = check(ROWS_AND_COLUMNS, "cse(root)")
    assert [op.opcode for op in done.module.walk()].count("tcp.broadcast") == 2


def test_dce() -> None:
    assert opcodes("dce(root)") == ["pad", "materialize", "exp", "exp", "add"]


def test_a_dead_handle_ends() -> None:
    found = refusal(TWICE, 'let d = match one "dead" in root\ndce(root)\ntile(d, [d0: 2])')
    assert found.message == "%dead is gone"


@pytest.mark.parametrize("name", ["canonicalize", "cse", "dce"])
def test_refused_where_nothing_changes(name: str) -> None:
    assert refusal(RELU, f"{name}(root)").message == f"`{name}` changes nothing here"
