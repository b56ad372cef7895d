"""`Kernel.report`: what a kernel is and the memory it works in."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

import tcpx
from tcpx.emit_c import memory
from tcpx.emit_c.kernel import build_kernel
from tests.emit_c.payloads import GENERIC, MATMUL, MEMORY, MEMORY_CONSTANTS, module

PRODUCT = """\
func @p(%x: tensor<[M]x64xf32>) -> tensor<[M]x70000xf32> symbols [M] {
  %w = tcp.const {constant = "w"} : tensor<64x70000xf32>
  %y = tcp.matmul(%x, %w) : tensor<[M]x70000xf32>
  tcp.return(%y)
}
"""


def test_memory_for_sizes() -> None:
    kernel = build_kernel(module(MEMORY, constants=MEMORY_CONSTANTS), GENERIC, 2)
    unknown, known = kernel.report(), kernel.report({"M": 3})
    assert (unknown.workspace_bytes, unknown.workspace_on_huge_pages) == (None, None)
    assert "its size depends on the sizes: 64*M + 256" in str(unknown)
    assert (known.workspace_bytes, known.workspace_on_huge_pages, known.threads) == (448, 0, 2)
    assert "workspace   448 bytes: 64*M + 256\nlive        288 bytes of it at once\nconstants " in str(known)
    assert (unknown.live_bytes, known.live_bytes) == (None, 288)
    assert "-fopenmp" in known.flags
    assert known.library == kernel.library_path
    large = kernel.report({"M": 1 << 20})
    assert large.workspace_on_huge_pages == large.workspace_bytes == 64 * (1 << 20) + 256


def test_constants_on_huge_pages() -> None:
    weights = {"w": np.ones((64, 70000), np.float32)}
    report = tcpx.compile(tcpx.parse(PRODUCT, constants=weights), target="generic").report()
    assert report.constants_bytes >= 64 * 70000 * 4
    assert report.constants_on_huge_pages == report.constants_bytes
    assert f"constants   {report.constants_bytes} bytes, {report.constants_bytes} of them on huge pages" in str(report)
    assert f"huge pages  {report.huge_pages}" in str(report)


def test_no_workspace_and_other_names() -> None:
    kernel = build_kernel(module(MATMUL), GENERIC)
    assert kernel.report().workspace_bytes == 0
    with pytest.raises(tcpx.ArgumentError) as caught:
        kernel.report({"Q": 3})
    said = caught.value.diagnostic
    assert (said.message, said.required, said.found) == ("@matmul has no size `Q`", "one of K, M, N", "Q")


def test_a_large_block_is_on_huge_pages() -> None:
    sizes = (0, memory.HUGE_PAGE - 1, memory.HUGE_PAGE, 1 << 30)
    assert [memory.huge_page_bytes(n) for n in sizes] == [0, 0, memory.HUGE_PAGE, 1 << 30]


def test_the_system_is_asked_for_all_of_a_large_block(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []

    class Pages(mmap.mmap):
        def madvise(self, *arguments: int) -> None:
            asked.append(arguments)

    monkeypatch.setattr(mmap, "mmap", Pages)
    block = memory.aligned_block(72 * memory.HUGE_PAGE + 5)
    block[-1] = 1
    assert asked == [(mmap.MADV_HUGEPAGE,)]
