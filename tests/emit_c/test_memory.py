"""Blocks of memory and the pool that lends them."""

from __future__ import annotations

import pytest

from tcpx.emit_c.memory import ALIGNMENT, HUGE_PAGE, WorkspacePool, aligned_block
from tcpx.payload.diagnostics import ArgumentError


@pytest.mark.parametrize("size", [1, 63, 4096, HUGE_PAGE - 1, HUGE_PAGE, 3 * HUGE_PAGE + 5])
def test_blocks_are_aligned_and_writable(size: int) -> None:
    block = aligned_block(size)
    assert block.size == size
    assert block.ctypes.data % (HUGE_PAGE if size >= HUGE_PAGE else ALIGNMENT) == 0
    block[:] = 1


def test_a_block_is_lent_to_one_at_a_time_and_grows() -> None:
    pool = WorkspacePool(bytearray)
    first, second = pool.take(10), pool.take(10)
    assert first is not second
    pool.give_back(first)
    assert pool.take(5) is first
    pool.give_back(first)
    grown = pool.take(20)
    assert len(grown) == 20
    assert len(pool) == 0


@pytest.mark.parametrize("size", [1 << 60, 1 << 63])
def test_more_than_the_system_has(size: int) -> None:
    with pytest.raises(ArgumentError) as caught:
        aligned_block(size)
    found = caught.value.diagnostic
    assert found.message == "the memory that the kernel works in cannot be had"
    assert found.required == f"{size} bytes"
