"""Random payloads through bufferize and plan_memory: the oracle is the evaluator before and after."""

from __future__ import annotations

import pytest

from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.ir import Module
from tests.transform.bufferized import check_bufferized, sizes_of
from tests.transform.payloads import arguments
from tests.transform.random_programs import RandomProgram

SIZES = (0, 1, 2, 5)


def races(module: Module, seed: int) -> bool:
    """Whether the program itself has a race in a parallel loop: then it has no meaning."""
    try:
        for sizes in sizes_of(module, SIZES):
            evaluate_func(module, module.main, arguments(module, sizes, seed))
    except VerifyError as error:
        if "a race in a parallel loop" in str(error):
            return True
        raise
    return False


def check(seed: int) -> None:
    """Check one program, if it has a meaning."""
    module = RandomProgram(seed).make()
    if not races(module, seed):
        check_bufferized(module, extents=SIZES, seed=seed)


@pytest.mark.parametrize("seed", range(30))
def test_random_program(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 5000, 100))
def test_many_random_programs(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)
