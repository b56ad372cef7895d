"""The protocol with a process: what it says, that it stops, and every way in which it can go wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest

from tcpx.measure.peer_process import Launch, PeerError, PeerProcess
from tcpx.measure.pinned_threads import available_cpus
from tcpx.measure.protocol import Task

MakeTask = Callable[[str], Task]
TIMEOUT = 60.0


def state(pid: int) -> str:
    """The letter of the process in /proc: T where it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def failure(process: PeerProcess, do: str, timeout: float = TIMEOUT, **arguments: object) -> PeerError:
    with pytest.raises(PeerError) as caught:
        process.ask(do, timeout, **arguments)
    return caught.value


def test_the_whole_conversation(process: PeerProcess, task: MakeTask, tmp_path: Path) -> None:
    cpu = available_cpus()[0]
    described = process.ask("describe", TIMEOUT)
    assert described == {"version": "1.2", "threads": "1", "cpus": str(cpu), "omp": "1"}
    assert process.ask("prepare", TIMEOUT, task=task("ok").to_json()) == {}
    result = tmp_path / "y.npy"
    assert process.ask("check", TIMEOUT, path=str(result)) == {"dtype": "float64"}
    np.testing.assert_array_equal(np.load(result), 2 * np.arange(4.0))
    reply = process.ask("run", TIMEOUT, samples=3, shortest=1e-4)
    assert len(reply["seconds"]) == 3
    assert all(seconds > 0 for seconds in reply["seconds"])
    assert reply["calls"] >= 1
    process.close()
    assert not process.is_alive


def test_it_is_stopped_while_it_is_not_asked(process: PeerProcess) -> None:
    process.ask("describe", TIMEOUT)
    pid = process._process.pid  # the operating system is asked, not the object
    assert state(pid) == "T"
    process.ask("describe", TIMEOUT)
    assert state(pid) == "T"
    process.close()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("behaviour", "outcome", "reason"),
    [
        ("unsupported", "unsupported", "no doubling here"),
        ("raise", "failed", "RuntimeError: two lines (*fake_peer.py:*)"),
        ("crash", "crashed", "signal SIGABRT: *"),
        ("exit", "crashed", "exit status 3*"),
    ],
)
def test_what_goes_wrong_is_said(
    behaviour: str, outcome: str, reason: str, process: PeerProcess, task: MakeTask
) -> None:
    found = failure(process, "prepare", task=task(behaviour).to_json())
    assert found.outcome == outcome
    assert fnmatchcase(str(found), reason)
    assert process.is_alive == (outcome in ("unsupported", "failed"))


def test_one_that_hangs_is_killed(process: PeerProcess, task: MakeTask) -> None:
    process.ask("describe", TIMEOUT)
    found = failure(process, "prepare", timeout=0.5, task=task("hang").to_json())
    assert (found.outcome, str(found)) == ("timeout", "no reply within 0.5 s")
    assert not process.is_alive
    assert failure(process, "describe").outcome == "crashed"


def test_requests_out_of_order_and_unknown_ones(process: PeerProcess) -> None:
    assert "required a task that is prepared" in str(failure(process, "run", samples=1, shortest=0.0))
    assert "required describe, prepare, check, run or quit, found 'dance'" in str(failure(process, "dance"))
    assert process.ask("describe", TIMEOUT)["version"] == "1.2"


def test_a_module_that_is_not_there() -> None:
    with PeerProcess(Launch("none", "tests.measure.no_such_peer"), available_cpus()[:1]) as process:
        found = failure(process, "describe")
    assert found.outcome == "crashed"
    assert "No module named" in str(found)


def test_another_interpreter_and_environment(tmp_path: Path) -> None:
    log = tmp_path / "log"
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\necho "$FLAVOUR" > {log}\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    launch = Launch("fake", "tests.measure.fake_peer", str(wrapper), {"FLAVOUR": "salt"})
    with PeerProcess(launch, available_cpus()[:1]) as process:
        assert process.ask("describe", TIMEOUT)["version"] == "1.2"
    assert log.read_text() == "salt\n"
    assert "FLAVOUR" not in os.environ


def test_it_ends_with_the_process_that_asks() -> None:
    code = f"""
from tests.measure.conftest import FAKE
from tcpx.measure.peer_process import PeerProcess
process = PeerProcess(FAKE, [{available_cpus()[0]}])
process.ask("describe", {TIMEOUT})
print(process._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", f"import os, signal\n{code}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    worker = Path(f"/proc/{done.stdout.strip()}")
    end = monotonic() + TIMEOUT
    while worker.exists() and state(int(worker.name)) != "Z" and monotonic() < end:
        sleep(0.01)
    assert not worker.exists() or state(int(worker.name)) == "Z"
