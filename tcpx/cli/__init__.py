"""The `tcpx` command: one file per subcommand."""

import signal
import sys
from collections.abc import Sequence

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells give it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (`sys.argv` if None) and return the exit status; argparse itself exits for --help and for
    words it does not know."""
    try:
        from tcpx.cli.command import execute  # late: Ctrl-C may come while it is imported

        return execute(arguments)
    except KeyboardInterrupt:
        if arguments is None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # one more, while Python ends, would be its exit status
        print("tcpx: interrupted", file=sys.stderr)
        return INTERRUPTED


__all__ = ["main"]
