"""Threads are used where there is enough for them to do."""

from __future__ import annotations

import re

import pytest

import tcpx

PAYLOAD = """\
func @f(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32>{symbols} {{
  %y = tcp.add(%x, %x) : tensor<{shape}xf32>
  tcp.return(%y)
}}
"""
SCHEDULE = """\
language 1
schedule rows(root: func) {
  let y = match one add in root
  let i = tile(y, [d0: 1], parallel: true)
}
"""


def pragmas(shape: str, symbols: str, threads: int) -> list[str]:
    module = tcpx.parse(PAYLOAD.format(shape=shape, symbols=symbols))
    source = tcpx.emit(module, tcpx.parse_schedule(SCHEDULE), target="generic", threads=threads).c_source
    return re.findall(r"#pragma omp parallel for.*", source)


SHARED = "#pragma omp parallel for num_threads(2) schedule(static)"


@pytest.mark.parametrize(
    ("shape", "symbols", "found"),
    [
        ("16x16", "", []),
        ("1024x1024", "", [SHARED]),
        ("[M]x64", " symbols [M]", [f"{SHARED} if (256 * M >= 65536)"]),
        ("[M]x64", " symbols [M: 1000..]", [SHARED]),
        ("[M]x64", " symbols [M: 0..20]", []),
    ],
)
def test_threads(shape: str, symbols: str, found: list[str]) -> None:
    assert pragmas(shape, symbols, 2) == found
    assert pragmas(shape, symbols, 1) == []
