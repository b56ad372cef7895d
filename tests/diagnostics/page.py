"""The page of errors: every message once, with an example."""

from __future__ import annotations

from collections import defaultdict

from tests.diagnostics.ledger import Record, order

HEAD = """# Errors

Every error says what was required, what was found, and where: in the schedule, in the payload, or both. It is an
*error* (a precondition is not met: `try` and `optional` recover from it), a *definite error* (the schedule, the payload
or the call is wrong) or an *internal error* (a bug of tcpx). `fix:` offers what to write, where that is known;
`hint:` says what to do.

This page is made by `make errors` from what the tests provoke: each message once, `..` for names and `N` for numbers.
"""
PARTS = {
    "tcpx/payload/": "Payloads",
    "tcpx/transform/language/": "Schedules: text and checker",
    "tcpx/interp/": "Running a schedule",
    "tcpx/transform/": "Transforms",
    "tcpx/emit_c/": "Emission, compiling and calling kernels",
    "tcpx/target/": "Targets",
    "tcpx/": "Calls of the Python API and the command line",
}


def page(records: list[Record]) -> str:
    """The text of the page."""
    parts: dict[str, dict[str, Record]] = defaultdict(dict)
    for record in records:
        part = next((title for start, title in PARTS.items() if record.place.startswith(start)), PARTS["tcpx/"])
        known = parts[part].get(record.template)
        if known is None or order(record) < order(known):
            parts[part][record.template] = record
    lines = [HEAD]
    for title in PARTS.values():
        if title in parts:
            lines.append(f"## {title}\n")
            for template, record in sorted(parts[title].items()):
                lines.append(f"### {template}\n\n```\n{record.rendered}\n```\n")
    return "\n".join(lines)
