"""Where tcpx keeps what it compiles and measures."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tcpx.payload.diagnostics import CompileError, Diagnostic

VARIABLE: Final = "TCPX_CACHE_DIR"


def cache_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Where libraries are kept: $TCPX_CACHE_DIR, else $XDG_CACHE_HOME/tcpx, else ~/.cache/tcpx. It need not exist yet.

    Raises CompileError for a path that starts in the home of nobody, or where there is no home.
    """
    known = os.environ if environment is None else environment
    try:
        if known.get(VARIABLE):
            return Path(os.path.abspath(Path(known[VARIABLE]).expanduser()))
        shared = Path(known.get("XDG_CACHE_HOME", ""))
        if shared.is_absolute():
            return shared / "tcpx"
        home = known.get("HOME")
        return Path(os.path.abspath((Path(home) if home else Path.home()) / ".cache" / "tcpx"))
    except (RuntimeError, FileNotFoundError) as error:  # no such user; a relative path in a folder that is gone
        raise no_place(known.get(VARIABLE) or "~/.cache/tcpx", str(error)) from error


def no_place(directory: str | Path, found: str) -> CompileError:
    """The error where a directory cannot be used."""
    return CompileError(
        Diagnostic(
            "there is no place for compiled kernels",
            required=f"a directory that this user can write to and other users cannot: {directory}",
            found=found,
            fix=f"set {VARIABLE} to a directory of your own that can be written to",
        )
    )
