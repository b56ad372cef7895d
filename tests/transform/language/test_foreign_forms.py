"""What is written as in other languages gets a place, and the form that this one has for it."""

from __future__ import annotations

import pytest

from tcpx.payload.diagnostics import Diagnostic, ParseError
from tcpx.transform.language import parse_schedule, program_of_text
from tcpx.transform.language.checker import check_program


def first_problem(text: str) -> Diagnostic:
    try:
        found = check_program(program_of_text(text))
    except ParseError as error:
        return error.diagnostic
    return next(d for d in found if d.is_error)


@pytest.mark.parametrize(
    ("body", "message", "line", "column", "fix"),
    [
        ("tile(mm, [m = 6])", "unexpected `=`", 1, 13, "a name and its value are separated by `:`: write `m: 6`"),
        (
            "tile(mm, [m=6, n=4], tail=pad)",
            "unexpected `=`",
            1,
            12,
            "a name and its value are separated by `:`: write `m: 6`",
        ),
        (
            "tile(mm, [m: 6], tail = pad)",
            "unexpected `=`",
            1,
            23,
            "a name and its value are separated by `:`: write `tail: pad`",
        ),
        (
            "for i in range(3) { print(mm) }",
            "there is no transform, sequence or function `range`",
            1,
            10,
            "a range has both ends: write `0..n - 1` for `range(n)`",
        ),
        ("if true { } elif false { }", "`elif` is no word of the language", 1, 13, "write `else if`"),
        ("if true { } elif(size(mm.n) > 3) { }", "`elif` is no word of the language", 1, 13, "write `else if`"),
        (
            "if true { print(mm) }\nelif size(mm.n) > 2 { print(mm) }",
            "`elif` is no word of the language",
            2,
            1,
            "write `else if`",
        ),
        ('let f = match one matmul "%fc" in root\nprint(f)', "no name has a `%` in it", 1, 19, 'write `"fc"`'),
        (
            'let name = "fc"\nlet f = match one matmul name in root',
            "unexpected `name`",
            2,
            26,
            'a match takes names as text in quotes, such as `"fc*"`: write `match .. in .. where it.name == name`',
        ),
        (
            'let name = "fc"\nlet f = match one name in root',
            "`name` is a value, and no class of operations",
            2,
            19,
            "match all, and compare: `match .. op in .. where it.name == name`",
        ),
        (
            'for x in match some "fc" + "d" in root {}',
            "unexpected `+`",
            1,
            26,
            "a match takes names as text in quotes; to compare with a value: `match .. op in .. where it.name == x`",
        ),
        (
            "while size(mm.m) > 3 { }",
            "`while` is no word of the language",
            1,
            1,
            "repeat with `for x in ..`, over a list, a range or a match",
        ),
        ("let a = 3\na += 1", "unexpected `+`", 2, 3, "a name is bound once: write `let` and another name"),
        ("let i = 0\ni++", "unexpected `+`", 2, 2, "a name is bound once: write `let` and another name"),
        ("let a = 3\na = 4", "unexpected `=`", 2, 3, "a name is bound by `let`, once"),
        ("let a = None\nprint(a)", "`None` is not bound", 1, 9, "there is no empty value: leave the argument out"),
        ("let a = True\nrequire a", "`True` is not bound", 1, 9, "write `true`"),
        ("require true && false", "`&&` has no meaning here", 1, 14, "write `and`"),
        ("require true || false", "`||` has no meaning here", 1, 14, "write `or`"),
        ("require !true", "`!` has no meaning here", 1, 9, "write `not `"),
        ("tile(mm [m: 4])", "unexpected `[`", 1, 9, "a `,` is missing before `[`"),
        ("tile(mm, [m: 4 n: 4])", "unexpected `n`", 1, 16, "a `,` is missing before `n`"),
        (
            "tile(mm, [m: size(mm.n) // 4])",
            "`[` is not closed",
            1,
            10,
            "`//` begins a comment; `/` divides integers, rounding down",
        ),
        (
            "let f = lambda x: x + 1",
            "unexpected `x`",
            1,
            16,
            "a function has a name: write `function f(n: int) -> int = n + 1` outside of the schedule",
        ),
        (
            "for x in match some matmul in root:\n  print(x)",
            "unexpected `:`",
            1,
            35,
            "a block stands in braces: write `{` in place of `:`, and `}` behind the last statement",
        ),
        (
            "if true:\n  print(mm)",
            "unexpected `:`",
            1,
            8,
            "a block stands in braces: write `{` in place of `:`, and `}` behind the last statement",
        ),
        ("let mm2 := match one matmul in root", "a `let` has no type", 1, 1, "write `let mm2 =`"),
        ("let x: int = 4", "a `let` has no type", 1, 1, "write `let x =`"),
        ("let i, j: loop = mm", "unexpected `:`", 1, 9, "a `let` has no type: write `let x = ..`"),
        (
            "def f() { }",
            "`def` is no word of the language",
            1,
            1,
            "write `sequence name(x: op) { .. }`, or `function` for an expression",
        ),
        (
            "let x = 1 if true",
            "the line ends too early",
            1,
            18,
            "a value under a condition has an `else`: write `a if c else b`",
        ),
        ("let x = true ? 1 : 2", "`?` has no meaning here", 1, 9, "write `1 if true else 2`"),
        ("pass", "this is not a statement", 1, 1, "a block that does nothing is `{ }`"),
        ("let a = 2^3", "`^` has no meaning here", 1, 10, "write `**`"),
        ("let a = 0x10", "`0x10` is not a number", 1, 9, "write `16`"),
        ("let a = 1e-3", "`1e-3` is not a number", 1, 9, "a float has digits on both sides of the point: `1.0e-3`"),
        ("let a = 1_000", "`1_000` is not a number", 1, 9, "write `1000`"),
        ("let a = .5", "unexpected `.`", 1, 9, "a float has digits on both sides of the point: `0.5`"),
        (
            "let l = [x for x in match any matmul in root]",
            "unexpected `for`",
            1,
            12,
            "a list is written item by item; go through what matches with `for x in match ..`",
        ),
        ("for (i = 0; i < 3; i++) { }", "unexpected `(`", 1, 5, "write `for i in 0..3 { .. }`"),
        ("let a, b = 1, 2", "unexpected `,`", 1, 13, "each value has a `let` of its own"),
        ("let t = (1, 2)", "unexpected `,`", 1, 11, "a list is written with brackets: `[1, 2]`"),
        ("try { } except { }", "`except` is no word of the language", 1, 9, "write `else`"),
        ("assert true", "`assert` is no word of the language", 1, 1, 'write `require condition "why"`'),
        (
            "let x = isinstance(mm, matmul)",
            "there is no transform, sequence or function `isinstance`",
            1,
            9,
            "write `x.is_a(matmul)`",
        ),
        ("require mm is matmul", "unexpected `is`", 1, 12, "write `x.is_a(matmul)`"),
        ("require mm in root", "unexpected `in`", 1, 12, "write `contains(list, x)`; `x in loop` chooses copies"),
        ('import "lib/gemm.tcps"', "unexpected `import`", 1, 1, "`import` stands outside of other blocks"),
        (
            "else { }",
            "unexpected `else`",
            1,
            1,
            "`else` stands directly behind a block of `if`, `try` or `specialize`, or as the last arm of a `case`",
        ),
        (
            "switch mm { }",
            "`switch` is no word of the language",
            1,
            1,
            "write `case x { matmul => { .. } else => { .. } }`",
        ),
        (
            "let x = mm[0]",
            "unexpected `[`",
            1,
            11,
            "a list is gone through by `for x in list`; `outermost(list)` and `innermost(list)` are its ends",
        ),
    ],
)
def test_statements_of_other_languages(body: str, message: str, line: int, column: int, fix: str) -> None:
    found = first_problem(f"language 1\nschedule s(root: func) {{\nlet mm = match one matmul in root\n{body}\n}}\n")
    assert (found.message, found.fix) == (message, fix)
    assert found.schedule is not None
    assert (found.schedule.line - 3, found.schedule.column) == (line, column)


@pytest.mark.parametrize(
    ("item", "message", "line", "column", "fix"),
    [
        (
            "schedule s(root: func):\n  print(root)",
            "unexpected `:`",
            1,
            23,
            "a block stands in braces: write `{` in place of `:`, and `}` behind the last statement",
        ),
        (
            "def s(root) { }",
            "`def` is no word of the language",
            1,
            1,
            "write `sequence name(x: op) { .. }`, or `function` for an expression",
        ),
        ("from x import y", "`from` is no word of the language", 1, 1, 'write `import "lib/gemm.tcps" as gemm`'),
        (
            "import lib.gemm",
            "unexpected `lib`",
            1,
            8,
            'the path of a file is text in quotes: `import "lib/gemm.tcps" as gemm`',
        ),
        ('import "lib/gemm.tcps" gemm', "unexpected `gemm`", 1, 24, "write `as gemm`"),
        (
            "let a = 3",
            "unexpected `let`",
            1,
            1,
            "a statement stands in a `schedule` or `sequence`: write `schedule s(root: func) { .. }` round it",
        ),
        ("schedule s(root: func) {\n  print(root)\n}\n}", "unexpected `}`", 4, 1, "no block is open here: remove it"),
    ],
)
def test_items_of_other_languages(item: str, message: str, line: int, column: int, fix: str) -> None:
    found = first_problem(f"language 1\n{item}\n")
    assert (found.message, found.fix) == (message, fix)
    assert found.schedule is not None
    assert (found.schedule.line - 1, found.schedule.column) == (line, column)


@pytest.mark.parametrize(
    "body",
    [
        "tile(mm, [m: 6, n: 4], tail: pad)",
        "for i in 0..2 { print(mm) }",
        "if rank(mm) == 2 { } else if rank(mm) == 3 { }",
        'let f = match one matmul "fc*" in root\nprint(f)',
        'let wanted = "fc"\nlet f = match one op in root where it.name == wanted\nprint(f)',
        "let a = [1, 2]\nrequire contains(a, 2) and not mm.is_a(softmax)",
        "let a = 5 / 2 // half of it\nlet b = a  // 2 of them\nrequire a == b",
        "let x = 1.0e-3 if true else 2 ** 3\nrequire x > 0",
    ],
)
def test_the_forms_of_this_language(body: str) -> None:
    text = f"language 1\nschedule s(root: func) {{\n  let mm = match one matmul in root\n  print(mm)\n  {body}\n}}\n"
    assert check_program(program_of_text(text)) == ()


def test_a_number_behind_slashes_is_a_remark() -> None:
    text = "language 1\nschedule s(root: func) {\n  let a = rank(root) // 2\n  require a > 1\n}\n"
    (found,) = check_program(program_of_text(text))
    assert (found.message, found.is_error, found.fix) == (
        "`// 2` is a comment",
        False,
        "`/` divides integers, rounding down",
    )
    assert found.schedule is not None
    assert found.schedule.span == "// 2"


@pytest.mark.parametrize(
    ("text", "line", "column", "found"),
    [
        (
            "schedule s(root: func) {\n  for i in 1..3 {\n    dce(root)\n  cse(root)\n}\n",
            2,
            17,
            "`cse` at line 5, outside of it by its indentation",
        ),
        (
            "schedule s(root: func) {\n  if true {\n    dce(root)\n\n}\n\nsequence f(a: op) {\n  print(a)\n}\n",
            2,
            11,
            "`}` at line 6, outside of it by its indentation",
        ),
        (
            "schedule s(root: func) {\n  if true {\n    dce(root)\n  }\n\nfunction f(n: int) -> int = n\n",
            1,
            24,
            "`function` at line 7, outside of it by its indentation",
        ),
        (
            "sequence f(\n  a: op,\n  b: op,\n) {\n  if true { print(a) } else {\n    print(b)\n  print(a)\n}\n",
            5,
            29,
            "`print` at line 8, outside of it by its indentation",
        ),
        ("schedule s(root: func) {\n  if true { dce(root)\n", 2, 11, "the end of the file"),
        ("schedule s(root: func) {\ndce(root)\nif true {\ncse(root)\n}\n", 1, 24, "the end of the file"),
    ],
)
def test_a_block_that_is_not_closed_is_found_by_its_indentation(text: str, line: int, column: int, found: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_schedule(f"language 1\n{text}")
    problem = caught.value.diagnostic
    assert (problem.message, problem.required, problem.found) == ("`{` is not closed", "`}`", found)
    assert problem.schedule is not None
    assert (problem.schedule.line - 1, problem.schedule.column) == (line, column)
