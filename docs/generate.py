"""Writes the pages of this folder that are made from declarations."""

from __future__ import annotations

from pathlib import Path

from tcpx.transform.reference import reference

if __name__ == "__main__":
    Path(__file__).with_name("transforms.md").write_text(reference(), encoding="utf-8")
