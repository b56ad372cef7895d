"""The command line: its parser, the call of a subcommand, and the exit status.

0: done; 1: something is wrong with the payload, the schedule or the data, said on stderr; 2: the command line itself.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import tcpx
from tcpx.cli import check, emit, explain, ops, run
from tcpx.cli.options import Execute

SUBCOMMANDS = (run, emit, check, explain, ops)
EPILOG = """\
example:
  tcpx run examples/digits/digits.tcp -s schedules/digits.tcps --random 0 --size B=64 --check

exit status: 0 done, 1 a diagnostic (on stderr), 2 a wrong command line
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; a subcommand's function is its `execute`."""
    made = argparse.ArgumentParser(
        prog="tcpx",
        description="Compile tensor programs (.tcp) to C, as a schedule (.tcps) says.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"tcpx {tcpx.__version__}")
    subparsers = made.add_subparsers(title="subcommands", metavar="COMMAND", required=True)
    for subcommand in SUBCOMMANDS:
        subcommand.add_parser(subparsers)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` if None); returns the exit status. A wrong command line is a SystemExit(2)."""
    options = parser().parse_args(arguments)
    execute: Execute = options.execute
    try:
        status = execute(options)
        sys.stdout.flush()
    except tcpx.TcpxError as error:
        print(error.diagnostic.render(), file=sys.stderr)
        return 1
    except BrokenPipeError:  # `tcpx ops | head`: nobody reads on; Python's own flush at exit must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return status
