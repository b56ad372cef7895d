"""Payloads written as in other systems: the error is at the place of the mistake, and its fix is what to write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import Diagnostic, TcpxError
from tcpx.payload.text.parser import parse

WIDE = "tensor<[N]x8xf32>"


def refused(text: str) -> Diagnostic:
    with pytest.raises(TcpxError) as caught:
        parse(text, "f.tcp")
    return caught.value.diagnostic


def function(statement: str, *, arguments: str = f"%x: {WIDE}, %b: tensor<8xf32>", result: str = WIDE) -> str:
    symbols = " symbols [N]" if "[N]" in arguments else ""
    return f"func @f({arguments}) -> {result}{symbols} {{\n  {statement}\n  tcp.return(%y)\n}}\n"


def shown(error: Diagnostic) -> str | None:
    """The text that the place of an error spans."""
    return error.payload.span if error.payload is not None else None


BROADCASTS = {
    "rows": ("tensor<8xf32>", ["%b.wide = tcp.broadcast(%b) {dims = [1]}"]),
    "columns": ("tensor<[N]xf32>", ["%b.wide = tcp.broadcast(%b) {dims = [0]}"]),
    "one number": ("f32", ["%b.wide = tcp.broadcast(%b) {dims = []}"]),
    "no dims": ("tensor<f32>", ["%b.wide = tcp.broadcast(%b) {dims = []}"]),
    "a dim of one": (
        "tensor<[N]x1xf32>",
        ["%b.flat = tcp.reshape(%b) : tensor<[N]xf32>", "%b.wide = tcp.broadcast(%b.flat) {dims = [0]}"],
    ),
    "two of one": (
        "tensor<1x1xf32>",
        ["%b.flat = tcp.reshape(%b) : tensor<f32>", "%b.wide = tcp.broadcast(%b.flat) {dims = []}"],
    ),
}


@pytest.mark.parametrize("name", BROADCASTS)
@pytest.mark.parametrize("statement", ["tcp.sub(%x, %b)", "tcp.sub(%b, %x)", "tcp.fma(%b, %b, %x)"])
def test_a_smaller_operand_is_broadcast_by_name(name: str, statement: str) -> None:
    type_, lines = BROADCASTS[name]
    arguments = f"%x: {WIDE}, %b: {type_}"
    error = refused(function(f"%y = {statement} : {WIDE}", arguments=arguments))
    assert shown(error) == f"%y = {statement} : {WIDE}"
    lines = [*lines[:-1], f"{lines[-1]} : {WIDE}"]
    assert error.fix == "\n".join(["write:", *lines, "and %b.wide in place of %b"])
    written = "\n  ".join([*lines, f"%y = {statement.replace('%b', '%b.wide')} : {WIDE}"])
    parse(function(written, arguments=arguments))


@pytest.mark.parametrize("type_", ["tensor<7xf32>", "tensor<2x[N]x8xf32>", "tensor<[N]x7xf32>"])
def test_what_does_not_broadcast_has_no_fix(type_: str) -> None:
    assert refused(function(f"%y = tcp.add(%x, %b) : {WIDE}", arguments=f"%x: {WIDE}, %b: {type_}")).fix is None


def test_sizes_that_may_be_equal_are_still_unproven() -> None:
    arguments = "%x: tensor<[N]xf32>, %b: tensor<[M]xf32>"
    text = function("%y = tcp.add(%x, %b) : tensor<[N]xf32>", arguments=arguments, result="tensor<[N]xf32>")
    error = refused(text.replace("symbols [N]", "symbols [N, M]"))
    assert error.fix == "make the sizes the same expression"


PRODUCTS = {
    "rank 3": ("2x4x5", "2x5x6", "2x4x6", "tcp.batch_matmul"),
    "rank 3 and 2": ("2x4x5", "5x6", "2x4x6", '{lhs = ["b", "m", "k"], rhs = ["k", "n"], out = ["b", "m", "n"]}'),
    "rank 2 and 3": ("4x5", "2x5x6", "2x4x6", '{lhs = ["m", "k"], rhs = ["b", "k", "n"], out = ["b", "m", "n"]}'),
    "rank 4": (
        "2x3x4x5",
        "2x3x5x6",
        "2x3x4x6",
        '{lhs = ["b0", "b1", "m", "k"], rhs = ["b0", "b1", "k", "n"], out = ["b0", "b1", "m", "n"]}',
    ),
    "a matrix and a vector": ("4x5", "5", "4", "tcp.matvec"),
    "a vector and a matrix": ("5", "5x6", "6", "tcp.vecmat"),
    "two vectors": ("5", "5", "", "tcp.dot"),
    "weights by rows": ("4x5", "6x5", "4x6", '{lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]}'),
    "a left factor by columns": ("5x4", "5x6", "4x6", '{lhs = ["k", "m"], rhs = ["k", "n"], out = ["m", "n"]}'),
    "keys by rows": (
        "2x4x5",
        "2x6x5",
        "2x4x6",
        '{lhs = ["b", "m", "k"], rhs = ["b", "n", "k"], out = ["b", "m", "n"]}',
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_matmul_of_other_shapes_is_another_contraction(name: str) -> None:
    lhs, rhs, out, dims = PRODUCTS[name]
    result = f"tensor<{out}xf32>" if out else "tensor<f32>"
    arguments = f"%x: tensor<{lhs}xf32>, %b: tensor<{rhs}xf32>"
    error = refused(function(f"%y = tcp.matmul(%x, %b) : {result}", arguments=arguments, result=result))
    call = f"tcp.contract(%x, %b) {dims}" if dims.startswith("{") else f"{dims}(%x, %b)"
    written = f"%y = {call} : {result}"
    assert error.fix == f"write: {written}"
    parse(function(written, arguments=arguments, result=result))


def test_an_init_stays_where_it_is() -> None:
    arguments = "%x: tensor<2x4x5xf32>, %b: tensor<5x6xf32>, %i: tensor<2x4x6xf32>"
    text = function("%y = tcp.matmul(%x, %b, init = %i) : tensor<2x4x6xf32>", arguments=arguments, result="f32")
    assert str(refused(text).fix).startswith("write: %y = tcp.contract(%x, %b, init = %i) {")


def test_a_matmul_that_no_contract_is() -> None:
    text = function(
        "%y = tcp.matmul(%x, %b) : tensor<4x6xf32>",
        arguments="%x: tensor<4x5xf32>, %b: tensor<7x6xf32>",
        result="tensor<4x6xf32>",
    )
    error = refused(text)
    assert (error.required, error.fix) == ("5, the extent of `k`", None)


@pytest.mark.parametrize(
    ("statement", "arguments", "wanted", "found"),
    [
        ("tcp.exp(%x) : tensor<4xf32>", "%x: tensor<4x8xf32>", "tensor<4x8xf32>", "tensor<4xf32>"),
        ("tcp.add(%x, %x) : tensor<8x4xf32>", "%x: tensor<4x8xf32>", "tensor<4x8xf32>", "tensor<8x4xf32>"),
        ("tcp.exp(%x) : tensor<[N]x9xf32>", f"%x: {WIDE}", WIDE, "tensor<[N]x9xf32>"),
        (
            "tcp.matmul(%x, %w) : tensor<6x4xf32>",
            "%x: tensor<4x8xf32>, %w: tensor<8x6xf32>",
            "tensor<4x6xf32>",
            "tensor<6x4xf32>",
        ),
        (
            'tcp.contract(%x, %x) {lhs = ["a", "b"], rhs = ["c", "b"], out = ["c", "a"]} : tensor<4xf32>',
            "%x: tensor<4x8xf32>",
            "tensor<4x4xf32>",
            "tensor<4xf32>",
        ),
        (
            "tcp.reduce_sum(%x) {dims = [1]} : tensor<4x1xf32>",
            "%x: tensor<4x8xf32>",
            "tensor<4xf32>",
            "tensor<4x1xf32>",
        ),
        (
            "tcp.transpose(%x) {permutation = [1, 0]} : tensor<4x8xf32>",
            "%x: tensor<4x8xf32>",
            "tensor<8x4xf32>",
            "tensor<4x8xf32>",
        ),
    ],
)
def test_a_wrong_result_type_blames_the_operation(statement: str, arguments: str, wanted: str, found: str) -> None:
    """Though the function declares the right type, or the same wrong one."""
    for declared in (wanted, found):
        error = refused(function(f"%y = {statement}", arguments=arguments, result=declared))
        assert shown(error) == f"%y = {statement}"
        assert error.message.endswith(": the operands give the result another shape than its type")
        assert (error.required, error.found, error.fix) == (wanted, found, f"write `: {wanted}`")


def test_a_wrong_dtype_blames_the_result_where_the_operands_agree() -> None:
    error = refused(function("%y = tcp.exp(%x) : tensor<[N]x8xf64>", result="tensor<[N]x8xf64>"))
    assert error.message == "%y (tcp.exp): the result has another dtype than the operands"
    assert (error.required, error.found) == ("f32", "tensor<[N]x8xf64>")
    assert error.fix == f"write `: {WIDE}`, and a tcp.cast of it"


def test_one_operand_of_another_dtype_is_cast() -> None:
    error = refused(function(f"%y = tcp.add(%x, %b) : {WIDE}", arguments=f"%x: {WIDE}, %b: tensor<[N]x8xbf16>"))
    assert (error.required, error.fix) == ("f32", f"%b.f32 = tcp.cast(%b) : {WIDE}")


def test_a_result_of_another_type_than_declared_shows_what_makes_it() -> None:
    error = refused(function("%y = tcp.cast(%x) : tensor<[N]x8xf64>"))
    assert error.render() == (
        "definite error: @f does not return what it declares\n"
        "  --> f.tcp:2:3 (payload)\n"
        "    2 |   %y = tcp.cast(%x) : tensor<[N]x8xf64>\n"
        "      |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        f"  required: {WIDE}, declared at f.tcp:1:51\n"
        "  found: %y: tensor<[N]x8xf64>"
    )
    extra = refused(function(f"%y = tcp.exp(%x) : {WIDE}").replace("return(%y)", "return(%y, %x)"))
    assert shown(extra) == "tcp.return(%y, %x)"
    fewer = refused(function(f"%y = tcp.exp(%x) : {WIDE}").replace("return(%y)", "return"))
    assert shown(fewer) == "tcp.return"
    assert (fewer.required, fewer.found) == (f"{WIDE}, declared at f.tcp:1:51", "no results")


NAMED = "name the size: tensor<[N]x4xf32>, and declare symbols [N] after the results"
COMPUTED = "a size that is computed stands in brackets: [2*N], [N + 1]; declare symbols [N] after the results"


@pytest.mark.parametrize(
    ("text", "place", "fix"),
    [
        (function("%y = tcp.exp(%x) : tensor<2*Nx8xf32>"), "*", COMPUTED),
        (function("%y = tcp.exp(%x) : tensor<N+1x8xf32>"), "+", COMPUTED),
        (function("%y = tcp.exp(%x) : tensor<2Nx8xf32>"), "Nx8xf32", COMPUTED),
        (function("%y = tcp.exp(%x) : tensor<N x 8xf32>"), "x", NAMED),
        (
            function("%y = tcp.exp(%x) : tensor<[N/2]x8xf32>"),
            "/",
            "sizes are divided with a rounding: floordiv(N, 2) or ceildiv(N, 2)",
        ),
        (function("%y = tcp.exp(%x) : f32[4,8]"), "f32[4,8]", "write tensor<4x8xf32>"),
        (function("%y = tcp.exp(%x) : f32", arguments="%x: tensor<?x4xf32>"), "?", NAMED),
        (function("%y = tcp.exp(%x) : f32", arguments="%x: tensor<4x?xf32>"), "?", NAMED),
        (function("%y = tcp.exp(%x) : f32", arguments="%x: tensor<-1x4xf32>"), "-", NAMED),
        (function("%y = tcp.exp(%x) : f32", arguments="%x: tensor<[?]x4xf32>"), "?", NAMED),
        (
            function("%y = tcp.exp(%x) : f32", arguments="%x: tensor<4, 8, f32>"),
            ",",
            "join sizes and dtype by x: tensor<4x8xf32>",
        ),
        (function(f"%y = tcp.add %x, %x : {WIDE}"), "tcp.add %x, %x", "write tcp.add(%x, %x)"),
        ("func @f(%x: f32) -> f32 {\n  return %x\n}", "return %x", "write tcp.return(%x)"),
        ("func @f(%x: f32) -> f32 {\n  return %x : f32\n}", "return %x", "write tcp.return(%x)"),
        (function(f"%y = tcp.exp(%x) : ({WIDE}) -> {WIDE}"), f"({WIDE}) -> {WIDE}", f"write {WIDE}"),
        (function(f"%y = tcp.exp(%x) : {WIDE} -> {WIDE}"), f"{WIDE} -> {WIDE}", f"write {WIDE}"),
        (function(f"%y = tcp.exp(%x : {WIDE}) : {WIDE}"), f"tcp.exp(%x : {WIDE})", "write tcp.exp(%x)"),
        (
            function(f"%y = tcp.fill : {WIDE} {{value = 0.0}}"),
            f": {WIDE} {{value = 0.0}}",
            f"write {{value = 0.0}} : {WIDE}",
        ),
        (function(f'%y = "tcp.exp"(%x) : {WIDE}'), '"tcp.exp"', "write tcp.exp"),
        ("module {\n}", "module", "a file is a list of functions, without a module around them"),
        ("func.func @f() {\n}", "func.func", "write func"),
        ("# a payload\nfunc @f() {\n}", "#", "write `//`: a comment begins with it"),
        (function(f"%y = tcp.exp(%x) : {WIDE};"), ";", "remove it: nothing ends a statement"),
        (function(f"%y = tcp.exp(%x) {{dims = ['m']}} : {WIDE}"), "'m'", 'write "m"'),
        ("func @f(x: f32) {\n}", "x", "write %x"),
        ("func @f(%x: f32) { %y }", "}", None),
    ],
)
def test_syntax_of_other_systems(text: str, place: str, fix: str | None) -> None:
    error = refused(text)
    assert shown(error) == place
    assert error.fix == fix


@pytest.mark.parametrize(
    ("type_", "size", "fix"),
    [
        ("tensor<Nx4xf32>", "N", "write [N]x4xf32, and declare symbols [N] after the results"),
        ("tensor<4xNxf32>", "N", "write [N]xf32, and declare symbols [N] after the results"),
        ("tensor<MxNxMxbf16>", "M", "write [M]x[N]x[M]xbf16, and declare symbols [M, N] after the results"),
        ("tensor<batchx4xsi8>", "batch", "write [batch]x4xsi8, and declare symbols [batch] after the results"),
    ],
)
def test_sizes_without_brackets(type_: str, size: str, fix: str) -> None:
    error = refused(f"func @f(%x: {type_}) {{ tcp.return }}")
    assert (error.message, error.fix) == (f"the size `{size}` stands without brackets", fix)


def test_a_declared_size_without_brackets_is_declared() -> None:
    assert refused("func @f(%x: tensor<Nx4xf32>) symbols [N] { tcp.return }").fix == "write [N]x4xf32"


@pytest.mark.parametrize(("name", "dtype"), [("i32", "si32"), ("float", "f32"), ("uint8", "ui8"), ("bool", "i1")])
def test_dtypes_of_other_systems(name: str, dtype: str) -> None:
    error = refused(f"func @f(%x: tensor<4x{name}>) {{ tcp.return }}")
    assert (error.message, error.fix) == (f"unknown element type `{name}`", f"write {dtype}")


@pytest.mark.parametrize(
    ("argument", "symbols", "found", "fix"),
    [
        ("[N*N]", "N", "%x: tensor<[N*N]xf32>", "make the whole dim a symbol: [N]"),
        ("[8 - N]", "N: 0..8", "%x: tensor<[8 - N]xf32>", "make the whole dim a symbol: [N]"),
        ("[floordiv(N, 2)]", "N", "%x: tensor<[floordiv(N, 2)]xf32>", "make the whole dim a symbol: [N]"),
        ("[N]", "N, M", "%x: tensor<[N]xf32>", "leave `M` out of `symbols`"),
    ],
)
def test_a_size_that_no_argument_tells_has_a_place(argument: str, symbols: str, found: str, fix: str) -> None:
    type_ = f"tensor<{argument}xf32>"
    module = parse(
        f"func @f(%x: {type_}) -> {type_} symbols [{symbols}] {{\n  %y = tcp.exp(%x) : {type_}\n  tcp.return(%y)\n}}",
        "f.tcp",
    )
    with pytest.raises(TcpxError) as of_the_evaluator:
        tcpx.evaluate(module, np.ones(6, np.float32))
    with pytest.raises(TcpxError) as of_the_kernel:
        tcpx.compile(module, target="generic")
    schedule = tcpx.parse_schedule("language 1\nschedule default(root: func) { canonicalize(root) }")
    for error in (
        of_the_evaluator.value.diagnostic,
        of_the_kernel.value.diagnostic,
        *tcpx.check(None, module),
        *tcpx.check(schedule, module, target="generic"),
    ):
        assert error.message == f"the size `{symbols[-1] if ',' in symbols else 'N'}` follows from no argument"
        assert str(error.payload) == "f.tcp:1:6"
        assert (error.found, error.fix) == (found, fix)
    assert tcpx.check(None, module)
    assert tcpx.check(schedule, module, target="generic")


X = "%x: tensor<4x8xf32>"


@pytest.mark.parametrize(
    ("statement", "message", "found", "fix"),
    [
        ("tcp.softmax(%x)", "the attribute `dim` is missing", "no `dim`", "{dim = 1}"),
        ("tcp.softmax(%x) {dim = 1.5}", "the attribute `dim` is of another kind", "dim = 1.5", "{dim = 1}"),
        ("tcp.softmax(%x) {dim = -2}", "`dim` is a dim of the operand", "-2", "{dim = 0}"),
        ("tcp.softmax(%x) {dim = 2}", "`dim` is a dim of the operand", "2", None),
        ("tcp.reduce_sum(%x)", "the attribute `dims` is missing", "no `dims`", "{dims = [1]}"),
        ("tcp.reduce_sum(%x) {dims = 1}", "the attribute `dims` is of another kind", "dims = 1", "{dims = [1]}"),
        ("tcp.reduce_sum(%x) {dims = [0, -1]}", "`dims` names dims of the operand", "[0, -1]", "{dims = [0, 1]}"),
        ("tcp.reduce_sum(%x) {dims = [2]}", "`dims` names dims of the operand", "[2]", None),
        ("tcp.transpose(%x)", "the attribute `permutation` is missing", "no `permutation`", "{permutation = [1, 0]}"),
        ("tcp.broadcast(%b)", "the attribute `dims` is missing", "no `dims`", "{dims = [1]}"),
        (
            "tcp.broadcast(%b) {dims = [0]}",
            "dim 0 of `operand` does not agree with `d0`",
            "8 in %b: tensor<8xf32>",
            "{dims = [1]}",
        ),
        ("tcp.fill", "the attribute `value` is missing", "no `value`", "{value = 0.0}"),
        ("tcp.pad(%x)", "the attribute `value` is missing", "no `value`", "{value = 0.0}"),
        (
            'tcp.contract(%x, %x) {lhs = "mk", rhs = "nk", out = "mn"}',
            "the attribute `lhs` is of another kind",
            'lhs = "mk"',
            '{lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]}',
        ),
        ("tcp.less(%x, %x)", "the result is a truth value", "f32", "write `: tensor<4x8xi1>`"),
        (
            "tcp.select(%x, %x, %c)",
            "operand `a` has the wrong dtype",
            "%x: tensor<4x8xf32>",
            "write (the condition goes first): tcp.select(%c, %x, %x)",
        ),
        (
            'tcp.generic(%x) {iterators = [["i", "parallel"], ["j", "reduction"]], maps = [[i, j], [i]]}'
            " ({ (%e: f32, %a: f32): tcp.yield(%a) })",
            "a generic with a reduction iterator or an `init` names an associative `combiner`",
            "no `combiner`",
            None,
        ),
    ],
)
def test_attributes_and_operands_of_other_kinds(statement: str, message: str, found: str, fix: str | None) -> None:
    arguments = f"{X}, %b: tensor<8xf32>, %c: tensor<4x8xi1>"
    error = refused(function(f"%y = {statement} : tensor<4x8xf32>", arguments=arguments, result="tensor<4x8xf32>"))
    assert error.message == f"%y ({statement.replace('(', ' ').partition(' ')[0]}): {message}"
    assert (error.found, error.fix) == (found, fix)


@pytest.mark.parametrize(
    ("statement", "fix"),
    [
        ("tcp.softmax(%x) {axis = 1}", "write dim"),
        ("tcp.reduce_sum(%x) {axis = 1}", "write dims"),
        ("tcp.transpose(%x) {perm = [1, 0]}", "write permutation = [1, 0]"),
        (
            'tcp.contract(%x, %x) {equation = "mk,nk->mn"}',
            'write {lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]}',
        ),
        ("tcp.fill {fill_value = 0.0}", "write value = 0.0"),
        (
            "tcp.pad(%x) {pads = [1, 1]}",
            "write value = 0.0, low = [1, 1]: what is before; the type of the result says how much is behind",
        ),
        ("tcp.softmax(%x) {dmi = 1}", "did you mean dim?"),
        ("tcp.exp(%x) {axis = 1}", None),
    ],
)
def test_attributes_by_the_names_of_other_systems(statement: str, fix: str | None) -> None:
    error = refused(function(f"%y = {statement} : tensor<4x8xf32>", arguments=X, result="tensor<4x8xf32>"))
    assert " has no attribute `" in error.message
    assert error.fix == fix


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        (f"func @f({X}) {{ %y = tcp.exp(%x) tcp.return(%y) }}", "every result has a type and every type a result",
         "end the operation with `: TYPE`, the type of its result"),
        (f"func @f({X}) {{ %y = tcp.exp(%x) : tensor<4x8xf32> }}", "%f (func): a function ends in a tcp.return",
         "tcp.return(%y)"),
        (f"func @f({X}) {{ tcp.return(%x) }}", "@f does not return what it declares", "declare it: -> tensor<4x8xf32>"),
        (f"func f({X}) {{ tcp.return }}", "the text does not follow the grammar", "write @f"),
        ("func @f(%x: tensor<[N]xf32>) symbols [N] -> f32 {}", "the results go before the symbols",
         "write -> f32 symbols [N]"),
        ("func @f(%x: tensor<[N]xf32>) symbols [N >= 1] {}", "the text does not follow the grammar",
         "write N: 1.."),
        (f"func @f({X}) {{ %y = tcp.fill(0.5) : f32 }}", "tcp.fill has no operands that are written in place",
         "write tcp.fill {value = 0.5}"),
    ],
)  # fmt: skip
def test_functions_and_types(text: str, message: str, fix: str) -> None:
    error = refused(text)
    assert (error.message, error.fix) == (message, fix)
    assert error.payload is not None


def test_a_name_that_is_offered_is_free() -> None:
    taken = refused(
        f"func @f(%x: {WIDE}, %b: tensor<8xf32>, %b.wide: {WIDE}) -> {WIDE} symbols [N] {{\n"
        f"  %y = tcp.add(%x, %b) : {WIDE}\n  tcp.return(%y)\n}}\n"
    )
    assert taken.fix is not None
    assert "%b.wide1 = tcp.broadcast(%b)" in taken.fix
    assert "and %b.wide1 in place of %b" in taken.fix


def test_a_scalar_result_of_tensors_is_told_its_type() -> None:
    error = refused(f"func @f(%x: {WIDE}) -> f32 symbols [N] {{\n  %y = tcp.add(%x, %x) : f32\n  tcp.return(%y)\n}}\n")
    assert error.fix == f"write `: {WIDE}`"


def test_a_path_is_no_text() -> None:
    with pytest.raises(tcpx.ArgumentError) as payload:
        tcpx.parse(Path("f.tcp"))  # pyright: ignore[reportArgumentType]
    assert payload.value.diagnostic.fix == 'tcpx.load("f.tcp")'
    with pytest.raises(tcpx.ArgumentError) as schedule:
        tcpx.parse_schedule(Path("f.tcps"))  # pyright: ignore[reportArgumentType]
    assert schedule.value.diagnostic.fix == 'tcpx.load_schedule("f.tcps")'
