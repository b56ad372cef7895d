"""specialize ... when: what a branch knows about sizes, unreachable branches, and `else fail`."""

from __future__ import annotations

import pytest

from tcpx.payload.text.parser import parse
from tests.comparison import structurally_equal
from tests.transform.payloads import CHAIN, MM, RELU, Sizes, check, refusal, run

SIZES: tuple[Sizes, ...] = ({"M": 13, "K": 5, "N": 65}, {"M": 4, "K": 16, "N": 64}, {"M": 0, "K": 0, "N": 0})


def test_types_are_what_they_were() -> None:
    done = check(RELU, MM + "specialize mm when size(mm.n) == 65 { } else { }", SIZES)
    assert "65xf32" not in done.module.text()


def test_a_tile_of_the_known_size_needs_no_tail() -> None:
    done = check(RELU, MM + "specialize mm when size(mm.n) == 65 { tile(mm, [n: 13]) } else { }", SIZES)
    assert "[K]x13xf32" in done.module.text()
    assert "min(" not in done.module.text()


def test_a_vector_of_the_known_size_is_static() -> None:
    body = (
        "specialize mm when size(mm.n) == 65 { let i = tile(mm, [m: 4], tail: pad)\nlet kk = tile(mm, [k: 1])\n"
        "vectorize(i)\nhoist_accumulator(mm, out_of: kk) } else { }"
    )
    done = check(RELU, MM + body, SIZES)
    assert "vector<4x65xf32>" in done.module.text()
    assert done.module.main.body.terminator is not None
    assert "tensor<[M]x[N]xf32>" in str(done.module.main.body.terminator.operands[0].type)


def test_the_reduction_dim_is_known_too() -> None:
    done = check(RELU, MM + "specialize mm when size(mm.k) % 16 == 0 { tile(mm, [k: 16]) } else { }", SIZES)
    assert "tensor<[M]x16xf32>" in done.module.text()
    assert "min(16" not in done.module.text()


def test_a_condition_on_the_last_of_several_loops() -> None:
    body = "let i = tile(mm, [m: 6])\nspecialize mm when size(mm.m) == 6 { require size(mm.m) == 6 } else { }"
    check(RELU, MM + body, SIZES)


def test_what_a_condition_implies_is_decided() -> None:
    body = (
        "specialize mm when size(mm.m) * 2 <= size(mm.n) {\n"
        'require size(mm.m) * 2 < size(mm.n) + 1\nspecialize mm when size(mm.n) >= 2 * size(mm.m) { } else fail "no"\n'
        "} else { }"
    )
    done = run(RELU, MM + body)
    assert done.module.text().count("gml_st.if") == 1


@pytest.mark.parametrize(
    ("branches", "found"),
    [
        ("when size(r.d0) < 8 { } else when size(mm.m) < 4 { } else { }", "M < 4 after M < 8"),
        ("when size(mm.m) < 8 { } else when size(mm.m) >= 8 { } else { }", "`else` after M < 8, M >= 8"),
        ("when size(r.d1) == 65 { } else when size(mm.n) == 65 { } else { }", "N == 65 after N == 65"),
        (
            "when size(r.d0) < 8 and size(r.d1) < 8 { } else when size(mm.n) < 4 and size(mm.m) == 7 { } else { }",
            "N < 4 and M == 7 after M < 8 and N < 8",
        ),
    ],
)
def test_a_branch_that_is_never_taken(branches: str, found: str) -> None:
    failed = refusal(RELU, MM + f'let r = match one "r" in root\nspecialize mm {branches}')
    assert (failed.message, failed.found) == ("this branch is never taken", found)


def test_a_branch_that_always_holds_behind_all_there_is() -> None:
    """In a sequence the last of those that are needed is for the rest; else a branch that never runs is an error."""
    payload = RELU.replace("M: 0..", "M: 0..48")
    branches = (
        "when size(mm.m) <= 16 { } else when 9000 <= 2000 * size(mm.m) { } else when size(mm.m) < 99 { } else { }"
    )
    text = f"{MM}rows(mm)\n}}\nsequence rows(mm: op) {{\n  specialize mm {branches}"
    assert run(payload, text).module.text().count("gml_st.if") == 1
    failed = refusal(payload, f"{MM}specialize mm {branches}")
    assert (failed.message, failed.found) == ("this branch is never taken", "true after M <= 16, 9000 <= 2000*M")


def test_else_fail_behind_all_there_is_needs_no_check() -> None:
    body = 'specialize mm when size(mm.m) < 8 { } else when size(mm.m) >= 8 { tile(mm, [m: 3]) } else fail "no"'
    done = check(RELU, MM + body, SIZES)
    assert "tcp.assert" not in done.module.text()
    assert done.module.text().count("gml_st.if") == 1


def test_else_fail_is_an_assertion() -> None:
    done = run(RELU, MM + 'specialize mm when size(mm.n) % 16 == 0 { tile(mm, [n: 16]) } else fail "n in 16s"')
    text = done.module.text()
    assert 'tcp.assert {any = [mod(N, 16) == 0], message = "n in 16s"}' in text
    again = parse(text)
    assert structurally_equal(done.module, again) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            'let i = tile(mm, [m: 6])\nspecialize mm when size(mm.m) == 6 { } else fail "full tiles"',
            "`else fail` stands behind a condition that changes while the kernel runs",
        ),
        ('specialize mm when 1 == 2 { } else fail "never"', "never"),
    ],
)
def test_refused(body: str, message: str) -> None:
    assert refusal(RELU, MM + body).message == message


def test_a_value_in_registers_needs_an_else() -> None:
    body = (
        'let q = match one "q" in root\nlet r = match one "r" in root\nlet j, i = tile(r, [d1: 8, d0: 2], tail: pad)\n'
        'fuse(q, into: i)\nvectorize(i)\nlet p = match one "p" in root\n'
        'specialize q when size(p.d1) < 9 { } else fail "wide"'
    )
    assert refusal(CHAIN, body).message == "`else fail` leaves %q.v, a value in registers, without a value"


def test_versions_of_versions_leave_out_what_cannot_be() -> None:
    payload = """func @f(%x: tensor<[M]x[M]xf32>) -> tensor<[M]x[M]xf32> symbols [M: 0..] {
  %r = tcp.exp(%x) : tensor<[M]x[M]xf32>
  tcp.return(%r)
}
"""
    body = 'let r = match one "r" in root\n'
    body += "specialize r when size(r.d0) < 8 { tile(r, [d0: 8], tail: peel) } else { tile(r, [d0: 8], tail: pad) }\n"
    body += "specialize r when size(r.d1) >= 8 { tile(r, [d1: 16], tail: peel) } else { tile(r, [d1: 8], tail: pad) }"
    done = check(payload, body, [{"M": m} for m in (0, 1, 7, 8, 17)], exact=False)
    assert done.module.text().count("gml_st.if") == 1


def test_sizes_in_a_loop_that_never_runs_may_be_anything() -> None:
    """17*K < 4 leaves K = 0: the loop round the product has no iteration, whatever its tiles seem to be."""
    payload = """func @f(%x: tensor<17x[K]x12xf32>, %w: tensor<12x[K]xf32>) -> tensor<[17*K]x[K]xf32> symbols [K] {
  %r = tcp.reshape(%x) : tensor<[17*K]x12xf32>
  %mm = tcp.matmul(%r, %w) : tensor<[17*K]x[K]xf32>
  tcp.return(%mm)
}
"""
    body = (
        'let mm = match one "mm" in root\n'
        "specialize mm when size(mm.n) % 3 == 0 { tile(mm, [n: 5]) } else { tile(mm, [n: 16], tail: pad) }\n"
        "specialize mm when size(mm.m) < 4 { tile(mm, [m: 4], tail: peel) } else { tile(mm, [m: 1], tail: pad) }"
    )
    check(payload, body, [{"K": k} for k in (0, 1, 3)], exact=False)


def test_fills_and_broadcasts_that_versions_alone_read_are_part_of_them() -> None:
    body = 'let r = match one "r" in root\nspecialize [mm, r] when size(mm.n) < 8 { } else { }'
    done = check(RELU, MM + body, SIZES)
    assert [op.opcode for op in done.module.main.body.ops] == ["gml_st.if", "tcp.return"]
    read_elsewhere = RELU.replace("tcp.return(%r)", "%q = tcp.add(%r, %bias) : tensor<[M]x[N]xf32>\n  tcp.return(%q)")
    done = check(read_elsewhere, MM + body, SIZES)
    assert [op.opcode for op in done.module.main.body.ops][:2] == ["tcp.broadcast", "gml_st.if"]
