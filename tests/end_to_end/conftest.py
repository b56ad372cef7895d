"""The kernels of whole-path tests: all of a target in one C file, compiled once."""

from __future__ import annotations

import pytest

import tcpx
from tcpx import Kernel
from tcpx.target import Target, load_target
from tests.end_to_end.payloads import PACKED, PRODUCTS, TARGETS, load_digits
from tests.optional_tools import require_cpu_of


@pytest.fixture(scope="session", params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    """The shipped targets that this CPU runs, one for each instruction set."""
    found = load_target(request.param)
    require_cpu_of(found)
    return found


@pytest.fixture(scope="session")
def kernels(target: Target) -> dict[str, Kernel]:
    """The products by name, and `digits`, for the target."""
    packed = tcpx.parse_schedule(PACKED)
    requests = [tcpx.CompileRequest(tcpx.parse(text), packed) for text in PRODUCTS.values()]
    digits, schedule = load_digits()
    made = tcpx.compile_many([*requests, tcpx.CompileRequest(digits, schedule)], target=target)
    return dict(zip((*PRODUCTS, "digits"), made, strict=True))
