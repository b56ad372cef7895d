"""Answers are at least as decided as those that were recorded, and true wherever values can be enumerated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from tests.prover.asked import Answer, Question, is_as_decided, parsed
from tests.prover.enumeration import contradiction, places_of
from tests.prover.recorded import MOST_NONLINEAR, MOST_RECORDED, NONLINEAR, RECORDED, read

PARTS = 8
"""Of what was recorded, in `make test-long`."""
SAMPLE = 50
"""Of so many, `make test` asks one; of random ones, five."""

Entries = Sequence[tuple[str, Answer]]

recorded = cache(lambda: read(RECORDED))


def check(entries: Entries, asked: int, decided: float, enumerated: float) -> None:
    """Ask all. So many there have to be, of which these parts have to be decided, and decided about values that there
    are."""
    decisions = enumerations = 0
    for text, before in entries:
        question = parsed(text)
        answer = question.answer()
        assert is_as_decided(question, answer, before), f"{text}: {answer}, before {before}"
        decisions += answer is not None
        enumerations += _is_true(question, answer)
    assert len(entries) >= asked
    assert decisions >= decided * asked
    assert enumerations >= enumerated * decisions


def _is_true(question: Question, answer: Answer) -> bool:
    """Whether there are values at which the answer was looked at; an error if it is wrong at some."""
    if answer is None:
        return False
    places = places_of(question)
    wrong = contradiction(question, answer, places)
    assert wrong is None, f"{question.text()}: {answer}, but for {wrong}"
    return any(len(values) for values in places.values())


def test_a_sample() -> None:
    check(recorded()[::SAMPLE], MOST_RECORDED // SAMPLE, decided=0.55, enumerated=0.9)


@pytest.mark.parametrize("part", range(PARTS))
def test_recorded(part: int) -> None:
    check(recorded()[part::PARTS], MOST_RECORDED // PARTS, decided=0.55, enumerated=0.9)


def test_a_sample_of_random_ones() -> None:
    check(read(NONLINEAR)[:: SAMPLE // 5], MOST_NONLINEAR * 5 // SAMPLE, decided=0.75, enumerated=0.9)


def test_nonlinear() -> None:
    check(read(NONLINEAR), MOST_NONLINEAR, decided=0.8, enumerated=0.93)


def test_texts_are_read_back() -> None:
    texts = [text for text, _ in read(NONLINEAR)]
    assert sum(parsed(text).text().rstrip() == text for text in texts) >= 0.99 * len(texts)
