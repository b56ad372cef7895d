"""A peer's process, seen from the one that measures: started, asked, stopped while others are timed, ended."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from time import monotonic
from typing import IO, Any, Final, Literal

from tcpx.measure.protocol import line
from tcpx.records import frozen

ROOT: Final = Path(__file__).parents[2]
"""Where `tcpx` is imported from; in a checkout also `benchmarks`."""
THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
QUIT_SECONDS: Final = 5.0
LAST_WORDS: Final = 2000

Outcome = Literal["unsupported", "failed", "crashed", "timeout"]


class PeerError(Exception):
    """A peer did not do what it was asked: `outcome` says how, the text why."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome: Outcome = outcome


@frozen
class Launch:
    """How to start a peer: its name in the figures, its module, the interpreter of its Python environment, and the
    folder that its `tcpx` is imported from, which for another revision is not this tree."""

    name: str
    module: str
    interpreter: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    root: Path = ROOT

    def command(self, cpus: Sequence[int]) -> list[str]:
        """The command line for these CPUs, one thread each."""
        words = ["-P", "-m", "tcpx.measure.worker", self.module, "--cpus", ",".join(map(str, cpus))]
        return [self.interpreter, *words, "--threads", str(len(cpus))]


class PeerProcess:
    """A context manager. The process is stopped except while it is asked, with all that it started."""

    def __init__(self, launch: Launch, cpus: Sequence[int]) -> None:
        self.launch = launch
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        given = {name: str(len(cpus)) for name in THREAD_VARIABLES} | dict(launch.environment)
        path = os.pathsep.join([str(launch.root), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            launch.command(cpus),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, **given, "PYTHONPATH": path},
            start_new_session=True,  # a group of its own, so that its children stop and end with it
        )
        self._buffer = b""

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def ask(self, do: str, timeout: float, **arguments: object) -> dict[str, Any]:
        """Wake the process, ask, wait for the reply, stop the process. Raises PeerError.

        A process that does not reply within `timeout` seconds is killed.
        """
        self._signal(signal.SIGCONT)
        try:
            self._send({"do": do, **arguments})
            reply = json.loads(self._receive(timeout))
        finally:
            self.stop()
        if "ok" in reply:
            return reply["ok"]
        if "unsupported" in reply:
            raise PeerError("unsupported", reply["unsupported"])
        raise PeerError("failed", reply["error"])

    def stop(self) -> None:
        """Stop the process and wait until it is."""
        if self.is_alive:
            self._signal(signal.SIGSTOP)
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def close(self) -> None:
        """End the process: ask it to, then make it."""
        try:
            if self.is_alive:
                self._signal(signal.SIGCONT)
                self._send({"do": "quit"})
                self._process.wait(QUIT_SECONDS)
        except (PeerError, subprocess.TimeoutExpired):
            self.kill()
        self._signal(signal.SIGKILL)  # what it started and left behind
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def kill(self) -> None:
        """End the process and all that it started, without asking it."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _send(self, message: Mapping[str, Any]) -> None:
        stdin = self._process.stdin
        try:
            if stdin is not None:
                stdin.write(line(message))
                stdin.flush()
        except BrokenPipeError as error:
            raise self._crashed() from error

    def _receive(self, timeout: float) -> bytes:
        """The next line of the process."""
        stdout = self._process.stdout
        if stdout is None:
            raise self._crashed()
        end = monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, end - monotonic())):
                    self.kill()
                    raise PeerError("timeout", f"no reply within {timeout:g} s")
                read = os.read(stdout.fileno(), 1 << 16)
                if not read:
                    raise self._crashed()
                self._buffer += read
        reply, _, self._buffer = self._buffer.partition(b"\n")
        return reply

    def _crashed(self) -> PeerError:
        """The process is gone, or about to be: how it ended, and what it said last."""
        try:
            self._process.wait(QUIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        status = self._process.returncode
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip()[-LAST_WORDS:]
        last = said.splitlines()[-1] if said else ""
        return PeerError("crashed", f"{how}: {last}" if last else how)
