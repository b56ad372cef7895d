"""tcpx fmt: schedules in the one format."""

import argparse
import sys
from collections.abc import Iterator
from difflib import unified_diff
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

import tcpx
from tcpx.cli.options import Subcommand, UsageError

STDIN = "-"
_START = tcpx.Location("<stdin>", 1, 1)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="schedule file (.tcps), or a folder of them; - for standard input"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a file is not formatted")
    parser.add_argument("--diff", action="store_true", help="write nothing; print what would change")
    parser.add_argument(
        "--upgrade", action="store_true", help="bring files to the newest version of the language, in the same meaning"
    )
    parser.add_argument(
        "--payload",
        action="append",
        default=[],
        metavar="PAYLOAD",
        help="with --upgrade: a payload or model that the schedules run on; may be repeated; default: what they expect",
    )


def _execute(options: argparse.Namespace) -> int:
    if options.payload and not options.upgrade:
        raise UsageError("required --upgrade beside --payload, found --payload alone")
    changed = 0
    for name, text, formatted in _upgraded(options) if options.upgrade else _formatted(options):
        changed += formatted != text
        if options.diff:
            print(_difference(text, formatted, name), end="")
        elif name == STDIN and not options.check:
            print(formatted, end="")
        elif formatted != text:
            print(f"{name}: {'is not formatted' if options.check else 'formatted'}")
            if not options.check:
                Path(name).write_bytes(formatted.encode())
    return 1 if options.check and changed else 0


def _formatted(options: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Each file with its text and what it becomes, before the next one is read."""
    for name in _names(options.files):
        text = _text(name)
        yield name, text, tcpx.format_schedule(text, _shown(name))


def _upgraded(options: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """The same for an upgrade, which reads all files first. What it changes is said beside the output."""
    texts = {name: _text(name) for name in _names(options.files)}
    done = tcpx.upgrade_schedules({_shown(name): text for name, text in texts.items()}, options.payload)
    for name, text in texts.items():
        upgraded = done[_shown(name)]
        for line in upgraded.changes:
            print(f"{_shown(name)}:{line}", file=sys.stderr if name == STDIN else sys.stdout)
        yield name, text, upgraded.text


def _text(name: str) -> str:
    return _standard_input() if name == STDIN else _read(name)


def _shown(name: str) -> str:
    return "<stdin>" if name == STDIN else name


def _names(files: list[str]) -> Iterator[str]:
    """The files, those in folders included. Payloads are refused: their parser keeps no comments."""
    for name in files:
        path = Path(name)
        if name != STDIN and path.is_dir():
            yield from (str(found) for found in sorted(path.rglob("*.tcps")))
        elif path.suffix == ".tcp":
            raise UsageError(f"required schedules (.tcps), found the payload {name}; only schedules can be formatted")
        else:
            yield name


def _standard_input() -> str:
    """The text given, in UTF-8 as all schedules are; so is then what is written. Raises ScheduleError."""
    streams: tuple[TextIO, ...] = (sys.stdin, sys.stdout)
    for stream in streams:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="strict")
    try:
        return sys.stdin.read().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        found = f"the byte 0x{error.object[error.start]:02x}, which is no character"
        required = "a schedule text in UTF-8"
        raise tcpx.ScheduleError(
            tcpx.Diagnostic("cannot read <stdin>", schedule=_START, required=required, found=found)
        ) from error


def _read(name: str) -> str:
    """The file as it is, line ends included; a byte order mark goes. Raises ScheduleError for what is no schedule."""
    tcpx.schedule_text(name)
    return Path(name).read_bytes().decode("utf-8-sig")


def _difference(before: str, after: str, name: str) -> str:
    lines = unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), name, f"{name} (formatted)")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


FMT = Subcommand(
    name="fmt",
    summary="format schedules",
    description="Write schedules (.tcps) in the one format: comments stay, the syntax tree stays, formatting twice\n"
    "changes nothing more. Payloads (.tcp) are not formatted. --upgrade brings schedules to the newest `language`.",
    example="tcpx fmt --check schedules",
    add_arguments=_add_arguments,
    execute=_execute,
)
