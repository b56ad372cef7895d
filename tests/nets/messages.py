"""What a diagnostic has to say, and which ones say the same."""

from __future__ import annotations

import re

from tcpx.payload.diagnostics import Kind, TcpxError


def message_kind(error: TcpxError) -> str:
    """What a diagnostic says, without the names and numbers it says it of."""
    text = re.sub(
        r"`[^`]*`|%[\w./~]+|\"[^\"]*\"|\[[^\]]*\]|[\w.~]+/[\w.~]+|\b[aotv]\d+\b|\d+", "_", error.diagnostic.message
    )
    return " ".join(text.split())


def is_located(error: TcpxError) -> str | None:
    """None if a failure says what a failure has to say; else what is missing."""
    found = error.diagnostic
    if found.kind is Kind.INTERNAL:
        return "an internal error"
    if found.schedule is None:
        return "no place in the schedule"
    if not found.message:
        return "no message"
    return None if found.required or found.found or found.fix else "neither what was required nor what was found"
