"""What every payload has to pass on its way to buffers: for tests of `bufferize` and `plan_memory`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tcpx.payload.constants import Constants
from tcpx.payload.evaluator import evaluate_buffers, evaluate_func
from tcpx.payload.ir import Block, Module, Operation, Value
from tcpx.payload.ops.gml_st import If, Loop
from tcpx.payload.ops.memory import Alloc
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.text.parser import parse
from tcpx.payload.types import BufferType, TensorType
from tcpx.payload.verifier import verify_module
from tcpx.transform.ops.bufferize import bufferize
from tcpx.transform.ops.plan_memory import plan_memory
from tests.transform.payloads import arguments, same_numbers

EXTENTS = (0, 1, 2, 5, 13)
FEW_EXTENTS = (0, 1, 7)
"""Nothing, one, below, between and above the tiles of the payloads; fewer where there are many symbols."""


@dataclass(frozen=True, slots=True)
class Bufferized:
    """A module on buffers, with the rewriter that made it."""

    module: Module
    rewriter: Rewriter
    remarks: tuple[str, ...]

    @property
    def allocations(self) -> dict[str, BufferType]:
        """The buffers it makes, by name."""
        return {
            op.result.name: op.result.type
            for op in self.module.walk()
            if isinstance(op, Alloc) and isinstance(op.result.type, BufferType)
        }

    def op(self, name: str) -> Operation:
        """The operation of this name."""
        (found,) = (op for op in self.module.walk() if op.name == name)
        return found

    def count(self, opcode: str) -> int:
        return sum(op.opcode == opcode for op in self.module.walk())


def sizes_of(module: Module, extents: Sequence[int] = ()) -> list[Mapping[str, int]]:
    """Each extent for each symbol, with each of the others."""
    symbols = module.main.symbols
    extents = extents or (EXTENTS if len(symbols) < 3 else FEW_EXTENTS)
    choices = [[n for n in extents if s.lower <= n and (s.upper is None or n <= s.upper)] for s in symbols]
    return [dict(zip((s.name for s in symbols), chosen, strict=True)) for chosen in product(*choices)]


def values_of(block: Block) -> list[Value]:
    """All values in a block and in loops and branches in it."""
    found = list(block.args)
    for op in block.ops:
        found += [*op.operands, *op.results]
        if isinstance(op, Loop | If):
            found += [v for region in op.regions for v in values_of(region)]
    return found


def check_bufferized(
    payload: str | Module,
    constants: Constants | None = None,
    extents: Sequence[int] = (),
    exact: bool = True,
    seed: int = 0,
) -> Bufferized:
    """Bufferize and plan: no tensor is left, the text parses back, nothing that is computed changes, whatever the
    order of parallel iterations, and rolling back restores every byte. Returns the payload on buffers, not planned."""
    module = parse(payload, constants=constants) if isinstance(payload, str) else payload
    func = module.main
    cases = [(arguments(module, sizes, seed), sizes) for sizes in sizes_of(module, extents)]
    wanted = [evaluate_func(module, func, given) for given, _ in cases]
    before, numbers = module.text(), module.next_origin
    rewriter = Rewriter(module)
    origins = {o: list(ops) for o, ops in rewriter.origins.items()}
    mark = rewriter.mark()

    remarks = bufferize(rewriter, func)
    verify_module(module)
    assert not [v for v in values_of(func.body) if isinstance(v.type, TensorType)]
    assert func.attributes.get("remarks", ()) == remarks
    on_buffers = module.text()
    assert parse(on_buffers, constants=module.constants).text() == on_buffers
    _check_numbers(module, cases, wanted, exact)

    plan_memory(rewriter, func, 2)
    verify_module(module)
    planned = module.text()
    assert parse(planned, constants=module.constants).text() == planned
    _check_numbers(module, cases, wanted, exact)

    rewriter.rollback(mark)
    assert module.text() == before
    assert module.next_origin >= numbers
    assert {o: list(ops) for o, ops in rewriter.origins.items() if ops} == {o: ops for o, ops in origins.items() if ops}
    assert bufferize(rewriter, func) == remarks
    assert module.text() == on_buffers, "bufferizing again gives the same"
    return Bufferized(module, rewriter, remarks)


def _check_numbers(module: Module, cases: Sequence[tuple], wanted: Sequence[tuple], exact: bool) -> None:
    for (given, sizes), results in zip(cases, wanted, strict=True):
        for seed in (0, 1):
            kept = [a.copy() for a in given]
            found = evaluate_buffers(module, module.main, given, seed)
            assert same_numbers(found, results, exact), (sizes, found, results)
            assert all(np.array_equal(a, b) for a, b in zip(kept, given, strict=True))


WORKED_EXAMPLE = """
func @gemm(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, K, N] {
  %e = tcp.empty : tensor<[M]x[N]xf32>
  %t = gml_st.for %j in 0 to N step 8 (%tj = %e) {
    %z = tcp.fill {value = 0.0} : tensor<[M]x[min(8, N - %j)]xf32>
    %q = gml_st.for %p in 0 to K step 3 (%tp = %z) {
      %cp = gml_st.materialize(%tp) tile [0, 0] [M, min(8, N - %j)] : tensor<[M]x[min(8, N - %j)]xf32>
      %s = gml_st.parallel %i in 0 to M step 6 (%ti = %cp) {
        %ci = gml_st.materialize(%ti) tile [%i, 0] [min(6, M - %i), min(8, N - %j)]
          : tensor<[min(6, M - %i)]x[min(8, N - %j)]xf32>
        %sj = gml_st.for %jj in 0 to min(8, N - %j) step 4 (%tjj = %ci) {
          %cj = gml_st.materialize(%tjj) tile [0, %jj] [min(6, M - %i), min(4, min(8, N - %j) - %jj)]
            : tensor<[min(6, M - %i)]x[min(4, min(8, N - %j) - %jj)]xf32>
          %si = gml_st.for %ii in 0 to min(6, M - %i) step 2 (%tii = %cj) {
            %a = gml_st.materialize(%x) tile [%i + %ii, %p] [min(2, min(6, M - %i) - %ii), min(3, K - %p)]
              : tensor<[min(2, min(6, M - %i) - %ii)]x[min(3, K - %p)]xf32>
            %b = gml_st.materialize(%w) tile [%p, %j + %jj] [min(3, K - %p), min(4, min(8, N - %j) - %jj)]
              : tensor<[min(3, K - %p)]x[min(4, min(8, N - %j) - %jj)]xf32>
            %c = gml_st.materialize(%tii)
              tile [%ii, 0] [min(2, min(6, M - %i) - %ii), min(4, min(8, N - %j) - %jj)]
              : tensor<[min(2, min(6, M - %i) - %ii)]x[min(4, min(8, N - %j) - %jj)]xf32>
            %mm = tcp.matmul(%a, %b, init = %c)
              : tensor<[min(2, min(6, M - %i) - %ii)]x[min(4, min(8, N - %j) - %jj)]xf32>
            gml_st.yield(%mm, %tii) tile [%ii, 0] [min(2, min(6, M - %i) - %ii), min(4, min(8, N - %j) - %jj)]
          } : tensor<[min(6, M - %i)]x[min(4, min(8, N - %j) - %jj)]xf32>
          gml_st.yield(%si, %tjj) tile [0, %jj] [min(6, M - %i), min(4, min(8, N - %j) - %jj)]
        } : tensor<[min(6, M - %i)]x[min(8, N - %j)]xf32>
        gml_st.yield(%sj, %ti) tile [%i, 0] [min(6, M - %i), min(8, N - %j)]
      } : tensor<[M]x[min(8, N - %j)]xf32>
      gml_st.yield(%s, %tp) tile [0, 0] [M, min(8, N - %j)]
    } : tensor<[M]x[min(8, N - %j)]xf32>
    gml_st.yield(%q, %tj) tile [0, %j] [M, min(8, N - %j)]
  } : tensor<[M]x[N]xf32>
  tcp.return(%t)
}
"""
"""The nest of semantics.md: five loops, each handing a tile of its destination to the next."""


def in_place(text: str, allocations: int = 0, exact: bool = True) -> Bufferized:
    """A payload that makes so many buffers, and copies nothing."""
    done = check_bufferized(text, exact=exact)
    assert done.remarks == ()
    assert "remarks" not in done.module.main.attributes
    assert len(done.allocations) == allocations, done.module.text()
    return done


def copies(text: str, *wanted: str, allocations: int | None = None) -> Bufferized:
    """A payload that needs just these copies; each text is a part of its remark."""
    done = check_bufferized(text)
    assert len(done.remarks) == len(wanted), done.remarks
    for part, remark in zip(wanted, done.remarks, strict=True):
        assert part in remark
    if allocations is not None:
        assert len(done.allocations) == allocations, done.module.text()
    return done
