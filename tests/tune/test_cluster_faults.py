"""What goes wrong in a Dask cluster beside the death of workers: errors that are lost on the way, a dead scheduler."""

from __future__ import annotations

from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

import tcpx
from tcpx.tune.ledger import Ledger
from tcpx.tune.verdicts import Verdict
from tests.optional_tools import DISTRIBUTED
from tests.tune.cluster import AT_SECOND, Cluster, tune_on

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
    DISTRIBUTED.needed,
]
ELSEWHERE = """\
import os, types

class NoErrorElsewhere(Exception):
    def __reduce__(self):
        return revived, (os.getpid(),)

def revived(pid):
    return NoErrorElsewhere("planted") if pid == os.getpid() else types.SimpleNamespace()
"""
FAULTS = {
    "from elsewhere import NoErrorElsewhere; raise NoErrorElsewhere('planted')": "NoErrorElsewhere: planted (",
    "raise type('OnlyHere', (Exception,), dict(__module__='preload0'))('planted')": "OnlyHere: planted (",
    "raise TimeoutError('planted')": "TimeoutError: planted (",
    "import only_here; return only_here.Result()": "lost between tuner and worker: ModuleNotFoundError: No module",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_that_the_tuner_cannot_read_is_a_verdict(
    cluster: Cluster, tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, worker = tmp_path / "both", tmp_path / "worker"
    both.mkdir()
    worker.mkdir()
    (both / "elsewhere.py").write_text(ELSEWHERE)
    (worker / "only_here.py").write_text("class Result:\n    pass\n")
    monkeypatch.syspath_prepend(str(both))
    paths = f"import sys\nsys.path[:0] = {[str(both), str(worker)]}\n"
    cluster.start(fault=paths + AT_SECOND.format(fault=fault))
    cluster.wait_for_workers(1)
    study = tune_on(cluster.address, tmp_path)
    assert [c.verdict for c in study.candidates] == [Verdict.OK, Verdict.CRASHED, Verdict.OK]
    assert study.candidates[1].reason.startswith(FAULTS[fault])


def test_what_no_worker_can_read_ends_the_study(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "only_tuner.py").write_text("from tcpx.tune.slots import Limits\nclass Own(Limits):\n    pass\n")
    monkeypatch.syspath_prepend(str(folder))
    cluster.start()
    cluster.wait_for_workers(1)
    with pytest.raises(tcpx.ArgumentError, match="the search was cut off: lost between tuner and worker") as caught:
        tune_on(cluster.address, tmp_path, limits=import_module("only_tuner").Own())
    assert "No module named 'only_tuner'" in caught.value.diagnostic.message


def test_a_study_whose_scheduler_dies_goes_on_elsewhere(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tcpx.tune import dask_workers

    monkeypatch.setattr(dask_workers, "CONNECT_SECONDS", 3)
    cluster.start(fault=AT_SECOND.format(fault=f"import os; os.kill({cluster.scheduler.pid}, 9)"))
    cluster.wait_for_workers(1)
    with pytest.raises(tcpx.ArgumentError) as caught:
        tune_on(cluster.address, tmp_path)
    found = caught.value.diagnostic
    reason = f"the scheduler at 127.0.0.1:{cluster.port} is gone: no connection within 3 s"
    assert found.message == f"the search was cut off: {reason}"
    assert found.found == f"1 candidate is in {tmp_path / 'tune.db'}"
    assert found.fix == "start what is gone again, then add --resume (resume=True)"
    with Ledger(tmp_path / "tune.db") as ledger:
        (study,) = ledger.studies()
        first, cut = ledger.candidates(study)
    assert (first.verdict, cut.verdict, cut.reason) == (Verdict.OK, Verdict.WORKERS_GONE, reason)
    with closing(Cluster(tmp_path)) as other:
        other.start()
        other.wait_for_workers(1)
        resumed = tune_on(other.address, tmp_path, resume=True)
    assert resumed.key == study
    assert resumed.candidates[0] == first
    assert [(c.number, c.verdict) for c in resumed.candidates] == [(k, Verdict.OK) for k in range(3)]
    here = tune_on("local", tmp_path, resume=True, trials=4, workers=1)
    assert here.key == study
    assert here.candidates[:3] == resumed.candidates
    assert here.candidates[3].verdict is Verdict.OK
