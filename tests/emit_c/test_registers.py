"""What the compiler makes of the C: accumulators stay in registers, aligned stores go to aligned addresses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tcpx.emit_c.kernel import build_kernel
from tcpx.emit_c.printer.file import PrintRequest, print_file
from tcpx.target import load_target
from tests.emit_c.payloads import lanes_of, module
from tests.optional_tools import GCC

ROWS, VECTORS = 6, 4


def register_tile() -> str:
    """The product of a packed row panel and a packed column panel, 24 accumulators of 16 lanes."""
    tile = [(r, v) for r in range(ROWS) for v in range(VECTORS)]
    lines = [f'%z{r}_{v} = tcp.const {{value = 0.0, row = "zero_$T"}} : $V' for r, v in tile]
    carried = ", ".join(f"%acc{r}_{v} = %z{r}_{v}" for r, v in tile)
    lines.append(f"{', '.join(f'%s{r}_{v}' for r, v in tile)} = gml_st.for %k in 0 to K ({carried}) {{")
    for v in range(VECTORS):
        lines.append(f'%b{v} = vector.read(%b) tile [%k, {v}, 0] [1, 1, $L] drop [0, 1] {{row = "load_$T"}} : $V')
    for r in range(ROWS):
        lines.append(f'%a{r} = vector.read(%a) tile [%k, {r}] [1, 1] drop [0, 1] {{row = "load_f32"}} : f32')
        lines.append(f'%v{r} = tcp.broadcast(%a{r}) {{dims = [], row = "splat_$T"}} : $V')
        for v in range(VECTORS):
            lines.append(f'%n{r}_{v} = tcp.fma(%v{r}, %b{v}, %acc{r}_{v}) {{row = "fma_$T"}} : $V')
    lines += [f"gml_st.yield(%n{r}_{v}, %acc{r}_{v}) tile [0] [$L]" for r, v in tile]
    lines.append(f"}} : {', '.join(['$V'] * len(tile))}")
    lines += [
        f'vector.write(%s{r}_{v}, %c) tile [{r}, {v}, 0] [1, 1, $L] drop [0, 1] {{row = "store_$T"}}' for r, v in tile
    ]
    return "\n".join(
        [
            f"func @tile(%a: buffer<[K]x{ROWS}xf32, strides [{ROWS}, 1], space argument>,",
            f"  %b: buffer<[K]x{VECTORS}x${{L}}xf32, strides [{VECTORS} * $L, $L, 1], space argument>,",
            f"  %c: buffer<{ROWS}x{VECTORS}x${{L}}xf32, strides [{VECTORS} * $L, $L, 1], space result>)",
            "  symbols [K] {results = 1} {",
            *lines,
            "tcp.return }",
        ]
    )


@GCC.needed
def test_accumulators_stay_in_registers(tmp_path: Path) -> None:
    target = load_target("x86_avx512")
    payload = module(register_tile(), lanes_of(target))
    (tmp_path / "tile.c").write_text(
        print_file([PrintRequest(payload.main, payload.constants, "tile")], target, 1).source
    )
    subprocess.run(["gcc", *target.flags, "-S", "tile.c"], cwd=tmp_path, check=True)
    lines = (tmp_path / "tile.s").read_text().splitlines()
    assert sum("vfmadd" in line for line in lines) == ROWS * VECTORS
    assert not [line for line in lines if "(%rsp)" in line and "zmm" in line]


STREAM = """
func @stream(%x: buffer<[N]x${L}xf32, strides [$L, 1], space argument>,
             %r: buffer<[N]x${L}xf32, strides [$L, 1], space result>) symbols [N] {results = 1} {
  gml_st.for %i in 0 to N {
    %v = vector.read(%x) tile [%i, 0] [1, $L] drop [0] {row = "load_$T"} : $V
    vector.write(%v, %r) tile [%i, 0] [1, $L] drop [0] {row = "stream_store_$T"}
  }
  tcp.return
}
"""


@pytest.mark.parametrize("offset", [0, 1, 7])
def test_aligned_stores_at_any_address(offset: int) -> None:
    target = load_target("native")
    lanes = lanes_of(target)
    kernel = build_kernel(module(STREAM, lanes), target)
    x = np.arange(5 * lanes, dtype=np.float32).reshape(5, lanes)
    out = np.zeros(6 * lanes + 8, dtype=np.float32)[offset : offset + 5 * lanes].reshape(5, lanes)
    kernel(x, out=out)
    np.testing.assert_array_equal(out, x)
