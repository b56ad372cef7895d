"""The process that tries candidates, each in a fork of its own: python -m tcpx.tune.candidate_server PROBLEM

It reads the problem once. At `begin` and `load` it forks; the child answers until `end`, or until it dies, which the
server then says in its place. Requests and replies are those of `tcpx/measure/protocol.py`:

    {"do": "describe"}                          {"ok": {"pid": ..}}
    {"do": "warm", "params": {..}}              {"ok": {}}: run the schedule once, so that forks find caches filled
    {"do": "begin", "params": {..}}             {"ok": {"c": "hash of the C", "costs": [..]}}; null: no schedule
    {"do": "load", "params": {..}}              {"ok": {}}: compiled, or taken from the build cache
    {"do": "build"}                             {"ok": {"seconds": ..}}
    {"do": "check"}                             {"ok": {}}: the results are right
    {"do": "run", "example": 0, "shortest": s}  {"ok": {"seconds": .., "waited": ..}}
    {"do": "end"}                               {"ok": {}}
    {"do": "quit"}                              {"ok": {}}, and the process ends

Where a candidate fails, the reply is {"ok": {"verdict": .., "reason": ..}}.
"""

import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tcpx.measure.parentage import end_with_parent
from tcpx.measure.protocol import line
from tcpx.tune.problem import Problem
from tcpx.tune.trial import Trial
from tcpx.tune.verdicts import Verdict, crash_reason

OUT_OF_MEMORY: Final = 9
"""The exit status of a child that got no memory."""
FOR_WANT_OF_MEMORY: Final = (signal.SIGSEGV, signal.SIGABRT)
"""How code ends that gets no memory and does not look."""
CHUNK: Final = 1 << 16


def main() -> None:
    """Serve until there is nobody to answer to."""
    end_with_parent()
    replies = os.dup(1)
    os.dup2(2, 1)  # what compilers and kernels print must not mix with the replies
    problem = Problem.read(Path(sys.argv[1]))
    for plugin in problem.plugins:
        import_module(plugin)
    while True:
        request = _read()
        match request["do"]:
            case "begin" | "load":
                _say(replies, _forked(problem, request, replies))
            case "warm":
                Trial(problem).answer({**request, "do": "begin"})
                gc.freeze()  # forks do not copy the pages of what is there by now
                _say(replies, {})
            case "describe":
                _say(replies, {"pid": os.getpid()})
            case _:
                _say(replies, {})
                if request["do"] == "quit":
                    return


def _forked(problem: Problem, request: dict[str, Any], replies: int) -> dict[str, Any]:
    """Let a child answer; how it ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            end_with_parent()
            status = _answer(problem, request, replies)
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return {}
    if code == OUT_OF_MEMORY:
        return {"verdict": "crashed", "reason": f"out of memory: more than {problem.memory >> 20} MiB"}
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    limit = (
        f", maybe for want of memory: the limit is {problem.memory >> 20} MiB" if -code in FOR_WANT_OF_MEMORY else ""
    )
    return {"verdict": "crashed", "reason": f"{how}{limit}"}


def _answer(problem: Problem, request: dict[str, Any], replies: int) -> int:
    """In the child: answer until `end`; the exit status."""
    gc.disable()  # it ends before garbage matters
    _limit_memory(problem.memory)
    trial = Trial(problem)
    while request["do"] != "end":
        try:
            reply = trial.answer(request)
        except MemoryError:
            return OUT_OF_MEMORY
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is a verdict on the candidate
            _say(replies, {"verdict": Verdict.CRASHED.value, "reason": crash_reason(error)})
            return 0
        _say(replies, reply)
        request = _read()
    return 0


def _limit_memory(allowed: int) -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + allowed
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read() -> dict[str, Any]:
    """The next request, and nothing behind it: a child may be the one to read that."""
    text = b""
    while not text.endswith(b"\n"):
        read = os.read(0, CHUNK)
        if not read:
            os._exit(0)  # the tuner is gone
        text += read
    return json.loads(text)


def _say(replies: int, reply: Mapping[str, Any]) -> None:
    text = line({"ok": reply})
    while text:
        text = text[os.write(replies, text) :]


if __name__ == "__main__":
    main()
