"""A step after which sizes may agree, but nothing says so, is refused and undone; one that breaks a rule is a bug."""

from __future__ import annotations

import pytest

from tcpx.interp import run_schedule, steps
from tcpx.payload.diagnostics import Kind, ScheduleError
from tcpx.payload.ir import Operation
from tcpx.payload.text.parser import parse
from tcpx.target import load_target
from tcpx.transform.language import program_of_text

PAYLOAD = """\
func @f(%x: tensor<[M]x[N]xf32>, %y: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %s = tcp.add(%x, %y) : tensor<[M]x[N]xf32>
  tcp.return(%s)
}
"""


def failure(monkeypatch: pytest.MonkeyPatch, unproven: bool) -> ScheduleError:
    def broken(ops: list[Operation], left: list[Operation]) -> int:
        del left
        raise ops[0].error("dim 0 does not agree", required="M", found="min(M, 7)", unproven=unproven)

    module = parse(PAYLOAD)
    monkeypatch.setattr(steps, "verify_ops", broken)
    program = program_of_text('language 1\nschedule main(root: func) {\n  tile(match one "s" in root, [d0: 7])\n}')
    with pytest.raises(ScheduleError) as caught:
        run_schedule(module, program, load_target("generic"), params=None, threads=1)
    assert module.text() == PAYLOAD
    return caught.value


def test_sizes_that_nothing_proves_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = failure(monkeypatch, unproven=True).diagnostic
    assert found.message.startswith("nothing proves that `tile` fits: %")
    assert found.message.endswith(": dim 0 does not agree")
    assert (found.kind, found.required, found.found) == (Kind.SILENCEABLE, "M", "min(M, 7)")
    assert found.schedule is not None
    assert found.payload is not None


def test_a_broken_rule_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    found = failure(monkeypatch, unproven=False).diagnostic
    assert found.message.startswith("`tile` left the payload in a state that breaks a rule: %")
    assert found.kind is Kind.INTERNAL
