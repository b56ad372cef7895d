"""What a transform of others may not do to a payload, and is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tcpx
from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import Materialize, full_like
from tcpx.payload.ops.memory import View
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.transform import declaration
from tcpx.transform.declaration import FUNC, Category, Parameter, Transform
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


def test_a_transform_that_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    declaration.transforms()
    monkeypatch.setattr(declaration, "_REGISTRY", dict(declaration._REGISTRY))
    declaration.register(Idle)
    schedule = tcpx.parse_schedule("language 1\nschedule s(root: func) { idle(root) }\n")
    with pytest.raises(tcpx.ScheduleError, match="the transform `idle` has no effect"):
        tcpx.apply_schedule(tcpx.parse(TEXT), schedule, target="generic")
