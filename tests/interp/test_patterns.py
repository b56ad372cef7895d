"""Patterns as written, `{ y = add(mul(_, _), broadcast(b)) }`: what they match, what they say, what is refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import pytest

import tcpx
from tcpx.interp import Run, run_schedule
from tcpx.payload.diagnostics import Kind, ScheduleError
from tcpx.payload.ir import Operation, Value
from tcpx.payload.text.parser import parse
from tcpx.target import load_target
from tcpx.transform.language import program_of_text
from tests.transform.payloads import RELU


def run(body: str, payload: str = RELU, items: str = "") -> Run:
    program = program_of_text(f"language 1\n{items}\nschedule main(root: func) {{\n{body}\n}}")
    return run_schedule(parse(payload), program, load_target("x86_avx512"))


def failure(body: str, payload: str = RELU) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        run(body, payload)
    return caught.value


# -- what matches ------------------------------------------------------------------------------------------------------


def test_names_are_the_parts() -> None:
    run(
        "let r, mm, b = match one { mm = matmul(_, _), r = max(add(mm, broadcast(b)), 0.0) } in root\n"
        'require r.name == "r" and mm.name == "mm" and rank(b) == 1 and dtype(b) == f32'
    )
    done = run(
        "for r, mm in match some { mm = contract(..), r = max(add(mm, _), _) } in root {\n"
        "  let i = tile(mm, [m: 4]); fuse(r, into: i) }"
    )
    assert [e.transform for e in done.trace.entries] == ["tile", "fuse"]


def test_an_operation_alone_is_a_handle() -> None:
    run('let r = match one { max(_, _) } in root\nrequire r.name == "r"')
    run('let r = match one { r = max(..) } in root\nrequire r.name == "r"')
    run("let found = match any { sub(..) } in root\nrequire len(found) == 0")


def test_operands_that_commute_match_in_either_order() -> None:
    run("let r, b = match one { max(0.0, add(broadcast(b), matmul(..))) } in root\nrequire rank(b) == 1")
    swapped = RELU.replace("tcp.add(%mm, %bias)", "tcp.sub(%mm, %bias)")
    run("let r = match one { max(_, sub(matmul(..), _)) } in root\nrequire exists(r)", swapped)
    found = failure("let r = match one { max(_, sub(_, matmul(..))) } in root\ndce(r)", swapped).diagnostic
    assert found.notes[0] == "%r (tcp.max): %bias (tcp.broadcast) is broadcast, not matmul"


def test_the_where_says_which_order() -> None:
    body = 'let s, a, b = match one { s = add(a, b) } in root where producer(b).is_a(matmul) and s.name == "s"'
    run(f"{body}\nrequire producer(a).is_a(broadcast)")
    found = failure(f"{body.replace('matmul', 'fill')}\nrequire dtype(a) == dtype(b) and exists(s)").diagnostic
    assert found.notes[0] == '%s (tcp.add): not `producer(b).is_a(fill) and s.name == "s"`'


def test_a_name_twice_is_one_value() -> None:
    square = """func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
      %a = tcp.mul(%x, %x) : tensor<8xf32>
      %b = tcp.mul(%x, %y) : tensor<8xf32>
      %c = tcp.add(%a, %b) : tensor<8xf32>
      tcp.return(%c)
    }"""
    run('let m, x = match one { m = mul(x, x) } in root\nrequire m.name == "a"', square)
    run('let c, x, y = match one { c = add(mul(x, y), mul(x, x)) } in root\nrequire c.name == "c"', square)
    run('let c, a = match one { a = mul(_, _), c = add(a, mul(_, _)) } in root\nrequire a.name == "a"', square)
    found = failure(
        "let c, x = match one { c = add(mul(x, x), mul(_, neg(x))) } in root\nrequire rank(x) == 1 and exists(c)",
        square,
    )
    assert found.diagnostic.message == "nothing matches { c = add(mul(x, x), mul(_, neg(x))) }"
    assert found.diagnostic.notes[0] == "%c (tcp.add): %b.rhs is %y, and no neg(x)"
    found = failure("let c, m = match one { c = add(m, m) } in root\nrequire rank(m) == 1 and exists(c)", square)
    assert found.diagnostic.notes[0] == "%c (tcp.add): `m` is %c.lhs and %c.rhs"


def test_a_name_from_round_it_says_what_must_be_there() -> None:
    run(
        "let mm = match one matmul in root\nlet b = match one broadcast in root\n"
        'let s = match one { add(b, mm) } in root\nrequire s.name == "s"\n'
        'let x = mm.lhs\nlet again = match one { matmul(x, _) } in root\nrequire again.name == "mm"'
    )
    found = failure("let z = match one fill in root\nlet s = match one { add(z, _) } in root\ndce(s)").diagnostic
    assert found.notes[0] == "%s (tcp.add): `z` is %zero and %s.lhs"


def test_an_arm_of_a_case_binds_names() -> None:
    run(
        "let x = match one max in root\ncase x {\n  { add(_, _) } => { require false }\n"
        "  { s = add(_, b), r = max(_, s) } where producer(b).is_a(broadcast) => {\n"
        '    require r == x and s.name == "s"\n    let i = tile(r, [d0: 4]); fuse(s, into: i) }\n}'
    )
    found = failure("let x = match one max in root\ncase x { { max(sub(..), _) } => { dce(x) } }").diagnostic
    assert found.notes == ("{ max(sub(..), _) }: %r (tcp.max): %s (tcp.add) is elementwise, not sub",)


def test_operations_by_matcher_and_named_operands() -> None:
    items = 'matcher small(x: op<contract>) { require x.name == "mm" "another name" }'
    run(
        "let r, s = match one { s = add(small(..), _), r = max(s, _) } in root\nrequire s == producer(r.lhs)",
        items=items,
    )
    sums = RELU.replace("tcp.matmul(%x, %w)", "tcp.matmul(%x, %w, init = %bias)")
    sums = "\n".join(sums.splitlines()[i] for i in (0, 2, 1, *range(3, len(sums.splitlines()))))
    run("let mm, b = match one { mm = matmul(_, _, init: broadcast(b)) } in root\nrequire rank(b) == 1", sums)
    found = failure("let mm = match one { matmul(_, _, init: broadcast(_)) } in root\ndce(mm)").diagnostic
    assert found.notes[0] == "%mm (tcp.matmul): %mm has no `init`"


def test_what_tiles_read_is_seen_through() -> None:
    run(
        "let mm = match one matmul in root\nlet r = match one max in root\nlet i = tile(r, [d0: 4])\n"
        "let s = match one add in root\nfuse(s, into: i)\n"
        "let again, x = match one { x = matmul(..), again = add(x, _) } in root\nrequire x == mm and again == s"
    )


def test_items_that_no_longer_satisfy_the_where_are_passed_over() -> None:
    twice = """func @f(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
      %a = tcp.exp(%x) : tensor<8xf32>
      %b = tcp.neg(%a) : tensor<8xf32>
      %c = tcp.abs(%a) : tensor<8xf32>
      tcp.return(%b, %c)
    }"""
    done = run(
        "for y, e in match any { e = exp(_), y = elementwise(e) } in root where not e.scheduled { tile(e, [d0: 4]) }",
        twice,
    )
    assert len(done.trace.entries) == 1


def test_a_named_class_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(*_: object) -> Iterator[Operation]:
        raise AssertionError("every operation is walked over")

    monkeypatch.setattr("tcpx.interp.matching._walk_all", walk)
    run("let r = match one { max(add(..), _) } in root\nrequire exists(r)")


FREE = "a name that is free, or that of an operation or value"


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "message", "required"),
    [
        ("{ ad(_, _) }", "there is no class `ad` in the operation tree", "a class or operation that `tcpx ops` lists"),
        ("{ max(_, neg(_, _)) }", "`neg` takes 1 operand", "1 operand, or `neg(..)`"),
        ("{ max(_) }", "`max` takes 2 operands", "2 operands, or `max(..)`"),
        ("{ matmul(_, _, ini: _) }", "`matmul` has no operand `ini`", "lhs, rhs, init"),
        ("{ m = neg(_), m = max(m, _) }", "two equations are called `m`", "a name of its own for each"),
        ("{ q = neg(_), max(_, _) }", "nothing in the pattern reads `q`", "an operand of a later equation"),
        ("{ neg(_), max(_, _) }", "this equation has no name", "an operand of a later equation"),
        (
            "{ a = neg(b), b = abs(_), max(a, b) }",
            "`b` is read before its equation",
            "equations in the order in which the payload has them",
        ),
        ("{ max(k, _) }", "`k` is no operation, and no operand", FREE),
        ("{ max(size, _) }", "`size` is built in", "a name that is free"),
        ("{ max(_, g.sum(_)) }", "`g` is not imported", "the alias of an import"),
    ],
)  # fmt: skip
def test_checked(pattern: str, message: str, required: str) -> None:
    found = failure(
        f"let k = 3\nrequire k > 2\nfor x in match any {pattern} in root where k > 1 {{ dce(x) }}"
    ).diagnostic
    assert (found.kind, found.message, found.required) == (Kind.DEFINITE, message, required)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("{ }", "unexpected `}`"), ("{ add }", "unexpected `}`"), ("{ add(x = neg(_)) }", "unexpected `=`"),
        ("{ add(_, _)", "unexpected `in`")],
)  # fmt: skip
def test_parsed(pattern: str, message: str) -> None:
    with pytest.raises(tcpx.TcpxError) as caught:
        run(f"let x = match one {pattern} in root\ndce(x)")
    assert caught.value.diagnostic.message == message


def test_parts_and_names_agree() -> None:
    found = failure("let r, s = match one { r = max(add(a, b), _) } in root").diagnostic
    assert (found.message, found.required) == ("2 names for 3 results", "3 names")


def test_a_check_with_a_payload() -> None:
    def messages(body: str) -> list[str]:
        schedule = tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{body}\n}}")
        return [d.message for d in tcpx.check(schedule, parse(RELU)) if d.is_error]

    assert messages("let r = match one { max(sub(..), _) } in root\ntile(r, [d0: 4])") == [
        "nothing matches { max(sub(..), _) }"
    ]


# -- from Python -------------------------------------------------------------------------------------------------------


def test_recorded_in_python() -> None:
    file = tcpx.ScheduleFile()
    with file.schedule("main") as s:
        root = s.param("func")
        for y, b in s.match_any("{ y = max(add(_, broadcast(b)), 0.0) }", root, where=s.rank(s.bound("b")) == 1):
            s.decompose(s.producer(b))
            with s.case(y, "{ max(add(c, _), _) }"):
                s.decompose(s.producer(s.bound("c")))
            with s.else_():
                s.print(y)
    assert "for y, b in match any { y = max(add(_, broadcast(b)), 0.0) } in root where rank(b) == 1 {" in str(file)
    assert "{ max(add(c, _), _) } => { decompose(producer(c)) }" in str(file)


# -- against a naive matcher -------------------------------------------------------------------------------------------

BINARY = ("add", "sub", "mul", "max")
UNARY = ("neg", "exp")
COMMUTE = ("add", "mul", "max")


@dataclass(frozen=True)
class Term:
    """A name, `_`, or an operation of others."""

    word: str
    args: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return f"{self.word}({', '.join(map(str, self.args))})" if self.args else self.word


class Drawn:
    """A payload of elementwise operations, and patterns like its parts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        values, lines = ["x", "y"], list[str]()
        for k in range(8):
            opcode = self.random.choice((*BINARY, *BINARY, *UNARY))
            operands = [self.random.choice(values[-5:]) for _ in range(1 if opcode in UNARY else 2)]
            values.append(f"v{k}")
            lines.append(f"  %v{k} = tcp.{opcode}({', '.join(f'%{o}' for o in operands)}) : tensor<8xf32>")
        head = "func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {"
        self.text = "\n".join((head, *lines, f"  tcp.return(%{values[-1]})", "}"))
        self.ops = [op for op in parse(self.text).main.walk() if op.operands and not op.is_terminator]

    def pattern(self) -> Term:
        """What leads to some operation, changed a little."""
        self.letters: dict[Value, str] = {}
        return self._shape(self.random.choice(self.ops), 3)

    def _shape(self, op: Operation, depth: int) -> Term:
        word = op.opcode.removeprefix("tcp.")
        if self.random.random() < 0.05:
            word = self.random.choice(UNARY if word in UNARY else BINARY)
        args = [self._operand(value, depth - 1) for value in op.operands]
        return Term(word, tuple(args[::-1] if self.random.random() < 0.5 and word in COMMUTE else args))

    def _operand(self, value: Value, depth: int) -> Term:
        made, chance = value.defining_op, self.random.random()
        if made is not None and depth and chance < 0.7:
            return self._shape(made, depth)
        return Term("_") if chance < 0.8 else Term(self.letters.setdefault(value, f"n{len(self.letters) % 3}"))

    def roots(self, term: Term) -> list[str]:
        """The operations that fit a pattern in some order of operands, each tried whole."""
        orders = list(_orders(term))
        return [op.name for op in self.ops if any(_fits(order, op.results[0], {}) for order in orders)]


def _orders(term: Term) -> Iterator[Term]:
    for args in product(*map(list, map(_orders, term.args))):
        yield Term(term.word, args)
        if term.word in COMMUTE:
            yield Term(term.word, args[::-1])


def _fits(term: Term, value: Value, held: dict[str, Value]) -> bool:
    made = value.defining_op
    if not term.args:
        return term.word == "_" or held.setdefault(term.word, value) is value
    if made is None or made.opcode != f"tcp.{term.word}":
        return False
    return all(_fits(arg, operand, held) for arg, operand in zip(term.args, made.operands, strict=True))


def test_random_patterns_match_what_a_naive_matcher_does() -> None:
    found = several = none = 0
    for seed in range(120):
        drawn = Drawn(seed)
        for _ in range(4):
            term = drawn.pattern()
            expected = drawn.roots(term)
            names = " or ".join(f'y.name == "{name}"' for name in expected) or "false"
            run(
                f"let all = match any {{ y = {term} }} in root\nrequire len(all) == {len(expected)}\n"
                f"let held = match any {{ y = {term} }} in root where {names}\nrequire len(held) == {len(expected)}",
                drawn.text,
            )
            found, several, none = found + bool(expected), several + (len(expected) > 1), none + (not expected)
    assert (found >= 300, several >= 60, none >= 15) == (True, True, True)
