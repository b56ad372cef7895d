"""Which models are measured beside other runtimes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tcpx
from benchmarks import models


def test_pytorch_writes_each_of_them() -> None:
    """Its file is read, not imported: it needs PyTorch."""
    tree = ast.parse(Path(models.__file__).with_name("torch_models.py").read_text(encoding="utf-8"))
    tables = [
        node.value for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "MODELS"
    ]
    assert [
        [ast.literal_eval(key) for key in table.keys if key] for table in tables if isinstance(table, ast.Dict)
    ] == [[*models.SIZES]]


def test_names_and_sizes() -> None:
    assert models.wanted([]) == {name: [*sizes] for name, sizes in models.SIZES.items()}
    assert models.wanted(["minilm/7", "block", "minilm/9"]) == {"minilm": [7, 9], "block": [128]}


@pytest.mark.parametrize("word", ["mini", "minilm/x"])
def test_unknown_names(word: str) -> None:
    with pytest.raises(tcpx.ArgumentError, match=rf"(?s)there is no such model.*found: {word}"):
        models.wanted([word])
