"""Texts the parser refuses: each error says what was required, what was found, where, and a fix where one is near."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcpx.payload.diagnostics import Diagnostic, ParseError, TcpxError
from tcpx.payload.text.parser import load, parse
from tcpx.payload.text.scope import RESERVED
from tcpx.payload.types import SCALARS

SAMPLES = Path(__file__).parent / "samples"
FUNC = "func @f(%x: tensor<[M]x8xf32>) symbols [M: 1..9] {{ {} tcp.return }}"


def refused(text: str) -> Diagnostic:
    with pytest.raises(ParseError) as caught:
        parse(text)
    return caught.value.diagnostic


def test_the_whole_message() -> None:
    with pytest.raises(ParseError) as caught:
        parse("func @f(%x: tensor<[M]x8xf32>) symbols [M] {\n  %y = tcp.epx(%x) : tensor<[M]x8xf32>\n}", file="f.tcp")
    assert str(caught.value) == (
        "definite error: unknown operation `tcp.epx`\n"
        "  --> f.tcp:2:8 (payload)\n"
        "    2 |   %y = tcp.epx(%x) : tensor<[M]x8xf32>\n"
        "      |        ^^^^^^^\n"
        "  required: an operation that `tcpx ops` lists\n"
        "  found: `tcp.epx`\n"
        "  fix: did you mean tcp.exp?"
    )


@pytest.mark.parametrize(
    ("statement", "message", "found", "fix", "caret"),
    [
        ("%y = tcp.exp(%z) : f32", "undefined value %z", "%z", None, "%z"),
        (
            "%wide = tcp.empty : f32 %y = tcp.exp(%wyde) : f32",
            "undefined value %wyde",
            "%wyde",
            "did you mean %wide?",
            "%wyde",
        ),
        (
            "%y = tcp.empty : f32 %y = tcp.empty : f32",
            "the value %y is defined twice",
            "%y",
            "values do not change: write another name, such as %y.1, also where it is used",
            "%y = tcp.empty : f32 tcp.return",
        ),
        (
            "%x = tcp.empty : f32",
            "the value %x is defined twice",
            "%x",
            "values do not change: write another name, such as %x.1, also where it is used",
            "%x =",
        ),
        (
            "%y, %y = gml_st.for %i in 0 to 1 (%a = %x, %b = %x) { } : f32, f32",
            "the value %y is defined twice",
            "%y",
            "values do not change: write another name, such as %y.1, also where it is used",
            "",
        ),
        ("%y = tcp.empty : f23", "unknown element type `f23`", "`f23`", "did you mean f32?", "f23"),
        ("%y = tcp.empty : tensor<4xf23>", "unknown element type `f23`", "`f23`", "did you mean f32?", "f23"),
        ("%y = tcp.empty : tensor<[N]xf32>", "unknown size `N`", "`N`", "declare it: symbols [M: 1..9, N]", "N"),
        ("%y = tcp.empty : tensor<[%i]xf32>", "unknown loop variable %i", "%i", None, "%i"),
        ("%y = tcp.empty : tensor<[%x]xf32>", "unknown loop variable %x", "the value %x", None, "%x"),
        ("%y = tcp.empty : vector<[M]xf32>", "a vector has a static shape", "M", None, "[M]"),
        ("%y = tcp.empty : tensor<[-1]xf32>", "a dim is not negative", "-1", None, "[-1]"),
        ("%y = tcp.empty : tensor<[floordiv(M, 0)]xf32>", "floordiv divides by 0", "0", None, "floordiv(M, 0)"),
        ("%y = tcp.empty : tensor<[mod(M)]xf32>", "mod takes two sizes", "1 size", None, "mod(M)"),
        ("%y = tcp.empty : tensor<[min(M)]xf32>", "min takes two or more sizes", "1 size", None, "min(M)"),
        (
            "%y = tcp.empty : buffer<4x4xf32, strides [1], space stack>",
            "a buffer has a stride per dim",
            "1 stride",
            None,
            "buffer<4x4xf32, strides [1], space stack>",
        ),
        (
            "%y = tcp.empty",
            "every result has a type and every type a result",
            "0 types",
            "end the operation with `: TYPE`, the type of its result",
            "%y = tcp.empty",
        ),
        ("tcp.empty : f32", "every result has a type and every type a result", "1 type", None, "tcp.empty : f32"),
        ("%y = tcp.exp(init = %x) : f32", "tcp.exp has no operand called `init` here", "`init`", None, "init = %x"),
        (
            "%y = tcp.matmul(%x, acc = %x) : f32",
            "tcp.matmul has no operand called `acc` here",
            "`acc`",
            None,
            "acc = %x",
        ),
        (
            "%y = tcp.matmul(init = %x, %x) : f32",
            "tcp.matmul has no operand called `init` here",
            "`init`",
            None,
            "init = %x",
        ),
        (
            "%y = tcp.matmul(%x, %x, %x) : f32",
            "tcp.matmul takes its operand `init` last and by name",
            "3 operand(s), none by name",
            None,
            "(%x, %x, %x)",
        ),
        (
            "%y = tcp.matmul(%x, init = %x) : f32",
            "tcp.matmul takes its operand `init` last and by name",
            "2 operand(s), one by name",
            None,
            "(%x, init = %x)",
        ),
        (
            "%y = tcp.fill {value = 0.0, value = 1.0} : f32",
            "the attribute `value` is given twice",
            "value",
            None,
            "value = 1.0",
        ),
        (
            "%y = tcp.fill {value = q} : f32",
            "unknown word `q` in an attribute",
            "`q`",
            'quote a name: "q"; declare a size: symbols [q]',
            "q",
        ),
        (
            "%y = tcp.fill {values = 0.0} : f32",
            "tcp.fill has no attribute `values`",
            "`values`",
            "did you mean value?",
            "values",
        ),
        ("%y = tcp.exp(%x) {fast = true} : f32", "tcp.exp has no attribute `fast`", "`fast`", None, "fast"),
        (r'%y = tcp.fill {value = "\q"} : f32', "the string has an unknown escape", r'"\q"', None, r'"\q"'),
        (
            "%y = gml_st.materialize(%x) tile [0, 0] [M] : f32",
            "a tile has as many sizes and strides as offsets",
            "2, 1",
            None,
            "tile [0, 0] [M]",
        ),
        (
            "%y = gml_st.materialize(%x) tile [0] [M] drop [1] : f32",
            "a dropped dim is a dim of the tile",
            "[1]",
            None,
            "tile [0] [M] drop [1]",
        ),
        ("%y = gml_st.materialize(%x) tile [0] [M] drop [M] : f32", "a dropped dim is static", "M", None, "M"),
        (
            "%y = gml_st.materialize(%x) tile [0] [M] {subset = 3} : f32",
            "the subset is given twice",
            "tile [0] [M]",
            None,
            "tile [0] [M]",
        ),
        (
            "%y = tcp.exp(%x) tile [0] [M] : f32",
            "tcp.exp works on whole operands",
            "tile [0] [M]",
            "read the subset before: `%part = gml_st.materialize(%x) tile [..] [..] : TYPE`",
            "tile [0] [M]",
        ),
        ("gml_st.for %i in 0 to M step 0 { }", "the step of a loop is positive", "0", None, "step 0"),
        (
            "gml_st.for %i in 0 to M { gml_st.for %i in 0 to M { } }",
            "a loop around this one is also called %i",
            "%i",
            None,
            "%i",
        ),
        ("gml_st.for %i in 0 to M { } gml_st.for %j in 0 to %i { }", "unknown loop variable %i", "%i", None, "%i {"),
        (
            "gml_st.for %i in 0 to M { %y = tcp.exp(%i) : f32 }",
            "undefined value %i",
            "the loop variable %i",
            "a loop variable is a size; its numbers are values as %at = tcp.iota {dim = 0} : tensor<[N]xsi64> before "
            "the loop, read in it by gml_st.materialize(%at) tile [%i] [1]",
            "%i)",
        ),
        ("gml_st.if M < 4 { %y = tcp.empty : f32 } %z = tcp.exp(%y) : f32", "undefined value %y", "%y", None, "%y)"),
    ],
)
def test_names_types_and_sizes(statement: str, message: str, found: str | None, fix: str | None, caret: str) -> None:
    text = FUNC.format(statement)
    error = refused(text)
    assert (error.message, error.found, error.fix) == (message, found, fix)
    assert error.payload is not None
    assert error.payload.text == text
    assert text[error.payload.column - 1 :].startswith(caret)


@pytest.mark.parametrize(
    ("text", "required", "found", "place"),
    [
        ("func @f(", "a value such as %x or `)`", "the end of the text", (1, 9)),
        ("func f()", "a function name such as @main", "`f`", (1, 6)),
        ("func @f() {\n  %x tcp.empty : f32\n}", "`,` or `=`", "`tcp.empty`", (2, 6)),
        ("func @f() { %x = tcp.empty : }", "a name, `buffer`, `tensor` or `vector`", "`}`", (1, 30)),
        ("func @f() { %x = tcp.empty : tensor<4> }", "`x`", "`>`", (1, 38)),
        ("func @f() { gml_st.for %i in 0 of 4 { } }", "`*`, `+`, `-` or `to`", "`of`", (1, 32)),
        ("func @f() { gml_st.if M N { } }", "a comparison, `*`, `+` or `-`", "`N`", (1, 25)),
        ("func @f() { ? }", "a name, a value such as %x or `}`", "`?`", (1, 13)),
        (
            "func @f() { tcp.exp([) }",
            "a float, a name, a value such as %x, an integer, `)`, `-` or `{`",
            "`[`",
            (1, 21),
        ),
        ("constants weights", "a string", "`weights`", (1, 11)),
        ("func @f() { } }", "the end of the text or `func`", "`}`", (1, 15)),
    ],
)
def test_grammar(text: str, required: str, found: str, place: tuple[int, int]) -> None:
    error = refused(text)
    assert error.message == "the text does not follow the grammar"
    assert (error.required, error.found) == (required, found)
    assert error.payload is not None
    assert (error.payload.line, error.payload.column) == place


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("func @f() symbols [M, M]", "the symbol M is declared twice"),
        ("func @f() symbols [inf]", "`inf` cannot be the name of a symbol"),
        ("func @f() symbols [f32]", "`f32` cannot be the name of a symbol"),
        ("func @f() symbols [a.b]", "`a.b` cannot be the name of a symbol"),
        ("func @f() symbols [M: 4..3]", "the range is empty"),
        ("func @f() symbols [M multiple_of 0]", "a size is a multiple of 1 or more"),
        ("func @f(%x: f32, %x: f32)", "the value %x is defined twice"),
        ("func @f() -> f32", "@f does not return what it declares"),
        ("func @f(%x: tensor<2x3xf32> strided) {strided = [0]}", "what is strided is said twice"),
        ("func @g() { tcp.return } func @g()", "the function @g is defined twice"),
    ],
)
def test_heads_of_functions(head: str, message: str) -> None:
    assert refused(head + " { tcp.return }").message == message


def test_declared_results_are_those_returned() -> None:
    error = refused("func @f(%x: f32) -> (f32, f64) { tcp.return(%x) }")
    assert (error.required, error.found) == ("f32, f64, declared at <text>:1:18", "%x: f32")
    error = refused("func @f(%x: f32) { tcp.return(%x) }")
    assert (error.required, error.found) == ("no results, declared at <text>:1:6", "%x: f32")


def test_only_what_a_caller_passes_is_strided() -> None:
    error = refused(
        "func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
        '  %y = tcp.generic(%x) {iterators = [["i", "parallel"], ["j", "parallel"]], maps = [[i, j], [i, j]]} '
        "({ (%e: f32 strided): tcp.yield(%e) }) : tensor<2x3xf32>\n  tcp.return(%y) }"
    )
    assert error.message == "only what a caller passes is `strided`"
    assert error.required == "`strided` with arguments of a function"
    assert error.found == "`strided` with an argument of a region"
    assert error.payload is not None
    assert (error.payload.line, error.payload.span) == (2, "strided")


def test_reserved_names_are_all_refused_or_read_as_what_they_are() -> None:
    assert set(SCALARS) < RESERVED
    for name in sorted(RESERVED):
        with pytest.raises(ParseError):
            parse(f"func @f() symbols [{name}] {{ tcp.return }}")


def test_deep_nesting_is_an_error() -> None:
    depth = 5000
    error = refused(FUNC.format(f"%y = tcp.empty : tensor<[{'1 + (' * depth}M{')' * depth}]xf32>"))
    assert error.message == "the text is nested more than 64 deep here"


def test_files(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match=r"cannot read .*none\.tcp"):
        load(tmp_path / "none.tcp")
    payload = tmp_path / "p.tcp"
    payload.write_text(
        'constants "w.npz"\nfunc @f() {\n  %w = tcp.const {constant = "w"} : tensor<2xf32>\n  tcp.return\n}\n'
    )
    with pytest.raises(ParseError) as caught:
        load(payload)
    assert caught.value.diagnostic.message == 'cannot read the constants "w.npz"'
    assert str(caught.value.diagnostic.payload) == f"{payload}:1:1"
    np.savez(tmp_path / "w.npz", allow_pickle=False, w=np.ones(2, np.float32))
    assert load(payload).constants.get("w") is not None


def test_constants_of_bf16_and_constants_by_name(tmp_path: Path) -> None:
    text = 'constants "w.npz"\nfunc @f() {\n  %w = tcp.const {constant = "w"} : tensor<2xbf16>\n  tcp.return\n}\n'
    (tmp_path / "p.tcp").write_text(text)
    held = np.array([1.5, -2], ml_dtypes.bfloat16)
    np.savez(tmp_path / "w.npz", allow_pickle=False, w=held)
    for module in (load(tmp_path / "p.tcp"), parse(text, constants={"w": held})):
        found = module.constants.get("w")
        assert found is not None
        assert found.dtype == ml_dtypes.bfloat16
        assert (found == held).all()


def test_a_byte_order_mark_is_no_part_of_a_text() -> None:
    text = "func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n  tcp.return(%x)\n}\n"
    assert parse("\ufeff" + text).text() == parse(text).text()


@pytest.mark.parametrize(
    "text",
    ["func @f() {\n  %x = = tcp.empty\n}", 'constants "\\q"\n', FUNC.format("%y = tcp.add(%x) : tensor<8xf32>")],
)
def test_an_error_stands_alone_in_a_traceback(text: str) -> None:
    with pytest.raises(TcpxError) as caught:
        parse(text)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


ATTRIBUTES = "`contraction` or `promise` or `target` or `strided` or `ranges` or `inout` or `numbers` or `result_names`"
OF_LOWERED = "`results` or `remarks` or `workspace` or `workspace_live` or `threads` or `rounding` or `layouts`"
OF_ROWS = "`in_place` or `alignment` or `scratch` or `contract`"


@pytest.mark.parametrize(
    ("given", "name", "required", "fix"),
    [
        ("contract = false", "contract", "`row`", "write contraction = false"),
        ("contraction = false, strides = [0]", "strides", "`row`", "did you mean `strided`?"),
        ("foo = 3", "foo", "`row`", None),
        ('row = "r", aligned = [4]', "aligned", f"`row` or {OF_ROWS}", "did you mean `alignment`?"),
    ],
)
def test_a_function_has_no_other_attributes(given: str, name: str, required: str, fix: str | None) -> None:
    with pytest.raises(ParseError) as caught:
        parse(f"func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {{{given}}} {{ tcp.return(%x) }}")
    found = caught.value.diagnostic
    assert (found.message, found.found) == (f"a function has no attribute `{name}`", f"`{name}`")
    assert (found.required, found.fix) == (f"{ATTRIBUTES} or {required} or {OF_LOWERED}", fix)
    assert found.payload is not None
    assert found.payload.span == name


def test_a_function_that_stands_for_a_row_has_those_of_rows() -> None:
    text = 'func @f(%x: tensor<4xf32>) -> tensor<4xf32> {row = "r", contract = ["nonempty"]} {\n  tcp.return(%x)\n}\n'
    assert parse(text).text() == text


ALPHABET = st.sampled_from(
    ["%x", "%i", "%o", "M", "4", "0", "-", "+", "*", "(", ")", "[", "]", "{", "}", ",", ":", "=", "<", ">", "x", "f32"]
    + ["si8", "tensor", "vector", "min", "mod", "tile", "drop", "tcp.add", "tcp.matmul", "tcp.generic", "tcp.yield"]
    + ["gml_st.yield", "gml_st.if", "vector.read", "1.5", '"a"', "init", "maps", "dims", "inf", "name", "else", "\n"]
)


@settings(max_examples=300)
@given(
    st.sampled_from(sorted(p.read_text(encoding="utf-8") for p in SAMPLES.glob("*.tcp"))),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2), ALPHABET), min_size=1, max_size=3),
)
def test_a_broken_text_is_an_error_of_tcpx(text: str, edits: list[tuple[float, int, str]]) -> None:
    for where, removed, inserted in edits:
        words = text.split(" ")
        at = int(where * (len(words) - 1))
        words[at : at + removed] = [inserted]
        text = " ".join(words)
    with suppress(TcpxError):
        parse(text)


@pytest.mark.parametrize("text", ["func @NAME() ", "func @f(%x: f32) -> f32 {\n  %y = NAME(%x) : ", "NAME\n  func f"])
def test_a_long_name_before_an_error_takes_no_time(text: str) -> None:
    """Patterns of other languages take time that grows with the square of a line; this would not end."""
    with pytest.raises(ParseError):
        parse(text.replace("NAME", "a" * 10_000_000))
    with pytest.raises(ParseError) as caught:
        parse(text.replace("NAME", "a" * 100))
    assert caught.value.diagnostic.message == "the text does not follow the grammar"
