"""Another revision as a peer: its sources run, and what cannot be measured is refused with a way on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tcpx
from benchmarks.beside import ratio_of
from benchmarks.registry import ROOT, TCPX
from benchmarks.revisions import PEER, TRIED, Revision, revision, this_tree
from tcpx.measure import session as session_module
from tcpx.measure.calibration import Calibration
from tcpx.measure.limits import Limits, Machine
from tcpx.measure.pinned_threads import available_cpus
from tcpx.measure.protocol import Input, Task
from tcpx.measure.rounds import Plan
from tcpx.measure.session import Session

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """`git("commit", ..)` in a repository whose first commit has no tcpx."""
    folder = tmp_path / "repository"
    folder.mkdir()

    def run(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    run("init", "-q", "-b", "main")
    (folder / "README").write_text("nothing yet\n")
    run("add", ".")
    run("commit", "-q", "-m", "first")
    return run


def with_a_peer(folder: Path, git: Git) -> None:
    """A commit with what a worker needs of tcpx, and a peer that adds in NumPy."""
    measure = folder / "tcpx" / "measure"
    measure.mkdir(parents=True)
    for package in (measure, measure.parent):
        (package / "__init__.py").write_text("")
    for name in ("records", "measure/worker", "measure/protocol", "measure/timer", "measure/parentage"):
        shutil.copy(ROOT / "tcpx" / f"{name}.py", folder / "tcpx" / f"{name}.py")
    (folder / PEER).write_text(
        "from tcpx.measure.protocol import Prepared\n\n\n"
        "def describe(threads):\n    return {'version': 'of the other'}\n\n\n"
        "def prepare(task):\n    x = task.arrays()['x']\n    return Prepared(lambda: x + x)\n"
    )
    git("add", ".")
    git("commit", "-q", "-m", "tcpx")


def test_a_revision_is_measured_beside_this_tree(git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "repository"
    with_a_peer(folder, git)
    monkeypatch.chdir(folder)  # where `python -m` would find a tcpx of its own
    found = revision("main", folder)
    assert found.peer == f"tcpx@{git('rev-parse', 'HEAD')[:8]}"
    launch = found.launch(tmp_path / "revisions")
    monkeypatch.setattr(session_module, "MOST_WAITING", float("inf"))
    monkeypatch.setattr(Machine, "limits", lambda machine, only=None: Limits(1, {"read_l1": 1e12}, machine.caches()))
    np.save(tmp_path / "x.npy", np.ones(4, np.float32))
    task = Task("sum", "payload", 1, str(tmp_path), (Input("x", "float32"),), payload=TRIED)
    plan = Plan(rounds=2, samples=1, shortest=1e-4, patience=5.0)
    with Session([TCPX, launch], available_cpus()[:1], target="generic", plan=plan) as session:
        session.calibration = Calibration(lambda: 1.0)
        session.calibration.warm_up()
        own, other = session.measure(task, check=lambda array, _: float(np.abs(array - 2).max()))
        assert (own.version, other.version) == (tcpx.__version__, "of the other")
        assert (own.status, other.status) == ("measured", "measured")
        assert ratio_of(own, other) is not None
        again = session.again(task, [launch.name])
    assert [row.peer for row in again] == [launch.name]
    assert [row.peer for row in session.rows] == [TCPX.name, launch.name]


def test_a_revision_that_is_not_there(git: Git, tmp_path: Path) -> None:
    with pytest.raises(tcpx.ArgumentError) as caught:
        revision("nope", tmp_path / "repository")
    told = caught.value.diagnostic.render()
    assert "there is no revision nope" in told
    assert "required: a commit of this repository, such as main, HEAD~1 or a hash" in told
    with pytest.raises(tcpx.ArgumentError, match="there is no revision main"):
        revision("main", tmp_path)
    with pytest.raises(tcpx.ArgumentError, match="there is no revision --all"):
        revision("--all", tmp_path / "repository")


def test_a_revision_that_is_too_old(git: Git, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    (folder / PEER).parent.mkdir(parents=True)
    (folder / PEER).write_text("raise SystemExit('an old one')\n")
    git("add", ".")
    git("commit", "-q", "-m", "second")
    first = git("rev-parse", "--short", "HEAD")
    with pytest.raises(tcpx.ArgumentError) as caught:
        revision("HEAD~1", folder).launch(tmp_path / "revisions")
    told = caught.value.diagnostic.render()
    assert "HEAD~1 is too old to be measured beside this tree" in told
    assert f"fix: a later one: {first} is the first that has {PEER}" in told
    with pytest.raises(tcpx.ArgumentError, match=r"(?s)HEAD is too old to be measured.*found: tcpx@.*exit status 1"):
        revision("HEAD", folder).launch(tmp_path / "revisions")


def test_a_tree_that_is_not_its_commit_says_so(git: Git, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    short = git("rev-parse", "HEAD")[:8]
    assert this_tree(folder).title == f"this tree ({short})"
    (folder / "README").write_text("something\n")
    (folder / "more").write_text("")
    assert this_tree(folder).title == f"this tree ({short}, 2 files changed since)"
    assert this_tree(tmp_path).title == "this tree (no commit)"
    assert Revision("0123456789", "2026-11-29", "main").title == "main (01234567, 2026-11-29)"
