"""What a step changed, as a unified diff: from the edits the trace keeps."""

from collections.abc import Iterator, Sequence

from tcpx.interp.payload_texts import Edit
from tcpx.records import frozen


@frozen
class DiffLine:
    """A line of a diff; `sign` is `+`, `-`, a blank for context, `@` for the head of a hunk."""

    sign: str
    text: str

    def __str__(self) -> str:
        return self.text if self.sign == "@" else f"{self.sign} {self.text}".rstrip()


def unified(before: Sequence[str], edits: Sequence[Edit], context: int) -> Iterator[DiffLine]:
    """The edits in hunks, with so many unchanged lines round each; lines count from 1."""
    grown = 0
    for hunk in _hunks(edits, context):
        first = max(0, hunk[0].at - context)
        last = min(len(before), hunk[-1].at + len(hunk[-1].removed) + context)
        added = sum(len(edit.added) - len(edit.removed) for edit in hunk)
        old = f"{first + 1},{last - first}"
        new = f"{first + 1 + grown},{last - first + added}"
        yield DiffLine("@", f"@@ -{old} +{new} @@")
        position = first
        for edit in hunk:
            yield from (DiffLine(" ", line) for line in before[position : edit.at])
            yield from (DiffLine("-", line) for line in edit.removed)
            yield from (DiffLine("+", line) for line in edit.added)
            position = edit.at + len(edit.removed)
        yield from (DiffLine(" ", line) for line in before[position:last])
        grown += added


def counts(edits: Sequence[Edit]) -> tuple[int, int]:
    """Lines added and lines removed."""
    return sum(len(edit.added) for edit in edits), sum(len(edit.removed) for edit in edits)


def _hunks(edits: Sequence[Edit], context: int) -> list[list[Edit]]:
    """Edits whose context touches stand in one hunk."""
    hunks: list[list[Edit]] = []
    end = 0
    for edit in edits:
        if hunks and edit.at - end <= 2 * context:
            hunks[-1].append(edit)
        else:
            hunks.append([edit])
        end = edit.at + len(edit.removed)
    return hunks
