"""Text -> text, in the one format. Works on tokens, so that no construct can be lost; see `format_schedule`."""

from tcpx.payload.diagnostics import check_text
from tcpx.transform.language.builder import Builder
from tcpx.transform.language.formatter.alignment import aligned
from tcpx.transform.language.formatter.layout import Layout
from tcpx.transform.language.formatter.structure import StructureReader
from tcpx.transform.language.parser import parse_text
from tcpx.transform.language.source import Source

__all__ = ["format_schedule"]


def format_schedule(text: str, file: str = "<schedule>") -> str:
    """A `.tcps` text in the one format: the same tokens and comments in the same order, on other lines.

    Statements stand on their own lines, indented by two blanks per block; lines longer than 120 columns are broken
    inside brackets or at operators; a block of one statement stays on one line if it was; one empty line between
    statements is kept; comments behind code are aligned, and so are the `=` of a paragraph where one was. Formatting
    twice changes nothing more, and the syntax tree stays the same. Raises ParseError.
    """
    check_text("schedule", text, "schedule_text")
    source = Source(file, text)
    parsed = parse_text(source)
    Builder(source, parsed.comments).file(parsed.tree)
    layout = Layout()
    layout.body(StructureReader(source, parsed).file(), indent=0)
    lines = aligned(layout.lines)
    return "\n".join(lines) + "\n" if lines else ""
