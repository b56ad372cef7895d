"""What notebooks show of an object: HTML of at most `LARGEST_CELL` bytes, for `_repr_html_`.

What does not fit is counted, beside the Python that gives the whole. All texts are escaped, styles are those of the
elements alone, and a page stands in a frame, so that neither changes the notebook around it.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from html import escape, unescape
from string import Template
from typing import Final
from zlib import compress

from tcpx.plurals import counted

LARGEST_CELL: Final = 200_000
"""Bytes: a notebook stores the output of each of its cells."""
_OVERHEAD: Final = 2_000
_LONGEST_HEAD: Final = 200
_LONGEST_VALUE: Final = 2_000
"""Characters of a value in a table."""
_CUT_ENTITY: Final = re.compile(rb"&[^;]{0,8}$")
_FRAME: Final = "width: 100%; height: 40em; border: 0"
_UNPACK: Final = """\
<!doctype html>
<noscript>This page is compressed: it needs scripts.</noscript>
<script>
const bytes = Uint8Array.from(atob("$data"), (letter) => letter.charCodeAt(0));
const page = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
new Response(page).text().then((text) => { document.open(); document.write(text); document.close(); });
</script>
"""
_STYLE: Final = "max-height: 30em; overflow: auto; text-align: left"


def text_cell(head: str, text: str, whole: str) -> str:
    """A line, and a text in which lines and spaces count; `whole` is Python for all of it."""
    shown, rest = _clipped(escape(_encodable(text)))
    return f"{_line(head)}<pre style='{_STYLE}'>{shown}</pre>{_left_out(counted(rest, 'byte'), whole) if rest else ''}"


def table_cell(head: str, columns: Sequence[str], rows: Iterable[Sequence[object]], whole: str) -> str:
    """A line, and a table; `whole` is Python for all rows."""
    parts = [f"{_line(head)}<div style='{_STYLE}'><table>{_row('th', columns)}"]
    room, left_out = LARGEST_CELL - 2 * _OVERHEAD - len(parts[0].encode()), 0
    for row in rows:
        text = _row("td", row) if room >= 0 else ""
        room -= len(text.encode())
        if room >= 0:
            parts.append(text)
        else:
            left_out += 1
    more = _left_out(counted(left_out, "row"), whole) if left_out else ""
    return "".join([*parts, f"</table></div>{more}"])


def page_cell(page: str, otherwise: Callable[[], str], whole: str) -> str:
    """A whole page in a frame of its own, compressed if need be. In place of one that is too large all the same, the
    cell `otherwise`; `whole` is Python for the page."""
    content = page.encode(errors="replace")
    for text in (content.decode(), _packed(content)):
        source = escape(text, quote=True)
        if len(source.encode()) <= LARGEST_CELL - _OVERHEAD:
            return f'<iframe sandbox="allow-scripts" style="{_FRAME}" srcdoc="{source}"></iframe>'
    return otherwise() + _left_out(f"a page of {len(content)} bytes", whole)


def _packed(page: bytes) -> str:
    """A page that writes this one in its place."""
    return Template(_UNPACK).substitute(data=b64encode(compress(page, 9)).decode())


def _line(text: str) -> str:
    return f"<p>{escape(_encodable(text[:_LONGEST_HEAD]))}</p>"


def _left_out(what: str, whole: str) -> str:
    return f"<p>Left out: {what}. All of it: <code>{escape(whole)}</code></p>"


def _row(tag: str, values: Iterable[object]) -> str:
    texts = (_encodable(str(value)) for value in values)
    return f"<tr>{''.join(f'<{tag}>{escape(text[:_LONGEST_VALUE])}</{tag}>' for text in texts)}</tr>"


def _encodable(text: str) -> str:
    """The text without what UTF-8 cannot represent, such as half of a pair of surrogates."""
    return text.encode(errors="replace").decode()


def _clipped(text: str) -> tuple[str, int]:
    """As many whole lines of escaped text as fit, and the number of bytes of the other text."""
    content = text.encode()
    room = LARGEST_CELL - 4 * _OVERHEAD
    if len(content) <= room:
        return text, 0
    kept = content[:room].rpartition(b"\n")[0] or _CUT_ENTITY.sub(b"", content[:room])
    shown = kept.decode(errors="ignore")
    return shown, len(unescape(text[len(shown) :]).encode())
