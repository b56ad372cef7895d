"""unswitch: what depends on a branch on sizes, as a version for each way it goes."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.ops.gml_st import If, Loop
from tcpx.payload.text.parser import parse
from tests.comparison import structurally_equal
from tests.transform.payloads import CHAIN, MM, RELU, check, refusal, run

BIAS = (
    RELU.replace("tensor<[N]xf32>) ->", "tensor<[B]x[C]xf32>) ->")
    .replace("[M: 0..,", "[B, C, M: 0..,")
    .replace("tcp.broadcast(%b) {dims = [1]}", "tcp.expand(%b) {dims = [0, 1]}")
)
R = 'let r = match one "r" in root\n'
STEPS = {
    "alone": "unswitch(root)",
    "one branch": "unswitch(root, most: 2)",
    "tiles": f"{R}{MM}unswitch(root)\nlet i, j = tile(r, [d0: 3, d1: 5])\nfuse(mm, into: j)",
    "products": f"""{MM}unswitch(root)
let kc = tile(mm, [k: 4])
let j, i = tile(mm, [n: 8, m: 6], tail: pad)
let k = tile(mm, [k: 1])
let p = pack(mm.rhs, [k, n], at: kc)
vectorize(i)
hoist_accumulator(mm, out_of: k)""",
    "vectors": f"""{R}let s = match one "s" in root
unswitch(root)
let i, j = tile(r, [d0: 1, d1: 16], tail: pad)
fuse(s, into: j)
vectorize(i)""",
}
ARGUMENTS = [(7, 17, 5, 7, 17), (7, 17, 5, 1, 17), (13, 16, 3, 13, 1), (1, 1, 1, 1, 1), (3, 0, 4, 1, 0)]


def given(m: int, n: int, k: int, b: int, c: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n), (b, c))]


@pytest.mark.parametrize("name", STEPS)
def test_computes_the_same(name: str) -> None:
    done = run(BIAS, STEPS[name]).module
    assert structurally_equal(done, parse(done.text())) is None
    for sizes in ARGUMENTS:
        x, w, b = given(*sizes)
        np.testing.assert_array_equal(tcpx.evaluate(done, x, w, b), np.maximum(x @ w + b, 0))


def test_kernels() -> None:
    schedules = [tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{text}\n}}") for text in STEPS.values()]
    for schedule in schedules:
        kernel = tcpx.compile(parse(BIAS), schedule, target="x86_avx512")
        for sizes in ARGUMENTS:
            x, w, b = given(*sizes)
            np.testing.assert_array_equal(kernel(x, w, b), np.maximum(x @ w + b, 0))


def test_there_is_a_version_for_each_way() -> None:
    done = run(BIAS, "unswitch(root)").module
    assert len([op for op in done.walk() if op.opcode == "tcp.matmul"]) == 4
    assert all(op.is_terminator or isinstance(op, If) or op.opcode == "tcp.assert" for op in done.main.body.ops)
    done = run(BIAS, "unswitch(root, most: 3)").module
    assert len([op for op in done.walk() if op.opcode == "tcp.matmul"]) == 3


def test_handles_denote_every_version() -> None:
    done = run(BIAS, f'{R}unswitch(root)\nlet i = tile(r, [d0: 3])\nlet j = tile(r.copy("else"), [d1: 5])').module
    loops = [op.var.step for op in done.walk() if isinstance(op, Loop)]
    assert sorted(map(str, loops)) == ["3"] * 4 + ["5"] * 3


def test_versions_of_one_operation_become_those_of_all() -> None:
    chosen = 'let q = match one "q" in root\nspecialize q when size(q.d0) < 4 { } else { }\nunswitch(root)'
    check(CHAIN, chosen)
    done = run(CHAIN, chosen).module
    assert [op.opcode for op in done.main.body.ops] == ["gml_st.if", "tcp.return"]


def test_functions_that_are_called() -> None:
    text = BIAS.replace("func @relu", "func @called")
    head = text.split("{", 1)[0].replace("@called", "@main")
    call = "  %y = tcp.call @called(%x, %w, %b) : tensor<[M]x[N]xf32>\n  tcp.return(%y)\n}\n"
    done = run(f"{head}{{\n{call}{text}", "unswitch(root)").module
    assert len([op for op in done.walk() if op.opcode == "tcp.matmul"]) == 4


def test_no_branch() -> None:
    for payload, body in ((RELU, "unswitch(root)"), (BIAS, "unswitch(root)\nunswitch(root)")):
        error = refusal(payload, body)
        assert error.message == "nothing in @relu is computed with what a branch on sizes gives"
        assert error.required == "a branch outside of loops whose results are operands"


def test_too_few_versions() -> None:
    error = refusal(BIAS, "unswitch(root, most: 1)")
    assert (error.message, error.required, error.found) == ("a branch has two versions", "most: 2 or more", "1")
