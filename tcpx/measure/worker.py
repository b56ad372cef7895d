"""The process that is timed: python -m tcpx.measure.worker MODULE --cpus 0,1 --threads 2

MODULE is a peer: a module with `describe(threads) -> dict` (its version, its flags) and `prepare(task) -> Prepared`,
which raises UnsupportedError. It is imported after the process is pinned, so that the thread pools it makes are pinned
too. Runs in the Python environment of the peer: nothing but NumPy is needed.
"""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast

import numpy as np

from tcpx.measure.parentage import end_with_parent
from tcpx.measure.protocol import Prepared, Task, UnsupportedError, line
from tcpx.measure.timer import Run, calls_per_sample, seconds_per_call

LONGEST_REASON: Final = 500


class Peer(Protocol):
    """What a peer's module offers."""

    def describe(self, threads: int) -> Mapping[str, str]:
        """`version`, and whatever else a reader of the figures should know."""
        ...

    def prepare(self, task: Task) -> Prepared:
        """Make ready to run a task."""
        ...


@dataclass(slots=True)
class Worker:
    """Answers requests about one peer."""

    peer: Peer
    threads: int
    prepared: Prepared | None = None
    calls: int = 0

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to one request; never raises."""
        try:
            return {"ok": self._do(request)}
        except UnsupportedError as error:
            return {"unsupported": str(error)}
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is reported to the process that measures
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = " ".join(str(error).split())[:LONGEST_REASON]
            return {"error": f"{type(error).__name__}: {said} ({place.filename}:{place.lineno})"}

    def _do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "describe":
                return dict(self.peer.describe(self.threads))
            case "prepare":
                self.prepared, self.calls = None, 0
                self.prepared = self.peer.prepare(Task.from_json(request["task"]))
                return dict(self.prepared.facts)
            case "check":
                prepared = self._ready()
                result = prepared.as_array(prepared.run())
                np.save(request["path"], result)
                return {"dtype": prepared.dtype or result.dtype.name}
            case "run":
                run = self._ready().run
                self.calls = self.calls or calls_per_sample(run, request["shortest"])
                samples = [timed(run, self.calls) for _ in range(request["samples"])]
                seconds, waited = zip(*samples, strict=True)
                return {"seconds": seconds, "waited": waited, "calls": self.calls}
            case "quit":
                return {}
            case other:
                raise ValueError(f"required describe, prepare, check, run or quit, found {other!r}")

    def _ready(self) -> Prepared:
        if self.prepared is None:
            raise ValueError("required a task that is prepared, found none")
        return self.prepared


def timed(run: Run, calls: int) -> tuple[float, float]:
    """Seconds of a call, and the part of the time that threads of this process waited for a CPU."""
    before = waited_seconds()
    seconds = seconds_per_call(run, calls)
    return seconds, max(0.0, waited_seconds() - before) / (seconds * calls)


def waited_seconds() -> float:
    """How long the threads of this process were ready to run and another process had their CPU, so far; 0 where the
    system does not say."""
    total = 0
    for thread in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(thread.read_text().split()[1])
        except FileNotFoundError:  # the thread ended meanwhile
            continue
    return total * 1e-9


def serve(peer: Peer, threads: int, requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer until there is nobody to answer to."""
    worker = Worker(peer, threads)
    for request in requests:
        asked = json.loads(request)
        replies.write(line(worker.answer(asked)))
        replies.flush()
        if asked["do"] == "quit":
            return


def main() -> None:
    """Pin, import the peer, serve."""
    end_with_parent()
    parser = argparse.ArgumentParser(prog="python -m tcpx.measure.worker")
    parser.add_argument("module")
    parser.add_argument("--cpus", required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    os.sched_setaffinity(0, {int(cpu) for cpu in options.cpus.split(",")})
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not mix with the replies
    peer = cast("Peer", import_module(options.module))
    serve(peer, options.threads, sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
