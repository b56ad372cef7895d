"""Steps on a function are checked at the sizes of its callers, and not once more for each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import tcpx
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.ir import FuncOp
from tests.tune.test_records_of_functions import net as products
from tests.verification.planted import drop_last

__all__ = ["drop_last"]

ROWS = "tensor<[N]xf32>"
OUTLINED = 'outline_repeats(root, least: 4)\nlet e = match one "c0" in root\nlet f = parent(e)'
STATEMENTS = ("let i = tile(e, [d0: 4])", "bufferize(root)", "peel(i)")
Runs = list[tuple[str, tuple[int, ...]]]


def net(layers: int) -> tcpx.Module:
    lines, last = [f"func @net(%x: {ROWS}, %z: {ROWS}) -> {ROWS} symbols [N: 0..] {{"], "x"
    for k in range(layers):
        lines += [
            f"  %a{k} = tcp.mul(%{last}, %z) : {ROWS}",
            f"  %b{k} = tcp.sub(%a{k}, %z) : {ROWS}",
            f"  %c{k} = tcp.exp(%b{k}) : {ROWS}",
            f"  %d{k} = tcp.min(%c{k}, %z) : {ROWS}",
        ]
        last = f"d{k}"
    return tcpx.parse("\n".join([*lines, f"  tcp.return(%{last})", "}", ""]))


def schedule(*statements: str) -> tcpx.Schedule:
    return tcpx.parse_schedule("language 1\nschedule s(root: func) {\n" + "\n".join(statements) + "\n}\n")


def planted(position: int, what: str = "drop_last(f)") -> tcpx.Schedule:
    return schedule(OUTLINED, *STATEMENTS[:position], what, *STATEMENTS[position:])


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """The functions that were evaluated for calls, with the shapes of the first argument."""
    seen: Runs = []
    run: Callable[..., Any] = Evaluation._run

    def noted(self: Evaluation, func: FuncOp, args: Sequence[Array], *rest: object) -> tuple[Array, ...]:
        seen.append((func.name, args[0].shape))
        return run(self, func, args, *rest)

    monkeypatch.setattr(Evaluation, "_run", noted)
    return seen


@pytest.mark.usefixtures("drop_last")
@pytest.mark.parametrize("position", range(len(STATEMENTS) + 1))
def test_a_wrong_step_on_a_function_is_named(position: int) -> None:
    verified = tcpx.verify_steps(net(12), planted(position), target="generic")
    found = tcpx.bisect(net(12), planted(position), target="generic")
    for wrong in (verified.wrong, found.wrong):
        assert wrong is not None
        assert wrong.step.transform == "drop_last"
        (size,) = (size for _, size in wrong.mismatch.case.sizes)
        assert size % 2 == 1
        assert wrong.mismatch.index == (size - 1,)
    assert verified.wrong is not None
    assert f"; result 0 of @net.d0, element [{verified.wrong.mismatch.index[0]}] is " in str(verified.wrong.mismatch)
    for wrong in (verified.wrong, found.wrong):
        assert wrong is not None
        assert str(wrong.mismatch).endswith(" (@net.d0, called as %d0.1, %d1.1, %d2.1, %d3.1, 8 more)")


@pytest.mark.usefixtures("drop_last")
def test_of_a_family_the_calls_of_these_sizes_are_named() -> None:
    text = """\
func @f(%x: tensor<33xf32>, %y: tensor<47xf32>) -> (tensor<33xf32>, tensor<47xf32>) {
  %y0 = tcp.exp(%x) : tensor<33xf32>
  %y1 = tcp.exp(%y) : tensor<47xf32>
  tcp.return(%y0, %y1)
}
"""
    sharing = "share(match any exp in root, family: true)"
    steps = schedule('let e = match one "y0" in root', sharing, "drop_last(parent(e))")
    for found in (tcpx.verify_steps(tcpx.parse(text), steps), tcpx.bisect(tcpx.parse(text), steps)):
        assert found.wrong is not None
        call = {33: "%y0.1", 47: "%y1.1"}[found.wrong.mismatch.total]
        assert str(found.wrong.mismatch).endswith(f" (@f.y0, called as {call})")


@pytest.mark.usefixtures("drop_last")
def test_a_wrong_step_on_what_calls_it_is_named() -> None:
    module = net(3).text().replace("tcp.return(%d2)", f"%f = tcp.exp(%d2) : {ROWS}\n  tcp.return(%f)")
    for position in (0, 1):
        steps = planted(position, "drop_last(root)")
        for found in (tcpx.verify_steps(tcpx.parse(module), steps), tcpx.bisect(tcpx.parse(module), steps)):
            assert found.wrong is not None
            assert found.wrong.step.transform == "drop_last"
            assert found.wrong.mismatch.function == ""


@pytest.mark.parametrize("search", [tcpx.verify_steps, tcpx.bisect])
def test_the_work_does_not_grow_with_the_calls(search: Callable[..., Any], runs: Runs) -> None:
    """But for the first time, when the function comes up."""
    counts: list[int] = []
    for layers in (2, 12):
        runs.clear()
        found = search(net(layers), schedule(OUTLINED, *STATEMENTS), target="generic")
        assert found.wrong is None
        counts.append(len(runs) - layers * len(found.cases))
    assert counts[0] == counts[1] > 0


SIZES = """
func @main(%x: tensor<[M]x8xf32>, %y: tensor<[K]xf32>) -> (tensor<[8*M]xf32>, tensor<[K]xf32>)
    symbols [M: 0.., K: 0..] {
  %f = tcp.reshape(%x) : tensor<[8*M]xf32>
  %a = tcp.call @f(%f) : tensor<[8*M]xf32>
  %b = tcp.call @f(%y) : tensor<[K]xf32>
  tcp.return(%a, %b)
}
func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  %e = tcp.exp(%x) : tensor<[N]xf32>
  tcp.return(%e)
}
"""


def test_sizes_are_those_of_the_callers(runs: Runs) -> None:
    """Of the loops of a function, the tiles say at which sizes its callers are tried."""
    found = tcpx.verify_steps(tcpx.parse(SIZES), schedule("let e = match one exp in root", "tile(e, [d0: 24])"))
    assert found.wrong is None
    tried = {dict(case.sizes)[name] for case in found.cases for name in ("K",)}
    assert {0, 1, 3, 7, 13, 24, 25, 49} <= tried
    seen = {shape[0] for name, shape in runs if name == "f"}
    assert seen <= {n for case in found.cases for n in (8 * dict(case.sizes)["M"], dict(case.sizes)["K"])}
    assert {8, 25} <= seen


def test_state_and_packed_constants_are_evaluated_as_they_are() -> None:
    state = """
func @main(%x: tensor<[N]xf32>, %h: inout tensor<[N]xf32>) -> (tensor<[N]xf32>, %h: tensor<[N]xf32>) symbols [N: 0..] {
  %a, %g = tcp.call @cell(%x, %h) : tensor<[N]xf32>, tensor<[N]xf32>
  %b, %i = tcp.call @cell(%a, %g) : tensor<[N]xf32>, tensor<[N]xf32>
  tcp.return(%b, %i)
}
func @cell(%x: tensor<[N]xf32>, %h: inout tensor<[N]xf32>) -> (tensor<[N]xf32>, %h: tensor<[N]xf32>) symbols [N] {
  %y = tcp.exp(%x) : tensor<[N]xf32>
  %n = tcp.add(%h, %y) : tensor<[N]xf32>
  tcp.return(%y, %n)
}
"""
    steps = schedule("let e = match one exp in root", "tile(e, [d0: 4])")
    assert tcpx.verify_steps(tcpx.parse(state), steps, target="generic").wrong is None
    packed = schedule(
        "for mm in match some contract in root { outline([mm, epilogue(mm)]) }",
        "let mm = match one contract in root",
        "let j, i = tile(mm, [n: 4, m: 3])",
        "let bp = pack(mm.rhs, [k, n])",
        "constant_fold(bp)",
    )
    found = tcpx.verify_steps(products(3, constant=True), packed, target="generic", sizes=[{"M": 5}])
    assert found.wrong is None


def test_sizes_that_a_step_computes() -> None:
    """`stream`, which the default schedule uses for large tensors, begins loops where an address decides."""
    text = """func @f(%x: tensor<[B]xf32>) -> tensor<[B]xf32> symbols [B] {
  %v = tcp.tanh(%x) : tensor<[B]xf32>
  tcp.return(%v)
}"""
    assert tcpx.verify_steps(tcpx.parse(text), target="x86_avx2").wrong is None
