"""What can be wrong with a ledger, in words."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import tcpx

SHOWN: Final = 60
"""How much of a record a message quotes, in characters."""


class LedgerError(tcpx.TcpxError):
    """A ledger that cannot be read or written; what it holds already stays whole."""


def failure(path: Path, error: sqlite3.Error) -> tcpx.Diagnostic:
    """What SQLite refused."""
    said = str(error)
    if "locked" in said:
        return tcpx.Diagnostic(
            f"the ledger {path} is locked",
            required="a file that others write to for moments only",
            found=f"a lock that was held all the time: {said}",
            fix="end the program that holds it, or choose another --storage",
        )
    if "disk is full" in said or "disk I/O" in said:
        return tcpx.Diagnostic(
            f"the ledger {path} cannot be written",
            required="space on the device",
            found=said,
            notes=("all candidates written before are kept",),
            fix="free some space, then go on with --resume",
        )
    if "malformed" in said:
        return tcpx.Diagnostic(
            f"the ledger {path} is damaged",
            required="a file as tcpx tune left it",
            found=said,
            fix="choose another --storage; `sqlite3 FILE .recover` may save what is left",
        )
    if "not a database" in said or "no such" in said:
        return no_ledger(path, said)
    return tcpx.Diagnostic(
        f"the ledger {path} cannot be used",
        required="a file to read and write, in a folder that exists",
        found=said,
        fix="choose another --storage",
    )


def no_ledger(path: Path, found: str) -> tcpx.Diagnostic:
    """A file of something else."""
    return tcpx.Diagnostic(f"{path} is no ledger", required="a file that tcpx tune made, or a new one", found=found)


def unreadable(path: Path, record: str) -> tcpx.Diagnostic:
    """A candidate that was not written as this version of tcpx does."""
    return tcpx.Diagnostic(
        f"a candidate of the ledger {path} cannot be read",
        required="what this version of tcpx writes",
        found=f"{record[:SHOWN]}.." if len(record) > SHOWN else record,
        fix="choose another --storage, or the tcpx that made it",
    )


def newer_version(path: Path, found: int, known: int) -> tcpx.Diagnostic:
    """A file of a later tcpx."""
    return tcpx.Diagnostic(
        f"the ledger {path} is from a newer version of tcpx",
        required=f"schema version {known} or older",
        found=f"schema version {found}",
        fix="update tcpx, or choose another --storage",
    )


def unknown_study(path: Path, key: str | None, known: Sequence[str]) -> tcpx.Diagnostic:
    """A study that is not there."""
    return tcpx.Diagnostic(
        f"the ledger {path} has no study {key}" if key is not None else f"the ledger {path} is empty",
        required=f"the beginning of one of {', '.join(known)}" if known else "a study: run tcpx tune first",
        found=key or "none",
    )
