"""Executors: the slot that measurements share; a Dask scheduler with two workers, one of which is killed."""

from __future__ import annotations

import pickle
import signal
import threading
import time
from pathlib import Path

import pytest

import tcpx
from tcpx.tune.measurement_slot import building, measuring
from tcpx.tune.progress import Progress
from tcpx.tune.slots import TrialError
from tcpx.tune.verdicts import Verdict
from tcpx.tuned import read_records
from tests.optional_tools import DISTRIBUTED
from tests.tune.cluster import DIES, Cluster, free_port, tune_on
from tests.tune.test_tuner import PAYLOAD, SCHEDULE

pytestmark = pytest.mark.slow


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


@DISTRIBUTED.needed
@pytest.mark.filterwarnings("default")
def test_a_worker_that_dies_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.start("large")
    cluster.start("large")
    cluster.wait_for_workers(2)
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if len(progress.candidates) >= 3 and not killed:
            killed.append(first.pid)
            first.kill()

    study = tune_on(cluster.address, tmp_path, trials=None, processes=2, listener=kill)
    assert killed
    assert {c.point["s.step"]: c.verdict for c in study.candidates} == dict.fromkeys((4, 1, 3, 5, 6, 7, 8), Verdict.OK)
    assert study.best is not None


@DISTRIBUTED.needed
@pytest.mark.filterwarnings("default")
def test_each_kind_of_processor_gets_a_study_and_a_record(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start("small")
    cluster.start("large")
    cluster.wait_for_workers(2)
    study = tune_on(cluster.address, tmp_path)
    studies = (study, *study.others)
    assert [held.key.facts["cpu"] for held in studies] == ["a large processor", "a small processor"]
    assert [len(held.candidates) for held in studies] == [3, 3]
    for held in studies:
        held.record(tmp_path / "s.tuned.yaml")
    found = {record.setting.cpu for record in read_records(tmp_path / "s.tuned.yaml")}
    assert found == {"a large processor", "a small processor"}


@DISTRIBUTED.needed
@pytest.mark.filterwarnings("default")
def test_a_kind_whose_workers_are_gone_ends_its_study_alone(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tcpx.tune import dask_workers

    monkeypatch.setattr(dask_workers, "RETURN_SECONDS", 1.0)
    cluster.start("small")
    cluster.start("large", DIES)
    cluster.wait_for_workers(2)
    whole = tune_on(cluster.address, tmp_path)
    (cut,) = whole.others
    reason = "the workers with `a large processor` are gone, and none came within 1 s"
    assert (whole.key.facts["cpu"], whole.cut_off) == ("a small processor", "")
    assert [c.verdict for c in whole.candidates] == [Verdict.OK] * 3
    assert (cut.key.facts["cpu"], cut.cut_off) == ("a large processor", reason)
    assert [c.verdict for c in cut.candidates] == [Verdict.OK, Verdict.WORKERS_GONE]
    assert cut.candidates[1].reason == reason
    assert f"cut off: {reason}; --resume goes on with it" in cut.text()
    cluster.start("large")
    cluster.wait_for_workers(2)
    resumed = tune_on(cluster.address, tmp_path, resume=True)
    assert resumed.key.facts["cpu"] == "a large processor"
    assert [c.verdict for c in resumed.others[0].candidates] == [Verdict.OK] * 3
    assert [c.number for c in resumed.candidates] == [0, 1, 2]
    assert [c.verdict for c in resumed.candidates] == [Verdict.OK] * 3
    assert resumed.candidates[0] == cut.candidates[0]


@DISTRIBUTED.needed
@pytest.mark.filterwarnings("default")
def test_another_worker_with_the_same_processor_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start("small")
    first = cluster.start("large", DIES)
    cluster.wait_for_workers(2)

    def replace_it(progress: Progress) -> None:
        if len(progress.candidates) == 1:
            cluster.start("large")

    study = tune_on(cluster.address, tmp_path, listener=replace_it)
    assert first.wait() == -signal.SIGKILL
    assert [held.key.facts["cpu"] for held in (study, *study.others)] == ["a large processor", "a small processor"]
    assert [[c.verdict for c in held.candidates] for held in (study, *study.others)] == [[Verdict.OK] * 3] * 2


@DISTRIBUTED.needed
@pytest.mark.filterwarnings("default")
def test_no_worker_is_left(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tcpx.tune import dask_workers

    monkeypatch.setattr(dask_workers, "RETURN_SECONDS", 1.0)
    cluster.start("small", DIES)
    cluster.start("large", DIES)
    cluster.wait_for_workers(2)
    with pytest.raises(tcpx.ArgumentError, match="the search was cut off: the workers with") as caught:
        tune_on(cluster.address, tmp_path)
    diagnostic = caught.value.diagnostic
    kinds = "`a large processor` or `a small processor`"
    assert diagnostic.required == f"one worker or more with {kinds}, and their scheduler"
    assert f"2 candidates are in {tmp_path / 'tune.db'}" in (diagnostic.found or "")
    assert diagnostic.fix == "start what is gone again, then add --resume (resume=True)"


@DISTRIBUTED.needed
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("protocol", ["", "tls://", "carrier-pigeon://"])
def test_no_scheduler_answers(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tcpx.tune import dask_workers

    monkeypatch.setattr(dask_workers, "CONNECT_SECONDS", 1)
    with pytest.raises(tcpx.ArgumentError, match="no Dask scheduler answers"):
        tcpx.tune(
            tcpx.parse(PAYLOAD),
            tcpx.parse_schedule(SCHEDULE),
            executor=f"dask://{protocol}127.0.0.1:{free_port()}",
            sizes=[{"N": 4}],
        )
