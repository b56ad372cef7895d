"""`else remark x`: what cannot be scheduled stays as it is, and a remark says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tcpx.api import compile as compile_kernel
from tcpx.api import program_or_default
from tcpx.interp import ParamValue, Run, run_schedule
from tcpx.lowering import run_and_lower
from tcpx.payload.diagnostics import Kind, ScheduleError, VerifyError
from tcpx.payload.text.parser import parse
from tcpx.target import load_target
from tcpx.transform.language import program_of_text
from tcpx.transform.language.checker import check_program

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


def test_the_remark_has_what_failed_last_and_the_others_as_notes() -> None:
    done = run(A + "try { tile(mm, [q: 4]) } else { tile(mm, [z: 4]) } else remark mm")
    (remark,) = done.remarks
    assert "`z`" in (remark.found or "") + remark.message + (remark.required or "")
    assert len(remark.notes) == 1


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
    assert [remark.message for remark in done.remarks] == ["%b is left as it is: definite error: none but 64"]


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
    (remark,) = done.remarks
    assert remark.message.startswith("%b is left as it is: ")
    assert {entry.bound[0][1] for entry in done.trace.entries if entry.transform == "tile"} == {"%a"}


def test_the_kernel_has_the_remarks() -> None:
    program = program_of_text(schedule(EACH.format("tile(mm, [q: 4])")))
    kernel = compile_kernel(parse(PAYLOAD), program, target="generic")
    assert [remark.message.split(":")[0] for remark in kernel.remarks] == ["%a is left as it is", "%b is left as it is"]
    assert "warning: %b is left as it is" in str(kernel.report())


@pytest.mark.parametrize("target", ["mm.rhs", "count"])
def test_a_remark_is_about_an_operation(target: str) -> None:
    text = A + f"let count = 3\ntry {{ dce(root) }} else remark {target}"
    found = check_program(program_of_text(schedule(text)))
    assert [d.message for d in found if d.is_error] == ["a remark is about an operation"]
