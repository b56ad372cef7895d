"""The command line: its parser, the call of a subcommand, and the exit status."""

import argparse
import os
import re
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from itertools import pairwise
from typing import Final, TextIO

import tcpx
from tcpx.cli import INTERRUPTED
from tcpx.cli.options import Subcommand, UsageError, load_table
from tcpx.cli.system_errors import check_destinations, diagnostic_of

SUBCOMMANDS: Final = (
    *("run", "import", "emit", "check", "explain", "profile", "bisect", "bench", "tune", "freeze", "diff", "fmt"),
    *("ops", "cache", "calibrate"),
)
"""Each is in the module of its name, as a `Subcommand` of that name in capitals."""
_MODULES: Final = {"import": "import_model"}
"""Those of another name."""
EXAMPLE: Final = "tcpx run examples/digits/digits.tcp -s schedules/digits.tcps --random 0 --size B=64 --check"
_NAMED: Final = ("--input", "--size")
"""Options whose values begin with a name."""
DONE, DIAGNOSTIC, USAGE = 0, 1, 2
STATUSES: Final = (
    f"exit status: {DONE} done, {DIAGNOSTIC} a diagnostic (on stderr), {USAGE} a wrong command line, "
    f"{INTERRUPTED} Ctrl-C"
)


def execute(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, call its subcommand and return the exit status."""
    streams: tuple[object, object] = (sys.stdout, sys.stderr)
    if None in streams:  # closed by who started it: what is written there is lost
        lost = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process
        sys.stdout, sys.stderr = sys.stdout or lost, sys.stderr or lost
    output: TextIO = sys.stdout
    if isinstance(output, TextIOWrapper):
        output.reconfigure(errors="backslashreplace")  # a name that it cannot encode is no reason to stop
    words = _with_names(sys.argv[1:] if arguments is None else arguments)
    parser = _parser([words[0]] if words and words[0] in SUBCOMMANDS else SUBCOMMANDS)
    options, left = parser.parse_known_args(words)
    if left:
        parser.error(f"unrecognized arguments: {' '.join(left)}{_of_a_schedule(words)}")
    subcommand: Subcommand = options.subcommand
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            load_table(options)
            check_destinations(getattr(options, name) for name in subcommand.writes)
            status = subcommand.execute(options)
        sys.stdout.flush()
    except UsageError as error:
        print(f"tcpx {subcommand.name}: error: {error}; see tcpx {subcommand.name} --help", file=sys.stderr)
        return USAGE
    except tcpx.TcpxError as error:
        print(error.diagnostic.render(), file=sys.stderr)
        return DIAGNOSTIC
    except BrokenPipeError:  # nobody reads on (`tcpx ops | head`); the flush when Python ends must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DIAGNOSTIC
    except OSError as error:
        print(diagnostic_of(error).render(), file=sys.stderr)
        return DIAGNOSTIC
    return status


def _of_a_schedule(words: Sequence[str]) -> str:
    """What to say of a schedule that stands without `-s`."""
    found = next(
        (word for before, word in pairwise(words) if word.endswith(".tcps") and before not in ("-s", "--schedule")), ""
    )
    return f"; a schedule is given with -s {found}" if found else ""


def _with_names(words: Sequence[str]) -> list[str]:
    """The words, with `--input -o=FILE` as `--input=-o=FILE`: else argparse takes a name for an option that begins
    with `-`, as inputs and dims of models may."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in _NAMED and re.match("-[^-].*=", word):
            joined[-1] = f"{joined[-1]}={word}"
        else:
            joined.append(word)
    return joined


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning in the terminal: no line of Python, which nobody there has written."""
    text = str(message)
    print(text if text.startswith("warning: ") else f"warning: {text}", file=file or sys.stderr)


def _subcommand(name: str) -> Subcommand:
    """The subcommand of this name: what others need is not imported."""
    found: object = getattr(import_module(f"tcpx.cli.{_MODULES.get(name, name)}"), name.upper())
    if not isinstance(found, Subcommand):
        raise TypeError(f"required a Subcommand, found {found!r}")
    return found


def _parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of command lines that begin with one of these names."""
    parser = argparse.ArgumentParser(
        prog="tcpx",
        description="Compile tensor programs (.tcp) to C, as a schedule (.tcps) says.",
        epilog=f"example:\n  {EXAMPLE}\n\n{STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tcpx {tcpx.__version__}")
    subparsers = parser.add_subparsers(title="subcommands", metavar="COMMAND", required=True)
    for subcommand in map(_subcommand, names):
        made = subparsers.add_parser(
            subcommand.name,
            help=subcommand.summary,
            description=subcommand.description,
            epilog=f"example:\n  {subcommand.example}\n\n{STATUSES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        subcommand.add_arguments(made)
        made.set_defaults(subcommand=subcommand)
    return parser
