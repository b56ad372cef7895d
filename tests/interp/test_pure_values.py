"""Functions that only look at the payload are evaluated once between two changes of it, and in each branch anew."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.interp.functions import call_function
from tcpx.interp.handles import Handles
from tcpx.interp.pure_values import PureValues
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes import Symbol
from tcpx.payload.types import f32
from tcpx.target import load_target
from tests.transform.payloads import RELU

HEAD = """language 1
function loops(x: op<contract>) -> int = len(x.loops(m))
schedule main(root: func) {
  let mm = match one contract in root
"""


def run(body: str) -> None:
    tcpx.apply_schedule(tcpx.parse(RELU), tcpx.parse_schedule(f"{HEAD}{body}\n}}"), target="generic")


def test_what_a_step_changes_is_looked_at_again() -> None:
    run("require loops(mm) == 0\nlet i = tile(mm, [m: 6])\nrequire loops(mm) == 1")


def test_what_a_failed_step_changed_is_as_before() -> None:
    run("try { let i = tile(mm, [m: 6])\nrequire loops(mm) == 2 } else { require loops(mm) == 0 }")


def test_in_another_branch_a_handle_means_other_copies() -> None:
    run("""specialize mm when size(mm.m) < 8 { let i = tile(mm, [m: 4])
                                               require loops(mm) == 1 }
           else when size(mm.m) < 64 { require loops(mm) == 0 }
           else { require loops(mm) == 0 }""")


def test_what_is_scheduled_is_known_behind_the_step() -> None:
    run("require not mm.scheduled\nlet i = tile(mm, [m: 6])\nrequire mm.scheduled")


def test_a_function_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def counted(name: str, *rest: object) -> object:
        called.append(name)
        return call_function(name, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr("tcpx.interp.expressions.call_function", counted)
    run("require loops(mm) == 0\nrequire loops(mm) == 0")
    assert called == ["len"]


def test_sizes_of_one_text_may_have_other_facts() -> None:
    values = PureValues(Handles(Rewriter(tcpx.parse(RELU))))
    sizes = [Symbol("M", upper=most).size() for most in (4, 8)]
    found = [values.value("f", [size], lambda k=k: k) for k, size in enumerate(sizes)]
    assert found == [0, 1]
    assert values.value("f", [sizes[0]], lambda: 2) == 0
    assert [values.value("g", [given], lambda k=k: k) for k, given in enumerate((1, True, 1.0))] == [0, 1, 2]


def test_what_is_known_of_plain_arguments_outlives_a_change() -> None:
    module = tcpx.parse(RELU)
    rewriter = Rewriter(module)
    handles = Handles(rewriter)
    values, handle = PureValues(handles), handles.of(module.main)
    plain = (None, load_target("generic"), 4, 0.5, "k", f32)
    before = [values.value("f", given, lambda: 1) for given in (plain, [handle])]
    rewriter.set_attribute(module.main.body.ops[0], "note", 1)
    after = [values.value("f", given, lambda: 2) for given in (plain, [handle])]
    assert (before, after) == ([1, 1], [1, 2])
