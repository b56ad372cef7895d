"""annotate, assert, snapshot and verify: what they say, and that the payload stays what it is."""

from __future__ import annotations

import pytest

import tcpx
import tcpx.transform.declaration as declaration
from tcpx.payload.diagnostics import Kind
from tcpx.transform import FUNC, Arguments, Category, Parameter, Results, Transform, TransformContext

PAYLOAD = """\
func @f(%x: tensor<[M]x37xf32>, %w: tensor<37x32xf32>, %v: tensor<32x8xf32>) -> tensor<[M]x8xf32> symbols [M: 0..] {
  %a = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
  %r = tcp.exp(%a) : tensor<[M]x32xf32>
  %b = tcp.matmul(%r, %v) : tensor<[M]x8xf32>
  tcp.return(%b)
}
"""


def schedule(body: str) -> tcpx.Schedule:
    head = 'let a = match one "a" in root; let b = match one "b" in root; let r = match one "r" in root'
    return tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{head}\n{body}\n}}\n")


def run(body: str) -> tcpx.Run:
    return tcpx.apply_schedule(tcpx.parse(PAYLOAD), schedule(body), target="x86_avx2")


def printed(body: str) -> list[str]:
    return [line.text for line in run(body).trace.output]


def failure(body: str) -> tcpx.Diagnostic:
    with pytest.raises(tcpx.ScheduleError) as caught:
        run(body)
    return caught.value.diagnostic


NARROW = 'for x in match any op in root where it.attribute("width") == "narrow" { print(x) }'


def test_a_note_is_asked_for_like_an_attribute() -> None:
    assert printed(f'annotate(b, "width", "narrow")\nannotate(a, "width", "wide")\n{NARROW}') == ["b = tcp.matmul"]


def test_the_last_note_of_a_name_counts() -> None:
    assert printed(f'annotate(b, "width", "narrow")\nannotate(b, "width", "wide")\n{NARROW}') == []


def test_a_note_goes_with_every_copy() -> None:
    body = 'annotate(a, "hot")\nlet i = tile(a, [n: 20])\npeel(i)\nunroll(a.copy("main").loop(n), factor: 1 + 0 * 2)'
    body = body.rpartition("\n")[0] + '\nfor c in [a.copy("main"), a.copy("tail")] { require c.attribute("hot") == "" }'
    assert len(run(body).trace.entries) == 3


def test_a_note_outlives_the_lowering() -> None:
    body = 'annotate(a, "hot")\nbufferize(root)\nrequire a.attribute("hot") == ""'
    assert len(run(body).trace.entries) == 2
    assert not any(d.is_error for d in tcpx.check(schedule(body), tcpx.parse(PAYLOAD)))


def test_a_note_is_undone_with_its_block() -> None:
    body = f'try {{ annotate(b, "width", "narrow"); tile(b, [q: 4]) }} else {{ }}\n{NARROW}'
    assert printed(body) == []


def test_a_note_changes_neither_payload_nor_what_is_scheduled() -> None:
    plain, noted = run("tile(a, [m: 6])"), run('annotate(r, "hot")\ntile(a, [m: 6])\nannotate(a.loop(m), "rows")')
    assert noted.module.text() == plain.module.text()
    assert noted.coverage.untouched == plain.coverage.untouched


def test_a_note_is_a_comment_of_the_c() -> None:
    body = 'annotate(a, "*/ int x; /*", "hot \\\\")\nlet i = tile(a, [m: 6])\nannotate(i, "rows of a tile")'
    source = tcpx.emit(tcpx.parse(PAYLOAD), schedule(body), target="generic").c_source
    assert "/* rows of a tile */" in source
    assert "hot" in source
    assert "*/ int x;" not in source


def test_a_note_hides_no_attribute() -> None:
    found = failure('let t = pad(b, [n: 9])\nfor p in match some pad in root { annotate(p, "value") }')
    assert found.message == "%v has an attribute `value` already"
    assert found.found == "value, free"


def test_an_assertion_that_holds_says_nothing() -> None:
    assert printed('assert(size(a.k) == 37, "odd")\nassert(rank(a) == 2)') == []


def test_nothing_recovers_from_an_assertion() -> None:
    found = failure('try { assert(size(a.k) == 64, "k is 64 here") } else { }')
    assert (found.message, found.kind) == ("k is 64 here", Kind.DEFINITE)
    assert (found.required, found.found) == ('assert(size(a.k) == 64, "k is 64 here")', "it does not hold")
    assert found.schedule is not None
    assert found.payload is not None
    assert failure("optional assert(rank(a) == 3)").message == "an assertion of the schedule does not hold"


def test_an_assertion_is_decided_now() -> None:
    found = failure("assert(size(a.m) < 4)")
    assert (
        found.message == "`condition` of `assert` needs an answer now, but `M < 4` is known only when the kernel runs"
    )
    assert found.fix == "write `specialize a when size(a.m) < 4 { ... } else { ... }`"


def test_snapshots_are_kept_in_order() -> None:
    done = run('snapshot(root, "first")\ntile(a, [m: 6])\nsnapshot(a, "second")\nsnapshot(root, "first")')
    names, texts = zip(*done.trace.snapshots, strict=True)
    assert names == ("first", "second", "first")
    assert texts[0] == tcpx.parse(PAYLOAD).main.text()
    assert tcpx.parse(texts[2]).text() == done.module.text()
    assert texts[1].startswith("%a")


def test_a_snapshot_is_undone_with_its_block() -> None:
    done = run('try { snapshot(root, "lost"); tile(a, [q: 6]) } else { snapshot(root, "kept") }')
    assert [name for name, _ in done.trace.snapshots] == ["kept"]


def test_explain_shows_snapshots() -> None:
    text = tcpx.ExplanationText()
    lines: list[str] = []
    tcpx.explain(
        tcpx.parse(PAYLOAD), schedule('snapshot(b, "before")'), on_step=lambda step: lines.extend(text.step(step))
    )
    assert "  keeps before:" in lines
    assert "    %b = tcp.matmul(%r, %v) : tensor<[M]x8xf32>" in lines


def test_verify_finds_what_went_past_the_rewriter(monkeypatch: pytest.MonkeyPatch) -> None:
    class Behind(Transform):
        """Break a rule without telling anyone."""

        name = "go_behind"
        category = Category.INSPECTION
        parameters = (Parameter("func", FUNC),)
        mutates = False

        def apply(self, ctx: TransformContext, args: Arguments) -> Results:
            first = args.func("func").body.ops[0]
            first.operands[0] = args.func("func").body.ops[1].result
            return ()

    monkeypatch.setitem(declaration._REGISTRY, "go_behind", Behind)
    found = failure("go_behind(root)\nverify(root)\nprint(root)")
    assert found.kind is Kind.INTERNAL
    assert found.schedule is not None
    assert found.schedule.span == "verify(root)"
    assert printed("verify(root)\ntile(a, [m: 6])\nverify(root)") == []
