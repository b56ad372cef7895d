"""The command line: its parser, the call of a subcommand, and the exit status."""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Final, TextIO

import tcpx
from tcpx.cli import INTERRUPTED
from tcpx.cli.bench import BENCH
from tcpx.cli.bisect import BISECT
from tcpx.cli.check import CHECK
from tcpx.cli.diff import DIFF
from tcpx.cli.emit import EMIT
from tcpx.cli.explain import EXPLAIN
from tcpx.cli.fmt import FMT
from tcpx.cli.freeze import FREEZE
from tcpx.cli.import_model import IMPORT
from tcpx.cli.ops import OPS
from tcpx.cli.options import Subcommand, UsageError, load_table
from tcpx.cli.profile import PROFILE
from tcpx.cli.run import RUN
from tcpx.cli.system_errors import diagnostic_of
from tcpx.cli.tune import TUNE

SUBCOMMANDS: Final = (RUN, IMPORT, EMIT, CHECK, EXPLAIN, PROFILE, BISECT, BENCH, TUNE, FREEZE, DIFF, FMT, OPS)
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
    parser = _parser()
    options = parser.parse_args(arguments)
    subcommand: Subcommand = options.subcommand
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            load_table(options)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tcpx",
        description="Compile tensor programs (.tcp) to C, as a schedule (.tcps) says.",
        epilog=f"example:\n  {RUN.example}\n\n{STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tcpx {tcpx.__version__}")
    subparsers = parser.add_subparsers(title="subcommands", metavar="COMMAND", required=True)
    for subcommand in SUBCOMMANDS:
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
