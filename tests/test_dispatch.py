"""Several frozen versions in one schedule, chosen by size."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.dispatch import freeze_dispatch

PAYLOAD = """\
func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x8xf32>) -> tensor<[M]x8xf32> symbols [M, K] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x8xf32>
  %y = tcp.exp(%mm) : tensor<[M]x8xf32>
  tcp.return(%y)
}
"""
SCHEDULE = """\
language 1
/// Rows by parts.
sequence by_rows(x: op) {
  knob rows: int = 4 in 1..8
  tile(x, [m: rows])
}
schedule s(root: func) {
  let mm = match one contract in root
  by_rows(mm)
}
"""
Versions = list[tuple[dict[str, int], dict[str, int | float | bool | str]]]


def dispatched(versions: Versions) -> str:
    return freeze_dispatch(
        tcpx.parse(PAYLOAD), tcpx.parse_schedule(SCHEDULE), versions, target="generic", provenance={"why": "a test"}
    )


def test_each_size_gets_its_version() -> None:
    text = dispatched([({"M": 1, "K": 4}, {"rows": 1}), ({"M": 16, "K": 4}, {"rows": 3}), ({"M": 16, "K": 400}, {})])
    assert text.startswith("// why: a test\n")
    assert "size(of_M.m) <= 4" in text
    assert "size(of_K.k) <= 40" in text
    assert text.count("let rows = ") == 3
    module, schedule = tcpx.parse(PAYLOAD), tcpx.parse_schedule(text, "dispatch.tcps")
    assert tcpx.check(schedule, module, target="generic") == ()
    kernel = tcpx.compile(module, schedule, target="generic")
    for sizes in ({"M": 0, "K": 3}, {"M": 3, "K": 5}, {"M": 7, "K": 5}, {"M": 17, "K": 41}):
        arrays = tcpx.random_inputs(module, sizes=sizes)
        assert np.allclose(np.asarray(kernel(*arrays)), np.asarray(tcpx.evaluate(module, *arrays)), rtol=1e-3)
    assert "+= 3)" in kernel.c_source
    assert "+= 4)" in kernel.c_source


def test_what_it_expects_is_kept() -> None:
    expects = 'root: func) expects "(tensor<[M]x[K]xf32>, tensor<[K]x8xf32>) -> tensor<[M]x8xf32>" {'
    schedule = tcpx.parse_schedule(SCHEDULE.replace("root: func) {", expects))
    text = freeze_dispatch(tcpx.parse(PAYLOAD), schedule, [({"M": 1}, {"rows": 1}), ({"M": 9}, {})], target="generic")
    assert text.count("expects") == 1


@pytest.mark.parametrize("sizes", [[], [{"M": 3}], [{"M": 3}, {"M": 3}]])
def test_sizes_that_make_no_versions(sizes: list[dict[str, int]]) -> None:
    with pytest.raises(tcpx.ArgumentError, match="make no versions"):
        dispatched([(held, {}) for held in sizes])


def test_a_size_that_no_operation_has() -> None:
    with pytest.raises(tcpx.ArgumentError, match="cannot ask for the size `Q`"):
        dispatched([({"Q": 3}, {}), ({"Q": 4}, {})])
