"""Named matchers: whole patterns as the pattern of `match` and `case`, with why an operation is not one."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpx
from tcpx.interp import Run, run_schedule
from tcpx.payload.diagnostics import Kind, ScheduleError
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
matcher large(x: op) { require rank(x.out) >= 3 }
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


def test_a_condition_of_the_kernel_is_no_mismatch() -> None:
    high = HEAD.replace("rank(x.out) >= 3", "size(x.out) >= 1000")
    with pytest.raises(ScheduleError) as caught:
        run("for x in match any large in root { decompose(x) }", head=high)
    found = caught.value.diagnostic
    assert found.kind is Kind.DEFINITE
    assert found.message == (
        "`require` of the matcher `large` needs an answer now, but `M*N >= 1000` is known only when the kernel runs"
    )
    assert [(name, place.line) for name, place in found.calls] == [("large", 11)]


@pytest.mark.parametrize(
    ("body", "message", "fix"),
    [
        ("let r = match one relu_off in root", "there is no class `relu_off` in the operation tree",
         "did you mean `relu_of`?"),
        ("let r, mm = match one relu_of in root", "2 names for 3 results",
         "write `let r, mm, _ = match one relu_of in root`"),
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


KNOWN = "out, result, acc, start, name, scheduled, constant, opcode, kind"


@pytest.mark.parametrize(
    ("pattern", "where", "message", "required", "fix"),
    [
        ("matmul", 'it.kk.kind == "reduction"', "no `matmul` has `kk`", "m, n, k, lhs, rhs, init", "did you mean `k`?"),
        ("matmul", "size(q) == 3", "no `matmul` has `q`", "m, n, k, lhs, rhs, init", None),
        ("exp", "rhs.constant", "no `exp` has `rhs`", "d0, d1, operand", None),
        ("loop", 'it.nme == "i"', "no `loop` has `nme`", "it has none", "did you mean `name`?"),
        ("relu_of", "init.constant", "no `max` has `init`", "d0, d1, lhs, rhs", None),
    ],
)
def test_a_name_that_no_candidate_can_have(
    pattern: str, where: str, message: str, required: str, fix: str | None
) -> None:
    text = f"{HEAD}schedule main(root: func) {{ for x in match any {pattern} in root where {where} {{ print(root) }} }}"
    found = [d for d in tcpx.check(tcpx.parse_schedule(text)) if d.is_error]
    wanted = f"a dim or operand of it ({required}), or one of {KNOWN}"
    assert [(d.message, d.required, d.fix) for d in found] == [(message, wanted, fix)]


@pytest.mark.parametrize("cardinality", ["any", "some", "one"])
def test_a_name_that_nothing_in_the_payload_has(cardinality: str) -> None:
    body = f"let found = match {cardinality} contract in root where it.lsh.constant or rank(it) == 7\nprint(root)"
    found = failure(body).diagnostic
    assert found.message == "no operation has `lsh`, so that no contract satisfies the `where`"
    assert (found.kind, found.required, found.found) == (Kind.DEFINITE, "a dim or operand of contract", "lsh")
    assert found.fix == "did you mean `lhs`?"
    assert found.schedule is not None
    assert found.schedule.span == "it.lsh"


@pytest.mark.parametrize(
    "where", ["size(k) >= 0", "it.rhs.constant", "size(d5) == 2", 'name == "none" and it.nope == 3', "it.init.constant"]
)
def test_a_candidate_without_a_name_that_others_have_does_not_match(where: str) -> None:
    run(f"let found = match any op in root where ({where}) and false\nrequire len(found) == 0")


TRANSPOSED = """\
func @f(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %t = tcp.transpose(%x) {permutation = [1, 0]} : tensor<8x4xf32>
  %s = tcp.add(%t, %y) : tensor<8x4xf32>
  tcp.return(%s)
}
"""


@pytest.mark.parametrize("condition", ["", "it.is_a(transpose) and "])
@pytest.mark.parametrize("cardinality", ["any", "one"])
def test_a_misspelt_attribute(cardinality: str, condition: str) -> None:
    where = f'{condition}it.attribute("permutaton") == [1, 0]'
    body = f"let t = match {cardinality} op in root where {where}; require len(t) == 1"
    text = f"language 1\nschedule s(root: func) {{ {body} }}"
    schedule, module = tcpx.parse_schedule(text), tcpx.parse(TRANSPOSED)
    (checked,) = tcpx.check(schedule, module)
    with pytest.raises(ScheduleError) as caught:
        tcpx.apply_schedule(module, schedule)
    for found in (checked, caught.value.diagnostic):
        assert found.message == 'nothing has an attribute "permutaton", so that no op satisfies the `where`'
        assert (found.required, found.found) == ("one of permutation", "permutaton")
        assert found.fix == "did you mean `permutation`?"
        assert found.kind is Kind.DEFINITE


def test_an_attribute_that_nothing_has_matches_nothing() -> None:
    """It may be one of operations that this payload does not have."""
    body = 'for t in match any op in root where it.attribute("dims") == [1] { dce(t) }'
    text = f"language 1\nschedule s(root: func) {{ {body} }}"
    schedule, module = tcpx.parse_schedule(text), tcpx.parse(TRANSPOSED)
    assert tcpx.check(schedule, module) == ()
    assert tcpx.apply_schedule(module, schedule).trace.entries == []


def test_a_misspelt_name() -> None:
    text = 'language 1\nschedule s(root: func) { let t = match one "tt" in root; require len(t) == 1 }'
    with pytest.raises(ScheduleError) as caught:
        tcpx.apply_schedule(tcpx.parse(TRANSPOSED), tcpx.parse_schedule(text))
    assert (caught.value.diagnostic.message, caught.value.diagnostic.fix) == (
        'nothing matches "tt"',
        "did you mean `t`?",
    )
