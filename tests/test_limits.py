"""Every limit on a text or a run has its own located message, and what is below it works."""

from __future__ import annotations

import warnings
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.api import lowered
from tcpx.limits import DEEPEST_BRACKETS, DEEPEST_NESTING, MOST_SIZE_PARTS
from tcpx.payload.builder import Builder, tensor
from tcpx.payload.diagnostics import Diagnostic, Kind
from tcpx.payload.sizes import Symbol, ceildiv
from tcpx.payload.sizes.expressions import Size
from tcpx.payload.types import f32
from tcpx.payload.verifier import verify_module

PAYLOAD = """\
func @f(%x: tensor<[M]x64xf32>) -> tensor<[M]x64xf32> symbols [M] {
  %y = tcp.add(%x, %x) : tensor<[M]x64xf32>
  tcp.return(%y)
}
"""


def schedule_error(body: str, head: str = "", params: dict[str, int | float | str | bool] | None = None) -> Diagnostic:
    with pytest.raises(tcpx.TcpxError) as caught:
        run(body, head, params)
    found = caught.value.diagnostic
    assert found.schedule is not None
    return found


def run(body: str, head: str = "", params: dict[str, int | float | str | bool] | None = None) -> tcpx.Run:
    program = tcpx.parse_schedule(f"language 1\n{head}\nschedule s(root: func) {{\n{body}\n}}\n")
    return tcpx.apply_schedule(tcpx.parse(PAYLOAD), program, params=params, target="generic")


def payload_error(text: str) -> Diagnostic:
    with pytest.raises(tcpx.TcpxError) as caught:
        tcpx.parse(text)
    found = caught.value.diagnostic
    assert found.payload is not None
    return found


# -- schedules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 ** 10", 1024), ("2 ** 3 ** 2", 512), ("-2 ** 2", -4), ("(-2) ** 63", -(2**63)), ("0 ** 0", 1),
        ("(-1) ** (2 ** 62 + 1)", -1), ("2 * 3 ** 2", 18), ("9223372036854775807", 2**63 - 1),
        (" + ".join(["1"] * 2000), 2000), ("(" * 2000 + "1" + ")" * 2000, 1),
    ],
)  # fmt: skip
def test_what_fits(expression: str, value: int) -> None:
    run(f"let a = {expression}\nrequire a == {value if value > -(2**63) else '-9223372036854775807 - 1'}")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("2 ** (2 ** 40)", "the power is too large for 64 bits"),
        ("3 ** 3 ** 3 ** 3", "the power is too large for 64 bits"),
        ("2 ** 63", "the power is too large for 64 bits"),
        ("2 ** -1", "the exponent is negative"),
        ("size(root.args) ** 2", None),
        ("9223372036854775808", "the number is too large"),
        ("9" * 5000, "the number is too large"),
        ("1.0e999", "the number is too large"),
        ("9223372036854775807 + 1", "the number does not fit 64 bits"),
        ("2 ** 62 * 2", "the number does not fit 64 bits"),
        ("align_up(2 ** 62 + (2 ** 62 - 1), 2)", "the number does not fit 64 bits"),
        ("1.0e308 * 10.0", "the result is no number"),
        ("len(1..10 ** 12)", "the list is too long"),
        ("len(multiples(1, 10 ** 12))", "the list is too long"),
        ("len(divisors(10 ** 18))", "the divisors of this are not listed"),
        ("-" * 10000 + "1", f"the text is nested more than {DEEPEST_NESTING} deep here"),
        ("[" * 10000 + "]" * 10000, f"the text is nested more than {DEEPEST_NESTING} deep here"),
        ("1" + " if true else 1" * 10000, f"the text is nested more than {DEEPEST_NESTING} deep here"),
        ("root" + ".a" * 10000, f"the text is nested more than {DEEPEST_NESTING} deep here"),
        ("1 ** " * 10000 + "1", f"the text is nested more than {DEEPEST_NESTING} deep here"),
    ],
)
def test_what_does_not(expression: str, message: str | None) -> None:
    found = schedule_error(f"let a = {expression}\nrequire a == 0")
    assert message is None or found.message == message


@pytest.mark.parametrize(
    "expression",
    [
        "2 ** 63",
        "2 ** 62 * 2",
        "-(-9223372036854775807 - 1)",
        "9223372036854775807 + 1",
        "align_up(2 ** 62 + 1, 2 ** 62)",
        "1.0e308 * 10.0",
    ],
)
def test_try_recovers_from_no_overflow(expression: str) -> None:
    found = schedule_error(f"try {{ let a = {expression}\nrequire a == 0 }} else {{ }}")
    assert found.kind is Kind.DEFINITE
    assert found.schedule is not None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if true {" * 10000 + "}" * 10000, f"the text is nested more than {DEEPEST_NESTING} deep here"),
        ("for i in 1..60000 { for j in 1..60000 { require i > 0 } }", "the schedule runs more than 100000 statements"),
        ("for i in 1..60000 { print(root) }", "the schedule applies more than 10000 transforms"),
        (
            "for i in 1..60000 { require len(multiples(1, i)) > 0 }",
            "the schedule goes through more than 10000000 items of lists",
        ),
        (
            f"for i in 1..60000 {{ require {' + '.join(['i'] * 50)} > 0 }}",
            "the schedule evaluates more than 1000000 expressions",
        ),
        (
            "\n".join(['let a0 = "aaaaaaaaaa"', *(f"let a{k + 1} = a{k} + a{k}" for k in range(60))]),
            "the string is too long",
        ),
    ],
)
def test_a_run_ends(body: str, message: str) -> None:
    assert schedule_error(body).message == message


@pytest.mark.parametrize("threads", [-1, 0, 4097, 10**30])
def test_threads(threads: int) -> None:
    payload = tcpx.parse("func @f(%x: f32) -> f32 {\n  tcp.return(%x)\n}\n")
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.emit(payload, threads=threads)
    with warnings.catch_warnings(action="error"):  # it ran a schedule of its own then, and warned about that
        explained = tcpx.explain(payload, threads=threads).error
    for found in (caught.value.diagnostic, explained):
        assert found is not None
        assert (found.message, found.required) == ("no kernel runs on so many threads", "threads from 1 to 4096")


def test_parentheses_that_group_do_not_count() -> None:
    run(f"if {'(' * 200}1{')' * 200} == 1 {{ print(root) }}")
    found = schedule_error("require len(" + "[" * 64 + "]" * 64 + ") == 1")
    assert found.message == f"the text is nested more than {DEEPEST_NESTING} deep here"
    assert found.required == "at most 64 blocks, lists, calls, operators and signs within one another"


def test_brackets_that_are_formatted() -> None:
    def text(deep: int) -> str:
        return f"language 1\n\nschedule s(root: func) {{ require {'(' * deep}1{')' * deep} == threads }}\n"

    inner = text(DEEPEST_BRACKETS).partition("{ ")[2].rpartition(" }")[0]
    blocks = "if true {" * (DEEPEST_NESTING - 4) + inner + "}" * (DEEPEST_NESTING - 4)
    assert tcpx.format_schedule(f"language 1\nschedule s(root: func) {{ {blocks} }}").count("(") == DEEPEST_BRACKETS + 1
    with pytest.raises(tcpx.ParseError) as caught:
        tcpx.format_schedule(text(10_000))
    found = caught.value.diagnostic
    assert found.message == "brackets stand more than 128 deep within one another here, which is not formatted"
    assert found.schedule is not None
    assert (found.schedule.line, found.found) == (3, "129 of them")


def test_loops_in_loops_over_one_dim_end() -> None:
    found = schedule_error("let y = match one add in root\nfor i in 1..60000 { tile(y, [d0: 6]) }")
    assert found.message.endswith(("the size expression is too long", "the payload would be nested too deep"))
    assert found.schedule is not None


def test_sizes_of_which_nothing_can_be_proved_are_unknown() -> None:
    steps = "\n".join(f"let s{k + 1} = s{k} * s{k} % 7 + s{k} / 3" for k in range(10))
    run(f"let y = match one add in root\nlet s0 = size(y.d0) + 1\n{steps}\ntile(y, [d0: max(1, s8)])\nprint(root)\n"
        "require not (size(y.d1) > 64) and len([s9, s10]) == 2")  # fmt: skip


def test_no_sequence_calls_itself() -> None:
    heads = "sequence f(x: func) { g(x) }\nsequence g(x: func) { f(x) }"
    found = schedule_error("f(root)", heads)
    assert (found.message, found.found) == ("`f` calls itself through others", "f -> g -> f")
    found = schedule_error("require f(1) > 0", "function f(n: int) -> int = f(n + 1)")
    assert (found.message, found.found) == ("`f` calls itself", "f -> f")


def test_calls_are_bounded() -> None:
    chain = "\n".join(f"sequence f{k}(x: func) {{ f{k + 1}(x) }}" for k in range(200))
    found = schedule_error("f0(root)", f"{chain}\nsequence f200(x: func) {{ print(x) }}")
    assert found.message == "the run of the schedule is nested more than 96 deep here"


def test_a_loop_of_tiles_within_tiles_ends() -> None:
    body = 'let z = match one "y" in root\nfor i in 1..300 { for j in 1..1000 { tile(z, [d0: 65536 - 1000 * i - j]) } }'
    found = schedule_error(body)
    assert (found.kind, found.message) == (Kind.DEFINITE, "the payload would be nested too deep")


def test_overrides_fit() -> None:
    body = "knob a: int = 1\nrequire a > 0"
    assert schedule_error(body, params={"a": 10**30}).message == "the number does not fit 64 bits"
    found = schedule_error("knob a: float = 1.0\nrequire a > 0", params={"a": float("inf")})
    assert found.message == "the result is no number"


# -- payloads ----------------------------------------------------------------------------------------------------


def with_type(type_: str, symbols: str = "", statement: str = "") -> str:
    return f"func @f(%x: {type_}) -> {type_} {symbols} {{\n{statement}\n  tcp.return(%x)\n}}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (with_type("tensor<99999999999999999999xf32>"), "the number is too large"),
        (with_type(f"tensor<{'9' * 5000}xf32>"), "the number is too large"),
        (with_type("tensor<4611686018427387904x4xf32>"), "the type takes too much memory"),
        (with_type("tensor<0x4611686018427387904x4xf32>"), "the type takes too much memory"),
        (with_type("tensor<[M]xf32>", "symbols [M: 0..9223372036854775808]"), "the number is too large"),
        (with_type("tensor<[M]xf32>", "symbols [M multiple_of 9223372036854775808]"), "the number is too large"),
        (with_type("tensor<[9223372036854775807*M*3]xf32>", "symbols [M]"),
         "a number in the size does not fit 64 bits"),
        (with_type(f"tensor<[{'*'.join(['(A+B+C+D)'] * 20)}]xf32>", "symbols [A,B,C,D]"),
         "the size expression is too long"),
        (with_type(f"tensor<[{'*'.join(['A'] * 40)}]xf32>", "symbols [A]"), "the size expression is too long"),
        (with_type(f"tensor<[{'-' * 10000}M]xf32>", "symbols [M]"), "the text is nested more than 64 deep here"),
        (with_type(f"tensor<[{'min(2,' * 10000}M{')' * 10000}]xf32>", "symbols [M]"),
         "the text is nested more than 64 deep here"),
        (with_type("f32", "", "gml_st.if 1 == 1 {" * 5000 + "}" * 5000), "the text is nested more than 64 deep here"),
        (with_type("f32", "", f"%y = tcp.const {{value = {'[' * 5000}{']' * 5000}}} : f32"),
         "the text is nested more than 64 deep here"),
        (with_type("f32", "", "%y = tcp.const {value = 1e999} : f32"), "the number is too large"),
        (with_type("f32", "", "%y = tcp.const {value = 1e300} : f32"),
         "%y (tcp.const): the value of a constant is one of its type f32"),
        (with_type("f32", "", "%y = tcp.const {value = 300} : ui8"),
         "%y (tcp.const): the value of a constant is one of its type ui8"),
        (with_type("f32", "", "%y = tcp.const {value = 1.5} : si8"),
         "%y (tcp.const): the value of a constant is one of its type si8"),
        (with_type("f32", "", "%y = tcp.fill {value = 2} : tensor<4xi1>"),
         "%y (tcp.fill): the value of a constant is one of its type i1"),
        (with_type("tensor<3xsi8>", "", "%y = tcp.pad(%x) {value = 200} : tensor<4xsi8>"),
         "%y (tcp.pad): the value of a constant is one of its type si8"),
        (with_type("tensor<3xf16>", "", "%y = vector.read(%x) tile [0] [3] {value = 1e6} : vector<4xf16>"),
         "%y (vector.read): the value of a constant is one of its type f16"),
    ],
)  # fmt: skip
def test_payloads_refused(text: str, message: str) -> None:
    assert payload_error(text).message == message


def test_long_sums_and_the_ends_of_the_integers() -> None:
    tcpx.parse(with_type(f"tensor<[{' + '.join(['M'] * 2000)}]xf32>", "symbols [M]"))
    tcpx.parse(with_type(f"tensor<[{'(' * 2000}M{')' * 2000}]xf32>", "symbols [M]"))
    ends = "%a = tcp.const {value = 18446744073709551615} : ui64\n%b = tcp.const {value = -9223372036854775808} : si64"
    assert "18446744073709551615" in tcpx.parse(with_type("f32", "", ends)).text()


def test_a_kernel_refuses_sizes_that_overflow() -> None:
    kernel = tcpx.compile(
        tcpx.parse(
            """\
func @f(%x: tensor<[M]x0xf32>, %z: tensor<[N]x0xf32>) -> tensor<[floordiv(M*N, 1152921504606846976)]x0xf32>
    symbols [M, N] {
  %zero = tcp.const {value = 0.0} : f32
  %y = tcp.broadcast(%zero) {dims = []} : tensor<[floordiv(M*N, 1152921504606846976)]x0xf32>
  tcp.return(%y)
}
"""
        ),
        target="generic",
    )
    small = kernel(np.empty((3, 0), np.float32), np.empty((5, 0), np.float32))
    assert isinstance(small, np.ndarray)
    assert small.shape == (0, 0)
    long = np.empty((1 << 40, 0), np.float32)
    with pytest.raises(tcpx.ArgumentError) as caught:
        kernel(long, long)
    found = caught.value.diagnostic
    assert found.message == "the sizes of @f overflow"
    assert found.found == "M = 1099511627776, N = 1099511627776"


def test_a_kernel_takes_sizes_whose_quotients_are_small() -> None:
    dim = "4611686018427387904*floordiv(M, 4096)"
    kernel = tcpx.compile(
        tcpx.parse(
            f"""\
func @f(%x: tensor<[M]x0xf32>) -> tensor<[{dim}]x0xf32> symbols [M] {{
  %zero = tcp.const {{value = 0.0}} : f32
  %y = tcp.broadcast(%zero) {{dims = []}} : tensor<[{dim}]x0xf32>
  tcp.return(%y)
}}
"""
        ),
        target="generic",
    )
    small = kernel(np.empty((4095, 0), np.float32))
    assert isinstance(small, np.ndarray)
    assert small.shape == (0, 0)
    with pytest.raises(tcpx.ArgumentError) as caught:
        kernel(np.empty((8192, 0), np.float32))
    assert caught.value.diagnostic.message == "the sizes of @f overflow"


# -- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["tcp", "tcps"])
def test_files_that_are_no_text(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"a.{suffix}"
    read = tcpx.load if suffix == "tcp" else tcpx.load_schedule
    file.write_bytes(b"// ab\n// \xc3\xa9\xff\n")
    with pytest.raises(tcpx.TcpxError) as caught:
        read(file)
    found = caught.value.diagnostic
    place = found.payload if suffix == "tcp" else found.schedule
    assert place is not None
    assert (place.line, place.column, found.found) == (2, 5, "the byte 0xff, which is no character")
    for missing in (tmp_path / f"none.{suffix}", tmp_path):
        with pytest.raises(tcpx.TcpxError, match="cannot read"):
            read(missing)


def test_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.tcp"
    file.write_bytes(b"\xef\xbb\xbf" + PAYLOAD.replace("\n", "\r\n").encode())
    assert tcpx.load(file).text() == tcpx.parse(PAYLOAD).text()


def test_files_taken_for_one_another() -> None:
    assert "looks like a schedule" in (payload_error("language 1\n").fix or "")
    with pytest.raises(tcpx.ParseError) as caught:
        tcpx.parse_schedule(PAYLOAD)
    assert "looks like a payload" in (caught.value.diagnostic.fix or "")


# -- large payloads ----------------------------------------------------------------------------------------------


def layers(count: int, rows: str = "[B]", symbols: str = " symbols [B]") -> str:
    """A payload of so many products, each of the one before it."""
    weights = ", ".join(f"%w{k}: tensor<8x8xf32>" for k in range(count))
    lines = [f"func @f(%y0: tensor<{rows}x8xf32>, {weights}) -> tensor<{rows}x8xf32>{symbols} {{"]
    lines += [f"  %y{k + 1} = tcp.matmul(%y{k}, %w{k}) : tensor<{rows}x8xf32>" for k in range(count)]
    return "\n".join([*lines, f"  tcp.return(%y{count})", "}"])


def test_limits_on_a_run_count_for_each_part_of_the_payload(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one product takes, the default schedule may take for any number of them."""
    module = tcpx.parse(layers(5))
    schedule = tcpx.parse_schedule(
        "language 1\nschedule s(root: func) { for mm in match any contract in root { tile(mm, [m: 6]) } }"
    )
    monkeypatch.setattr("tcpx.interp.work.MOST_EXPRESSIONS", 8)
    monkeypatch.setattr("tcpx.interp.work.MOST_STATEMENTS", 4)
    monkeypatch.setattr("tcpx.interp.work.MOST_STEPS", 2)
    monkeypatch.setattr("tcpx.payload.rewriter.MOST_OPERATIONS", 15)
    with pytest.raises(tcpx.ScheduleError, match=r"more than|too many operations"):
        tcpx.apply_schedule(module, schedule, target="generic")
    monkeypatch.setattr("tcpx.limits.OPERATIONS_PER_SHARE", 2)
    assert len(tcpx.apply_schedule(module, schedule, target="generic").trace.entries) == 5
    runaway = "language 1\nschedule s(root: func) { for k in 1..1000 { print(root) } }"
    with pytest.raises(tcpx.ScheduleError, match=r"the schedule (runs|evaluates|applies) more than"):
        tcpx.apply_schedule(module, tcpx.parse_schedule(runaway), target="generic")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_model_of_320_layers() -> None:
    run = tcpx.apply_schedule(tcpx.parse(layers(320)), None, target="generic")
    assert run.remarks == ()
    assert {name for entry in run.trace.entries for name in entry.changed if "vector" in name or "matmul" in name}


@pytest.mark.parametrize(
    ("threads", "found"),
    [(1.5, "something of the Python type float"), ("2", "something of the Python type str"), (None, "None")],
)
def test_threads_that_are_no_number(threads: Any, found: str) -> None:
    module = tcpx.parse("func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  tcp.return(%x)\n}\n")
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.compile(module, target="generic", threads=threads)
    assert caught.value.diagnostic.found == found


def test_a_formula_of_our_own_meets_no_limit() -> None:
    """The workspace of two products of symbolic sizes on two threads: the maximum of what each recipe needs."""
    module = tcpx.parse("""
    func @f(%a: tensor<[B]x[D]xf32>, %b: tensor<[D]x[H]xf32>, %c: tensor<[H]x[E]xf32>) -> tensor<[B]x[E]xf32>
        symbols [B, D, H, E] {
      %x = tcp.matmul(%a, %b) : tensor<[B]x[H]xf32>
      %y = tcp.matmul(%x, %c) : tensor<[B]x[E]xf32>
      tcp.return(%y)
    }
    """)
    run = lowered(tcpx.CompileRequest(module), tcpx.load_target("x86_avx512"), 2)
    assert not [remark for remark in run.remarks if "size" in remark.message]
    workspace = run.module.main.attributes["workspace"]
    assert isinstance(workspace, Size)
    assert max(len(atom.inside) for monomial, _ in workspace.terms for atom in monomial) > MOST_SIZE_PARTS


def test_sizes_that_steps_make_may_be_long() -> None:
    module = tcpx.parse(with_type("tensor<[A]xf32>", "symbols [A]"))
    long = Symbol("A").size()
    for k in range(2, 2 * MOST_SIZE_PARTS):
        long = ceildiv(long + k, 2 * k + 1) + 1
    module.main.attributes["workspace"] = long
    verify_module(module)


def test_sizes_of_a_payload_that_python_builds_are_as_short_as_those_of_a_text() -> None:
    a = Symbol("A")
    b = Builder()
    with b.func("f", {"x": tensor([prod([a.size()] * 40)], f32)}, [a]) as (x,):
        b.returns(x)
    with pytest.raises(tcpx.VerifyError, match="the size expression is too long"):
        b.finish()
