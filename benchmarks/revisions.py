"""tcpx of another git revision as one more peer: its sources lie in .bench/revisions, it runs in the Python environment
of this tree and has a kernel cache of its own."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

import tcpx
from benchmarks.registry import ENVIRONMENTS, ROOT, TCPX
from tcpx.measure.peer_process import Launch, PeerError, PeerProcess
from tcpx.measure.protocol import Input, Task
from tcpx.plurals import counted

FOLDER: Final = ENVIRONMENTS / "revisions"
SOURCES: Final = ("tcpx", "schedules")
PEER: Final = f"{TCPX.module.replace('.', '/')}.py"
NOT_SOURCES: Final = ":(exclude)benchmarks/results"
SECONDS: Final = 120.0
TRIED: Final = """\
func @tried(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tcp.add(%x, %x) : tensor<4xf32>
  tcp.return(%y)
}
"""


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit: its hash, the day it was made, how it was asked for, and the repository that it is of."""

    commit: str
    date: str
    asked: str
    repository: Path = field(default=ROOT, repr=False)

    @property
    def short(self) -> str:
        """The first digits of the hash."""
        return self.commit[:8]

    @property
    def peer(self) -> str:
        """What it is called in the figures."""
        return f"{TCPX.name}@{self.short}"

    @property
    def title(self) -> str:
        """For a person: `main (5292b69a, 2026-11-29)`."""
        return f"{self.asked} ({self.short}, {self.date})"

    def launch(self, folder: Path = FOLDER) -> Launch:
        """How its process is started, once its sources lie in `folder` and it has run something. Raises ArgumentError
        where it is too old for that."""
        root = folder / self.commit
        if not root.is_dir():
            self._unpack(root)
        environment = {"TCPX_CACHE_DIR": str(folder / f"{self.commit}.cache")}
        made = Launch(self.peer, TCPX.module, environment=environment, root=root)
        why = _what_fails(made)
        if why is not None:
            raise self._refused(f"that compiles a sum of 4 numbers and times it, as {TCPX.module} does here", why)
        return made

    def _unpack(self, root: Path) -> None:
        if not _git(self.repository, "ls-tree", "--name-only", self.commit, PEER):
            raise self._refused(f"that has {PEER}", f"none in {self.title}")
        present = _git(self.repository, "ls-tree", "--name-only", self.commit).splitlines()
        packed = subprocess.run(
            ["git", "-C", str(self.repository), "archive", self.commit, *(name for name in SOURCES if name in present)],
            capture_output=True,
            check=True,
        ).stdout
        root.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root.parent) as place, tarfile.open(fileobj=io.BytesIO(packed)) as files:
            sources = Path(place, "sources")
            files.extractall(sources, filter="data")
            sources.rename(root)  # whole, or not there at all

    def _refused(self, required: str, found: str) -> tcpx.ArgumentError:
        since = _git(self.repository, "log", "--diff-filter=A", "--format=%h", "--", PEER).split()
        return tcpx.ArgumentError(
            tcpx.Diagnostic(
                f"{self.asked} is too old to be measured beside this tree",
                required=f"a revision {required}",
                found=found,
                fix=f"a later one: {since[-1]} is the first that has {PEER}" if since else None,
            )
        )


@dataclass(frozen=True, slots=True)
class Tree:
    """This tree as it lies: the commit, and how many files are not as they are there."""

    commit: str
    changed: int

    @property
    def short(self) -> str:
        """The first digits of the hash."""
        return self.commit[:8]

    @property
    def title(self) -> str:
        """For a person: `this tree (5292b69a, 3 files changed since)`."""
        since = f", {counted(self.changed, 'file')} changed since" if self.changed else ""
        return f"this tree ({self.short or 'no commit'}{since})"


def this_tree(repository: Path = ROOT) -> Tree:
    """The commit is empty outside of a git repository."""
    try:
        commit = _git(repository, "rev-parse", "--verify", "HEAD")
        changed = _git(repository, "status", "--porcelain", "--", ".", NOT_SOURCES).splitlines()
    except (OSError, subprocess.CalledProcessError):
        return Tree("", 0)
    return Tree(commit, len(changed))


def revision(asked: str, repository: Path = ROOT) -> Revision:
    """The commit that a name, such as `main`, `HEAD~1` or a hash, stands for. Raises ArgumentError."""
    try:
        said = _git(
            repository, "show", "--no-patch", "--format=%H %cs", "--end-of-options", f"{asked}^{{commit}}", "--"
        )
    except OSError as error:
        raise _unknown(
            asked, f"git does not run: {error}", "install git, which the sources of a revision come from"
        ) from error
    except subprocess.CalledProcessError as error:
        why = (
            error.stderr.strip().splitlines()[-1].removeprefix("fatal: ") if error.stderr.strip() else "no such commit"
        )
        fix = "git log --oneline names commits; in a shallow clone, git fetch --unshallow"
        raise _unknown(asked, f"{asked} ({why})", fix) from error
    commit, date = said.split()
    return Revision(commit, date, asked, repository)


def _unknown(asked: str, found: str, fix: str) -> tcpx.ArgumentError:
    required = "a commit of this repository, such as main, HEAD~1 or a hash"
    return tcpx.ArgumentError(tcpx.Diagnostic(f"there is no revision {asked}", required=required, found=found, fix=fix))


def _git(repository: Path, *words: str) -> str:
    """What git says. Raises OSError and CalledProcessError."""
    command = ["git", "-C", str(repository), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _what_fails(launch: Launch) -> str | None:
    """Why a tree does not do what one workload asks of it; None where it does."""
    with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as folder, PeerProcess(launch, [0]) as process:
        np.save(Path(folder, "x.npy"), np.ones(4, np.float32))
        task = Task("tried", "payload", 1, folder, (Input("x", "float32"),), payload=TRIED)
        try:
            process.ask("describe", SECONDS)
            process.ask("prepare", SECONDS, task=task.to_json())
            process.ask("check", SECONDS, path=str(Path(folder, "y.npy")))
            process.ask("run", SECONDS, samples=1, shortest=0.0)["waited"]
        except (PeerError, KeyError) as error:
            return f"{launch.name}: {error}"
    return None
