"""Defaults of the schedule library follow the caches and the pages of the target."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.installed import LIBRARY
from tcpx.machine import Machine
from tcpx.target import TargetError, load_target
from tcpx.target.calibration import numbers_of
from tcpx.target.loader import target_with

HEADS = """\
func @f(%q: tensor<2x512x64xf32>, %k: tensor<2x512x64xf32>, %v: tensor<2x512x64xf32>) -> tensor<2x512x64xf32> {
  %o = tcp.attention(%q, %k, %v) : tensor<2x512x64xf32>
  tcp.return(%o)
}
"""
MASKED = HEADS.replace("%v) :", "%v) {causal = true} :")
COLUMNS = """\
func @f(%x: tensor<4096x3000xf32>) -> tensor<3000xf32> {
  %y = tcp.reduce_sum(%x) {dims = [0]} : tensor<3000xf32>
  tcp.return(%y)
}
"""


def product(m: int, k: int, n: int) -> str:
    return (
        f"func @f(%x: tensor<{m}x{k}xf32>, %w: tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32> {{\n"
        f"  %y = tcp.matmul(%x, %w) : tensor<{m}x{n}xf32>\n  tcp.return(%y)\n}}\n"
    )


def with_sizes(name: str, **sizes: int) -> tcpx.Target:
    return target_with(name, load_target(name).features, json.dumps(sizes) if sizes else "")


@cache
def default() -> tcpx.Schedule:
    return tcpx.load_schedule(LIBRARY / "default.tcps")


def knob(text: str, name: str, target: tcpx.Target) -> object:
    run = tcpx.apply_schedule(tcpx.parse(text), default(), target=target)
    return next(use.value for use in run.knobs if use.path.endswith(f".{name}"))


@pytest.mark.parametrize(
    ("l2", "columns"), [(262144, 64), (1048576, 64), (2097152, 128), (3145728, 128), (4194304, 256), (8388608, 512)]
)
def test_a_piece_is_as_wide_as_l2_asks_for(l2: int, columns: int) -> None:
    target = with_sizes("x86_avx512", l2=l2, l3=1 << 28)
    assert knob(product(2000, 4096, 4096), "nc", target) == columns


@pytest.mark.parametrize(("page", "columns"), [(4096, 512), (16384, 2048), (65536, 4096)])
def test_a_piece_for_few_rows_is_as_wide_as_half_a_page(page: int, columns: int) -> None:
    numbers = {"page": page, "costs": {"rows": [{"large": [0, 10]}]}}
    target = target_with("sapphire_rapids", load_target("sapphire_rapids").features, json.dumps(numbers))
    assert knob(product(32, 4096, 4096), "nc", target) == columns


@pytest.mark.parametrize(("rows", "columns"), [(7, 128), (8, 64)])
def test_a_constant_that_the_processor_reads_ahead_is_packed_in_usual_pieces(
    rows: int, columns: int, tmp_path: Path
) -> None:
    np.savez(tmp_path / "w.npz", w=np.ones((1024, 640), np.float32))
    text = 'constants "w.npz"\n' + product(rows, 1024, 640).replace(", %w: tensor<1024x640xf32>", "")
    text = text.replace("{\n", '{\n  %w = tcp.const {constant = "w"} : tensor<1024x640xf32>\n', 1)
    (tmp_path / "f.tcp").write_text(text)
    run = tcpx.apply_schedule(tcpx.load(tmp_path / "f.tcp"), default(), target="sapphire_rapids")
    assert next(use.value for use in run.knobs if use.path.endswith(".nc")) == columns


WINDOWS = """\
func @f(%x: tensor<30x30x{c}xf32>, %w: tensor<3x3x{c}x64xf32>) -> tensor<28x28x64xf32> {{
  %y = tcp.generic(%x, %w) {{iterators = [["y", "parallel"], ["x", "parallel"], ["o", "parallel"], ["i", "reduction"],
      ["j", "reduction"], ["c", "reduction"]], combiner = "tcp.add",
      maps = [[y + i, x + j, c], [i, j, c, o], [y, x, o]]}} ({{ (%e: f32, %g: f32, %acc: f32):
    %p = tcp.mul(%e, %g) : f32
    %s = tcp.add(%acc, %p) : f32
    tcp.yield(%s)
  }}) : tensor<28x28x64xf32>
  tcp.return(%y)
}}
"""
STENCIL = """\
func @f(%x: tensor<514x{wide}xf32>, %w: tensor<{taps}x{taps}xf32>) -> tensor<500x500xf32> {{
  %y = tcp.generic(%x, %w) {{iterators = [["y", "parallel"], ["x", "parallel"], ["i", "reduction"],
      ["j", "reduction"]], combiner = "tcp.add", maps = [[y + i, x + j], [i, j], [y, x]]}} ({{
      (%e: f32, %g: f32, %acc: f32):
    %p = tcp.mul(%e, %g) : f32
    %s = tcp.add(%acc, %p) : f32
    tcp.yield(%s)
  }}) : tensor<500x500xf32>
  tcp.return(%y)
}}
"""
POOLING = """\
func @f(%x: tensor<56x56x96xf32>) -> tensor<28x28x96xf32> {
  %y = tcp.generic(%x) {iterators = [["y", "parallel"], ["x", "parallel"], ["c", "parallel"],
      ["i", "reduction", 2], ["j", "reduction", 2]], combiner = "tcp.max",
      maps = [[2*y + i, 2*x + j, c], [y, x, c]]} ({ (%e: f32, %acc: f32):
    %s = tcp.max(%acc, %e) : f32
    tcp.yield(%s)
  }) : tensor<28x28x96xf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize(
    ("text", "target", "rows"),
    [
        (WINDOWS.format(c=64), "x86_avx512", 7),  # of four vectors, as many as registers are for
        (WINDOWS.format(c=64), "x86_avx2", 6),  # of two
        (STENCIL.format(wide=514, taps=3), "x86_avx512", 1),  # windows share no vector as a whole
        (STENCIL.format(wide=514, taps=7), "x86_avx512", 6),
        (POOLING, "x86_avx512", 1),  # no filter that several share
        (POOLING, "x86_avx2", 1),
    ],
)
def test_indices_that_a_tile_of_windows_takes(text: str, target: str, rows: int) -> None:
    assert knob(text, "mr", load_target(target)) == rows


@pytest.mark.parametrize(("columns", "rows"), [(128, 4), (129, 1)])
def test_rows_are_taken_one_by_one_where_they_are_long(columns: int, rows: int) -> None:
    text = f"""\
    func @f(%x: tensor<64x{columns}xf32>) -> tensor<64x{columns}xf32> {{
      %y = tcp.rms_norm(%x) {{dims = [1], epsilon = 0.1}} : tensor<64x{columns}xf32>
      tcp.return(%y)
    }}
    """
    assert knob(text, "nr", load_target("x86_avx512")) == rows


NARROW = """\
func @f(%x: tensor<{m}x1024xbf16>, %w: tensor<1024x1024xbf16>) -> tensor<{m}x1024xf32> {{
  %y = tcp.matmul(%x, %w) : tensor<{m}x1024xf32>
  tcp.return(%y)
}}
"""


@pytest.mark.parametrize("target", ["sapphire_rapids", "x86_avx2"])
def test_a_widened_factor_is_packed_in_columns_as_a_stored_one(target: str) -> None:
    assert knob(NARROW.format(m=64), "packing", load_target(target)) == "columns"


@pytest.mark.parametrize(("text", "vectors"), [(NARROW.format(m=2), 4), (product(2, 1024, 1024), 2)])
def test_rows_that_are_widened_are_read_in_longer_pieces(text: str, vectors: int) -> None:
    assert knob(text, "nv", load_target("sapphire_rapids")) == vectors


@pytest.mark.parametrize(("page", "rows"), [(4096, 8), (8192, 8), (16384, 16)])
def test_rows_that_are_short_beside_a_page_stream_side_by_side(page: int, rows: int) -> None:
    text = product(1, 2048, 2048).replace("1x2048xf32", "2048xf32").replace("tcp.matmul", "tcp.contract")
    text = text.replace("%w) :", '%w) {lhs = ["k"], rhs = ["k", "n"], out = ["n"]} :')
    assert knob(text, "kb", with_sizes("x86_avx512", page=page, l3=1 << 25)) == rows


@pytest.mark.parametrize(
    ("l1", "keys", "masked"), [(16384, 64, 64), (32768, 128, 64), (49152, 128, 64), (131072, 512, 256)]
)
def test_l1_holds_the_scores_of_a_block_of_keys(l1: int, keys: int, masked: int) -> None:
    target = with_sizes("x86_avx512", l1=l1)
    assert knob(HEADS, "tj", target) == keys
    assert knob(MASKED, "tj", target) == masked


@pytest.mark.parametrize(("page", "is_split"), [(4096, False), (16384, True)])
def test_threads_share_the_rows_where_pages_are_longer_than_the_columns(page: int, is_split: bool) -> None:
    source = tcpx.emit(tcpx.parse(COLUMNS), default(), target=with_sizes("x86_avx512", page=page), threads=2).c_source
    assert ("combined" in source) is is_split


def test_the_page_is_the_tables_or_the_machines(tmp_path: Path) -> None:
    table = tmp_path / "mine.yaml"
    assert load_target("zen5").page == 4096
    table.write_text("name: mine\nbase: x86_avx512.yaml\npage: 16384\n", encoding="utf-8")
    assert load_target(table).page == 16384
    for wrong in ("0", "5000", "-1", "big"):
        table.write_text(f"name: mine\nbase: x86_avx512.yaml\npage: {wrong}\n", encoding="utf-8")
        with pytest.raises(TargetError):
            load_target(table)
    assert not target_with("generic", (), numbers_of(Machine(page=4096), "generic")).numbers
    assert target_with("generic", (), numbers_of(Machine(page=65536), "generic")).page == 65536
