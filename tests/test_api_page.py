"""docs/api.md is what `make docs` writes, and has every public name."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import tcpx

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_is_current() -> None:
    sys.path.insert(0, str(DOCS))
    try:
        page: str = import_module("api_page").api_page()
    finally:
        sys.path.remove(str(DOCS))
    assert (DOCS / "api.md").read_text(encoding="utf-8") == page, "make docs"
    assert "### `compile`" in page
    assert "    cache: bool = True" in page
    missing = [n for n in dir(tcpx) if isinstance(getattr(tcpx, n), type) and f"### class `{n}`" not in page]
    assert missing == []
