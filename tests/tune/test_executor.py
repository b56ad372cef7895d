"""Executors: the slot that measurements share; a Dask scheduler with two workers, one of which is killed."""

from __future__ import annotations

import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import tcpx
from tcpx.tune.duel import QUICK
from tcpx.tune.measurement_slot import building, measuring
from tcpx.tune.progress import Progress
from tcpx.tune.slots import TrialError
from tcpx.tune.study import Study
from tcpx.tune.verdicts import Verdict
from tcpx.tuned import read_records
from tests.tune.test_tuner import PAYLOAD, SCHEDULE

pytestmark = pytest.mark.slow
needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed")


def test_measurements_are_alone_and_builds_are_together() -> None:
    log: list[str] = []

    def build(name: str) -> None:
        with building():
            log.append(f"{name} begins")
            time.sleep(0.2)
            log.append(f"{name} ends")

    with measuring():
        threads = [threading.Thread(target=build, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        log.append("measured")
    for thread in threads:
        thread.join()
    assert log[0] == "measured"
    assert {word.split()[1] for word in log[1:3]} == {"begins"}


def test_what_a_worker_raises_comes_back_as_it_was() -> None:
    error = pickle.loads(pickle.dumps(TrialError(Verdict.TIMEOUT, "too slow")))
    assert (error.verdict, str(error)) == (Verdict.TIMEOUT, "too slow")


def test_there_is_no_such_executor() -> None:
    with pytest.raises(tcpx.ArgumentError, match="no such executor"):
        tcpx.tune(tcpx.parse(PAYLOAD), tcpx.parse_schedule(SCHEDULE), executor="slurm", sizes=[{"N": 4}])


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler, and its two workers."""
    port = free_port()
    run = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    scheduler = subprocess.Popen([*run, "--no-dashboard"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    words = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60"]
    command = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", *words]
    workers = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) for _ in range(2)]
    try:
        yield f"dask://127.0.0.1:{port}", workers
    finally:
        for process in (*workers, scheduler):
            process.send_signal(signal.SIGTERM)
        for process in (*workers, scheduler):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_workers(address: str) -> None:
    import distributed

    with distributed.Client(address.removeprefix("dask://"), timeout=60, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=120)


@needs_dask
@pytest.mark.filterwarnings("default")
def test_a_worker_that_dies_loses_nothing(cluster: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path) -> None:
    address, workers = cluster
    wait_for_workers(address)
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if len(progress.candidates) >= 3 and not killed:
            killed.append(workers[0].pid)
            workers[0].kill()

    study: Study = tcpx.tune(
        tcpx.parse(PAYLOAD, "f.tcp"),
        tcpx.parse_schedule(SCHEDULE, "s.tcps"),
        storage=tmp_path / "tune.db",
        sizes=[{"N": 64}],
        sampler="grid",
        effort=QUICK,
        processes=2,
        target="generic",
        executor=address,
        listener=kill,
    )
    assert killed
    assert {c.point["s.step"]: c.verdict for c in study.candidates} == dict.fromkeys((4, 1, 3, 5, 6, 7, 8), Verdict.OK)
    assert study.best is not None


FAKE_CPU = """\
from pathlib import Path
import tcpx.tuned
tcpx.tuned._CPUINFO = Path({path!r})
"""


@pytest.fixture
def mixed_cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a scheduler with two workers that say they have different processors."""
    port = free_port()
    run = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    processes = [subprocess.Popen([*run, "--no-dashboard"], cwd=tmp_path, stderr=subprocess.DEVNULL)]
    words = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60"]
    for name in ("small", "large"):
        info, preload = tmp_path / f"{name}.txt", tmp_path / f"{name}.py"
        info.write_text(f"model name : a {name} processor\n")
        preload.write_text(FAKE_CPU.format(path=str(info)))
        command = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", *words]
        processes.append(
            subprocess.Popen([*command, "--preload", str(preload)], cwd=tmp_path, stderr=subprocess.DEVNULL)
        )
    try:
        yield f"dask://127.0.0.1:{port}"
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


@needs_dask
@pytest.mark.filterwarnings("default")
def test_each_kind_of_processor_gets_a_study_and_a_record(mixed_cluster: str, tmp_path: Path) -> None:
    wait_for_workers(mixed_cluster)
    study: Study = tcpx.tune(
        tcpx.parse(PAYLOAD, "f.tcp"),
        tcpx.parse_schedule(SCHEDULE, "s.tcps"),
        storage=tmp_path / "tune.db",
        sizes=[{"N": 64}],
        sampler="grid",
        effort=QUICK,
        processes=0,
        trials=3,
        target="generic",
        executor=mixed_cluster,
    )
    studies = (study, *study.others)
    assert [held.key.facts["cpu"] for held in studies] == ["a large processor", "a small processor"]
    assert [len(held.candidates) for held in studies] == [3, 3]
    for held in studies:
        held.record(tmp_path / "s.tuned.yaml")
    found = {record.setting.cpu for record in read_records(tmp_path / "s.tuned.yaml")}
    assert found == {"a large processor", "a small processor"}


@needs_dask
@pytest.mark.filterwarnings("default")
def test_no_scheduler_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from tcpx.tune import dask_executor

    monkeypatch.setattr(dask_executor, "CONNECT_SECONDS", 1)
    with pytest.raises(tcpx.ArgumentError, match="no Dask scheduler answers"):
        tcpx.tune(
            tcpx.parse(PAYLOAD),
            tcpx.parse_schedule(SCHEDULE),
            executor=f"dask://127.0.0.1:{free_port()}",
            sizes=[{"N": 4}],
        )
