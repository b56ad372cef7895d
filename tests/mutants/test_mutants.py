"""The faults of `make mutants` can still be planted, and their tests are there."""

from __future__ import annotations

import ast

import pytest
import yaml

from tests.mutants.catalogue import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_can_be_planted(mutant: Mutant) -> None:
    text = mutant.mutated(ROOT)
    if mutant.file.endswith(".py"):
        ast.parse(text)
    else:
        yaml.safe_load(text)
    for test in mutant.tests:
        assert (ROOT / "tests" / test.partition("::")[0]).is_file()


def test_there_are_enough() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 24


def test_a_fault_that_does_not_apply_is_an_error() -> None:
    with pytest.raises(ValueError, match="has 0 times 'no such text'"):
        Mutant("stale", MUTANTS[0].file, "no such text", "", ()).mutated(ROOT)
