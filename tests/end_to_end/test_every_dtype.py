"""Every elementwise operation of every dtype is in vectors without a schedule; what goes lane by lane has a remark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tcpx
from tcpx.api import CompileRequest, lowered
from tcpx.payload.types import SCALARS, ScalarType

DTYPES = tuple(t for t in SCALARS.values() if t.name != "index")
UNARY = "neg abs relu sign not reciprocal rsqrt sqrt floor ceil trunc round round_away isnan isinf"
BINARY = (
    "add sub mul div max min floordiv mod rem pow and or xor shift_left shift_right less less_equal greater"
    " greater_equal equal not_equal"
)
"""Real functions are expansions of these."""
OF_TRUTH = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "isnan", "isinf")
LANES = {
    *(("pow", t.name) for t in DTYPES if t.is_integer),
    *((name, t) for name in ("floordiv", "mod", "rem") for t in ("si64", "ui64")),
}
"""What no target has an instruction for, and no expansion."""
WITHOUT = {
    "x86_avx512": set[tuple[str, str]](),
    "x86_avx2": {(a.name, b.name) for a in DTYPES for b in DTYPES if {a.bits, b.bits} in ({8, 64}, {16, 64})},
}
"""Casts between dtypes that have no vectors of equally many lanes there."""


def operations(dtype: ScalarType) -> Iterator[tuple[str, str]]:
    """Names and texts of the operations that a dtype has."""
    for arity, names in enumerate((UNARY, BINARY), 1):
        for name in names.split():
            result = "i1" if name in OF_TRUTH else dtype.name
            text = f"tcp.{name}({', '.join(['%x', '%y'][:arity])}) : tensor<3x70x{result}>"
            module = f"func @f(%x: tensor<3x70x{dtype}>, %y: tensor<3x70x{dtype}>) -> tensor<3x70x{result}> {{\n"
            try:
                tcpx.parse(module + f"  %r = {text}\n  tcp.return(%r)\n}}\n")
            except tcpx.VerifyError:
                continue
            yield name, text


def by_lanes(arguments: str, text: str, target: str) -> bool:
    """Whether a remark says that an operation is done lane by lane; no other operation is left alone."""
    result = text.rpartition(" : ")[2]
    module = tcpx.parse(f"func @f({arguments}) -> {result} {{\n  %r = {text}\n  tcp.return(%r)\n}}\n")
    remarks = lowered(CompileRequest(module), tcpx.load_target(target), 1, is_judged=False).remarks
    assert all(remark.message.endswith("is computed lane by lane") for remark in remarks), remarks
    return len(remarks) > 0


@pytest.mark.parametrize("target", WITHOUT)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_operations(dtype: ScalarType, target: str) -> None:
    arguments = f"%x: tensor<3x70x{dtype}>, %y: tensor<3x70x{dtype}>"
    found = {name for name, text in operations(dtype) if by_lanes(arguments, text, target)}
    assert found == {name for name, kind in LANES if kind == dtype.name}


@pytest.mark.parametrize("target", WITHOUT)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_casts(dtype: ScalarType, target: str) -> None:
    arguments = f"%x: tensor<3x70x{dtype}>"
    made = [(other.name, f"tcp.cast(%x) : tensor<3x70x{other}>") for other in DTYPES if other != dtype]
    found = {name for name, text in made if by_lanes(arguments, text, target)}
    assert found == {to for source, to in WITHOUT[target] if source == dtype.name}


FUSED = """func @f(%x: tensor<[N]xsi8>, %y: tensor<[N]xsi8>) -> tensor<[N]xsi8> symbols [N] {
  %a = tcp.add(%x, %y) : tensor<[N]xsi8>
  %b = tcp.pow(%a, %y) : tensor<[N]xsi8>
  %c = tcp.max(%b, %x) : tensor<[N]xsi8>
  %d = tcp.pow(%c, %y) : tensor<[N]xsi8>
  %e = tcp.sub(%d, %x) : tensor<[N]xsi8>
  tcp.return(%e)
}
"""


def test_a_remark_points_at_the_operation_of_a_fused_cluster_that_it_is_about() -> None:
    target = tcpx.load_target("x86_avx2")
    remarks = lowered(CompileRequest(tcpx.parse(FUSED)), target, 1, is_judged=False).remarks
    assert [remark.message for remark in remarks] == ["tcp.pow of si8 is computed lane by lane"] * 2
    assert [remark.payload.line for remark in remarks if remark.payload is not None] == [3, 5]
