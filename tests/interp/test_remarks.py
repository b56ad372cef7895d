"""`else remark x`: what cannot be scheduled stays as it is, and a remark says why."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tcpx import lowering
from tcpx.api import compile as compile_kernel
from tcpx.api import program_or_default
from tcpx.cli import main
from tcpx.interp import ParamValue, Run, run_schedule
from tcpx.lowering import run_and_lower
from tcpx.payload.diagnostics import Diagnostic, Kind, Location, ScheduleError, VerifyError
from tcpx.payload.text.parser import parse
from tcpx.target import load_target
from tcpx.transform.language import program_of_text
from tcpx.transform.language.checker import check_program
from tcpx.transform.language.loader import LIBRARY

PAYLOAD = """\
func @two(%x: tensor<[B]x64xf32>, %w: tensor<64x32xf32>, %v: tensor<32x8xf32>) -> tensor<[B]x8xf32> symbols [B] {
  %a = tcp.matmul(%x, %w) : tensor<[B]x32xf32>
  %b = tcp.matmul(%a, %v) : tensor<[B]x8xf32>
  tcp.return(%b)
}
"""
TARGET = load_target("x86_avx512")


def schedule(body: str) -> str:
    return f"language 1\nschedule main(root: func) {{\n{body}\n}}"


def run(body: str, params: Mapping[str, ParamValue] | None = None) -> Run:
    return run_schedule(parse(PAYLOAD), program_of_text(schedule(body)), TARGET, params=params)


A = 'let mm = match one contract "a" in root\n'
EACH = "for mm in match any contract in root {{ try {{ {0} }} else remark mm }}"


def test_what_fails_is_left_as_it_is() -> None:
    done = run(EACH.format('tile(mm, [m: 6]); require size(mm.n) > 8 "too few columns"'))
    assert [entry.bound[0][1] for entry in done.trace.entries] == ["%a"]
    (remark,) = done.remarks
    assert remark.kind is Kind.WARNING
    assert remark.message == "%b is left as it is: too few columns"
    assert remark.schedule is not None
    assert "size(mm.n) > 8" in remark.schedule.text
    assert remark.payload is not None
    assert remark.payload.line == 3
    assert remark.found == "8 > 8 does not hold"


def test_the_remark_has_what_failed_first_and_the_others_as_notes() -> None:
    done = run(A + "try { tile(mm, [q: 4]) } else { tile(mm, [z: 4]) } else remark mm")
    (remark,) = done.remarks
    assert remark.schedule is not None
    assert remark.schedule.span == "tile(mm, [q: 4])"
    assert len(remark.notes) == 1


def test_a_block_whose_step_is_refused_has_a_remark_though_another_one_is_taken() -> None:
    done = run(A + "try { tile(mm, [q: 4]) } else { tile(mm, [z: 4]) } else { tile(mm, [m: 6]) } else remark mm")
    (remark,) = done.remarks
    assert remark.kind is Kind.WARNING
    assert remark.message == "%a is computed in another way: %a has no dim `q`"
    assert remark.schedule is not None
    assert remark.schedule.span == "tile(mm, [q: 4])"
    assert remark.payload is not None
    assert remark.payload.line == 2
    assert len(remark.notes) == 1
    assert [entry.transform for entry in done.trace.entries] == ["tile"]


def test_a_version_that_is_refused_has_one_too() -> None:
    body = "specialize mm when size(mm.m) < 4 { tile(mm, [q: 4]) } else { tile(mm, [m: 6]) }"
    (remark,) = run(A + f"try {{ {body} }} else {{ tile(mm, [m: 6]) }} else remark mm").remarks
    assert remark.message.startswith("%a is computed in another way: ")


@pytest.mark.parametrize(
    "condition",
    [
        'require size(mm.n) > 800 "too few columns"',
        "case mm { elementwise => {} }",
        'try { require false } else { require false } else fail "too few"',
        "try { require false } else { require false }",
    ],
)
def test_a_block_that_is_for_something_else_has_none(condition: str) -> None:
    assert run(A + f"try {{ {condition} }} else {{ tile(mm, [m: 6]) }} else remark mm").remarks == ()


def test_what_does_not_hold_behind_a_step_is_a_refusal() -> None:
    body = A + "try { tile(mm, [m: 6]); require false } else { tile(mm, [m: 4]) } else remark mm"
    (remark,) = run(body).remarks
    assert remark.message == "%a is computed in another way: a requirement of the schedule does not hold"


def test_a_refused_step_inside_of_another_try_counts() -> None:
    inner = "try { tile(mm, [q: 4]) } else { require false }"
    (remark,) = run(A + f"try {{ {inner} }} else {{ tile(mm, [m: 6]) }} else remark mm").remarks
    assert remark.message == "%a is computed in another way: %a has no dim `q`"
    assert remark.schedule is not None
    assert remark.schedule.span == "tile(mm, [q: 4])"
    assert remark.notes[0] == "every alternative of the `try` around it failed"
    assert remark.notes[1].endswith("a requirement of the schedule does not hold")


@pytest.mark.parametrize("condition", ['require mm.attribute("ragged") != ""', "require size(mm.n) > 800"])
def test_a_block_for_something_else_is_not_why_nothing_was_done(condition: str) -> None:
    (remark,) = run(A + f"try {{ {condition} }} else {{ tile(mm, [q: 4]) }} else remark mm").remarks
    assert remark.message == "%a is left as it is: %a has no dim `q`"
    assert len(remark.notes) == 1
    (remark,) = run(A + f"try {{ {condition} }} else remark mm").remarks
    assert remark.message.startswith("%a is left as it is: ")


SOFTMAX = """
func @f(%x: tensor<[N]x40xf32>) -> tensor<[N + 2]x40xf32> symbols [N: 1..] {
  %p = tcp.pad(%x) {value = 0.0, low = [1, 0]} : tensor<[N + 2]x40xf32>
  %y = tcp.softmax(%p) {dim = 1} : tensor<[N + 2]x40xf32>
  tcp.return(%y)
}
"""


def test_remarks_of_the_default_schedule_say_which_step_failed() -> None:
    remarks = run_schedule(parse(SOFTMAX), program_or_default(None), TARGET).remarks
    assert remarks
    for remark in remarks:
        assert not any(text in remark.message for text in ("`try`", "attribute", "a requirement of the schedule"))


def test_remarks_of_what_is_undone_go_with_it() -> None:
    inner = A + "try { tile(mm, [q: 4]) } else remark mm"
    assert run(f"try {{ {inner}\nrequire 1 > 2 }}").remarks == ()
    assert len(run(inner).remarks) == 1


def test_definite_errors_and_knobs_that_are_set_are_not_recovered_from() -> None:
    with pytest.raises(ScheduleError, match="definite error: for B = 8"):
        run(EACH.format('assert(size(mm.k) == 0, "for B = 8")'))
    knob = EACH.format("knob mr: int = 6 in 1..14; require mr > 6; tile(mm, [m: mr])")
    assert len(run(knob).remarks) == 2
    with pytest.raises(ScheduleError, match="not in its domain"):
        run(knob, {"mr": 99})
    with pytest.raises(ScheduleError, match="does not hold"):
        run(knob, {"mr": 3})


def test_the_default_schedule_recovers_from_definite_errors() -> None:
    assert program_or_default(None).is_default
    text = EACH.format('assert(size(mm.k) == 64, "none but 64")')
    program = program_of_text(schedule(text))
    with pytest.raises(ScheduleError):
        run_schedule(parse(PAYLOAD), program, TARGET)
    done = run_schedule(parse(PAYLOAD), replace(program, is_default=True), TARGET)
    assert [remark.message for remark in done.remarks] == ["%b is left as it is: none but 64"]


@pytest.mark.parametrize(
    ("body", "reasons"),
    [
        ('assert(1 == 2, "no payload")\nfor mm in match any contract in root { tile(mm, [m: 4]) }', ["no payload"]),
        ("for mm in match any contract in root where size(it.q) > 1 { tile(mm, [m: 4]) }", ["`q`"]),
        ("for mm in match any contract in root { tile(mm, [m: 4]); tile(mm, [q: 4]) }", ["%a", "%b"]),
        ("optional assert(1 == 2)", []),
    ],
)
def test_the_default_schedule_leaves_out_what_fails(body: str, reasons: list[str]) -> None:
    program = replace(program_of_text(schedule(body)), is_default=True)
    done = run_schedule(parse(PAYLOAD), program, TARGET)
    start = "a statement of the default schedule is left out: "
    assert len(done.remarks) == len(reasons)
    for found, reason in zip(done.remarks, reasons, strict=True):
        assert found.message.startswith(start)
        assert reason in found.message
    assert len(done.trace.entries) == (2 if "no payload" in reasons else 0)


def test_a_lowering_that_nothing_explains_leaves_the_default_schedule_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is right all the same: it has no schedule."""
    lower, calls = lowering.lower, list[object]()

    def refuse(*args: object) -> object:
        calls.append(args)
        if len(calls) == 1:
            raise ScheduleError(Diagnostic("nothing explains this", Kind.INTERNAL))
        return lower(*args)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(lowering, "lower", refuse)
    program = replace(program_of_text(schedule('let a = match one "a" in root; tile(a, [m: 4])')), is_default=True)
    with warnings.catch_warnings(action="error"):  # of the empty schedule that runs instead, which nobody wrote
        done = lowering.run_and_lower(parse(PAYLOAD), program, TARGET, threads=1)
    message = "the default schedule is left out: internal error: nothing explains this"
    assert [found.message for found in done.remarks if not found.factor] == [message]
    assert not done.trace.entries


def test_a_default_schedule_whose_text_is_wrong_is_refused() -> None:
    program = replace(program_of_text(schedule("tile(nothing, [m: 4])")), is_default=True)
    with pytest.raises(ScheduleError, match="`nothing` is not bound"):
        lowering.run_and_lower(parse(PAYLOAD), program, TARGET, threads=1)


REFUSED = """
for mm in match any contract in root {
  try {
    let g = group([mm], promise: nest)
    let i = tile(mm, [m: 6])
    if size(mm.n) < 32 { peel(i) }
  } else remark mm
}
"""


def test_what_cannot_be_lowered_is_scheduled_again_without() -> None:
    plain = REFUSED.replace("try {", "if true {").replace("else remark mm", "")
    with pytest.raises((ScheduleError, VerifyError), match="promise"):
        run_and_lower(parse(PAYLOAD), program_of_text(schedule(plain)), TARGET, threads=1)
    done = run_and_lower(parse(PAYLOAD), program_of_text(schedule(REFUSED)), TARGET, threads=1)
    (remark,) = [known for known in done.remarks if not known.factor]
    assert remark.message.startswith("%b is left as it is: ")
    assert {entry.bound[0][1] for entry in done.trace.entries if entry.transform == "tile"} == {"%a"}


def test_the_kernel_has_the_remarks() -> None:
    program = program_of_text(schedule(EACH.format("tile(mm, [q: 4])")))
    kernel = compile_kernel(parse(PAYLOAD), program, target="generic")
    assert all(remark.factor > 1.05 for remark in kernel.remarks)
    for name in "ab":
        assert f"%{name} is left as it is: %{name} has no dim `q`" in str(kernel.report())


@pytest.mark.parametrize("target", ["mm.rhs", "count"])
def test_a_remark_is_about_an_operation(target: str) -> None:
    text = A + f"let count = 3\ntry {{ dce(root) }} else remark {target}"
    found = check_program(program_of_text(schedule(text)))
    assert [d.message for d in found if d.is_error] == ["a remark is about an operation"]


STATIC = """\
func @f(%x: tensor<5x64xf32>, %w: tensor<64x32xf32>) -> tensor<5x32xf32> {
  %mm = tcp.matmul(%x, %w) : tensor<5x32xf32>
  %r = tcp.exp(%mm) : tensor<5x32xf32>
  tcp.return(%r)
}
"""
EXP = "func @f(%x: tensor<5x32xf32>) -> tensor<5x32xf32> { %r = tcp.exp(%x) : tensor<5x32xf32> tcp.return(%r) }"
MM = "let mm = match one contract in root\n"
ONE = 'let mm = match one "a" in root\n'


def remarks(body: str, payload: str = PAYLOAD) -> list[Diagnostic]:
    return list(run_schedule(parse(payload), program_of_text(schedule(body)), TARGET).remarks)


def test_a_tile_of_what_is_tiled_so_has_one_iteration() -> None:
    (remark,) = remarks(f"{ONE}tile(mm, [m: 6])\ntile(mm, [m: 6])")
    assert remark.render() == (
        "warning: the loop over `m` of %a has one iteration\n"
        "  --> <schedule>:5:1 (schedule)\n"
        "    5 | tile(mm, [m: 6])\n"
        "      | ^^^^^^^^^^^^^^^^\n"
        "  --> <text>:2:3 (payload)\n"
        "    2 |   %a = tcp.matmul(%x, %w) : tensor<[B]x32xf32>\n"
        "      |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  required: tiles of less than 6, the step of the loop a/m1 round it\n"
        "  found: m: 6\n"
        "  hint: `mm.loop(m)` is that loop"
    )


@pytest.mark.parametrize(
    ("body", "payload", "required", "found", "fix"),
    [
        ("tile(mm, [m: 8])", STATIC, "at most 5, the extent of `m`", "m: 8", "[m: 5]"),
        ("tile(mm, [m: 8], tail: pad)", STATIC, "at most 5, the extent of `m`", "m: 8, of which 3 are padding", None),
        ("tile(mm, [m: 8], tail: peel)", STATIC, "at most 5, the extent of `m`", "m: 8", "[m: 5]"),
        ("tile(mm, [k: 128])", STATIC, "at most 64, the extent of `k`", "k: 128", "[k: 64]"),
        ("tile(mm, [m: 2])\ntile(mm, [m: 4])", STATIC, "at most 2, the step of the loop mm/m1 round it", "m: 4", None),
    ],
)
def test_a_tile_wider_than_its_dim(body: str, payload: str, required: str, found: str, fix: str | None) -> None:
    (remark,) = remarks(MM + body, payload)
    assert remark.message in (
        "the tile of `m` is wider than the dim of %mm",
        "the tile of `k` is wider than the dim of %mm",
    )
    assert (remark.kind, remark.required, remark.found, remark.fix) == (Kind.WARNING, required, found, fix)
    assert remark.schedule is not None
    assert remark.payload is not None


@pytest.mark.parametrize(
    "body",
    [
        "tile(mm, [m: 5])",  # the loop that `vectorize` takes
        "tile(mm, [n: 16, k: 64])\ntile(mm, [n: 8, k: 1])",
        "tile(mm, [m: 4])\ntile(mm, [m: 2])",
        'try { tile(mm, [m: 8])\nrequire false "no" } else { tile(mm, [m: 4]) }',
    ],
)
def test_tiles_that_are_meant_are_not_remarked_on(body: str) -> None:
    assert remarks(MM + body, STATIC) == []


def test_one_remark_for_all_copies() -> None:
    (remark,) = remarks(f"{MM}tile(mm, [n: 8])\nunroll(mm.loop(n), factor: 2)\ntile(mm, [n: 8])", STATIC)
    assert remark.message == "the loop over `n` of %mm has one iteration"


ROWS = """\
func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %s = tcp.reduce_sum(%x) {dims = [1]} : tensor<[M]xf32>
  %t = tcp.broadcast(%s) {dims = [0]} : tensor<[M]x[N]xf32>
  %y = tcp.div(%x, %t) : tensor<[M]x[N]xf32>
  tcp.return(%y)
}
"""
SUM = 'let s = match one "s" in root\nlet y = match one "y" in root\n'


@pytest.mark.parametrize(
    ("loops", "fix"),
    [
        (
            "let i = tile(s, [d0: 4])\nlet k = tile(s, [d1: 8])",
            "`fuse(y, into: i)`, where it stands behind this loop and can be tiled",
        ),
        (
            "tile(s, [d0: 4])\nlet k = tile(s, [d1: 8])",
            "a `fuse` into the loop s/d01, where it stands behind this loop and can be tiled",
        ),
        (
            "let k = tile(s, [d1: 8])",
            "leave this statement out; `tile(y, ...)` makes a loop of its own, behind this one",
        ),
    ],
)
def test_a_consumer_on_the_last_iteration_of_the_loop_fused_into(loops: str, fix: str) -> None:
    """It looked as if it were computed in tiles of the loop."""
    (remark,) = remarks(f"{SUM}{loops}\nfuse(y, into: k)", ROWS)
    assert remark.message == "%y is computed on the last iteration of the loop s/d11, all of it at once"
    assert (remark.kind, remark.fix) == (Kind.WARNING, fix)
    assert remark.schedule is not None
    assert remark.payload is not None


@pytest.mark.parametrize(
    "body",
    [
        "let i = tile(s, [d0: 4])\ntile(s, [d1: 8])\nfuse(y, into: i)\ntile(y, [d1: 8])",
        "let k, i = tile(s, [d1: 8, d0: 4])\nfuse(y, into: i)",
    ],
)
def test_a_consumer_in_tiles_of_the_loop_fused_into(body: str) -> None:
    assert remarks(SUM + body, ROWS) == []


VECTORIZED = "let i, j = tile(mm, [m: 6, n: 16], tail: pad)\ntile(mm, [k: 1])\nvectorize(j)"


def test_what_stays_scalar_beside_vectors_has_a_remark() -> None:
    (remark,) = remarks(f'{ONE}{VECTORIZED}\nlet b = match one "b" in root\ntile(b, [m: 4])')
    assert remark.message == "%b is computed one element at a time, beside operations on vectors"
    assert remark.payload is not None
    assert remark.payload.line == 3
    assert remark.required == "`vectorize` of a loop round it, or `fuse` into one that is vectorized"
    assert remark.found == "the loop b/m1, made at <schedule>:8:1, which no `vectorize` reaches"


def test_what_no_statement_touched_is_in_it() -> None:
    (remark,) = remarks(ONE + VECTORIZED)
    assert remark.found == "no statement touched it"


def test_all_of_them_are_named() -> None:
    rows = "".join(f"  %e{k} = tcp.exp(%e{k - 1 if k else ''}) : tensor<64xf32>\n" for k in range(10)).replace(
        "(%e)", "(%x)"
    )
    payload = f"func @f(%x: tensor<64xf32>) -> tensor<64xf32> {{\n{rows}  tcp.return(%e9)\n}}"
    found = remarks('let e = match one "e0" in root\nlet i = tile(e, [d0: 16])\nvectorize(i)', payload)
    assert [remark.message.split()[0] for remark in found] == [f"%e{k}" for k in range(1, 10)]
    assert {remark.found for remark in found} == {"no statement touched it"}


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        (ONE + "tile(mm, [m: 6])", PAYLOAD),  # nothing is on vectors
        (f'{MM}let r = match one "r" in root\nlet i, j = tile(r, [d0: 5, d1: 16])\nfuse(mm, into: j)\n'
         "tile(mm, [k: 1])\nvectorize(j)", STATIC),
        ('let r = match one "r" in root\nlet j = tile(r, [d1: 24], tail: peel)\nvectorize(j.copy("main"))', EXP),
    ],
)  # fmt: skip
def test_what_is_vectorized_but_for_its_tail_has_no_remark(body: str, payload: str) -> None:
    assert remarks(body, payload) == []


def test_a_scan_by_vectors_in_memory_has_no_remark() -> None:
    payload = """func @f(%x: tensor<200x64xf32>) -> (tensor<200x64xf32>, tensor<200x64xf32>) {
  %e = tcp.exp(%x) : tensor<200x64xf32>
  %s, %t = tcp.cumsum(%x) {dim = 0} : tensor<200x64xf32>, tensor<64xf32>
  tcp.return(%e, %s)
}
"""
    body = """let e = match one "e" in root
tile(e, [d0: 1])
let i = tile(e, [d1: 16])
vectorize(i)
vectorize(match one cumsum in root)"""
    assert remarks(body, payload) == []


def test_statements_of_the_library_are_not_remarked_on() -> None:
    narrow = STATIC.replace("5x", "1x").replace("32xf32>", "3xf32>")
    imported = 'language 1\nimport "lib/gemm.tcps" as lib\nschedule main(root: func) { print(root) }'
    assert run_schedule(parse(narrow), program_or_default(None), TARGET).remarks == ()
    program = program_of_text(imported, "own.tcps", [LIBRARY])
    for path, own in ((LIBRARY / "lib" / "gemm.tcps", False), (Path("own.tcps"), True), (Path("beside.tcps"), True)):
        assert program.is_of_library(Location(str(path), 1, 1)) is not own


def test_kernels_and_commands_show_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kernel = compile_kernel(parse(STATIC), program_of_text(schedule(f"{MM}tile(mm, [m: 8])")), target="generic")
    assert [remark.message for remark in kernel.remarks if not remark.factor] == [
        "the tile of `m` is wider than the dim of %mm"
    ]
    assert "warning: the tile of `m` is wider than the dim of %mm" in str(kernel.report())
    payload, scheduled = tmp_path / "p.tcp", tmp_path / "s.tcps"
    payload.write_text(STATIC, encoding="utf-8")
    scheduled.write_text(schedule(f"{MM}tile(mm, [m: 8])"), encoding="utf-8")
    for command in ("check", "emit", "explain"):
        words = [command, str(payload), "-s", str(scheduled), "--target", "generic"]
        assert main([*words, *(["-o", str(tmp_path)] if command == "emit" else [])]) == 0
        done = capfd.readouterr()
        assert (done.out + done.err).count("warning: the tile of `m` is wider than the dim of %mm") == 1, command


def test_what_came_behind_the_vectorize() -> None:
    body = f'{MM}let r = match one "r" in root\nlet i, j = tile(r, [d0: 5, d1: 16])\nvectorize(j)\nfuse(mm, into: j)'
    (remark,) = remarks(body, STATIC)
    assert remark.found == "it came into the loop r/d11 behind the `vectorize` of what is there"


@pytest.mark.parametrize("block", ["require exists(producer(mm.lhs))", "if exists(mm.loop(m)) { tile(mm, [q: 4]) }"])
def test_to_ask_for_what_does_not_exist_is_no_error(block: str) -> None:
    assert run(A + f"try {{ {block} }} else {{ tile(mm, [m: 6]) }} else remark mm").remarks == ()


def test_an_expression_without_a_value_is_an_error_also_before_the_first_step() -> None:
    (remark,) = run(A + "try { let p = producer(mm.lhs) } else { tile(mm, [m: 6]) } else remark mm").remarks
    assert remark.message == "%a is computed in another way: %a.lhs has no producer"


@pytest.mark.parametrize(
    "body",
    [
        "try { let p = producer(mm.lhs) } else { tile(mm, [m: 6]) }",
        "try { let p = producer(mm.lhs) }",
        "optional asked(mm)",
    ],
)
def test_what_is_left_out_for_an_error_is_remarked_on(body: str) -> None:
    sequence = "sequence asked(mm: op) { let p = producer(mm.lhs) }"
    program = program_of_text(f"language 1\n{sequence}\nschedule main(root: func) {{\n{A}{body}\n}}")
    (remark,) = run_schedule(parse(PAYLOAD), program, TARGET).remarks
    assert remark.message == "a part of the schedule is left out: %a.lhs has no producer"
    assert remark.found == "%x, an argument of the function"
    assert remark.schedule is not None
