"""The one error of this package: a target, a table or a request to it that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tcpx.payload.diagnostics import Diagnostic, TcpxError


class TargetError(TcpxError, ValueError):
    """A target there is none of, a table of instructions that is malformed, or a row used wrongly."""

    def __init__(self, message: str, *, required: str, found: str, where: str = "", fix: str | None = None) -> None:
        notes = (f"in {where}",) if where else ()
        super().__init__(Diagnostic(message, required=required, found=found, notes=notes, fix=fix))
        self.where = where

    def at(self, place: str) -> TargetError:
        """The same error, said of a place further out."""
        known = self.diagnostic
        where = f"{place}, {self.where}" if self.where else place
        return TargetError(
            known.message, required=known.required or "", found=known.found or "", where=where, fix=known.fix
        )


def unknown_name(what: str, name: str, known: Iterable[str], where: str = "") -> TargetError:
    """The error for a name that is not among `known`, with a did-you-mean."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    return TargetError(
        f"unknown {what} {name!r}",
        required=", ".join(names),
        found=name,
        where=where,
        fix=f"did you mean {close[0]!r}?" if close else f"use one of the {what}s listed",
    )
