"""What conditions say together, by rules of their own: each case was unknown, or is beside one that has to be."""

from __future__ import annotations

import pytest

from tcpx.payload.sizes import Symbol, Var
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.predicates import Predicate
from tests.prover.asked import parsed


@pytest.mark.parametrize(("text", "answer"), [
    # A sum with a common divisor is no other number.
    ("d==0 | a:0.. b:0.. c:0..3 d:mod(a+b,2) | a==b+2*c+1", False),
    ("c==0 | a:0..~2 b:2..4 c:mod(a-b-1,2) | 9*b+3==a-17", False),
    ("c==0 | a:0..~2 b:2..4 c:mod(a-b,2) | 9*b+3==a-17", None),
    # Symbols are multiples, loop variables go in steps.
    ("a<=16 | a:0.. b:0..~16 c:0.. d:0.. | a<=b b<=c+d c+d<=31", True),
    ("a<=15 | a:0.. b:0..~16 c:0.. d:0.. | a<=b b<=c+d c+d<=31", None),
    ("a<=16 | a:0.. b:0.. c:loop(0,b,16) d:0.. e:0.. | a<=c c<=d+e d+e<=31", True),
    # What holds nowhere with what is known is false.
    ("a+b<=9 | a:0.. b:0.. c:0.. | a+c>=7 b>=c+3", False),
    ("a+b<=10 | a:0.. b:0.. c:0.. | a+c>=7 b>=c+3", None),
    ("a==b | a:0.. b:0.. c:0.. | a<c c<=b", False),
])  # fmt: skip
def test_conditions_say_together(text: str, answer: bool | None) -> None:
    assert parsed(text).answer() is answer


def test_a_variable_of_another_range_is_asked_about_anew() -> None:
    """A loop that is split has the name of the loop before, and sizes with one text may be others."""
    here = Context([Predicate.of("<=", Symbol("N").size(), 8)])
    one, nine = Var("i", 0, 1).size(), Var("i", 0, 9).size()
    assert here.value(one) == 0
    assert here.value(nine) == nine
    assert (here.upper_bound(one), here.upper_bound(nine)) == (0, 8)


def test_conditions_of_one_text_about_symbols_that_are_declared_otherwise() -> None:
    texts = {Predicate.of("<=", Symbol("N", lower).size(), 8).key for lower in (0, 1)}
    ranges = {Predicate.of("<=", Var("i", 0, Symbol("N", lower).size()).size(), 8).key for lower in (0, 1)}
    assert len(texts) == len(ranges) == 2
