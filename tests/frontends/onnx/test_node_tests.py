"""ONNX's own tests of nodes: all of those whose tensors we support pass, or are listed with a reason."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.frontends.onnx.node_tests import failures, listed, models, sample

SAMPLE, PARTS = 150, 24
LEAST = 1718
"""Tests that pass."""


def test_sample() -> None:
    names = sample(SAMPLE)
    assert len(names) == SAMPLE
    assert failures(names) == {}


def test_what_is_listed_does_not_pass() -> None:
    assert set(listed()) <= set(models())
    assert len(models()) - len(listed()) >= LEAST
    names = sorted(listed())
    assert sorted(set(names) - set(failures(names))) == []


def test_the_page_is_what_the_list_says() -> None:
    docs = Path(__file__).parents[3] / "docs"
    page = runpy.run_path(str(docs / "generate.py"))["node_tests"]()
    assert (docs / "onnx-node-tests.md").read_text(encoding="utf-8") == page, "make docs"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_all(part: int) -> None:
    names = [name for name in sorted(models()) if name not in listed()][part::PARTS]
    assert failures(names) == {}
