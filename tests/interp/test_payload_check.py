"""What is found about a schedule and a payload without taking a step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tcpx
from tcpx.transform.declaration import Transform, transforms
from tcpx.transform.reference import example_of
from tests.transform.payloads import RELU

HEAD = """language 1
import "lib/gemm.tcps" as gemm
sequence rows(mm: op<contract>, by: int = 6) -> loop {
  let i = tile(mm, [m: by])
  return i
}
"""
MM = "let mm = match one contract in root\n"


def found(body: str, head: str = HEAD, target: str = "x86_avx512") -> list[tuple[str, str | None]]:
    module = tcpx.parse(RELU)
    before = module.text()
    schedule = tcpx.parse_schedule(f"{head}schedule main(root: func) {{\n{body}\n}}")
    findings = tcpx.check(schedule, module, target=target)
    assert module.text() == before
    return [(d.message, d.fix) for d in findings if d.is_error]


@pytest.mark.parametrize(
    ("body", "message", "fix"),
    [
        (
            MM + "let r = match one max in root\nlet d = mm.m\ntile(r, [d: 4])",
            "`m` is a dim of %mm, not of %r",
            "`r.d0` or `r.d1`",
        ),
        ("let x = match one softmax in root\ndecompose(x)", "nothing matches softmax", None),
        ('let x = match some "fc*" in root\nfor y in x { dce(y) }', 'nothing matches "fc*"', None),
        ("for mm in match some contract in root { tile(mm, [lm: 4]) }", "%mm has no dim `lm`", "did you mean `m`?"),
        (MM + "let i = rows(mm)\ntile(mm, [k: 8, j: 4])", "%mm has no dim `j`", None),
        (MM + "let i = rows(mm)\npack(mm.rhs, [kk, n], at: i)", "%mm has no dim `kk`", "did you mean `k`?"),
        (MM + "let i = rows(mm, 0)", "a size of `m` is out of range", None),
        (MM + "let i = rows(epilogue(mm))", "`mm` is declared `op<contract>`", None),
        (MM + "let i = mm.loop(kk)\nvectorize(i)", "%mm has no dim `kk`", "did you mean `k`?"),
        (MM + "let a = mm.lsh", "%mm (tcp.matmul) has no `lsh`", "did you mean `lhs`?"),
        (MM + "decompose(mm)\nrequire threads > 1 \"needs threads\"", "needs threads", None),
        (MM + "let i = rows(mm)\nlet j = match one softmax in root\ndecompose(j)", "nothing matches softmax", None),
        (MM + 'try { tile(mm, [q: 4]) } else { tile(mm, [z: 4]) } else fail "no way"', "no way", None),
        (MM + 'case mm { elementwise => { dce(mm) } else => fail "neither" }', "neither", None),
        (MM + "if size(mm.m) < 4 { let i = rows(mm) }",
         "`if` needs an answer now, but `M < 4` is known only when the kernel runs",
         "write `specialize mm when size(mm.m) < 4 { ... } else { ... }`"),
    ],
)  # fmt: skip
def test_findings(body: str, message: str, fix: str | None) -> None:
    assert (message, fix) in found(body)


def test_all_findings_are_said() -> None:
    body = MM + "let r = match one max in root\ntile(mm, [q: 4])\ntile(mm, [m: 0])\ntile(r, [z: 2])"
    assert [message for message, _ in found(body)] == [
        "%mm has no dim `q`", "a size of `m` is out of range", "%r has no dim `z`",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        MM + "let last = epilogue(mm)\ngemm.packed_gemm(mm, last)\nlet i = mm.loop(m)\npeel(i)",
        MM + "let i = rows(mm)\nif len(mm) == 2 { tile(mm, [q: 4]) }",
        MM + "try { tile(mm, [q: 4]) } else { let i = rows(mm) }\noptional tile(mm, [q: 4])",
        "for x in match any elementwise in root where not scheduled { tile(x, [d0: 4]) }",
        MM + "generalize(mm)\ntile(mm, [q: 4])",
        MM + "specialize mm when size(mm.m) < 4 { if size(mm.m) < 8 { let i = rows(mm) } } else { let j = rows(mm) }",
        MM + "let i = rows(mm)\nlet f = match some fill in root\nrequire len(f) == 2",
    ],
)
def test_what_a_run_would_not_find_is_not_said(body: str) -> None:
    assert found(body) == []


def test_the_contract_is_checked(tmp_path: Path) -> None:
    schedule = tcpx.parse_schedule(
        'language 1\nschedule main(root: func) expects "(tensor<4xf32>) -> tensor<4xf32>" { dce(root) }'
    )
    (finding,) = tcpx.check(schedule, tcpx.parse(RELU), target="generic")
    assert finding.message == "the schedule `main` is for another payload"


@pytest.mark.parametrize(
    "body",
    [
        MM + "let i = rows(mm)\nlet s = match one softmax in root where dtype(out) == f32\ndecompose(s)",
        MM
        + 'let r = match one max in root\ntile(r, [d0: 4])\ncase mm { elementwise => { dce(mm) } else => fail "no" }',
    ],
)
def test_what_steps_leave_alone_is_followed(body: str) -> None:
    assert [message for message, _ in found(body)] in (["nothing matches softmax"], ["no"])


@pytest.mark.parametrize(
    "body",
    [
        MM + "let i = rows(mm)\nlet x = match one matmul in mm.loop(m)\ntile(x, [n: 4])",
        MM + "let i = rows(mm)\nfor x in match any contract in root where not scheduled { tile(x, [q: 4]) }",
        MM + "let i = rows(mm)\ncase mm { elementwise => { dce(mm) } op where it.scheduled => { tile(mm, [n: 4]) } }",
    ],
)
def test_what_steps_decide_is_not_said(body: str) -> None:
    assert found(body) == []


def test_operations_that_a_step_merges_are_not_counted() -> None:
    module = tcpx.parse(
        "func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {\n  %a = tcp.matmul(%x, %x) : tensor<8x8xf32>\n"
        "  %b = tcp.matmul(%x, %x) : tensor<8x8xf32>\n  %s = tcp.add(%a, %b) : tensor<8x8xf32>\n  tcp.return(%s)\n}"
    )
    schedule = tcpx.parse_schedule(
        'language 1\nschedule s(root: func) {\n  let a = match one "a" in root\n  let b = match one "b" in root\n'
        '  cse(root)\n  let mm = match one matmul in root\n  require a == b and a == mm "merged"\n}'
    )
    tcpx.apply_schedule(module, schedule, target="generic")
    assert [d for d in tcpx.check(schedule, module, target="generic") if d.is_error] == []


@pytest.mark.parametrize("transform", transforms().values(), ids=lambda t: t.name)
def test_an_example_that_runs_has_no_findings(transform: type[Transform]) -> None:
    example = example_of(transform)
    if example is None:
        return
    body = f"{example.bindings()}\n{example.statement}"
    schedule = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{body}\n}}")
    findings = tcpx.check(schedule, tcpx.parse(example.before), target="x86_avx512", threads=2)
    assert [d.message for d in findings if d.is_error] == []


SCHEDULES = Path(tcpx.__file__).parents[1] / "schedules"
DIGITS = SCHEDULES.parent / "examples" / "digits" / "digits.tcp"


@pytest.mark.parametrize("schedule", sorted(SCHEDULES.rglob("*.tcps")), ids=lambda path: path.stem)
def test_cleanup_in_shipped_schedules_may_find_nothing(schedule: Path) -> None:
    """They are for payloads of others: where there is nothing to clean, that is no error."""
    for line in schedule.read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"(?!.*\boptional\b).*\b(canonicalize|cse|dce)\(.*", line.partition("//")[0]) is None


@pytest.mark.parametrize("schedule", sorted(SCHEDULES.glob("*.tcps")), ids=lambda path: path.stem)
def test_shipped_schedules_have_no_findings(schedule: Path) -> None:
    assert tcpx.check(tcpx.load_schedule(schedule), tcpx.load(DIGITS), target="generic", threads=2) == ()
