"""The one error of this package: a target, a table or a request to it that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class TargetError(ValueError):
    """Says what was required, what was found, where, and how to fix it."""

    def __init__(self, message: str, *, required: str = "", found: str = "", where: str = "", fix: str = "") -> None:
        self.message = message
        self.required = required
        self.found = found
        self.where = where
        self.fix = fix
        parts = (("where", where), ("required", required), ("found", found), ("fix", fix))
        super().__init__("\n  ".join([message, *(f"{label}: {text}" for label, text in parts if text)]))

    def at(self, place: str) -> TargetError:
        """The same error, said of a place further out."""
        where = f"{place}, {self.where}" if self.where else place
        return TargetError(self.message, required=self.required, found=self.found, where=where, fix=self.fix)


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
