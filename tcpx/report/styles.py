"""The style of pages: colours for light and dark themes, which all pages share, and what documents look like."""

from importlib.resources import files


def style_of(*names: str) -> str:
    """The style sheets of `tcpx.report` with these names, the colours first: `document` is for pages of text, tables
    and pictures."""
    folder = files("tcpx.report")
    texts = ((folder / f"{name}.css").read_text(encoding="utf-8").strip() for name in ("theme", *names))
    return "\n".join(texts)
