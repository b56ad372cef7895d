"""The model of innermost loops beside llvm-mca, which reads the assembly of the same loop.

Both have the ports of Zen 3 from other sources. Left out is what LLVM has wrong for it: multiply-adds, which it starts
half as often as the processor does, and gathers.
"""

from __future__ import annotations

import re
import subprocess

import pytest

import tcpx
from tcpx.api import CompileRequest, lowered
from tcpx.costs.nests import nests_of
from tests.costs.test_loops import SCAN, SUM, SUMS
from tests.optional_tools import GCC, LLVM_MCA

NEAR = 0.25
ROUNDS = 200
CASES = {
    "sum": (SUM.format(n=4096, dtype="f32"), SUMS.format(factor=32)),
    "sum of f64": (SUM.format(n=4096, dtype="f64"), SUMS.format(factor=16)),
    "sum of si32": (SUM.format(n=4096, dtype="si32"), SUMS.format(factor=16)),
    "running sum": (SCAN, ""),
    **{
        name: (
            f"func @f(%x: tensor<4096x{given}>, %y: tensor<4096x{given}>) -> tensor<4096x{made}> {{\n"
            f"  %r = tcp.{text} : tensor<4096x{made}>\n  tcp.return(%r)\n}}\n",
            "",
        )
        for name, text, given, made in (
            ("add", "add(%x, %y)", "f32", "f32"),
            ("division", "div(%x, %y)", "f64", "f64"),
            ("rounding", "round(%x)", "f32", "f32"),
            ("maximum", "max(%x, %y)", "si32", "si32"),
            ("cast", "cast(%x)", "si32", "f32"),
            ("narrowing", "cast(%x)", "f32", "bf16"),
        )
    },
}


def longest_loop(assembly: str) -> str:
    """The body of the longest innermost loop, without the branch back."""
    lines = assembly.splitlines()
    labels = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(":")}
    jumps = ((labels.get(line.split()[-1], at), at) for at, line in enumerate(lines) if re.match(r"\tj\w+\t", line))
    loops = [(first, last) for first, last in jumps if first < last]
    inner = [(a, b) for a, b in loops if not any(a <= first and last < b for first, last in loops)]
    first, last = max(inner, key=lambda loop: loop[1] - loop[0])
    return "\n".join(line for line in lines[first + 1 : last] if not line.endswith(":"))


@GCC.needed
@LLVM_MCA.needed
@pytest.mark.parametrize("name", CASES)
def test_both_predict_the_same(name: str) -> None:
    payload, schedule = CASES[name]
    target = tcpx.load_target("zen3")
    module, program = tcpx.parse(payload), tcpx.parse_schedule(schedule) if schedule else None
    source = tcpx.emit(module, program, target=target)
    command = ["gcc", *source.flags, "-S", "-o", "-", "-x", "c", "-"]
    assembly = subprocess.run(command, input=source.c_source, capture_output=True, text=True, check=True).stdout
    command = ["llvm-mca", "-mcpu=znver3", f"-iterations={ROUNDS}"]
    done = subprocess.run(command, input=longest_loop(assembly), capture_output=True, text=True, check=True)
    found = re.search(r"Total Cycles: +(\d+)", done.stdout)
    assert found is not None
    run = lowered(CompileRequest(module, program), target, 1)
    loops = [inner for nest in nests_of(run.module.main, target, 1, {}) for inner in nest.loops]
    longest = max(loops, key=lambda inner: inner.cycles * inner.iterations)
    assert longest.iteration.cycles == pytest.approx(int(found.group(1)) / ROUNDS, rel=NEAR)
