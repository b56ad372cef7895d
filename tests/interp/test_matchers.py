"""Named matchers: whole patterns as the pattern of `match` and `case`, with why an operation is not one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpx.interp import Run, run_schedule
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.text.parser import parse
from tcpx.target import load_target
from tcpx.transform.language import program_of_text
from tests.transform.payloads import RELU

HEAD = """language 1
/// A maximum of a product and its bias.
matcher relu_of(r: op<max>) -> (op<contract>, op<add>) {
  let s = producer(r.lhs)
  let mm = producer(s.lhs)
  require len(users(mm)) == 1 "the product has another reader"
  return mm, s
}
matcher large(x: op) { require size(x.out) >= 1000000 }
"""


def run(body: str, payload: str = RELU, head: str = HEAD) -> Run:
    program = program_of_text(f"{head}schedule main(root: func) {{\n{body}\n}}")
    return run_schedule(parse(payload), program, load_target("x86_avx512"))


def failure(body: str, payload: str = RELU) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        run(body, payload)
    return caught.value


def test_parts_are_bound() -> None:
    run('let r, mm, s = match one relu_of in root\nrequire r.name == "r" and mm.name == "mm" and s.name == "s"')
    done = run("for r, mm, s in match some relu_of in root { let i = tile(mm, [m: 4]); fuse(r, into: i) }")
    assert [e.transform for e in done.trace.entries] == ["tile", "fuse"]
    run('let found = match any relu_of in root where name == "r"\nrequire len(found) == 1')


def test_a_matcher_in_where_and_case() -> None:
    run(
        "let r = match one op in root where it.is_a(relu_of)\n"
        'case r { large => { require false }\nrelu_of "r" => { emit_remark(r, "seen") } }'
    )


def test_a_matcher_of_an_import(tmp_path: Path) -> None:
    (tmp_path / "p.tcps").write_text(HEAD)
    text = """language 1
import "p.tcps"
schedule main(root: func) {
  let r, mm, s = match one p.relu_of in root
  require s.is_a(p.large) or mm.name == "mm"
}"""
    run_schedule(parse(RELU), program_of_text(text, beside=tmp_path), load_target("x86_avx512"))


def test_near_misses_say_why() -> None:
    twice = RELU.replace("tcp.max(%s, %zero)", "tcp.max(%t, %zero)").replace(
        "  %r =", "  %t = tcp.add(%mm, %s) : tensor<[M]x[N]xf32>\n  %r ="
    )
    found = failure("let r, mm, s = match one relu_of in root", twice).diagnostic
    assert found.message == "nothing matches relu_of"
    assert found.notes[:2] == (
        "%r (tcp.max): the product has another reader",
        "%mm (tcp.matmul): is matmul, not max",
    )
    swapped = RELU.replace("tcp.max(%s, %zero)", "tcp.max(%zero, %s)")
    found = failure("let r, mm, s = match one relu_of in root", swapped).diagnostic
    assert found.notes[0].startswith("%r (tcp.max): %zero (tcp.fill) has no `lhs`")
    other = RELU.replace("tcp.add(%mm, %bias)", "tcp.sub(%mm, %bias)")
    found = failure("let r, mm, s = match one relu_of in root", other).diagnostic
    assert found.notes[0].startswith(
        "%r (tcp.max): `s` is declared `op<add>` (found %s (tcp.sub, elementwise < generic))"
    )


@pytest.mark.parametrize(
    ("body", "message", "fix"),
    [
        ("let r = match one relu_off in root", "there is no class `relu_off` in the operation tree",
         "did you mean `relu_of`?"),
        ("let r, mm = match one relu_of in root", "2 names for 3 results", None),
        ("for r, mm in match some relu_of in root { vectorize(r) }",
         "variables and parts of an item differ in number", None),
        ("for r, mm in match some contract in root { vectorize(r) }", "the items of this `for` have no parts", None),
        ("let r = match one h.relu in root", "`h` is not imported", None),
    ],
)  # fmt: skip
def test_wrong_uses(body: str, message: str, fix: str | None) -> None:
    found = failure(body).diagnostic
    assert (found.message, found.fix) == (message, fix)


@pytest.mark.parametrize(
    ("matcher", "message"),
    [
        ("matcher a(x: op, y: op) { require x == y }", "a matcher is asked about one op"),
        ("matcher a(x: int) { require x == 1 }", "a matcher is asked about an op"),
        ("matcher a(x: op) { tile(x, [m: 4]) }", "a matcher only looks"),
        ("matcher max(x: op) { require x.scheduled }", "`max` is a class of the operation tree"),
        ("matcher a(x: op) -> op { let y = producer(x.lhs) }", "`a` does not return what it declares"),
        ("function a(n: int) -> int = n\nmatcher a(x: op) { require x.scheduled }", "`a` is declared twice"),
    ],
)
def test_wrong_declarations(matcher: str, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        run("", head=f"language 1\n{matcher}\n")
    assert caught.value.diagnostic.message == message
