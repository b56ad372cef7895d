"""The `tcpx` command: one file per subcommand."""

from __future__ import annotations

from tcpx.cli.command import main

__all__ = ["main"]
