"""The options and policies of a test run: skips, guarded calls, diagnostics."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tcpx import request_cache
from tests import guarded_calls, named_targets, optional_tools
from tests.diagnostics.plugin import DiagnosticPolicy
from tests.fast_builds import FastBuilds
from tests.long_tests import LONG_TESTS, SLOW_TESTS, LongTests, NarrowerVectors
from tests.skips import SkipPolicy

# `native` has the numbers of its table: what tests find is the same on every machine of a kind, calibrated or not.
os.environ["TCPX_MACHINE"] = "table"
# A machine that does other work is slow, which says nothing of the tests.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden`: write the golden files instead of comparing with them. `--optimize`:
    see fast_builds.py. `--errors-page`: see diagnostics/."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files from what is computed")
    parser.addoption("--optimize", action="store_true", help="let the C compiler optimize kernels as it does for users")
    parser.addoption("--errors-page", type=Path, help="write the page of all errors that the tests provoke, and lint")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def known_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies do not measure the machine, which takes seconds, and on a busy one half a minute each time: a winner runs
    in a quiet moment and is faster than the limits, so that they are measured again. They look for its full speed for a
    tenth of a second, not for a whole one."""
    from tcpx.measure.calibration import WARM_UP, Calibration
    from tcpx.measure.instruction_loops import READ, instruction_loops
    from tcpx.measure.limits import Limits, Machine

    def known(machine: Machine, beaten: Limits | None = None) -> Limits:
        """Rates above those of any machine."""
        loops, caches = instruction_loops(machine.target), machine.caches()
        names = [loop.name for loop in loops if loop.kind != READ] + [f"read_{level}" for level in (*caches, "memory")]
        return Limits(len(machine.threads.cpus), dict.fromkeys(names, 1e13), caches)

    monkeypatch.setattr("tcpx.tune.evaluation.kept_limits", known)
    monkeypatch.setattr("tcpx.tune.evaluation.raised_limits", known)
    warm_up = Calibration.warm_up
    monkeypatch.setattr(Calibration, "warm_up", lambda self, probes=WARM_UP: warm_up(self, max(1, probes // 10)))


GARBAGE = 100_000, 20, 50
"""Payloads and syntax trees are many small objects that live for a test: with Python's own thresholds, looking for
garbage among them takes a sixth of the time."""


def pytest_configure(config: pytest.Config) -> None:
    """Install the policies; that of skips not in a worker of xdist. Commands that tests start can be interrupted, also
    where this process cannot, as a shell's job in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(*GARBAGE)
    if not config.getoption("--optimize"):
        config.pluginmanager.register(FastBuilds(), "fast-builds")
    request_cache.IS_USED = False  # see tests/kernel_cache.py
    config.pluginmanager.register(guarded_calls, "guarded-calls")
    config.pluginmanager.register(optional_tools, "optional-tools")
    config.pluginmanager.register(NarrowerVectors(), "narrower-vectors")
    config.pluginmanager.register(named_targets, "named-targets")
    config.pluginmanager.register(LongTests(LONG_TESTS), "long-tests")
    config.pluginmanager.register(LongTests(SLOW_TESTS, "slow"), "slow-tests")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipPolicy(Path(__file__).with_name("allowed_skips.txt")), "skip-policy")
    errors_page: Path | None = config.getoption("--errors-page")
    if errors_page is not None:
        config.pluginmanager.register(DiagnosticPolicy(config, errors_page), "diagnostic-policy")
