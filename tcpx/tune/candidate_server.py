"""The process that tries candidates, one after the other: python -m tcpx.tune.candidate_server PROBLEM

It reads the problem once, runs the schedule and the compiler, and opens the kernel: what it computes for one is there
for those to come. A kernel runs in a fork of the server: at `check` and `load` it forks, and the child answers until
`end`, or until it dies, which the server then says in its place. Requests and replies are those of
`tcpx/measure/protocol.py`:

    {"do": "describe"}                          {"ok": {"pid": ..}}
    {"do": "begin", "params": {..}}             {"ok": {"c": "hash of the C", "costs": [..]}}; null: no schedule
    {"do": "build"}                             {"ok": {"seconds": .., "library": path}}: compiled, and opened
    {"do": "load", "params": {..}}              {"ok": {}}: compiled, or taken from the build cache
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
    gc.disable()
    trial = Trial(problem)
    while True:
        request = _read()
        match request["do"]:
            case "begin":
                trial = Trial(problem)
                gc.collect()
                gc.freeze()  # what is there by now is neither looked through again nor copied by forks
                _limit_memory(problem.memory)
                _say(replies, _answered(trial, request))
            case "build":
                _say(replies, _answered(trial, request))
            case "check":
                _say(replies, _forked(trial, request, replies))
            case "load":
                _say(replies, _forked(Trial(problem), request, replies))
            case "describe":
                _say(replies, {"pid": os.getpid()})
            case _:
                _say(replies, {})
                if request["do"] == "quit":
                    return


def _answered(trial: Trial, request: dict[str, Any]) -> dict[str, Any]:
    """The reply to a request, whatever happens."""
    try:
        return trial.answer(request)
    except MemoryError:
        pass  # what was taken is given back before anything is said
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises is a verdict on the candidate
        return {"verdict": Verdict.CRASHED.value, "reason": crash_reason(error)}
    limit = trial.problem.memory >> 20
    return {"verdict": Verdict.CRASHED.value, "reason": f"out of memory: more than {limit} MiB"}


def _forked(trial: Trial, request: dict[str, Any], replies: int) -> dict[str, Any]:
    """Let a child answer; how it ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            end_with_parent()
            _answer(trial, request, replies)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return {}
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    limit = trial.problem.memory >> 20
    maybe = f", maybe for want of memory: the limit is {limit} MiB" if -code in FOR_WANT_OF_MEMORY else ""
    return {"verdict": Verdict.CRASHED.value, "reason": f"{how}{maybe}"}


def _answer(trial: Trial, request: dict[str, Any], replies: int) -> None:
    """In the child: answer until `end`, or until the candidate cannot go on."""
    _limit_memory(trial.problem.memory)
    while request["do"] != "end":
        reply = _answered(trial, request)
        _say(replies, reply)
        if reply.get("verdict") == Verdict.CRASHED.value:
            return
        request = _read()


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
