"""What is made while Python's collector of cycles is paused is collected later."""

from __future__ import annotations

import gc
import weakref

import pytest

from tcpx.payload import collector
from tcpx.payload.collector import collector_paused


class Node:
    """A cycle of one."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_that_pauses_leave_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "LEAST", 1000)
    monkeypatch.setattr(collector._Old, "limit", 1000)
    monkeypatch.setattr(collector._Old, "made", 0)
    gc.collect()
    left: list[weakref.ref[Node]] = []
    most = 2 * len(gc.get_objects())
    while len(left) < 2 * most:
        with collector_paused():
            left += [weakref.ref(Node()) for _ in range(5000)]
        assert gc.isenabled()
    assert any(node() is None for node in left)


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
