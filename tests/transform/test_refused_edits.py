"""What a transform of others may not do to a payload, and is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tcpx
from tcpx.payload.diagnostics import Kind
from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import Materialize, full_like
from tcpx.payload.ops.memory import View
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.transform import declaration
from tcpx.transform.declaration import FUNC, Arguments, Category, Parameter, Results, Transform, TransformContext
from tcpx.transform.matching import general

TEXT = """\
func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tcp.exp(%x) : tensor<4xf32>
  %b = tcp.neg(%a) : tensor<4xf32>
  tcp.return(%b)
}
"""
EDITS: dict[str, Callable[[Rewriter, Operation, Operation], object]] = {
    "%a (tcp.exp): a used operation cannot be erased": lambda rewriter, a, b: rewriter.erase(a),
    "%a (tcp.exp): a used result cannot be removed": lambda rewriter, a, b: rewriter.remove_result(a, 0),
    "tcp.return: only a structured operation can be generalized": lambda rewriter, a, b: general(
        next(iter(b.results[0].users))
    ),
    "only memory has another shape": lambda rewriter, a, b: View.of(a.result, (2, 2)),
    "gml_st.materialize: the operation stands in no block": lambda rewriter, a, b: InsertPoint.before(
        Materialize.of(a.results[0], full_like(a.results[0]))
    ),
}


@pytest.mark.parametrize("message", EDITS)
def test_an_edit_that_is_refused(message: str) -> None:
    module = tcpx.parse(TEXT)
    a, b, _ = module.main.body.ops
    with pytest.raises(tcpx.TcpxError) as caught:
        EDITS[message](Rewriter(module), a, b)
    assert caught.value.diagnostic.message == message


class Idle(Transform):
    """A transform that leaves out what it does."""

    name = "idle"
    category = Category.CLEANUP_AND_LOWERING
    parameters = (Parameter("func", FUNC),)


class Crash(Idle):
    """A transform with a bug."""

    name = "crash"

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        raise ZeroDivisionError("a bug")


class TooMany(Idle):
    """A transform that gives a result that it does not declare."""

    name = "too_many"

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        return (args.func("func"),)


@pytest.mark.parametrize(
    ("made", "message", "kind", "found"),
    [
        (Idle, "the transform `idle` has no effect", Kind.SILENCEABLE, "no `apply`"),
        (Crash, "the transform `crash` failed in a way it does not explain", Kind.INTERNAL, "ZeroDivisionError: a bug"),
        (TooMany, "the transform `too_many` returns another number of results than it declares", Kind.INTERNAL, "1"),
    ],
)
def test_a_transform_with_a_fault(
    monkeypatch: pytest.MonkeyPatch, made: type[Transform], message: str, kind: Kind, found: str
) -> None:
    declaration.transforms()
    monkeypatch.setattr(declaration, "_REGISTRY", dict(declaration._REGISTRY))
    declaration.register(made)
    schedule = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{ {made.name}(root) }}\n")
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.apply_schedule(tcpx.parse(TEXT), schedule, target="generic")
    told = caught.value.diagnostic
    assert (told.message, told.kind, told.found) == (message, kind, found)
