"""What was committed stays."""

import gc
from types import FunctionType

import pytest

import tcpx
from tcpx.payload.ir import CloneMap
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.text.parser import parse
from tests.transform.payloads import RELU, run


def test_committed_changes_cannot_be_undone() -> None:
    module = parse(RELU)
    rewriter = Rewriter(module)
    start = rewriter.mark()
    op = module.main.body.ops[0]
    rewriter.rename(op, "a")
    rewriter.commit()
    committed = rewriter.mark()
    assert committed > start
    rewriter.clone(op, InsertPoint.after(op), CloneMap())
    assert rewriter.mark() > committed
    with pytest.raises(ValueError, match="committed"):
        rewriter.rollback(start)
    assert len(module.main.body.ops) == len(parse(RELU).main.body.ops) + 1
    rewriter.rollback(committed)
    assert op.name == "a"
    assert len(module.main.body.ops) == len(parse(RELU).main.body.ops)


def test_how_a_run_is_undone_does_not_outlive_it() -> None:
    """Nothing that undoes a change waits for the collector, neither of a schedule nor of the lowering."""
    gc.collect()
    gc.disable()
    try:
        before = _undoing()
        run(RELU, 'let r = match one "r" in root\nlet i = tile(r, [d0: 3])')
        tcpx.emit(parse(RELU), target="x86_avx512")
        assert _undoing() <= before
    finally:
        gc.enable()


def _undoing() -> int:
    return sum(1 for f in gc.get_objects() if type(f) is FunctionType and f.__qualname__.endswith("<locals>.undo"))
