"""What notebooks show of an object: HTML of at most `LARGEST_CELL` bytes, for `_repr_html_`."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final

LARGEST_CELL: Final = 200_000
"""Bytes: a notebook keeps what each of its cells has shown."""
_OVERHEAD: Final = 2_000
_STYLE: Final = "max-height: 30em; overflow: auto; text-align: left"


def text_cell(head: str, text: str) -> str:
    """A line, and a text in which lines and spaces count; the end of one that is too long is left out."""
    return f"<p>{escape(head[:_OVERHEAD])}</p><pre style='{_STYLE}'>{_clipped(escape(text))}</pre>"


def table_cell(head: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A line, and a table; rows that do not fit are counted."""
    parts = [f"<p>{escape(head[:_OVERHEAD])}</p><div style='{_STYLE}'><table>{_row('th', columns)}"]
    rest, left = LARGEST_CELL - 2 * _OVERHEAD - len(parts[0].encode()), 0
    for row in rows:
        text = _row("td", row)
        rest -= len(text.encode())
        if rest >= 0:
            parts.append(text)
        else:
            left += 1
    more = f"<p>.. and {left} more</p>" if left else ""
    return "".join([*parts, f"</table></div>{more}"])


def page_cell(page: str, otherwise: Callable[[], str]) -> str:
    """A whole page in a frame of its own; what else to show if it is too large."""
    text = escape(page, quote=True)
    if len(text.encode()) > LARGEST_CELL - _OVERHEAD:
        return otherwise()
    return f'<iframe sandbox="allow-scripts" style="width: 100%; height: 40em; border: 0" srcdoc="{text}"></iframe>'


def _row(tag: str, values: Iterable[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(value))}</{tag}>' for value in values)}</tr>"


def _clipped(text: str) -> str:
    content = text.encode()
    if len(content) <= LARGEST_CELL - 4 * _OVERHEAD:
        return text
    whole = content[: LARGEST_CELL - 4 * _OVERHEAD].rpartition(b"\n")[0] or content[: LARGEST_CELL // 2]
    return f"{whole.decode(errors='ignore')}\n.. and {len(content) - len(whole)} bytes more"
