"""Run-time versions compute the same on both sides of their conditions, and `else fail` refuses what none is for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import tcpx
from tcpx import ArgumentError, Kernel, ScheduleError
from tcpx.payload.evaluator import evaluate_func
from tcpx.target import Target
from tcpx.transform.language.loader import Program
from tests.transform.payloads import MM, RELU, Sizes, arguments

MATMUL = """\
func @product(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [K, M, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
REGISTERS = """
  let i = tile(mm, [m: 4], tail: pad)
  if fused { fuse(last, into: i) }
  let kk = tile(mm, [k: 1])
  vectorize(i)
  hoist_accumulator(mm, out_of: kk)
"""
SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "K": k, "N": n}
    for m, k, n in (
        (0, 5, 65), (1, 0, 65), (13, 5, 65), (13, 5, 64), (7, 3, 66), (8, 16, 0), (0, 0, 0), (32, 16, 16), (33, 17, 31),
        (16, 32, 48), (2, 1, 4), (3, 1, 4),
    )
)  # fmt: skip
VERSIONS = {
    "equal": "specialize [mm, last] when size(mm.n) == 65 { let fused = true\n" + REGISTERS + " } else { }",
    "equal, not fused": "specialize mm when size(mm.n) == 65 { let fused = false\n" + REGISTERS + " } else { }",
    "not equal": "specialize mm when size(mm.n) != 65 { tile(mm, [n: 16]) } else { let fused = false\n"
    + REGISTERS
    + " }",
    "a divisor of a parallel dim": "specialize mm when size(mm.n) % 16 == 0 { let j = tile(mm, [n: 16])\n"
    "require size(mm.n) == 16\nlet fused = false\n" + REGISTERS + "} else { tile(mm, [n: 16]) }",
    "a divisor of a reduction dim": "specialize mm when size(mm.k) % 16 == 0 { tile(mm, [k: 16])\n"
    "require size(mm.k) == 16 } else { tile(mm, [m: 3]) }",
    "two dims": "specialize mm when size(mm.m) * 2 <= size(mm.n) { require size(mm.m) * 2 <= size(mm.n) + 1\n"
    "tile(mm, [m: 3]) } else { require size(mm.m) * 2 > size(mm.n)\ntile(mm, [n: 3]) }",
    "both": "specialize mm when size(mm.n) == 65 and size(mm.m) == 13 { require size(mm.m) == 13\nlet j = tile(mm, "
    "[n: 13])\nlet fused = false\n" + REGISTERS + "} else { }",
    "of a tile": "let i = tile(mm, [m: 6])\nspecialize mm when size(mm.m) == 6 { require size(mm.m) == 6\n"
    "let j = tile(mm, [n: 16], tail: pad)\nlet kk = tile(mm, [k: 1])\nvectorize(j)\n"
    "hoist_accumulator(mm, out_of: kk) } else { }",
    "after tiling": "let j = tile(mm, [n: 16])\nspecialize mm when size(last.d1) % 16 == 0 { require size(mm.n) == 16\n"
    "let fused = false\n" + REGISTERS + "} else { }",
    "a whole static product": "specialize mm when size(mm.m) == 13 and size(mm.n) == 65 { let kk = tile(mm, [k: 1])\n"
    "vectorize(kk)\nhoist_accumulator(mm, out_of: kk) } else { }",
    "one of two": "specialize mm when size(mm.n) == 65 or size(mm.n) == 16 { tile(mm, [n: 13])\n"
    "require size(mm.n) == 13 or size(mm.n) <= 16 } else { tile(mm, [n: 16]) }\nrequire len(mm) == 3",
    "one of two, and": "specialize [mm, last] when (size(mm.n) == 65 or size(mm.k) < 2) and not (size(mm.m) == 13 and "
    "size(mm.k) == 5) { let i = tile(mm, [m: 3])\nfuse(last, into: i) } else when size(mm.n) >= 60 "
    "{ tile(mm, [n: 16]) } else { }",
    "neither": "specialize mm when not (size(mm.n) == 65 or size(mm.m) == 13) { tile(mm, [n: 16]) } else { }",
    "afterwards all copies": "specialize mm when size(mm.n) == 65 { tile(mm, [n: 13]) } else { tile(mm, [n: 16]) }\n"
    "tile(mm, [k: 4])\nrequire len(mm) == 2",
}


def compiled(body: str, target: Target) -> Kernel:
    return tcpx.compile(tcpx.parse(RELU), schedule(body), target=target)


def schedule(body: str) -> Program:
    text = f'language 1\nschedule main(root: func) {{\n{MM}let last = match one "r" in root\n{body}\n}}'
    return tcpx.parse_schedule(text, "versions.tcps")


def check_numbers(kernel: Kernel, sizes: Sizes) -> None:
    payload = tcpx.parse(RELU)
    given = arguments(payload, sizes)
    wanted = evaluate_func(payload, payload.main, given)[0]
    np.testing.assert_array_equal(np.asarray(kernel(*given)), wanted, str(sizes))


@pytest.mark.parametrize("name", VERSIONS)
def test_every_version_computes_the_same(name: str, target: Target) -> None:
    kernel = compiled(VERSIONS[name], target)
    for sizes in SIZES:
        check_numbers(kernel, sizes)


FAILS = (
    'specialize mm when size(mm.n) % 16 == 0 { tile(mm, [n: 16]) } else when size(mm.m) < 4 { tile(mm, [m: 2]) }\n'
    'else fail "n is a multiple of 16, or there are few rows"\ntile(mm, [k: 4])\nrequire len(mm) == 2'
)  # fmt: skip


def fits(sizes: Mapping[str, int]) -> bool:
    return sizes["N"] % 16 == 0 or sizes["M"] < 4


def test_else_fail_is_checked_when_the_kernel_is_called(target: Target) -> None:
    kernel = compiled(FAILS, target)
    scheduled = tcpx.apply_schedule(tcpx.parse(RELU), schedule(FAILS), target=target).module
    for sizes in SIZES:
        given = arguments(tcpx.parse(RELU), sizes)
        out = np.full((sizes["M"], sizes["N"]), 7, dtype=np.float32)
        if fits(sizes):
            check_numbers(kernel, sizes)
            evaluate_func(scheduled, scheduled.main, given)
            continue
        with pytest.raises(ArgumentError) as of_kernel:
            kernel(*given, out=out)
        bound = kernel.bind(*given, out=out)
        with pytest.raises(ArgumentError) as of_bound:
            bound()
        assert str(of_bound.value) == str(of_kernel.value)
        assert (out == 7).all()
        with pytest.raises(ArgumentError) as of_evaluator:
            evaluate_func(scheduled, scheduled.main, given)
        for found in (of_kernel.value.diagnostic, of_evaluator.value.diagnostic):
            assert found.message == "n is a multiple of 16, or there are few rows"
            assert found.required == "mod(N, 16) == 0, or M < 4"
            assert f"N = {sizes['N']}" in (found.found or "")
            assert str(found.schedule) == "versions.tcps:6:6"
    assert "3: n is a multiple of 16, or there are few rows" in kernel.c_source


def test_an_assertion_is_about_the_branch_it_stands_in(target: Target) -> None:
    kernel = compiled(
        "specialize [mm, last] when size(mm.n) < 60 {\n"
        'specialize mm when size(mm.m) > 6 { tile(mm, [m: 2]) } else fail "few rows"\n} else { }',
        target,
    )
    check_numbers(kernel, {"M": 1, "K": 3, "N": 60})
    check_numbers(kernel, {"M": 7, "K": 3, "N": 59})
    with pytest.raises(ArgumentError, match="few rows"):
        check_numbers(kernel, {"M": 6, "K": 3, "N": 59})


def test_or_makes_a_version_for_each_of_its_conditions() -> None:
    payload = tcpx.parse(RELU)
    body = "specialize mm when size(mm.n) == 65 or size(mm.m) < 4 or size(mm.m) < 2 { tile(mm, [k: 4]) } else { }"
    run = tcpx.apply_schedule(payload, schedule(body), target="generic")
    assert [e.statement for e in run.trace.entries] == ["specialize mm when N == 65, M < 4", *["tile(mm, [k: 4])"] * 2]
    both = "if size(mm.m) < 4 or size(mm.m) >= 4 { tile(mm, [k: 4]) }\nrequire len(mm) == 1"
    assert len(tcpx.apply_schedule(payload, schedule(both), target="generic").trace.entries) == 1


FEW = (
    "specialize [mm, last] when size(mm.m) * size(mm.n) <= 64 {\n"
    "specialize mm when size(mm.m) <= 8 { tile(mm, [n: 3]) } else when size(mm.n) <= 8 { tile(mm, [m: 3]) } else {\n"
    "tile(mm, [k: 2]) }\n} else { }"
)


A, B, C = "{ tile(mm, [m: 2]) }", "{ tile(mm, [n: 2]) }", "{ tile(mm, [k: 2]) }"
M, N, K = "size(mm.m)", "size(mm.n)", "size(mm.k)"


@pytest.mark.parametrize(
    ("body", "made"),
    [
        (f'when {M} < {K} {A} else when {M} >= {K} {B} else fail "no"', "AB"),
        (f'when {M} < {K} {A} else when {M} > {K} {B} else when {M} == {K} {C} else fail "no"', "ABC"),
        (f'when {M} * {K} < 64 {A} else when {M} * {K} >= 64 {B} else fail "no"', "AB"),
        (f"when {K} >= 4 {{ specialize mm when {M} <= {K} {A} else when {M} < 3 {B} else {C} }} else {{ }}", "AC"),
        (f"when {K} >= 5 {{ specialize mm when {K} <= {N} and {N} < 5 {A} else {C} }} else {{ }}", "C"),
    ],
)
def test_branches_that_leave_nothing_to_others_are_known(body: str, made: str) -> None:
    run = tcpx.apply_schedule(tcpx.parse(RELU), schedule(f"specialize mm {body}"), target="generic")
    tiles = [e.statement for e in run.trace.entries if e.statement.startswith("tile")]
    assert tiles == [{"A": A, "B": B, "C": C}[name].strip("{ }") for name in made]


def test_what_the_branches_round_a_statement_rule_out_is_left_out(target: Target) -> None:
    run = tcpx.apply_schedule(tcpx.parse(RELU), schedule(FEW), target=target)
    made = [e.statement for e in run.trace.entries]
    assert made == ["specialize [mm, last] when M*N <= 64", "specialize mm when M <= 8", "tile(mm, [n: 3])"] + [
        "tile(mm, [m: 3])"
    ]
    kernel = compiled(FEW, target)
    for sizes in SIZES:
        check_numbers(kernel, sizes)


@pytest.mark.parametrize(
    ("body", "message", "found"),
    [
        (
            "if size(mm.n) == 65 or size(mm.m) < 4 { }",
            "`if` needs an answer now, but `N == 65 or M < 4` is known only when the kernel runs",
            "[M: 0..], [N: 0..]",
        ),
        (
            "specialize mm when size(mm.m) < 8 { } else when size(mm.m) * 2 < 8 or size(mm.m) == 2 { } else { }",
            "this branch is never taken",
            "2*M < 8 after M < 8",
        ),
        (
            "specialize mm when size(mm.m) < 8 { } else when size(mm.m) == 2 or size(mm.m) == 4 { } else { }",
            "this branch is never taken",
            "the condition at versions.tcps:5:20 holds wherever this one does",
        ),
        (
            "specialize mm when size(mm.m) < 8 { } else when size(mm.m) > 5 or size(mm.n) < 2 { } else { }",
            "this branch is never taken",
            "`else` after M < 8, M > 5, N < 2",
        ),
        (
            "specialize mm when "
            + " and ".join(f"(size(mm.m) % {k} == 0 or size(mm.n) % {k} == 0)" for k in (2, 3, 5, 7, 11, 13))
            + " { } else { }",
            "the condition holds in more than 32 ways",
            "33 of them",
        ),
    ],
    ids=["undecided", "covered", "covered in the text", "all", "many"],
)
def test_or_of_conditions_is_refused(body: str, message: str, found: str) -> None:
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.apply_schedule(tcpx.parse(RELU), schedule(body), target="generic")
    assert (caught.value.diagnostic.message, caught.value.diagnostic.found) == (message, found)


def nested_versions(times: int, first: str = "") -> tcpx.Run:
    """The product with two versions of each version there is, so many times."""
    asked = "".join(
        f"  specialize mm when size(mm.n) % {prime} == 0 {{ }} else {{ }}\n"
        for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23)[:times]
    )
    text = f"language 1\nschedule main(root: func) {{\n  let mm = match one contract in root\n{first}{asked}}}\n"
    return tcpx.apply_schedule(tcpx.parse(MATMUL), tcpx.parse_schedule(text), target="generic")


def test_an_operation_has_at_most_256_versions() -> None:
    assert sum(op.opcode == "tcp.matmul" for op in nested_versions(8).module.walk()) == 256
    with pytest.raises(ScheduleError) as caught:
        nested_versions(9)
    found = caught.value.diagnostic
    assert found.message == "%mm would have too many versions"
    assert found.required == "at most 256 versions of one operation"
    assert found.found == "512, with those of this `specialize` in each of the ones before"
    assert found.fix == 'ask less often, or only where it matters: specialize x.copy("when 0") when ..'
    assert found.schedule is not None
    assert found.schedule.line == 12
    assert found.payload is not None
    assert found.payload.line == 2


def test_other_copies_are_no_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcpx.transform.specialize_when.MOST_VERSIONS", 4)
    run = nested_versions(2, "  let i = tile(mm, [m: 4], tail: peel)\n")
    assert sum(op.opcode == "tcp.matmul" for op in run.module.walk()) == 8
