"""Operations by class and name: what a walk finds, also behind a rollback."""

from __future__ import annotations

import tcpx
from tcpx.interp import run_schedule
from tcpx.lowering import lower
from tcpx.payload.ir import CloneMap, Module
from tcpx.payload.lookup import is_a, source_name
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.target import load_target
from tests.transform.payloads import RELU

STEPS = """language 1
import "lib/gemm.tcps" as gemm
schedule main(root: func) {
  let mm = match one contract in root
  try { let i = tile(mm, [m: 6])
        vectorize(i) } else { }
  specialize [mm, epilogue(mm)] when size(mm.m) < 8 { let j = tile(mm, [n: 8]) }
  else { gemm.packed_gemm(mm, epilogue(mm)) }
}
"""
CLASSES = ("contract", "elementwise", "generic", "for", "fill", "matmul")


def found(rewriter: Rewriter) -> tuple[list[set[int]], dict[str, set[int]]]:
    """What the lookup knows: identities of operations by class and by name."""
    names = {source_name(op) for op in rewriter.module.walk()}
    by_class = [{id(op) for op in rewriter.lookup.of_class(c) if is_a(op, c)} for c in CLASSES]
    return by_class, {name: {id(op) for op in rewriter.lookup.of_name(name)} for name in names}


def walked(module: Module) -> tuple[list[set[int]], dict[str, set[int]]]:
    """The same by a walk."""
    by_name: dict[str, set[int]] = {}
    for op in module.walk():
        by_name.setdefault(source_name(op), set()).add(id(op))
    return [{id(op) for op in module.walk() if is_a(op, c)} for c in CLASSES], by_name


def test_every_step_keeps_it() -> None:
    module = tcpx.parse(RELU)
    run = run_schedule(module, tcpx.parse_schedule(STEPS), load_target("generic"))
    assert found(run.rewriter) == walked(module)
    start = run.rewriter.mark()
    lower(run.rewriter, module.main, load_target("generic"), 1)
    assert found(run.rewriter) == walked(module)
    run.rewriter.rollback(start)
    assert found(run.rewriter) == walked(module)


def test_a_rollback_leaves_it_as_before() -> None:
    module = tcpx.parse(RELU)
    rewriter = Rewriter(module)
    before = found(rewriter)
    mm = next(op for op in module.walk() if is_a(op, "contract"))
    mark = rewriter.mark()
    copy = rewriter.insert(mm.clone(CloneMap(), lambda name: f"{name}.copy"), InsertPoint.before(mm))
    rewriter.rename(copy, "other")
    assert rewriter.lookup.of_name("other") == [copy]
    rewriter.erase(copy)
    assert rewriter.lookup.of_name("other") == []
    rewriter.rollback(mark)
    assert found(rewriter) == before == walked(module)
