"""Random payloads through bufferize and plan_memory, and on to C: the oracle is the evaluator."""

from __future__ import annotations

import pytest

from tcpx.emit_c.kernel import build_kernel
from tcpx.lowering import lower
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.ir import Module
from tcpx.payload.rewriter import Rewriter
from tcpx.target import load_target
from tests.transform.bufferized import check_bufferized, sizes_of
from tests.transform.payloads import arguments, same_numbers
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


def check_kernel(seed: int) -> None:
    """Compile one program, with the cleanup before bufferization, and call it."""
    module = RandomProgram(seed).make()
    if races(module, seed):
        return
    cases = [arguments(module, sizes, seed) for sizes in sizes_of(module, (*SIZES, 17))]
    wanted = [evaluate_func(module, module.main, given) for given in cases]
    target = load_target("generic")
    lower(Rewriter(module), module.main, target, 2)
    kernel = build_kernel(module, target, threads=2)
    for given, results in zip(cases, wanted, strict=True):
        found = kernel(*given)
        assert same_numbers(found if isinstance(found, tuple) else (found,), results), seed


@pytest.mark.parametrize("seed", [7000, 7021])
def test_kernel_of_random_program(seed: int) -> None:
    check_kernel(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(7100, 7300, 20))
def test_kernels_of_random_programs(first: int) -> None:
    for seed in range(first, first + 20):
        check_kernel(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 5000, 100))
def test_many_random_programs(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)
