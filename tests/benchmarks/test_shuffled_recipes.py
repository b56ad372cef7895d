"""The default schedule with its recipes in a random order: still a schedule, with the recipes to be found."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpx
from benchmarks.shuffled_recipes import payloads, shuffled_default


@pytest.mark.parametrize("seed", [0, 3])
def test_the_first_recipe_is_taken_and_the_others_are_in_the_space(seed: int, tmp_path: Path) -> None:
    schedule = shuffled_default(tmp_path, seed)
    _, module = next(payloads())
    recipe, *_ = tcpx.search_space(module, schedule, target="x86_avx512").variables
    assert recipe.name == "recipe"
    words = recipe.items({})
    assert set(words) == {"stream", "direct", "panel", "tile", "large"}
    assert recipe.default_value({}) == words[0]
