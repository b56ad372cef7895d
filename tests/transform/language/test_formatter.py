"""The formatter: one text for one schedule, nothing lost, the same tree; and what the format is."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpx
from tcpx.payload.diagnostics import ParseError
from tcpx.transform.language import format_schedule, parse_schedule, print_file
from tcpx.transform.language.parser import parse_text
from tcpx.transform.language.source import Source
from tests.transform.language.random_schedules import RandomSchedule

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "schedules").rglob("*.tcps"))


def comments(text: str) -> list[tuple[bool, bool, str]]:
    return [(c.is_doc, c.own_line, c.text) for c in parse_text(Source("", text)).comments]


def check(text: str) -> str:
    """The formatted text, after checks that hold for every text."""
    formatted = format_schedule(text)
    tree = parse_schedule(text)
    assert parse_schedule(formatted) == tree
    assert comments(formatted) == comments(text)
    assert format_schedule(formatted) == formatted
    printed = print_file(tree)
    assert parse_schedule(printed) == tree
    return formatted


def body(*lines: str) -> str:
    """The formatted statements of a schedule."""
    text = "language 1\n\nschedule s(root: func) {\n" + "\n".join(lines) + "\n}\n"
    return "\n".join(line.removeprefix("  ") for line in check(text).splitlines()[3:-1])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_schedules_are_formatted(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert check(text) == text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_schedules(first: int) -> None:
    for seed in range(first, first + 20):
        formatted = check(RandomSchedule(seed).make())
        code = [line.split("//")[0].rstrip() for line in formatted.splitlines()]
        deep = [line for line in code if len(line) > 120]
        assert all(line.startswith(" " * 24) for line in deep), seed


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 5000, 200))
def test_many_random_schedules(first: int) -> None:
    for seed in range(first, first + 200):
        check(RandomSchedule(seed).make())


def test_public_function_and_syntax_errors() -> None:
    assert tcpx.format_schedule("language   1") == "language 1\n"
    assert format_schedule("") == ""
    assert format_schedule("// only this\r\n") == "// only this\n"
    with pytest.raises(ParseError) as caught:
        format_schedule("language 1\nschedule", "a.tcps")
    assert str(caught.value.diagnostic.schedule).startswith("a.tcps:2")


def test_no_comment_is_lost() -> None:
    text = """\
language 1
/// doc
sequence f(
  mm: op,  /// the product
  last: op = mm  // the end
) {  // head
  // before
  let a = g(  // inside
    mm, /// doc of a
    // on its own
    n)  // behind
  if a { // at if
    f(a)
    // at end
  } // behind if
  // before else
  else { g(a) }
}
// last
"""
    assert (
        check(text)
        == """\
language 1

/// doc
sequence f(
  mm: op,        /// the product
  last: op = mm  // the end
) {  // head
  // before
  let a = g(  // inside
    mm,  /// doc of a
    // on its own
    n
  )       // behind
  if a {  // at if
    f(a)
    // at end
  }  // behind if
  // before else
  else {
    g(a)
  }
}

// last
"""
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["let  x=a+-b*( c )"], "let x = a + -b * (c)"),
        (["f( a ,tail :pad,[n:4 ,m:1 .. 3] );g(b)"], "f(a, tail: pad, [n: 4, m: 1..3])\ng(b)"),
        (["let x = a .m", "  .size"], "let x = a.m.size"),
        (["let x = a +", "b"], "let x = a + b"),
        (["", "", "f(a)", "", "", "", "g(a)", ""], "f(a)\n\ng(a)"),
        (["f(a);", "", "g(a) ; h(a)"], "f(a)\n\ng(a)\nh(a)"),
        (["//no blank", "f(a) //behind"], "// no blank\nf(a)  // behind"),
        (["//////// ruler"], "//////// ruler"),
        (["if a{f(x)}else{g(x)}"], "if a { f(x) }\nelse { g(x) }"),
        (["if a {", "f(x) }", "else { g(x) }"], "if a {\n  f(x)\n} else {\n  g(x)\n}"),
        (["if a { f(x); g(x) }"], "if a {\n  f(x)\n  g(x)\n}"),
        (["for x in y { }"], "for x in y {}"),
        (["try { f(x) }", 'else fail "no"'], 'try { f(x) } else fail "no"'),
        (
            ["specialize x when a == 1   { f(x) }", "else {g(x)}"],
            "specialize x when a == 1 { f(x) }\nelse                     { g(x) }",
        ),
        (
            ["case x { contract=>{f(x)} matmul where a<b => { g(x)", '} else=>fail "no" }'],
            'case x {\n  contract => { f(x) }\n  matmul where a < b => {\n    g(x)\n  }\n  else => fail "no"\n}',
        ),
        (["knob kc:int=4 in pow2(4,64)up_to size(x.k)"], "knob kc: int = 4 in pow2(4, 64) up_to size(x.k)"),
        (["tune { f(x) } or { g(x) }"], "tune { f(x) }\nor { g(x) }"),
        (
            ['tune way="a"{a=>{f(x)} b where n>1=>{g(x)}}'],
            'tune way = "a" {\n  a => { f(x) }\n  b where n > 1 => { g(x) }\n}',
        ),
        (["let a   = 1", "f(a)", "let bcd = 2", "", "let e = 3"], "let a   = 1\nf(a)\nlet bcd = 2\n\nlet e = 3"),
        (["let a = 1 // x", "let bcd = 2 // y"], "let a = 1    // x\nlet bcd = 2  // y"),
    ],
)
def test_format(given: list[str], wanted: str) -> None:
    assert body(*given) == wanted


LONG = "the_first_of_several_rather_long_names"
NAMES = ", ".join(["the_first_of_several_long_names"] * 3)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (f"first_of_all.f({NAMES}, a, b)", f"first_of_all.f(\n  {NAMES}, a, b\n)"),
        (f"f({', '.join([LONG] * 4)})", f"f(\n  {LONG},\n  {LONG},\n  {LONG},\n  {LONG}\n)"),
        (f"let x = {' + '.join([LONG] * 4)}", f"let x = {LONG} + {LONG} +\n    {LONG} + {LONG}"),
        (
            f'require {LONG} == f({LONG}) and {LONG} "it must be so"',
            f'require {LONG} == f({LONG})\n    and {LONG} "it must be so"',
        ),
        (f"if {LONG} == {LONG} {{ f({LONG}) }}", f"if {LONG} == {LONG} {{\n  f({LONG})\n}}"),
    ],
)
def test_long_lines(given: str, wanted: str) -> None:
    assert body(given) == wanted


def test_items_stand_apart() -> None:
    text = 'language 1\nimport "a.tcps"\n// one\n\n// two\nsequence f() { }\n// three\nschedule s(r: func) {}\n'
    assert check(text) == (
        'language 1\nimport "a.tcps"\n// one\n\n// two\nsequence f() {}\n\n// three\nschedule s(r: func) {}\n'
    )
