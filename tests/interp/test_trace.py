"""What the trace keeps of a step, and the history that operations carry."""

from __future__ import annotations

import tcpx
from tcpx.interp import TraceEntry, run_schedule
from tcpx.interp.payload_texts import applied
from tcpx.payload.rewriter import Rewriter
from tcpx.target import load_target
from tcpx.transform.loop_nest import NestKind, NestLine

PAYLOAD = """\
func @f(%x: tensor<[M]x8xf32>, %w: tensor<8x8xf32>) -> tensor<[M]x8xf32> symbols [M: 0..] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x8xf32>
  tcp.return(%mm)
}
"""
SCHEDULE = """\
language 1
sequence rows(mm: op) {
  let i, j = tile(mm, [m: 4, n: 8])
  emit_remark(mm, "hello")
}
schedule s(root: func) {
  let mm = match one contract in root
  try { let k = tile(mm, [k: 2])
        let l = tile(mm, [k: 0]) }
  rows(mm)
  peel(mm.loop(m))
}
"""


def traced(text: str = SCHEDULE) -> tuple[tcpx.Module, list[TraceEntry], list[tuple[str, ...]]]:
    module = tcpx.parse(PAYLOAD)
    texts: list[tuple[str, ...]] = []
    steps: list[TraceEntry] = []

    def keep(step: TraceEntry) -> None:
        del steps[step.index :], texts[step.index :]
        steps.append(step)
        texts.append(tuple(module.main.text().splitlines()))

    run = run_schedule(module, tcpx.parse_schedule(text), load_target("generic"), on_step=keep, keep_texts=True)
    assert list(run.trace.entries) == steps
    return module, steps, texts


def test_an_entry_has_what_the_step_did() -> None:
    _, steps, _ = traced(SCHEDULE.replace("peel(mm.loop(m))", "print(root)"))
    tile, remark, _ = steps
    assert (tile.transform, tile.index) == ("tile", 0)
    assert tile.made == (("i", "%mm/m1"), ("j", "%mm/n1"))
    assert [name for name, _ in tile.calls] == ["rows"]
    assert tile.location is not None
    assert tile.location.line == 3
    assert any(changed.startswith("%mm/m1 = gml_st.for") for changed in tile.changed)
    assert remark.remarks
    assert remark.remarks[0].endswith("%mm: hello")
    assert (remark.edits, remark.loops) == ((), None)


def test_the_edits_of_every_step_give_the_text_after_it() -> None:
    before = tuple(tcpx.parse(PAYLOAD).main.text().splitlines())
    _, steps, texts = traced()
    assert len(steps) == 3
    for step, text in zip(steps, texts, strict=True):
        assert step.edits is not None
        before = applied(before, step.edits)
        assert before == text


def test_texts_are_kept_only_where_they_are_asked_for() -> None:
    run = tcpx.apply_schedule(tcpx.parse(PAYLOAD), tcpx.parse_schedule(SCHEDULE), target="generic")
    assert [step.edits for step in run.trace.entries] == [None, None, None]


def test_operations_know_the_steps_that_made_and_changed_them() -> None:
    module, steps, _ = traced()
    transforms = [step.transform for step in steps]
    assert transforms == ["tile", "emit_remark", "peel"]
    loops = [op for op in module.main.walk() if op.opcode == "gml_st.for" and op.name.startswith("mm/m1")]
    assert len(loops) == 2
    for op in module.main.walk():
        assert all(1 <= number <= 3 for number in op.steps)
        assert 2 not in op.steps
    assert any(op.steps == (1, 3) for op in loops)


def test_a_rollback_takes_the_history_back() -> None:
    module = tcpx.parse(PAYLOAD)
    (op, _) = module.main.body.ops
    rewriter = Rewriter(module)
    mark = rewriter.mark()
    rewriter.step = 7
    rewriter.set_attribute(op, "note", "x")
    assert op.steps == (7,)
    rewriter.rollback(mark)
    assert op.steps == ()


def test_the_lines_of_a_nest() -> None:
    _, steps, _ = traced()
    nest = steps[0].loops
    assert nest is not None
    loop = next(line for line in nest.lines() if line.kind is NestKind.FOR)
    assert (loop.depth, loop.name, loop.subject) == (1, "mm/m1", "0 to M step 4")
    assert loop.place is not None
    assert loop.place.line == 3
    assert NestLine(2, NestKind.COMPUTATION, "mm", "tcp.matmul").text() == "    mm = tcp.matmul"
