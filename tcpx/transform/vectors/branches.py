"""Branches on what the lanes of a vector have."""

from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Block, Value
from tcpx.payload.ops.branch import IfAny
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import If
from tcpx.payload.ops.index import Bind
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Var
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import i1, si64
from tcpx.transform import new
from tcpx.transform.vectors.selector import Selector
from tcpx.transform.vectors.structured import horizontal_reduction


def select_if_any(selector: Selector, op: IfAny) -> None:
    """A branch, on a size that is 1 where the mask holds in any lane."""
    rewriter = selector.rewriter

    def branch(build: Build) -> Value:
        lane = build(horizontal_reduction(lambda body, a, b: body(new.maximum(a, b)), op.mask, i1))
        var = Var(rewriter.fresh_name(op, f"{op.result.name}/rare"), 0, 2)
        selector.put(Bind.of(build(new.cast(lane, si64)), var), op)
        chosen = If([], [op.result.type], {"predicate": Predicate.of(">=", var.size(), 1)}, [Block(), Block()])
        result = build(chosen)
        for inner in list(op.body.ops):
            inner.stand_for(op)
            rewriter.move(inner, InsertPoint.end(chosen.then))
        rewriter.insert(Yield([op.usual]), InsertPoint.end(chosen.orelse))
        return result

    selector.rewrite(op, branch)
