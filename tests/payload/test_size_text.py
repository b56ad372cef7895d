"""Sizes by themselves, as a stored kernel has them."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.payload.sizes import Symbol, to_text
from tcpx.payload.text.size_text import parse_size

SYMBOLS = {"N": Symbol("N"), "M": Symbol("M")}


@pytest.mark.parametrize(
    "text", ["0", "7", "N", "999999999999999999", "9223372036854775807", "2*N + 1", "M*ceildiv(N, 4)", "-3"]
)
def test_it_is_the_size_that_is_printed(text: str) -> None:
    assert to_text(parse_size(text, SYMBOLS)) == text
    assert parse_size(text, SYMBOLS) == parse_size(f"({text})", SYMBOLS)


@pytest.mark.parametrize("text", ["", "K", "9223372036854775808", "\u0663", "1_000", "N M", "%i"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(tcpx.ParseError):
        parse_size(text, SYMBOLS)
