"""Functions of a schedule: parameters with defaults, arithmetic on params, calls from other files."""

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
/// How many rows fit beside `nv` vectors.
function rows(
  nv: int,                                /// vectors per row
  regs: int = target.vector_registers     /// what the register file holds
) -> int = min(6, (regs - nv - 1) / nv)
function blocks(extent: size, by: int = rows(4)) -> size = ceildiv(extent, by)
function is_wide(x: op<contract>) -> bool = size(x.n) >= 64
"""


def run(body: str, head: str = HEAD, beside: str | Path = ".") -> Run:
    program = program_of_text(f"{head}schedule main(root: func) {{\n{body}\n}}", beside=beside)
    return run_schedule(parse(RELU), program, load_target("x86_avx512"))


def failure(body: str) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        run(body)
    return caught.value


def test_values_and_defaults() -> None:
    run(
        "let mm = match one contract in root\n"
        "require rows(4) == 6 and rows(4, 16) == 2 and rows(nv: 4, regs: 16) == 2\n"
        "require blocks(13) == 3 and blocks(size(mm.m)) == ceildiv(size(mm.m), 6)"
    )


def test_names_in_a_function() -> None:
    head = HEAD + (
        "function tile_of(x: op<contract>, nv: int) -> int {\n"
        "  let width = nv * lanes(dtype(x.acc))\n  let height = rows(nv)\n  return width * height\n}\n"
    )
    run("let mm = match one contract in root\nrequire tile_of(mm, 2) == 2 * 16 * 6", head=head)
    wrong = head.replace("return width", "return heigth")
    with pytest.raises(ScheduleError) as caught:
        run("let mm = match one contract in root\nrequire tile_of(mm, 2) > 0", head=wrong)
    assert (caught.value.diagnostic.message, caught.value.diagnostic.fix) == (
        "`heigth` is not bound", "did you mean `height`?",
    )  # fmt: skip


def test_items_of_a_list_are_of_the_declared_type() -> None:
    head = HEAD + "function both(n: int, on: bool) -> list<int> = [n, on]\n"
    with pytest.raises(ScheduleError) as caught:
        run("require len(both(4, true)) == 2", head=head)
    found = caught.value.diagnostic
    assert (found.message, found.found) == ("`item 2 of both` is declared `int`", "bool true")


def test_a_function_of_an_import(tmp_path: Path) -> None:
    (tmp_path / "f.tcps").write_text("language 1\nfunction twice(n: int) -> int = 2 * n\n")
    run("require f.twice(4) == 8", head='language 1\nimport "f.tcps"\n', beside=tmp_path)


@pytest.mark.parametrize(
    ("body", "message", "fix"),
    [
        ("let a = row(4)", "there is no transform, sequence or function `row`", "did you mean `rows`?"),
        ("let a = rows()", "`rows` needs `nv`", None),
        ("let a = rows(4, reg: 2)", "`rows` has no parameter `reg`", "did you mean `regs`?"),
        ("let a = rows(true)", "`nv` of `rows` has the wrong type", None),
        ("let a = rows(0)", "division by zero", None),
        ("rows(4)", "this statement has no effect", "write `let name = ...` to use the value"),
        ("let a = is_wide(match one max in root)", "`x` is declared `op<contract>`", None),
    ],
)
def test_wrong_calls(body: str, message: str, fix: str | None) -> None:
    found = failure(body).diagnostic
    assert (found.message, found.fix) == (message, fix)


def test_errors_carry_the_call_stack() -> None:
    assert [name for name, _ in failure("let a = rows(0)").diagnostic.calls] == ["rows"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("function f(n: int) -> int = n == 1", "`f` gives a value of the wrong type"),
        ("function min(n: int) -> int = n", "`min` is built in"),
        ("function tile(n: int) -> int = n", "`tile` is a transform"),
        ("function f(n: int) -> int = k", "`k` is not bound"),
        ('function f(n: int = "a") -> int = n', "the default of `n` has the wrong type"),
    ],
)
def test_wrong_declarations(function: str, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        run("", head=f"language 1\n{function}\n")
    assert caught.value.diagnostic.message == message


def test_bounds_of_a_size_know_the_facts_of_a_branch() -> None:
    run(
        "let mm = match one contract in root\n"
        "require lower_bound(size(mm.m), 0) == 0 and upper_bound(size(mm.m), 999) == 999\n"
        "specialize mm when size(mm.m) >= 8 {\n"
        "require lower_bound(size(mm.m), 0) == 8 and upper_bound(size(mm.m), 999) == 999\n"
        "} else {\n"
        "require lower_bound(size(mm.m), 3) == 0 and upper_bound(size(mm.m), 999) == 7\n"
        "}"
    )


def test_bounds_of_a_product_of_sizes_know_what_a_branch_says_of_it() -> None:
    run(
        "let mm = match one contract in root\n"
        "specialize mm when size(mm.m) * size(mm.k) <= 48 {\n"
        "require upper_bound(size(mm.m) * size(mm.k), 999) == 48\n"
        "require upper_bound(size(mm.k) * size(mm.m) + 2, 999) == 50\n"
        "require upper_bound(size(mm.m) * size(mm.n), 999) == 999\n"
        "} else {\n"
        "require lower_bound(size(mm.m) * size(mm.k), 0) == 49 and upper_bound(size(mm.m) * size(mm.k), 999) == 999\n"
        "}"
    )


COSTS = 'cheapest("rows", ["stream", "large"], size(mm.m), {held})'


def test_the_cheapest_recipe_is_a_condition_on_sizes() -> None:
    run(
        "let mm = match one contract in root\n"
        f'require not {COSTS.format(held=1)} "L1 holds it"\n'
        'require cheapest("rows", ["large"], 1, 100000000)\n'
        f"specialize mm when {COSTS.format(held=100000000)} {{ tile(mm, [m: 2]) }} else {{ tile(mm, [m: 6]) }}"
    )
    error = failure(f"let mm = match one contract in root\nif {COSTS.format(held=100000000)} {{ tile(mm, [m: 2]) }}")
    assert error.diagnostic.message == "`if` needs an answer now, but `M <= 37` is known only when the kernel runs"


def test_costs_that_no_table_has() -> None:
    error = failure('let bad = cheapest("row", ["stream"], 1, 2)\nrequire bad')
    assert error.diagnostic.message == "x86_avx512 has no costs of `row`"
    assert error.diagnostic.required == "one of rows, made, depths, batch, batch_columns"
    error = failure('let bad = cheapest("rows", "stream", 1, 2)\nrequire bad')
    assert error.diagnostic.required == "a kind of product, and a list of recipes"
