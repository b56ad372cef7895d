"""Looking changes nothing: `print` at every place of the schedules that come with tcpx leaves the C as it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

import tcpx
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.loader import Program
from tests.end_to_end.payloads import ROOT

DIGITS = ROOT / "examples/digits/digits.tcp"
SCHEDULES = ("digits.tcps", "default.tcps")
SMALL = """\
func @small(%x: tensor<[M]x32xf32>, %w: tensor<32x48xf32>) -> tensor<[M]x48xf32> symbols [M: 0..] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x48xf32>
  %r = tcp.exp(%mm) : tensor<[M]x48xf32>
  tcp.return(%r)
}
"""
LIBRARY = """\
language 1
import "lib/gemm.tcps" as gemm
import "lib/small_gemm.tcps" as small
schedule s(root: func) {
  let mm = match one contract in root
  let last = epilogue(mm)
  specialize [mm, last] when size(mm.m) < 8 { small.direct_gemm(mm, last) }
  else                                       { gemm.packed_gemm(mm, last) }
}
"""


class Printing:
    """Puts `print` before the statements, and at the ends of blocks, that have the chosen numbers; of the sequences
    of these names, or of all."""

    def __init__(self, chosen: int | None = None, called: set[str] | None = None) -> None:
        self.chosen = chosen
        self.called = called
        self.count = 0

    def into(self, program: Program) -> Program:
        for unit in program.units:
            for name, sequence in unit.sequences.items():
                if self.called is not None and name not in self.called:
                    continue
                handles = [
                    param.name for param in sequence.params if param.type.name in ("op", "loop", "func", "group")
                ]
                if handles:
                    unit.sequences[name] = replace(sequence, body=self._node(sequence.body, handles[0]))
            for name, schedule in unit.schedules.items():
                unit.schedules[name] = replace(schedule, body=self._node(schedule.body, schedule.params[0].name))
        return program

    def _node(self, node: Any, handle: str) -> Any:
        if isinstance(node, tuple):
            return tuple(self._node(n, handle) for n in node)
        if not is_dataclass(node) or not isinstance(node, ast.Node):
            return node
        inner = node.variables[0] if isinstance(node, ast.ForEach) and isinstance(node.items, ast.Match) else handle
        changed = {f.name: self._node(getattr(node, f.name), inner) for f in fields(node) if f.init}
        if isinstance(node, ast.Block):
            changed["statements"] = tuple(self._printed(changed["statements"], handle))
        return replace(node, **changed)

    def _printed(self, statements: tuple[Any, ...], handle: str) -> Iterator[Any]:
        for statement in statements:
            yield from self._print(statement.location, handle)
            yield statement
        if statements and not isinstance(statements[-1], ast.Return):
            yield from self._print(statements[-1].location, handle)

    def _print(self, location: Any, handle: str) -> Iterator[ast.Statement]:
        self.count += 1
        if self.chosen is None or self.chosen == self.count:
            tree = tcpx.parse_schedule(f"language 1\nschedule s({handle}: func) {{ print({handle}) }}")
            (statement,) = tree.schedule().body.statements
            yield replace(statement, location=location)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("threads", [1, 2])
def test_print_everywhere(name: str, threads: int) -> None:
    module = tcpx.load(DIGITS)
    path = ROOT / "schedules" / name
    printing = Printing()
    program = printing.into(tcpx.load_schedule(path))
    assert printing.count >= 40
    plain = tcpx.emit(module, tcpx.load_schedule(path), target="x86_avx2", threads=threads)
    run = tcpx.apply_schedule(module, program, target="x86_avx2", threads=threads)
    assert len(run.trace.output) > 20
    printed = tcpx.emit(module, program, target="x86_avx2", threads=threads)
    assert printed.c_source == plain.c_source
    assert printed.header == plain.header
    assert printed.constants == plain.constants


def test_print_at_each_place() -> None:
    module = tcpx.parse(SMALL)
    done = tcpx.apply_schedule(module, tcpx.parse_schedule(LIBRARY), target="generic")
    called = {name for entry in done.trace.entries for name, _ in entry.calls}
    assert called >= {"packed_gemm", "direct_gemm"}
    counting = Printing(0, called)
    counting.into(tcpx.parse_schedule(LIBRARY))
    plain = tcpx.emit(module, tcpx.parse_schedule(LIBRARY), target="generic").c_source
    assert counting.count > 40
    scheduled = done.module.text()
    reached = 0
    for place in range(1, counting.count + 1):
        program = Printing(place, called).into(tcpx.parse_schedule(LIBRARY))
        run = tcpx.apply_schedule(module, program, target="generic")
        reached += bool(run.trace.output)
        assert run.module.text() == scheduled
        if run.trace.output and reached % 8 == 1:
            assert tcpx.emit(module, program, target="generic").c_source == plain
    assert reached > 20
