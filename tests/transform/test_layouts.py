"""Layouts of whole functions: random graphs compute the same, and most of their values are stored in other orders."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest

from tests.transform.layout_graphs import random_graph
from tests.transform.payloads import check


@pytest.mark.parametrize("first", range(0, 300, 20))
def test_random_graphs(first: int) -> None:
    seen = Counter[str]()
    for seed in range(first, first + 20):
        payload = random_graph(seed)
        done = check(payload, "optional assign_layout(root)", [{}], exact=False)
        seen["turned"] += done.module.text() != payload
    assert seen["turned"] >= 10, seen


def test_random_graphs_of_calls() -> None:
    """A function that is called in two orders becomes two."""
    seen = Counter[str]()
    for seed in range(60):
        payload = random_graph(seed, calls=20)
        done = check(payload, "optional assign_layout(root)", [{}], exact=False)
        seen["copied"] += done.module.text().count("func @") > payload.count("func @")
    assert seen["copied"] >= 3, seen


STRUCTURED = re.compile(r"^  %(v\d+) = tcp\.(?:generic|relu|add|mul|pooling)\b", re.MULTILINE)


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_an_order_goes_on_in_random_graphs(first: int) -> None:
    """Sums are as they were: results differ only by the order in which norms sum."""
    seen = Counter[str]()
    for seed in range(first, first + 20):
        payload, random = random_graph(seed), Random(seed)
        names = [name for name in STRUCTURED.findall(payload) if payload.count(f"%{name} =") == 1]
        steps = "".join(
            f'let {name} = match one "{name}" in root\n'
            f"let k{name} = innermost(dims({name}.out))\n"
            f"optional transpose_result({name}, [k{name}], readers: true)\n"
            for name in random.sample(names, min(2, len(names)))
        )
        done = check(payload, steps, [{}], exact=False)
        seen["turned"] += done.module.text() != payload
    assert seen["turned"] >= 10, seen
