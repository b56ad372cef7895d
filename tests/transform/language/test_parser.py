"""Everything the design page prints parses and prints back; wrong text is refused with a place and a reason."""

from __future__ import annotations

import ast as syntax
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tcpx.payload.diagnostics import ParseError
from tcpx.transform.language import format_schedule, parse_schedule, print_expression, print_file
from tcpx.transform.language import syntax as ast

ROOT = Path(__file__).parents[3]
OF_LARK = {
    "lark.Lark",
    "lark.Token",
    "lark.Tree",
    "lark.lark.PostLex",
    "lark.lexer.PatternStr",
    "lark.exceptions.UnexpectedCharacters",
    "lark.exceptions.UnexpectedInput",
    "lark.exceptions.UnexpectedToken",
}
"""What its documentation names."""

GEMM = """\
// schedules/lib/gemm.tcps
language 1

/// Blocked and packed matrix product in the GotoBLAS manner. `last` is the end of the elementwise
/// epilogue of `mm` (or `mm` itself); it is computed while the result tile is still in registers.
sequence packed_gemm(mm: op<contract>, last: op = mm) -> (loop, loop) {
  knob nv: int = min(4, target.vector_registers / 8) in 1..6    /// vectors per row of the register tile
  knob mr: int = min(6, (target.vector_registers - nv - 1) / nv) in 1..14   /// rows of the register tile
  knob kc: int = 512  in pow2(64, 1024)                         /// depth of a packed panel
  knob mc: int = 20 * mr in multiples(mr, 960)                  /// rows of A kept in L2
  knob nc: int = 4096 in pow2(128, 8192)                        /// columns of B kept in L3
  let nr    = nv * lanes(dtype(mm.acc))
  let steps = threads * ceildiv(size(mm.m), threads * mc)       // equal row blocks for every thread
  let mb    = align_up(ceildiv(size(mm.m), steps), mr)          // computed at run time where m is symbolic
  require mr * nv + nv + 1 <= target.vector_registers  "the register tile does not fit the register file"

  let jc     = tile(mm, [n: nc])
  let pc     = tile(mm, [k: kc])                                // mm now accumulates; `mm.start` is the fill
  let ic     = tile(mm, [m: mb], parallel: true)
  let jr, ir = tile(mm, [n: nr, m: mr], tail: pad)              // loops in the order written
  let bp     = pack(mm.rhs, [k, n], at: pc, parallel: true)     // [n/nr][k][nr]
  let ap     = pack(mm.lhs, [m, k pad 16], at: ic)              // row copies with a padded pitch
  fuse(mm.start, into: ir)                                      // zero on the first step of pc, no pass over C
  if last != mm { fuse(last, into: ir) }                        // on the last step of pc: derived, not said
  let kk     = tile(mm, [k: 1])
  vectorize(ir)                                                 // the whole body, epilogue included
  hoist_accumulator(mm, out_of: kk)
  prefetch(mm.out, at: ir, for: write)
  return jc, ic
}
"""
MLP = """\
// schedules/mlp.tcps
language 1
import "lib/gemm.tcps" as gemm
import "lib/gemv.tcps" as gemv
import "lib/fused.tcps" as fused

schedule mlp(root: func) {
  for mm in match some contract in root {
    let last = epilogue(mm)                       // longest chain of elementwise ops this product alone feeds
    specialize [mm, last] when size(mm.m) < 4 { gemv.gemv(mm, last) }
    else                                      { gemm.packed_gemm(mm, last) }
  }
  for e in match any elementwise in root where not scheduled { fused.chain(e) }
}
"""
EVERYTHING = """\
language 1
schedule main(root: func) expects "mlp.tcp" {
  // first
  try { tile(x, [n: 4]) } else { tile(x, [n: 8]) } else fail "no size fits"
  case mm { contract "fc*" where size(m) < 4 => { f(mm) }
    matmul => { g(mm); h(mm) }
    else => fail "neither" }
  tune { a(mm) } or { b(mm) }
  optional hoist(x)
  let y = x.copy("main")
  let z = x in loop1
  let q = a if b else c
  let w = -(1 + 2) * 3 - (4 - 5) / 2 % 7
  let t = not (a and b) or c == 1.5e-3
  let l = [k/4, n, k%4, k pad 16]
  let e = []
  specialize(x, to: contract)
  specialize x when size(x.m) % 12 == 0 { f(x) } else when size(x.m) < 4 { g(x) } else fail "odd"
  if a { f(x) } else if b { g(x) } else { h(x) }
  for i in 0..4 { f(i) }
  let one = match one contract "fc1" in root
  return
}
"""


@pytest.mark.parametrize("text", [GEMM, MLP, EVERYTHING], ids=["gemm", "mlp", "everything"])
def test_round_trip(text: str) -> None:
    tree = parse_schedule(text)
    printed = print_file(tree)
    assert parse_schedule(printed) == tree
    assert print_file(parse_schedule(printed)) == printed


def test_docs_belong_to_what_they_document() -> None:
    (_, sequence) = parse_schedule(GEMM).items
    assert isinstance(sequence, ast.Sequence)
    assert sequence.trivia.doc.startswith("Blocked and packed")
    knob = sequence.body.statements[1]
    assert isinstance(knob, ast.Knob)
    assert knob.trivia.doc == "rows of the register tile"


def expression(text: str) -> ast.Expression:
    (_, sequence) = parse_schedule(f"language 1\nsequence f(x: op) {{ let y = {text} }}").items
    assert isinstance(sequence, ast.Sequence)
    (let,) = sequence.body.statements
    assert isinstance(let, ast.Let)
    return let.value


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a + b * c", "a + b * c"),
        ("(a + b) * c", "(a + b) * c"),
        ("a - (b - c)", "a - (b - c)"),
        ("(a - b) - c", "a - b - c"),
        ("-(a + b)", "-(a + b)"),
        ("(a == b) == c", "(a == b) == c"),
        ("not (a or b) and c", "not (a or b) and c"),
        ("(a if b else c) + 1", "(a if b else c) + 1"),
        ("(x in L).m", "(x in L).m"),
        ('"a\\"b\\\\\\n"', '"a\\"b\\\\\\n"'),
        ("1.5", "1.5"),
        ("f(a, b: c)", "f(a, b: c)"),
    ],
)
def test_parentheses_where_precedence_needs_them(text: str, printed: str) -> None:
    assert print_expression(expression(text)) == printed


@pytest.mark.parametrize(
    "body",
    [
        "let x = match one not in root",
        "let x = match any and in root where it.is_a(and) and not it.is_a(or)",
        "let x = f(not, and, or) and not f(to: and)",
        "let x = a and not (b or not c)",
    ],
)
def test_operations_by_the_names_of_operators(body: str) -> None:
    text = f"language 1\n\nschedule s(root: func) {{\n  {body}\n}}\n"
    assert print_file(parse_schedule(text)) == text


@pytest.mark.parametrize(
    ("body", "message", "line", "column", "fix"),
    [
        ("lett x = 3", "unexpected `x`", 3, 6, "did you mean `let`?"),
        ("let x = tile(mm, [n: 4]\nlet y = 3", "`(` is not closed", 3, 13, None),
        ("x = 3", "names are bound by `let`", 3, 1, "write `let x =`"),
        ("let x = 'a'", 'text is quoted with `"`', 3, 9, 'write `"a"`'),
        ("let for = 1", "unexpected `for`", 3, 5, "`for` is a keyword: choose another name"),
        ("require 1 < 2 < 3", "unexpected `<`", 3, 15, "comparisons do not chain: write `a < b and b < c`"),
        ("mm.x", "this is not a statement", 3, 1, None),
        ('let x = "abc', "the string is not closed", 3, 9, None),
        ('let x = "abc\\', "the string is not closed", 3, 9, None),
        ('let x = "a\\q"', "`\\q` is no escape", 3, 11, "a backslash is written `\\\\`"),
        ('let x = "a\\n" + "\\x41"', "`\\x` is no escape", 3, 18, "a backslash is written `\\\\`"),
        ("/* a comment */", "unexpected `/`", 3, 1, "comments start with `//`, on every line"),
        ("let x = 1 /* one */", "unexpected `*`", 3, 12, "comments start with `//`, on every line"),
        ("let x = 1 /** one */", "unexpected `**`", 3, 12, "comments start with `//`, on every line"),
        ("let x = [a: 1, b]", "a list and a map are mixed", 3, 9, None),
        ("let x = 1 +", "the line ends too early", 3, 12, None),
        ("let x = ", "the line ends too early", 3, 8, None),
        ("f(a) g(b)", "unexpected `g`", 3, 6, None),
        ("/// of nothing", "this `///` documents nothing", 3, 1, "write `//` for a comment"),
        ("let x = 5x", "`5x` is not a number", 3, 9, None),
    ],
)
def test_refused(body: str, message: str, line: int, column: int, fix: str | None) -> None:
    with pytest.raises(ParseError) as caught:
        parse_schedule(f"language 1\nsequence f(mm: op) {{\n{body}\n}}\n")
    found = caught.value.diagnostic
    assert found.message == message
    assert found.schedule is not None
    assert (found.schedule.line, found.schedule.column) == (line, column)
    assert found.fix == fix


def test_a_match_as_a_statement() -> None:
    with pytest.raises(ParseError) as caught:
        parse_schedule("language 1\nschedule s(root: func) {\n  match one contract in root\n}\n")
    found = caught.value.diagnostic
    assert (found.message, found.required) == ("unexpected `match`", "a statement or `}`")
    assert found.fix == "a match is a value: write `let x = match ..`, or `for x in match ..`"


@pytest.mark.parametrize(
    ("text", "message", "required"),
    [
        (
            "language 1\nsequense f(mm: op) { }",
            "unexpected `sequense`",
            "`import`, `function`, `matcher`, `view`, `sequence` or `schedule`",
        ),
        (
            "sequense f(mm: op) { }",
            "unexpected `sequense`",
            "`import`, `function`, `matcher`, `view`, `sequence`, `schedule` or the end of the file",
        ),
        ("language 1\nsequence f(mm op) { }", "unexpected `op`", "`:`"),
        ("language 1\nsequence f(mm: op) {", "`{` is not closed", "`}`"),
        ("language 1\nsequence f(mm: op) { let x = }", "unexpected `}`", "an expression or `optional`"),
        ("language 1\nsequence f(mm: op", "`(` is not closed", "`)`"),
    ],
)
def test_says_what_was_expected(text: str, message: str, required: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_schedule(text)
    assert (caught.value.diagnostic.message, caught.value.diagnostic.required) == (message, required)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("language one\nschedule s(root: func) { }", "write `language 2`"),
        ("function (n: int) = 1", "write `function f(n: int) -> int = 2 * n`"),
        ("matcher 3", "write `matcher m(r: op<max>) { require rank(r) == 2 }`"),
    ],
)
def test_a_word_that_begins_something_else_is_not_offered_again(text: str, fix: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_schedule(text)
    assert caught.value.diagnostic.fix == fix


def test_a_byte_order_mark_is_no_part_of_a_text() -> None:
    text = "language 1\nschedule s(root: func) {}\n"
    assert parse_schedule("\ufeff" + text) == parse_schedule(text)
    assert format_schedule("\ufeff" + text) == format_schedule(text)
    with pytest.raises(ParseError) as caught:
        parse_schedule("\ufeff?")
    assert caught.value.diagnostic.schedule is not None
    assert caught.value.diagnostic.schedule.column == 1


def test_a_function_only_binds_and_returns() -> None:
    for body in ("knob b: int = 2\n return n", "let b = n", "return n, n", "let a, b = n\n return a", ""):
        with pytest.raises(ParseError) as caught:
            parse_schedule(f"language 1\nfunction f(n: int) -> int {{\n {body}\n}}\n")
        assert caught.value.diagnostic.message == "a function only binds names and returns a value"
        assert caught.value.diagnostic.required == "`let name = ..`, and one `return` of one value at the end"


DECLARATIONS = """language 1

/// Rows of a register tile.
function rows(
  nv: int,  /// vectors per row
  regs: int = target.vector_registers
) -> int = min(6, (regs - nv - 1) / nv)

/// Rows that threads share.
function shared(m: int) -> int {
  let each = m / threads
  let least = rows(2)
  return max(each, least)
}

/// A maximum of a product.
matcher relu_of(r: op<max>) -> (op<contract>, op<add>) {
  let s = producer(r.lhs)
  require len(users(s)) == 1 "two readers"
  return producer(s.lhs), s
}

schedule main(root: func) expects "(tensor<4xf32>) -> tensor<4xf32>" {
  knob separate mr: int = rows(2) in 1..14  /// rows
  for r, mm, s in match some g.relu_of "a*" in root where it.is_a(relu_of) { tile(mm, [m: mr]) }
}
"""


def test_functions_matchers_and_separate_knobs_print_as_they_are() -> None:
    tree = parse_schedule(DECLARATIONS)
    assert print_file(tree) == DECLARATIONS.replace("language 1\n\n", "language 1\n")
    assert parse_schedule(print_file(tree)) == tree


def test_their_words_are_ordinary_names_elsewhere() -> None:
    text = (
        "language 1\nsequence f(matcher: op) {\n let function = matcher\n let separate = function if true else 1\n}\n"
    )
    assert [type(item).__name__ for item in parse_schedule(text).items] == ["Language", "Sequence"]


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        ("tile(mm, {m: 4})", "write `[m: 4]`"),
        (
            'let x = match one matmul where name == "fc" in root',
            "the place stands before the condition: `match one .. in root where ..`",
        ),
        (
            "for r in rows where true { }",
            "`where` belongs to a match: `match any .. in .. where ..`; ask about an item of a list with `if`",
        ),
        ('case x { matmul => { } else fail "no" }', 'in a `case`, write `else => fail ".."`'),
        (
            "specialize x when size(x.m) < 4 { }",
            '`specialize` says what is done otherwise: `else { }` leaves it as it is, `else fail ".."` refuses it',
        ),
        ("while true { }", "repeat with `for x in ..`, over a list, a range or a match"),
        ("if true { } elif false { }", "write `else if`"),
        ('fail "no"', '`fail` stands behind `else`: write `require false ".."`'),
        (
            "require optional tile(mm, [m: 4])",
            "what `optional` leaves out has no value: write `let i = optional tile(..)`, and ask `exists(i)`",
        ),
        (
            "optional require false",
            "`optional` stands before a step: write `optional tile(..)`; several statements go into `try { .. }`",
        ),
        ("for x in match any for in root { }", "loops are matched as `loop`"),
        ("if true\n  { }", "the `{` stands on the line of what it belongs to"),
        ("let match = 3", "`match` is a keyword: choose another name"),
        ("let x = 3.", "a float has digits on both sides of the point: `3.0`"),
    ],
)
def test_fixes_of_statements(body: str, fix: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_schedule(f"language 1\nschedule s(root: func) {{\n  {body}\n}}\n")
    assert caught.value.diagnostic.fix == fix


@pytest.mark.parametrize(
    ("item", "fix"),
    [
        ("schedule s(root) { }", "write `root: func`"),
        ("sequence s(root, x: op) { }", "write `root: func`"),
    ],
)
def test_fixes_of_items(item: str, fix: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_schedule(f"language 1\n{item}\n")
    assert caught.value.diagnostic.fix == fix


def test_of_lark_only_what_it_documents_is_used() -> None:
    """Its tables and its lexer change with its versions."""
    trees = [syntax.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "tcpx").rglob("*.py")]
    nodes = [node for tree in trees for node in syntax.walk(tree)]
    imported = {
        f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, syntax.ImportFrom) and (node.module or "").split(".")[0] == "lark"
        for alias in node.names
    }
    assert imported == OF_LARK
    asked = {node.attr for node in nodes if isinstance(node, syntax.Attribute)}
    assert not asked & {"lexer_conf", "parser_state", "parse_conf", "parse_interactive", "interactive_parser"}


def test_texts_are_read_by_several_threads_at_once() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "schedules/lib").glob("*.tcps"))]
    alone = [print_file(parse_schedule(text)) for text in texts]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as threads:
            together = list(threads.map(lambda text: print_file(parse_schedule(text)), texts * 3))
    finally:
        sys.setswitchinterval(interval)
    assert together == alone * 3
