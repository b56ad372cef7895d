"""Loops change their order exactly where no instance comes before one that it depends on: random nests against the
enumerated order of their instances.

Nothing illegal is accepted, and of what is legal most: what nothing proves is refused. What is accepted computes the
same, is valid, and parses back equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tcpx.module_copies import copy_module
from tcpx.payload.diagnostics import Kind, ScheduleError
from tcpx.payload.text.parser import parse
from tests.transform.payloads import check_same, run
from tests.transform.random_nests import Nest, Order, random_nest

CHUNKS, CHUNK = 20, 250
SAMPLES = [{"N": 5, "M": 4}, {"N": 2, "M": 5}]
INNER = 'let v = match one "v0" in root\nlet j = parent(v)\n'
LOOPS = INNER + "let i = parent(j)\n"


@dataclass(frozen=True)
class Question:
    """A schedule of a nest, and when it is legal; None where only its numbers say so."""

    body: str
    is_legal: Callable[[Nest], bool] | None
    statements: int = 1


def keeping(order: Order) -> Callable[[Nest], bool]:
    return lambda nest: nest.keeps(order)


QUESTIONS = {
    "reorder": Question(LOOPS + "reorder([j, i])", keeping(lambda x: (x.j, x.i, x.statement))),
    "parallel outer": Question(LOOPS + "parallelize(i)", lambda nest: nest.parallel("i")),
    "parallel inner": Question(INNER + "parallelize(j)", lambda nest: nest.parallel("j")),
    "fission": Question(INNER + "let a, b = fission(j, after: v)", keeping(lambda x: (x.i, x.statement, x.j)), 2),
    "wavefront": Question(LOOPS + "skew(j)\nreorder([j, i])\nparallelize(i)", None),
    "skewed twice": Question(LOOPS + "skew(j, factor: 6)\nreorder([j, i])\nskew(i, factor: 6)", None),
}


def outcomes(seeds: range, names: list[str]) -> Counter[tuple[str, bool | None, bool]]:
    """How often each question was legal, and accepted."""
    found = Counter[tuple[str, bool | None, bool]]()
    for seed in seeds:
        nests = {count: random_nest(seed, count) for count in {QUESTIONS[name].statements for name in names}}
        payloads = {count: parse(nest.text()) for count, nest in nests.items()}
        for name in names:
            question = QUESTIONS[name]
            nest = nests[question.statements]
            text, legal = nest.text(), question.is_legal(nest) if question.is_legal is not None else None
            try:
                module = run(copy_module(payloads[question.statements]), question.body).module
            except ScheduleError as error:
                if error.diagnostic.kind is Kind.INTERNAL:
                    raise
                found[name, legal, False] += 1
                continue
            assert legal is not False, f"{name} of nest {seed} is illegal\n{text}"
            check_same(text, module, SAMPLES)
            found[name, legal, True] += 1
    return found


def check(seeds: range) -> None:
    names = list(QUESTIONS)
    found = outcomes(seeds, names)
    for name in names:
        legal = found[name, True, True] + found[name, True, False]
        if QUESTIONS[name].is_legal is None:
            assert found[name, None, True] >= len(seeds) // 5, name
            continue
        assert legal >= len(seeds) // 3, name
        assert found[name, False, False] >= len(seeds) // 5, name
        assert found[name, True, True] >= 0.7 * legal, (name, legal, found[name, True, True])


def test_orders_of_random_nests() -> None:
    check(range(200))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_orders_of_many_random_nests(chunk: int) -> None:
    check(range(1000 + chunk * CHUNK, 1000 + (chunk + 1) * CHUNK))
