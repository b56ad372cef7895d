"""What the checker finds without a payload, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpx.payload.diagnostics import Kind, ScheduleError
from tcpx.transform.declaration import transforms
from tcpx.transform.language import check_program, load_program, program_of_text
from tcpx.transform.language.checker import require_checked

HEAD = "language 1\n"
DECLARED = "\nsequence two(mm: op) -> (loop, loop) {\n let a = tile(mm, [n: 4])\n return a, a\n}\n"
DECLARED += "sequence many(ints: list<int>) { require len(ints) > 0 }\n"


def problems(body: str) -> list[tuple[str, str | None]]:
    program = program_of_text(f"{HEAD}sequence f(mm: op<contract>, last: op = mm) {{\n{body}\n}}{DECLARED}")
    return [(d.message, d.fix) for d in check_program(program)]


@pytest.mark.parametrize(
    ("body", "message", "fix"),
    [
        ("let a = tlie(mm, [n: 4])", "there is no transform, sequence or function `tlie`", "did you mean `tile`?"),
        ("tile(mm, [n: 4], tial: pad)", "`tile` has no parameter `tial`", "did you mean `tail`?"),
        ("tile(mm, [n: 4], tail: pda)", "`tail` of `tile` cannot be `pda`", "did you mean `pad`?"),
        ("tile(mm, [n: 4], mm: last)", "`tile` has no parameter `mm`", None),
        ("tile(mm, sizes: [n: 4], target: mm)", "`target` is given twice", None),
        ("tile(mm, sizes: [n: 4], true)", "an argument without a name stands behind one with a name", None),
        ("tile(mm)", "`tile` needs `sizes`", None),
        ("tile(mm, [n, m])", "`sizes` of `tile` has the wrong type", "say which dim each is for: `[m: 6, n: 64]`"),
        ("pad(mm, [n: 4, n: 8])", "the dim `n` stands twice in `sizes`", None),
        ("tile(mm, [n: lats])", "`lats` is not bound", "did you mean `last`?"),
        (
            "peel(mm)",
            "`loop` of `peel` has the wrong type",
            "a loop that steps one of its dims: `mm.loop(..)`",
        ),
        ("split_reduction(mm, [k: 4])", "`dim` of `split_reduction` has the wrong type",
         "write `k, parts: 4` or `k, factor: 4`"),
        ("split_reduction(mm, [k: 4, n: 2])", "`dim` of `split_reduction` has the wrong type", None),
        ("fuse(mm.lhs, into: mm.loop(k))", "`target` of `fuse` has the wrong type",
         "the operation that computes it: `producer(mm.lhs)`"),
        ("fuse(mm.out, into: mm.loop(k))", "`target` of `fuse` has the wrong type",
         "the operation that computes it: `mm`"),
        ("pack(mm.rhs, [k + 1], at: mm.loop(k))", "`layout` of `pack` lists dims", None),
        ("let a, b = tile(mm, [n: 4])", "2 names for 1 result", "write `let a = tile(mm, [n: 4])`"),
        ("let a = two(mm)", "1 name for 2 results", "write `let a, _ = two(mm)`"),
        ("let mm = 1", "`mm` is bound twice", None),
        ("let threads = 1", "`threads` is built in", None),
        ("let it = 1\nlet a = match any op in mm where rank(it) == 2",
         "`it` is the candidate of this `where`, and a name outside of it", None),
        ("if threads > 1 { let i = mm }\nvectorize(i)", "`i` is not bound",
         "`i` of <schedule>:3:18 ends with the block it is bound in"),
        ("let a = mm.dims(reduction)", "`dims` takes a string", 'write `"reduction"`'),
        ("case threads { op => { vectorize(last) } }", "`case` is about an op", None),
        ("case match any op in mm { matmul => { } }", "`case` is about an op",
         "one at a time: `for x in match any op in mm { .. }`"),
        ("specialize mm when size(mm.m) < 4 { if threads > 1 { return } } else { }",
         "`return` cannot stand in a branch of `specialize`", None),
        ("many([1, true])", "an item of `ints` of `many` has the wrong type", None),
        ("knob a: op = mm\nvectorize(a)", "the knob `a` is no parameter", "bind a handle or a list with `let`"),
        ("knob a: int = 4", "nothing reads the knob `a`", "use it, or remove it"),
        ('knob a: int = "x"\nlet b = a', "the default of the knob `a` has the wrong type", None),
        ("if size(mm.m) { vectorize(last) }", "a condition is true or false", None),
        ("let a = 1 + true", "arithmetic is on numbers", None),
        ("let a = mm == 1", "these are never equal", None),
        ("let a = size()", "`size` takes 1 argument, not 0", None),
        ("let a = lanes()", "`lanes` takes 1 or 2 arguments, not 0", None),
        ("size(mm.m)", "this statement has no effect", "write `let name = ...` to use the value"),
        ("let a = 1 + two(mm)", "a transform or sequence is a step of its own", None),
        ("let a = target.vector_register", "the target has no `vector_register`", "did you mean `vector_registers`?"),
        ("let a = mm.lop(k)", "there is no `lop(...)` to ask a handle", "did you mean `loop`?"),
        ("gem.f(mm)", "`gem` is not imported", None),
        ("let a = match one contrct in mm", "there is no class `contrct` in the operation tree",
         "did you mean `contract`?"),
        ("let a = match any op in mm where not sheduled", "`sheduled` is not bound", "did you mean `scheduled`?"),
        ("let a = match any op in 4", "matching goes through a function, a loop or an op", None),
        ("knob kc: int = 4 in pow2(4, 64) up_to mm\ntile(mm, [k: kc])", "the limit of the knob `kc` is no size", None),
        ('tune way = "c" { a => { } b => { } }', "`way` has no alternative `c`", None),
        ("tune way = 4 { a => { } b => { } }", "a choice by name has a word as default", None),
        ("tune way { a => { } a => { } }", "the alternative `a` stands twice", None),
        ("return mm", "`return` and the declared results differ in number",
         "leave this statement out: a schedule returns nothing"),
        ("return\nlet a = 1", "this statement is never reached", None),
        ("let a = optional size(mm.n)\nrequire a == 4", "what is `optional` is no step", None),
    ("for x in 4 { let a = x }", "`for` goes through a list, a handle or a range", "write `0..3`"),
    ],
)  # fmt: skip
def test_found(body: str, message: str, fix: str | None) -> None:
    assert (message, fix) in problems(body)


UNREACHABLE = [
    ("try { optional vectorize(mm.loop(n)) } else { vectorize(mm.loop(k)) }", "this alternative is never tried"),
    ("try { let a = optional fold_cast(mm.lhs) } else { dce(mm) }", "this alternative is never tried"),
    ('try { let a = 1; let b = a } else fail "no"', "this alternative is never tried"),
    ("case mm { contract => { dce(mm) } matmul => { cse(mm) } }", "this arm is never reached"),
    ("case mm { op => { dce(mm) } contract where size(n) == 4 => { cse(mm) } }", "this arm is never reached"),
    ('case mm { contract "fc*" => { dce(mm) } matmul "fc*" => { cse(mm) } }', "this arm is never reached"),
    ("case mm { op => { dce(mm) } else => { cse(mm) } }", "this `else` is never reached"),
    ("if threads > 4 { dce(mm) } else if threads > 8 { cse(mm) }", "this branch is never taken"),
    ("if false { dce(mm) }", "this branch is never taken"),
    ("specialize mm when size(mm.m) < 8 { dce(mm) } else when size(mm.m) <= 4 and threads == 1 { cse(mm) } else { }",
     "this branch is never taken"),
    ("specialize mm when 8 > size(mm.m) { dce(mm) } else when size(mm.m) == 7 { cse(mm) } else { }",
     "this branch is never taken"),
    ("if threads > 1 { return } else { return }\ndce(mm)", "this statement is never reached"),
]  # fmt: skip
REACHABLE = [
    "try { vectorize(mm.loop(n)) } else { vectorize(mm.loop(k)) }",
    "case mm { matmul => { dce(mm) } contract => { cse(mm) } else => { } }",
    "case mm { contract where size(n) == 4 => { dce(mm) } matmul => { cse(mm) } }",
    'case mm { contract "fc*" => { dce(mm) } matmul => { cse(mm) } elementwise "fc*" => { cse(mm) } }',
    "if threads > 8 { dce(mm) } else if threads > 4 { cse(mm) }",
    "specialize mm when size(mm.m) < 4 { dce(mm) } else when size(mm.m) < 8 { cse(mm) } else { }",
    "specialize mm when size(mm.m) < 8 { dce(mm) } else when size(mm.n) < 4 { cse(mm) } else { }",
]


@pytest.mark.parametrize(("body", "message"), UNREACHABLE)
def test_what_can_never_run(body: str, message: str) -> None:
    assert [m for m, _ in problems(body) if not m.startswith("nothing reads")] == [message]


@pytest.mark.parametrize("body", REACHABLE)
def test_what_can_run(body: str) -> None:
    assert [m for m, _ in problems(body) if not m.startswith("nothing reads")] == []


def test_remarks_are_no_errors() -> None:
    program = program_of_text(f"{HEAD}sequence f(mm: op, last: op) {{\n let a = size(mm.m)\n dce(mm)\n}}")
    found = check_program(program)
    assert [(d.kind, d.message) for d in found] == [
        (Kind.WARNING, "nothing reads `a`"),
        (Kind.WARNING, "nothing reads the parameter `last`"),
    ]
    require_checked(program)


IMPORTED = """language 1
function twice(n: int) -> int = 2 * n
matcher wide(x: op) { require rank(x) > 1 }
sequence rows(mm: op) -> loop { let i = tile(mm, [m: 2]); return i }
"""


@pytest.mark.parametrize(
    ("body", "is_read"),
    [
        ("print(root)", False),
        ('emit_remark(root, "g.rows")', False),
        ("for x in match any matmul in root { let i = g.rows(x); vectorize(i) }", True),
        ("for x in match any matmul in root { g.rows(x) }", True),
        ("for x in match any matmul in root { optional g.rows(x) }", True),
        ("for x in match any g.wide in root { dce(x) }", True),
        ("for x in match any op in root { case x { g.wide => { dce(x) } else => { } } }", True),
        ("for x in match any op in root where it.is_a(g.wide) { dce(x) }", True),
        ("if threads > 1 { for n in 1..g.twice(2) { require n > 0 } }; print(root)", True),
        ("knob n: int = g.twice(2) in 1..8; require n > 1; print(root)", True),
    ],
)
def test_an_import_that_nothing_reads(body: str, is_read: bool, tmp_path: Path) -> None:
    (tmp_path / "g.tcps").write_text(IMPORTED, encoding="utf-8")
    text = f'language 1\nimport "g.tcps" as g\nschedule main(root: func) {{ {body} }}\n'
    found = check_program(program_of_text(text, beside=tmp_path))
    assert [(d.kind, d.message) for d in found] == ([] if is_read else [(Kind.WARNING, "nothing reads the import `g`")])
    if not is_read:
        assert found[0].schedule is not None
        assert found[0].schedule.line == 2


def test_an_import_of_an_import_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "g.tcps").write_text(IMPORTED, encoding="utf-8")
    used = 'language 1\nimport "g.tcps" as g\nfunction four() -> int = g.twice(2)\n'
    (tmp_path / "h.tcps").write_text(used, encoding="utf-8")
    text = 'language 1\nimport "g.tcps" as g\nimport "h.tcps" as h\n'
    text += "schedule main(root: func) { require h.four() == 4; print(root) }\n"
    found = check_program(program_of_text(text, beside=tmp_path))
    assert [d.message for d in found] == ["nothing reads the import `g`"]


def test_ended_handles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transforms()["vectorize"], "ends", ("target",))
    body = "let i = tile(mm, [n: 4])\nif threads > 1 { vectorize(i) }\nvectorize(i)\nlet j = parent(i)\ndce(j)"
    assert problems(body)[0] == ("`i` is gone", None)
    assert len([m for m, _ in problems(body) if "gone" in m]) == 1


def test_nothing_wrong_with_a_whole_recipe() -> None:
    body = """
  knob mr: int = min(6, target.vector_registers - 2) in 1..14
  require mr < 10 "too many rows"
  let jc, ic = tile(mm, [n: 64, m: mr], tail: pad)
  let p = pack(mm.rhs, [k/4, n, k%4], at: jc)
  let q = pack(mm.lhs, [m, k pad 16], at: ic)
  if last != mm and dtype(mm.acc) == f32 { fuse(last, into: ic) } else { optional vectorize(ic) }
  let inner = mm.loop(k) if exists(mm) else mm.loop(n)
  for x in match any elementwise in mm where not scheduled and rank(it) == 2 { fuse(x, into: ic) }
  try { vectorize(inner) } else fail "cannot vectorize"
  specialize mm when size(mm.m) % 6 == 0 { let a, b = two(mm) } else { vectorize(ic) }"""
    assert problems(body) == []


def test_returns_must_be_there() -> None:
    program = program_of_text(f"{HEAD}sequence f(mm: op) -> loop {{\n let a = tile(mm, [n: 4])\n}}")
    assert [d.message for d in check_program(program)] == ["`f` does not return what it declares"]


def test_schedule_is_given_a_function() -> None:
    program = program_of_text(f"{HEAD}schedule main(root: op, n: int) {{ }}")
    assert [d.message for d in check_program(program)] == [
        "a schedule is given the function it works on",
        "nothing gives `n` a value",
        "nothing reads the parameter `root`",
        "nothing reads the parameter `n`",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sequence f(a: op) { }", "the file does not say which version of the language it is in"),
        ("language 3\n", "this version of the language is not known"),
        ('language 1\nimport "a.tcps"\n', '"a.tcps" is not there'),
        ("language 1\nsequence f(a: op) { }\nsequence f(b: op) { }", "`f` is declared twice"),
    ],
)
def test_loading_refuses(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ScheduleError) as caught:
        program_of_text(text, beside=tmp_path)
    assert caught.value.diagnostic.message == message


def test_imports(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "g.tcps").write_text("language 1\nsequence g(mm: op) { vectorize(mm.loop(k)) }\n")
    main = tmp_path / "main.tcps"
    main.write_text('language 1\nimport "lib/g.tcps"\nschedule s(root: func) { g.g(match one contract in root) }\n')
    assert check_program(load_program(main)) == ()
    main.write_text('language 1\nimport "lib/g.tcps"\nschedule s(root: func) { g.h(match one contract in root) }\n')
    assert [d.message for d in check_program(load_program(main))] == ["`g` has no sequence `h`"]


def test_files_that_import_each_other(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.tcps").write_text(f'language 1\nimport "{other}.tcps"\n')
    main = tmp_path / "main.tcps"
    main.write_text('language 1\nimport "a.tcps"\n')
    with pytest.raises(ScheduleError, match="the files import each other"):
        load_program(main)


def test_a_file_found_twice_is_reported(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.tcps").write_text("language 1\n")
    with pytest.raises(ScheduleError, match="is there twice"):
        program_of_text('language 1\nimport "a.tcps"', schedule_path=[tmp_path / "x", tmp_path / "y"])


def test_a_knob_is_no_parameter() -> None:
    text = "language 1\nsequence rows(mm: op) {\n knob mr: int = 4\n tile(mm, [n: mr])\n}\n"
    program = program_of_text(text + "schedule main(root: func) {\n rows(match one matmul in root, mr: 6)\n}")
    (found,) = [d for d in check_program(program) if d.kind is not Kind.WARNING]
    assert found.message == "`mr` is a knob of `rows`, not a parameter"
    assert found.fix == "override it from outside: `--param mr=..`, or `params=` in Python"


@pytest.mark.parametrize(
    ("body", "message", "fix"),
    [
        ("mm.tile(n: 4)", "there is no `tile(...)` to ask a handle", "`tile` is a step: write `tile(mm, ...)`"),
        (
            "let all = match any contract in mm\ntile(all, [n: 4])",
            "`target` of `tile` has the wrong type",
            "one at a time: `for x in all { .. }`",
        ),
        (
            "specialize 4 when size(mm.m) < 4 { } else { }",
            "versions are made of operations",
            None,
        ),
        ("mm.two(4)", "there is no `two(...)` to ask a handle", "`two` is a step: write `two(mm, ...)`"),
        ("tile(mm, n: 4)", "`tile` has no parameter `n`", "`sizes` are in brackets: `[n: 4]`"),
        (
            "specialize mm when size(it.m) < 4 { } else { }",
            "`it` is not bound",
            "`it` is the candidate of a `where`; elsewhere, name the operation with `let`",
        ),
    ],
)
def test_what_was_meant(body: str, message: str, fix: str | None) -> None:
    assert (message, fix) in problems(body)


def test_a_dim_is_no_number() -> None:
    (found,) = check_program(program_of_text(f"{HEAD}sequence f(mm: op, d: dim) {{ tile(mm, [d: d / 2]) }}"))
    assert (found.message, found.fix) == ("arithmetic is on numbers", "its extent: `size(d)`")


def test_what_is_optional_gives_handles() -> None:
    text = f"{HEAD}sequence number(x: op) -> int {{\n  dce(x)\n  return 4\n}}\n"
    text += "schedule s(root: func) {\n  let n = optional number(match one matmul in root)\n  require n == 4\n}"
    (found,) = check_program(program_of_text(text))
    assert (found.message, found.found) == ("what is `optional` gives no handles", "int")
    assert found.required == "the call of a transform, or of a sequence, that returns operations or loops"


def test_an_optional_step_may_end_nothing() -> None:
    body = "let g = group([mm])\noptional dissolve(g)\nif exists(g) { dissolve(g) }"
    assert [m for m, _ in problems(body) if "gone" in m] == []
    assert ("`g` is gone", None) in problems("let g = group([mm])\ndissolve(g)\nisolate(g)")
