"""How much of a loop threads can share, where the table knows what memory gives to one core and to all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tcpx

TABLE = """\
name: close
base: generic.yaml
l2: 262144
l3: 8388608
l3_rate: 4
memory_rates: {rates}
parallel_threshold: 1048576
"""
PAYLOAD = """\
func @f(%x: tensor<{rows}x64xf32>) -> tensor<{rows}x64xf32>{symbols} {{
  %y = tcp.add(%x, %x) : tensor<{rows}x64xf32>
  tcp.return(%y)
}}
"""
SCHEDULE = "language 1\nschedule rows(root: func) {\n  tile(match one add in root, [d0: 1], parallel: true)\n}\n"


def conditions(tmp_path: Path, rates: str, rows: int | str) -> list[str]:
    """The conditions of the parallel loops of a sum, in elements of 512 bytes a row and 192 operations."""
    path = tmp_path / "close.yaml"
    path.write_text(TABLE.format(rates=rates), encoding="utf-8")
    symbols = f" symbols [{rows}]" if isinstance(rows, str) else ""
    module = tcpx.parse(PAYLOAD.format(rows=f"[{rows}]" if symbols else rows, symbols=symbols))
    source = tcpx.emit(module, tcpx.parse_schedule(SCHEDULE), target=tcpx.load_target(path), threads=2).c_source
    return re.findall(r"(?:if \((.*)\) \{\n *)?#pragma omp parallel", source)


@pytest.mark.parametrize(
    ("rates", "rows", "is_shared"),
    [
        ("[64, 128]", 1000, False),  # 512,000 bytes, half of them beyond L2
        ("[64, 128]", 1700, True),  # 870,400 bytes: what is beyond L2 takes as long as 1,200,000 operations
        ("[64, 64]", 1700, True),  # caches are those of each core
        ("[64, 128]", 100000, True),  # from memory, which has as much for two
        ("[64, 64]", 100000, False),  # and which has not
        ("[64, 80]", 100000, True),  # a quarter more is worth a fork
    ],
)
def test_loops_bound_by_memory_are_shared_where_that_saves_time(
    tmp_path: Path, rates: str, rows: int, is_shared: bool
) -> None:
    assert len(conditions(tmp_path, rates, rows)) == is_shared


def test_the_condition_of_symbolic_sizes(tmp_path: Path) -> None:
    """Where memory has as much for two cores as twice one, it is a comparison of bytes."""
    assert conditions(tmp_path, "[64, 128]", "M") == ["1024 * M >= 1048576"]
    assert conditions(tmp_path, "[64, 80]", "M") == ["2 * size_3 - size_2 >= 1048576"]
