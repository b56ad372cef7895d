"""Doing something again whenever one of some files is saved."""

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import tcpx

POLL_SECONDS: Final = 0.2


def run_on_save(run: Callable[[], Iterable[Path]], files: Iterable[Path]) -> int:
    """Run now, and again after each save of `files` and of those that `run` says it read, until Ctrl-C.

    A diagnostic is printed, and the next save awaited. Returns the exit status 0.
    """
    watched = set(files)
    try:
        while True:
            stamps = _stamps(watched)
            try:
                watched.update(run())
                stamps = _stamps(watched) | stamps
            except tcpx.TcpxError as error:
                print(error.diagnostic.render(), file=sys.stderr)
            print(f"\nwatching {len(watched)} file(s); Ctrl-C ends", flush=True)
            while _stamps(watched) == stamps:
                time.sleep(POLL_SECONDS)
            _await_rest(watched)
            print("\n" + "=" * 80 + "\n")
    except KeyboardInterrupt:
        print()
        return 0


def _await_rest(files: set[Path]) -> None:
    """Wait until nothing is written any more: an editor empties a file before it fills it."""
    stamps = _stamps(files)
    time.sleep(POLL_SECONDS)
    while stamps != (now := _stamps(files)):
        stamps = now
        time.sleep(POLL_SECONDS)


def _stamps(files: Iterable[Path]) -> dict[Path, tuple[int, int] | None]:
    """When each file was written and how long it is; None for one that is not there, as while an editor replaces it."""
    stamps: dict[Path, tuple[int, int] | None] = {}
    for file in files:
        try:
            held = file.stat()
        except OSError:
            stamps[file] = None
        else:
            stamps[file] = (held.st_mtime_ns, held.st_size)
    return stamps
