"""Layouts of whole functions: random graphs compute the same, and most of their values are stored in other orders."""

from __future__ import annotations

from collections import Counter

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
