"""Random convolutions and poolings without a schedule, beside NumPy tap by tap."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tests.window_cases import drawn

PER_CHUNK = 8


def check(seeds: Iterable[int], threads: int) -> None:
    """Elements are small whole numbers, so that sums are exact in any order."""
    cases = [drawn(seed) for seed in seeds]
    arguments = [case.arguments() for case in cases]
    modules = [
        tcpx.parse(case.text, constants=Constants({"w": arrays[1]} if case.is_stored else {}))
        for case, arrays in zip(cases, arguments, strict=True)
    ]
    requests = [tcpx.CompileRequest(module, name=f"f{number}") for number, module in enumerate(modules)]
    kernels = tcpx.compile_many(requests, target="x86_avx2", threads=threads)
    for case, kernel, arrays in zip(cases, kernels, arguments, strict=True):
        given = [arrays[0], *arrays[2:]] if case.is_stored else arrays
        np.testing.assert_array_equal(kernel(*given), case.expected(arrays), err_msg=f"{case.seed}: {case.text}")


@pytest.mark.parametrize("chunk", range(4))
def test_numbers(chunk: int) -> None:
    check(range(1000 + PER_CHUNK * chunk, 1000 + PER_CHUNK * (chunk + 1)), 1 + chunk % 2)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_two_thousand() -> None:
    for first in range(2000, 4000, PER_CHUNK):
        check(range(first, first + PER_CHUNK), 1 + first // PER_CHUNK % 2)
