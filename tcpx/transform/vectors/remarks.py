"""Remarks on operations that are done lane by lane."""

from __future__ import annotations

from tcpx.payload.diagnostics import Diagnostic, Kind, Location
from tcpx.payload.ir import Operation, written_at


class LaneRemarks:
    """The remarks of a pass, each once for a place."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Location | None], Diagnostic] = {}

    @property
    def all(self) -> tuple[Diagnostic, ...]:
        """In the order in which they were made."""
        return tuple(self._found.values())

    def add(self, op: Operation, shown: str, *, required: str, found: str) -> None:
        """Say that an operation, shown like this, is done so; what would spare it, and what there is."""
        message, place = f"{shown} is computed lane by lane", written_at(op)
        if (message, place) not in self._found:
            remark = Diagnostic(message, Kind.WARNING, payload=place, required=required, found=found, cause="scalar")
            self._found[message, place] = remark
