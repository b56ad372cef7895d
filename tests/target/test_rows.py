"""Every row of the installed targets, built and run, does what its semantics say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpx.target import LaneType, load_target
from tcpx.target.rows import DTYPE_BITS, KINDS
from tcpx.verification.vector_rows.checks import wrong_row
from tcpx.verification.vector_rows.source import MEMORY_KINDS
from tcpx.verification.vector_rows.values import KINDS_OF_VALUES
from tests.optional_tools import CLANG
from tests.target.conftest import BuiltRows

FLOOR = {
    "generic": {KINDS_OF_VALUES: 718, MEMORY_KINDS: 190},
    "x86_avx2": {KINDS_OF_VALUES: 1080, MEMORY_KINDS: 205},
    "x86_avx512": {KINDS_OF_VALUES: 1540, MEMORY_KINDS: 315},
}
"""At least this many rows of a target are run."""


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_what_their_semantics_say(rows: BuiltRows, kind: str) -> None:
    checked = {row.name: wrong_row(rows.library, row) for row in rows.target.rows if row.kind == kind}
    assert not [f"{name}: {wrong}" for name, wrong in checked.items() if wrong is not None]


def test_enough_rows_are_exercised(rows: BuiltRows) -> None:
    full = load_target(rows.target.name)
    lacking = [row for row in full.rows if row not in rows.target.rows]
    assert all(row.requires is not None and not rows.target.has(row.requires) for row in lacking)
    for kinds, floor in FLOOR[rows.target.name].items():
        assert sum(row.kind in kinds for row in full.rows) >= floor


def test_aligned_rows_say_so(rows: BuiltRows) -> None:
    for row in rows.target.rows:
        if row.kind == "stream_store":
            (stored,) = row.operands
            assert row.alignment in (0, stored.lanes * DTYPE_BITS[stored.dtype] // 8), row.name


@CLANG.needed
def test_every_target_compiles_with_clang(clang_library: Path) -> None:
    assert clang_library.stat().st_size > 0


def test_a_row_of_every_width_is_found() -> None:
    for name in ("generic", "x86_avx2", "x86_avx512"):
        target = load_target(name)
        for dtype in ("f32", "f64", "si32"):
            vector = LaneType(dtype, target.lanes(dtype))
            for kind in ("load", "store", "masked_load", "masked_store", "splat", "zero", "extract", "insert"):
                found = target.find(
                    kind, result=None if "store" in kind else LaneType(dtype, 1) if kind == "extract" else vector
                )
                assert found is not None, f"{name}: {kind} {vector}"
