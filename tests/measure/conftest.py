"""Tasks for the fake peer, and its process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tcpx.measure.peer_process import Launch, PeerProcess
from tcpx.measure.pinned_threads import available_cpus
from tcpx.measure.protocol import Input, Task

FAKE = Launch("fake", "tests.measure.fake_peer")
MakeTask = Callable[[str], Task]


@pytest.fixture
def task(tmp_path: Path) -> MakeTask:
    """`task("crash")`: the task with this behaviour."""
    np.save(tmp_path / "x.npy", np.arange(4.0))

    def made(behaviour: str) -> Task:
        return Task(
            f"fake/{behaviour}", "double", 1, str(tmp_path), (Input("x", "f64"),), attributes={"behaviour": behaviour}
        )

    return made


@pytest.fixture
def process() -> Iterator[PeerProcess]:
    """The fake peer on one CPU."""
    with PeerProcess(FAKE, available_cpus()[:1]) as made:
        yield made
