"""Executors: the slot that measurements share; a Dask scheduler with two workers, one of which is killed."""

from __future__ import annotations

import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import tcpx
from tcpx.tune.duel import QUICK
from tcpx.tune.measurement_slot import building, measuring
from tcpx.tune.progress import Listener, Progress, silent
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
DIES = """
import os, signal
from tcpx.tune import dask_executor

def evaluate_here(job, candidate, *more, whole=dask_executor.evaluate_here):
    if candidate.number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(job, candidate, *more)

dask_executor.evaluate_here = evaluate_here
"""
StartWorker = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def mixed_cluster(tmp_path: Path) -> Iterator[tuple[str, StartWorker]]:
    """The address of a scheduler, and `start(name, dies)`: a worker that says it has this processor, and with `dies` is
    killed in the middle of the second candidate."""
    port = free_port()
    run = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    processes = [subprocess.Popen([*run, "--no-dashboard"], cwd=tmp_path, stderr=subprocess.DEVNULL)]
    words = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60"]

    def start(name: str, *, dies: bool = False) -> subprocess.Popen[bytes]:
        info, preload = tmp_path / f"{name}.txt", tmp_path / f"{name}{len(processes)}.py"
        info.write_text(f"model name : a {name} processor\n")
        preload.write_text(FAKE_CPU.format(path=str(info)) + (DIES if dies else ""))
        command = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", *words]
        words_of_it = [*command, "--preload", str(preload)]
        processes.append(subprocess.Popen(words_of_it, cwd=tmp_path, stderr=subprocess.DEVNULL))
        return processes[-1]

    try:
        yield f"dask://127.0.0.1:{port}", start
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def tune_on(address: str, folder: Path, *, resume: bool = False, listener: Listener = silent) -> Study:
    return tcpx.tune(
        tcpx.parse(PAYLOAD, "f.tcp"),
        tcpx.parse_schedule(SCHEDULE, "s.tcps"),
        storage=folder / "tune.db",
        resume=resume,
        sizes=[{"N": 64}],
        sampler="grid",
        effort=QUICK,
        processes=0,
        trials=3,
        target="generic",
        executor=address,
        listener=listener,
    )


@needs_dask
@pytest.mark.filterwarnings("default")
def test_each_kind_of_processor_gets_a_study_and_a_record(
    mixed_cluster: tuple[str, StartWorker], tmp_path: Path
) -> None:
    address, start = mixed_cluster
    start("small")
    start("large")
    wait_for_workers(address)
    study = tune_on(address, tmp_path)
    studies = (study, *study.others)
    assert [held.key.facts["cpu"] for held in studies] == ["a large processor", "a small processor"]
    assert [len(held.candidates) for held in studies] == [3, 3]
    for held in studies:
        held.record(tmp_path / "s.tuned.yaml")
    found = {record.setting.cpu for record in read_records(tmp_path / "s.tuned.yaml")}
    assert found == {"a large processor", "a small processor"}


@needs_dask
@pytest.mark.filterwarnings("default")
def test_a_kind_whose_workers_are_gone_ends_its_study_alone(
    mixed_cluster: tuple[str, StartWorker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tcpx.tune import dask_workers

    monkeypatch.setattr(dask_workers, "RETURN_SECONDS", 1.0)
    address, start = mixed_cluster
    start("small")
    start("large", dies=True)
    wait_for_workers(address)
    whole = tune_on(address, tmp_path)
    (cut,) = whole.others
    reason = "the workers with `a large processor` are gone, and none came within 1 s"
    assert (whole.key.facts["cpu"], whole.cut_off) == ("a small processor", "")
    assert [c.verdict for c in whole.candidates] == [Verdict.OK] * 3
    assert (cut.key.facts["cpu"], cut.cut_off) == ("a large processor", reason)
    assert [c.verdict for c in cut.candidates] == [Verdict.OK, Verdict.WORKERS_GONE]
    assert cut.candidates[1].reason == reason
    assert f"cut off: {reason}; --resume goes on with it" in cut.text()
    start("large")
    wait_for_workers(address)
    resumed = tune_on(address, tmp_path, resume=True)
    assert resumed.key.facts["cpu"] == "a large processor"
    assert [c.verdict for c in resumed.others[0].candidates] == [Verdict.OK] * 3
    assert [c.number for c in resumed.candidates] == [0, 1, 2]
    assert [c.verdict for c in resumed.candidates] == [Verdict.OK] * 3
    assert resumed.candidates[0] == cut.candidates[0]


@needs_dask
@pytest.mark.filterwarnings("default")
def test_another_worker_with_the_same_processor_goes_on(mixed_cluster: tuple[str, StartWorker], tmp_path: Path) -> None:
    address, start = mixed_cluster
    start("small")
    first = start("large", dies=True)
    wait_for_workers(address)

    def replace_it(progress: Progress) -> None:
        if len(progress.candidates) == 1:
            start("large")

    study = tune_on(address, tmp_path, listener=replace_it)
    assert first.wait() == -signal.SIGKILL
    assert [held.key.facts["cpu"] for held in (study, *study.others)] == ["a large processor", "a small processor"]
    assert [[c.verdict for c in held.candidates] for held in (study, *study.others)] == [[Verdict.OK] * 3] * 2


@needs_dask
@pytest.mark.filterwarnings("default")
def test_no_worker_is_left(
    mixed_cluster: tuple[str, StartWorker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tcpx.tune import dask_workers

    monkeypatch.setattr(dask_workers, "RETURN_SECONDS", 1.0)
    address, start = mixed_cluster
    start("small", dies=True)
    start("large", dies=True)
    wait_for_workers(address)
    with pytest.raises(tcpx.ArgumentError, match="no worker is left to go on with the search") as caught:
        tune_on(address, tmp_path)
    diagnostic = caught.value.diagnostic
    assert diagnostic.required == "one worker or more with `a large processor` or `a small processor`"
    assert f"2 candidates are in {tmp_path / 'tune.db'}" in (diagnostic.found or "")
    assert diagnostic.fix == "start workers again, then add --resume (resume=True)"


@needs_dask
@pytest.mark.filterwarnings("default")
def test_no_scheduler_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from tcpx.tune import dask_workers

    monkeypatch.setattr(dask_workers, "CONNECT_SECONDS", 1)
    with pytest.raises(tcpx.ArgumentError, match="no Dask scheduler answers"):
        tcpx.tune(
            tcpx.parse(PAYLOAD),
            tcpx.parse_schedule(SCHEDULE),
            executor=f"dask://127.0.0.1:{free_port()}",
            sizes=[{"N": 4}],
        )
