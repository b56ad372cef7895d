"""Views: roles of an operation by name, as `x.role` and as bare dims."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpx
from tcpx.interp import Run, run_schedule
from tcpx.payload.diagnostics import ParseError, ScheduleError
from tcpx.payload.text.parser import parse
from tcpx.target import load_target
from tcpx.transform.language import program_of_text
from tcpx.transform.language.parser import parse_schedule
from tcpx.transform.language.printer import print_file

HEAD = """language 1
/// A product of a left and a right factor.
view product(mm: op<contract>) {
  let columns = innermost(dims(mm.out))                              /// the dim of the result that lies innermost
  let right   = mm.rhs if contains(dims(mm.rhs), columns) else mm.lhs
  let rows    = without(dims(mm.out), dims(right))
  let depth   = innermost(mm.dims("reduction"))
}
view shaped(mm: product) {
  let height = size(innermost(mm.rows))
  let wide   = size(mm.columns) > 32
}
"""
MATMUL = """
func @f(%a: tensor<32x24xf32>, %b: tensor<24x48xf32>) -> tensor<32x48xf32> {
  %mm = tcp.matmul(%a, %b) : tensor<32x48xf32>
  tcp.return(%mm)
}
"""
TRANSPOSED = """
func @f(%a: tensor<40x24xf32>, %b: tensor<24x48xf32>) -> tensor<48x40xf32> {
  %mm = tcp.contract(%a, %b) {lhs = ["n", "k"], rhs = ["k", "m"], out = ["m", "n"]} : tensor<48x40xf32>
  tcp.return(%mm)
}
"""


def run(body: str, payload: str = MATMUL, declared: str = "", param: str = "product") -> Run:
    """The sequence of a body that sees the contraction as this."""
    text = f"{HEAD}{declared}\nsequence f(x: {param}) {{\n{body}\n}}\nschedule s(root: func) {{\n"
    text += "let mm = match one contract in root\nf(mm)\n}"
    return run_schedule(parse(payload), program_of_text(text), load_target("x86_avx512"))


def failure(body: str, declared: str = "", param: str = "product") -> str:
    with pytest.raises(ScheduleError) as caught:
        run(body, declared=declared, param=param)
    return str(caught.value)


def test_roles_are_asked_of_the_operation() -> None:
    run("require x.columns == x.n and x.right == x.rhs and x.rows == [x.m] and x.depth == x.k")
    run("require x.columns == x.n and x.right == x.lhs and size(x.columns) == 40", TRANSPOSED)


def test_bare_dims_are_roles_too() -> None:
    body = """let j, i = tile(x, [columns: 16, m: 4])
    let kk = tile(x, [depth: 8])
    require x.loop(columns) == j and x.loop(depth) == kk and x.loop(m) == i
    pack(x.right, [depth, columns], at: kk)"""
    steps = [e.transform for e in run(body).trace.entries]
    assert steps == ["tile", "tile", "pack"]
    run("tile(x, [columns: 16])\nrequire x.loop(columns) == x.loop(n)", TRANSPOSED)
    run("tile(x, [rows: 4, columns: 16])\nrequire len(x.loops(m)) == 1")


def test_a_name_that_is_bound_to_a_dim_goes_before_a_role() -> None:
    run("let columns = x.m\ntile(x, [columns: 4])\nrequire len(x.loops(m)) == 1")


def test_a_view_adds_roles_to_another() -> None:
    run("require x.height == 32 and x.wide and x.columns == x.n", param="shaped")


def test_roles_go_along_with_copies_and_names() -> None:
    body = """let i = tile(x, [columns: 40])
    peel(i)
    let main = x.copy("main")
    let y = x
    require len(main.loops(columns)) == 1 and y.columns == x.n"""
    run(body)


def test_a_parameter_that_is_no_view_has_no_roles() -> None:
    declared = "function g(y: op) -> dim = y.columns"
    assert "has no `columns`" in failure("require g(x) == x.n", declared)


def test_matchers_and_cases_see_views(tmp_path: Path) -> None:
    (tmp_path / "p.tcps").write_text(HEAD + "matcher tall(x: product) { require size(x.columns) >= 32 }")
    text = """language 1
import "p.tcps"
sequence f(x: p.product) -> loop {
  let i = tile(x, [columns: 16])
  return i
}
function wide(x: p.shaped) -> bool = x.wide
schedule main(root: func) {
  for mm in match some p.tall in root {
    if wide(mm) { let i = f(mm) }
  }
}"""
    (tmp_path / "main.tcps").write_text(text)
    schedule = tcpx.load_schedule(tmp_path / "main.tcps")
    frozen = tcpx.freeze(parse(MATMUL), schedule, target="x86_avx512", folder=tmp_path)
    assert "view product(mm: op<contract>)" in frozen
    assert "sequence f(x: product)" in frozen
    assert not tcpx.check(schedule, parse(MATMUL))


def test_printed_and_parsed() -> None:
    tree = parse_schedule(HEAD)
    assert parse_schedule(print_file(tree)) == tree


WRONG = {
    "view v(a: op, b: op) { let c = a.out }": "a view is about one op\n",
    "view v(a: loop) { let c = parent(a) }": "a view is about an op\n",
    "view v(a: op) { let out = a.out }": "`out` is what any op is asked for\n",
    "view v(a: product) { let rows = a.out }": "`rows` is a role of the view it is made of\n",
    "view v(a: op) { let b = a.c + 1; let b = 2 }": "`b` is bound twice\n",
    "view v(a: w) { let b = 1 }\nview w(a: op) { let c = 1 }": "a view adds roles to one that is declared before it\n",
    "view v(a: op) { let b = g(a) }\nfunction g(a: v) -> int = a.b": "calls itself through others\n",
    "view product(a: op) { let b = 1 }": "`product` is declared twice\n",
    "function g(a: prodct) -> int = 1": "there is no type `prodct`\n",
}


@pytest.mark.parametrize(("declared", "message"), WRONG.items())
def test_wrong_views(declared: str, message: str) -> None:
    assert message in failure("require true", declared)


def test_a_view_only_names() -> None:
    with pytest.raises(ParseError) as caught:
        parse_schedule("language 1\nview v(a: op) { let b = a.out\ntile(a, [m: 4]) }")
    assert str(caught.value).splitlines()[0] == "definite error: a view only names parts of an operation"
    assert "required: `let role = ..` for each of them" in str(caught.value)


def test_a_class_that_does_not_fit() -> None:
    text = HEAD + "sequence f(x: product) { vectorize(x) }\nschedule s(root: func) { f(match one fill in root) }"
    payload = MATMUL.replace("%mm", "%f = tcp.fill {value = 0.0} : tensor<2xf32>\n  %mm", 1)
    with pytest.raises(ScheduleError) as caught:
        run_schedule(parse(payload), program_of_text(text), load_target("x86_avx512"))
    assert "`x` is declared `product`" in str(caught.value)
    assert "required: op<contract>" in str(caught.value)


def test_in_python() -> None:
    file = tcpx.ScheduleFile("v.tcps")
    with file.view("product", doc="A product.") as s:
        mm = s.param("op<contract>")
        columns = s.let(s.innermost(s.dims(mm.out)), name="columns")
        s.let(s.size(columns) > 4, name="wide")
    with file.sequence("f") as s:
        x = s.param("product")
        with s.if_(x.wide):
            s.tile(x, {"columns": 16})
    with file.schedule("s") as s:
        root = s.param("func")
        for mm in s.match_some("contract", root):
            s.f(mm)
    assert "view product(mm: op<contract>) {\n  let columns = innermost(dims(mm.out))\n" in str(file)
    done = run_schedule(parse(MATMUL), file.program(), load_target("x86_avx512"))
    assert [e.transform for e in done.trace.entries] == ["tile"]
    with pytest.raises(ScheduleError, match="a view only names parts of an operation"), file.view("empty") as s:
        _ = s.param("op", name="x")
