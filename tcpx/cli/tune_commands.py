"""The commands that use what tcpx tune found, and that go on with it."""

import argparse
import shlex
import sys

from tcpx.cli import INTERRUPTED
from tcpx.cli.models import CommandPayload
from tcpx.tune.study import Study


def how_to_use(options: argparse.Namespace, payload: CommandPayload, study: Study, record: str | None) -> str:
    """The command that emits the winner: from the file that it was recorded in, or else by its params."""
    if record is not None:
        return how_to_emit(options, payload, ["--tuned", record])
    named = ((study.names(path), value) for path, value in study.params.items())
    return how_to_emit(
        options, payload, [word for name, value in named for word in ("--param", f"{name}={_word(value)}")]
    )


def how_to_emit(
    options: argparse.Namespace, payload: CommandPayload, given: list[str], schedule: str | None = None
) -> str:
    """The command that emits the payload with these options, by another schedule if one is named."""
    schedule = schedule or options.schedule
    words = [options.file, *(["-s", schedule] if schedule is not None else [])]
    words += [word for name, number in payload.numbers.items() for word in ("--size", f"{name}={number}")]
    words += [word for name, file in options.input for word in ("--input", f"{name}={file}")]
    words += [] if options.target == "native" else ["--target", options.target]
    words += [] if options.threads == 1 else ["--threads", str(options.threads)]
    return f"tcpx emit {shlex.join([*words, *given])}"


def how_to_record(study: Study) -> str:
    """The command that writes what this one found into a file for `--tuned`, and neither searches nor measures."""
    given = _without("--final", _without("--trials", _given()))
    rest = ["--trials", str(len(study.candidates)), "--final", "0", "--resume", "--record"]
    return f"tcpx tune {shlex.join([*given, *rest])}"


def how_to_go_on(study: Study | None = None) -> str:
    """The command that goes on with the study that this command began; with twice the trials, where all are done."""
    given = _given()
    if study is not None and len(study.candidates) >= study.trials:
        given = [*_without("--trials", given), "--trials", str(2 * study.trials)]
    return f"tcpx tune {shlex.join([*given, '--resume'])}"


def _given() -> list[str]:
    """The arguments of this command."""
    words = sys.argv[1:]
    return [word for word in words[words.index("tune") + 1 if "tune" in words else 0 :] if word != "--resume"]


def _without(option: str, words: list[str]) -> list[str]:
    """Without an option and its value."""
    at = words.index(option) if option in words else len(words)
    return [*words[:at], *words[at + 2 :]]


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def status_of(is_interrupted: bool, *, done: bool = True) -> int:
    """The exit status of a search that came to its end, or that Ctrl-C ended, which kept what it found."""
    return INTERRUPTED if is_interrupted else 0 if done else 1
