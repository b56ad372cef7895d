"""Edits give the text after a step, and a unified diff of it, the one difflib makes."""

from __future__ import annotations

from difflib import unified_diff

from hypothesis import given
from hypothesis import strategies as st

from tcpx.interp.payload_texts import applied, edits_between
from tcpx.report.unified import counts, unified

LINES = st.lists(st.sampled_from("abcde"), max_size=14).map(tuple)


@given(LINES, LINES)
def test_edits_make_the_text_after(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    edits = edits_between(before, after)
    assert applied(before, edits) == after
    added, removed = counts(edits)
    assert len(before) + added - removed == len(after)


@given(LINES, LINES, st.integers(0, 3))
def test_the_unified_diff_is_that_of_difflib(before: tuple[str, ...], after: tuple[str, ...], context: int) -> None:
    found = list(unified(before, edits_between(before, after), context))
    wanted = list(unified_diff(before, after, n=context, lineterm=""))[2:]
    assert [line.sign + line.text for line in found if line.sign != "@"] == [x for x in wanted if x[0] != "@"]
    assert len([line for line in found if line.sign == "@"]) == len([x for x in wanted if x.startswith("@@")])
