"""What was made in a pause of the collector is not looked at in it, and collected later."""

import gc
import subprocess
import sys

from tcpx.payload.collector import collector_paused


class _Cycle:
    """Garbage that only the collector sees."""

    alive = 0

    def __init__(self) -> None:
        self.me = self
        _Cycle.alive += 1

    def __del__(self) -> None:
        _Cycle.alive -= 1


PAUSES = """
import weakref
from tcpx.payload.collector import collector_paused

class Cycle:
    def __init__(self):
        self.me = self

alive = weakref.WeakSet()
most = 0
for _ in range(60):
    with collector_paused():
        for _ in range(20_000):
            alive.add(Cycle())
    most = max(most, len(alive))
print(most)
"""


def test_what_was_made_in_pauses_is_collected() -> None:
    """In a process of its own: how often the collector looks depends on how much else is alive."""
    found = subprocess.run([sys.executable, "-c", PAUSES], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 25 * 20_000  # as many as there were before, at most


def test_nothing_is_collected_in_a_pause() -> None:
    with collector_paused():
        runs = gc.get_stats()[2]["collections"]
        kept = [[k] for k in range(200_000)]
        assert not gc.isenabled()
    assert gc.isenabled()
    assert len(kept) == 200_000
    assert gc.get_stats()[2]["collections"] == runs


def test_young_garbage_is_collected_without_a_look_at_all() -> None:
    old = [[k] for k in range(200_000)]
    with collector_paused():
        pass
    gc.collect()
    runs = gc.get_stats()[2]["collections"]
    for _ in range(5):
        with collector_paused():
            for _ in range(20_000):
                _Cycle()
    with collector_paused():
        assert _Cycle.alive == 0
        assert gc.get_stats()[2]["collections"] <= runs + 1
    assert len(old) == 200_000


def test_what_a_program_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collector_paused():
            kept = [[k] for k in range(200_000)]
        assert len(kept) == 200_000
        assert gc.get_freeze_count() >= frozen - 1_000  # those that are freed meanwhile
    finally:
        gc.unfreeze()
