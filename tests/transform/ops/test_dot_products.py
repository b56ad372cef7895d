"""lower_vectors with rows for dot products: where they are taken, where not, and that the numbers are the same."""

from __future__ import annotations

from typing import Any

import pytest

from tcpx.interp import run_schedule
from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse
from tcpx.target import Target, load_target
from tcpx.transform.language import program_of_text
from tests.transform.ops.test_lower_vectors import code
from tests.transform.payloads import INTEGERS, check_same

WITH, WITHOUT = load_target("x86_avx512"), load_target("x86_avx512", ())
NEST = """let mm = match one "mm" in root
let j, i = tile(mm, [n: {n}, m: 3], tail: pad)
{pack}
let kk = tile(mm, [k: {k}]{tail})
vectorize(i)
hoist_accumulator(mm, out_of: kk)
lower_vectors({lower})"""
SIGNED = INTEGERS.replace("K: 0..", "K: 0..4096")
MIXED = SIGNED.replace("%x: tensor<[M]x[K]xsi8>", "%x: tensor<[M]x[K]xui8>")
SWAPPED = SIGNED.replace("%w: tensor<[K]x[N]xsi8>", "%w: tensor<[K]x[N]xui8>")
HALVES = SIGNED.replace("si8", "bf16").replace("si32", "f32")
GENERIC = """func @g(%x: tensor<[M]x[K]xui8>, %w: tensor<[K]x[N]xsi8>) -> tensor<[M]x[N]xsi32> symbols [M: 0.., K: 0..4096, N: 0..] {
  %mm = tcp.generic(%x, %w) {iterators = [["m", "parallel"], ["n", "parallel"], ["k", "reduction"]], maps = [[m, k], [k, n], [m, n]], combiner = "tcp.add"} ({ (%a: ui8, %b: si8, %acc: si32):
    %r = tcp.cast(%b) : si32
    %l = tcp.cast(%a) : si32
    %p = tcp.mul(%r, %l) : si32
    %s = tcp.add(%p, %acc) : si32
    tcp.yield(%s)
  }) : tensor<[M]x[N]xsi32>
  tcp.return(%mm)
}
"""  # noqa: E501
OTHER_BODY = GENERIC.replace("tcp.mul(%r, %l)", "tcp.max(%r, %l)")
SIZES = [{"M": m, "N": n, "K": k} for m, n, k in ((0, 3, 4), (5, 17, 0), (4, 33, 9), (7, 1, 3), (1, 16, 1))]


def lowered(payload: str, target: Target = WITH, n: int = 32, g: int = 4, k: int = 0, **given: str) -> Module:
    """The payload on vectors, before instructions are chosen; checked against what it was."""
    parts = {"pack": f"pack(mm.rhs, [k/{g}, n, k%{g}], at: j)", "tail": "", "lower": "i"} | given
    text = f"language 1\nschedule main(root: func) {{\n{NEST.format(n=n, k=k or g, **parts)}\n}}"
    module = run_schedule(parse(payload), program_of_text(text), target).module
    check_same(payload, module, SIZES)
    return module


def dots(module: Module) -> int:
    return sum(op.opcode == "vector.dot" for op in code(module.main))


@pytest.mark.parametrize(("payload", "g"), [(MIXED, 4), (SWAPPED, 4), (HALVES, 2), (GENERIC, 4)])
def test_taken(payload: str, g: int) -> None:
    assert dots(lowered(payload, g=g)) == 6


def test_several_groups_in_one_iteration() -> None:
    assert dots(lowered(MIXED, k=8, tail=", tail: pad")) == 12


def test_the_repeated_factor_by_digits() -> None:
    pack = "pack(mm.rhs, [k/4, n, k%4], at: j)\npack(mm.lhs, [k/4, m, k%4], at: j)"
    assert dots(lowered(MIXED, pack=pack)) == 6


def test_the_repeated_factor_where_it_lies() -> None:
    """k is no multiple of 4 in it: its last group is read with a mask."""
    assert dots(lowered(MIXED, tail=", tail: pad")) == 6


@pytest.mark.parametrize(
    ("payload", "given"),
    [
        (SIGNED, {}),  # the instruction takes one factor without sign
        (MIXED, {"target": WITHOUT}),
        (HALVES, {"target": load_target("x86_avx2"), "g": 2}),
        (MIXED, {"g": 2}),  # no such groups
        (MIXED, {"n": 24}),  # not whole vectors
        (MIXED, {"pack": "pack(mm.rhs, [k, n], at: j)", "tail": ", tail: pad"}),
        (MIXED, {"pack": "pack(mm.rhs, [k%4, n, k/4], at: j)"}),
        (MIXED, {"pack": "pack(mm.rhs, [n, k/4, k%4], at: j)"}),
        (OTHER_BODY, {}),
    ],
)
def test_not_taken(payload: str, given: dict[str, Any]) -> None:
    assert dots(lowered(payload, **given)) == 0
