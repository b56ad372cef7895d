"""The commands that use what tcpx tune found, and that go on with it."""

from __future__ import annotations

import shlex
import sys

from tcpx.tune.study import Study


def how_to_use(file: str, schedule: str | None, study: Study) -> str:
    """The command that emits the winner."""
    words = [file, *(["-s", schedule] if schedule is not None else [])]
    given = [word for path, value in study.params.items() for word in ("--param", f"{path}={_word(value)}")]
    return f"tcpx emit {shlex.join([*words, *given])}"


def how_to_go_on(study: Study | None = None) -> str:
    """The command that goes on with the study that this command began; with twice the trials, where all are done."""
    words = sys.argv[1:]
    given = [word for word in words[words.index("tune") + 1 if "tune" in words else 0 :] if word != "--resume"]
    if study is not None and len(study.candidates) >= study.trials:
        if "--trials" in given:
            at = given.index("--trials")
            del given[at : at + 2]
        given += ["--trials", str(2 * study.trials)]
    return f"tcpx tune {shlex.join([*given, '--resume'])}"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
