"""Transforms that are wrong, or slow, on purpose; known while a test runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tcpx.payload.ir import FuncOp
from tcpx.payload.ops.gml_st import Loop, Materialize
from tcpx.payload.ops.views import Pad
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import floordiv, symbols
from tcpx.payload.subsets import Tile
from tcpx.payload.types import shape_of
from tcpx.transform import declaration
from tcpx.transform.declaration import FUNC, Arguments, Category, Parameter, Results, Transform, TransformContext


class DropLast(Transform):
    """Lose the last element of the result where their number is odd; before and after bufferization."""

    name = "drop_last"
    category = Category.CLEANUP_AND_LOWERING
    parameters = (Parameter("func", FUNC),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        func = args.func("func")
        if "results" in func.attributes:
            self._on_buffers(ctx, func)
        else:
            self._on_tensors(ctx, func)
        return ()

    def _on_tensors(self, ctx: TransformContext, func: FuncOp) -> None:
        end = func.body.ops[-1]
        value, rewriter = end.operands[0], ctx.rewriter
        even = floordiv(shape_of(value.type)[0], 2) * 2
        part = Materialize.of(value, Tile((0,), (even,), (1,)))
        rewriter.insert(part, InsertPoint.before(end), "even")
        whole = rewriter.insert(Pad.of(part.result, shape_of(value.type), 0.0), InsertPoint.before(end), "dropped")
        rewriter.set_operand(end, 0, whole.result)

    def _on_buffers(self, ctx: TransformContext, func: FuncOp) -> None:
        loop = [op for op in func.body.ops if isinstance(op, Loop) and symbols(op.var.upper)][-1]
        (symbol,) = symbols(loop.var.upper)
        ctx.rewriter.substitute([loop], {symbol: floordiv(symbol.size(), 2) * 2})


@pytest.fixture
def drop_last() -> Iterator[None]:
    """Schedules may say `drop_last(root)` for the length of a test."""
    declaration.transforms()
    declaration.register(DropLast)
    yield
    del declaration._REGISTRY[DropLast.name]
