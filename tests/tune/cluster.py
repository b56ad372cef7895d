"""A Dask scheduler with workers on loopback, and a study on them."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import tcpx
from tcpx.tune.duel import QUICK
from tcpx.tune.study import Study
from tests.tune.test_tuner import PAYLOAD, SCHEDULE

FAKE_CPU = """\
from pathlib import Path
import tcpx.tuned
tcpx.tuned._CPUINFO = Path({path!r})
"""
AT_SECOND = """
from tcpx.tune import dask_executor

def evaluate_here(job, candidate, *more, whole=dask_executor.evaluate_here):
    if candidate.number == 1:
        {fault}
    return whole(job, candidate, *more)

dask_executor.evaluate_here = evaluate_here
"""
DIES = AT_SECOND.format(fault="import os; os.kill(os.getpid(), 9)")


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@dataclass
class Cluster:
    """`address` is what `tcpx.tune` takes; processes run in `folder`."""

    folder: Path
    port: int = field(default_factory=free_port)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    scheduler: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.scheduler = self._run("scheduler", "--host", "127.0.0.1", "--port", str(self.port))

    @property
    def address(self) -> str:
        return f"dask://127.0.0.1:{self.port}"

    def start(self, name: str | None = None, fault: str = "") -> subprocess.Popen[bytes]:
        """A worker that says it has this processor, and runs this text first."""
        preload = self.folder / f"preload{len(self.workers)}.py"
        text = ""
        if name is not None:
            info = self.folder / f"{name}.txt"
            info.write_text(f"model name : a {name} processor\n")
            text = FAKE_CPU.format(path=str(info))
        preload.write_text(text + fault)
        words = ["--nthreads", "1", "--no-nanny", "--death-timeout", "60", "--preload", str(preload)]
        self.workers.append(self._run("worker", f"tcp://127.0.0.1:{self.port}", *words))
        return self.workers[-1]

    def wait_for_workers(self, count: int) -> None:
        import distributed

        with distributed.Client(f"127.0.0.1:{self.port}", timeout=60, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=120)

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _run(self, kind: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *words, "--no-dashboard"]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tune_on(executor: str, folder: Path, **options: object) -> Study:
    """A study with little effort."""
    held = {
        "storage": folder / "tune.db",
        "sizes": [{"N": 64}],
        "sampler": "grid",
        "effort": QUICK,
        "processes": 0,
        "trials": 3,
        "target": "generic",
        "executor": executor,
        **options,
    }
    return tcpx.tune(tcpx.parse(PAYLOAD, "f.tcp"), tcpx.parse_schedule(SCHEDULE, "s.tcps"), **held)
