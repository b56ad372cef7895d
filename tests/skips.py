"""Every skip is accounted for: one that `allowed_skips.txt` does not name fails the session. Outside of CI (`CI` unset)
a test may also be skipped for want of an optional tool (`optional_tools.py`); the summary says how to get it."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.globs import glob_pattern, listed_lines
from tests.optional_tools import is_missing_tool


@dataclass(frozen=True, slots=True)
class AllowedSkip:
    """One line of `allowed_skips.txt`."""

    nodeid: re.Pattern[str]
    reason: re.Pattern[str]

    def matches(self, nodeid: str, reason: str) -> bool:
        """Whether both globs match in full."""
        return bool(self.nodeid.fullmatch(nodeid) and self.reason.fullmatch(reason))


@dataclass(slots=True)
class SkipLedger:
    """The skips of this session by node id; xdist workers report the same collection skip several times."""

    reasons: dict[str, str] = field(default_factory=dict)

    def record(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Note the report if it is a skip; an expected failure is not one."""
        if report.skipped and not hasattr(report, "wasxfail"):
            text = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.reasons[report.nodeid] = " ".join(text.removeprefix("Skipped: ").split())

    def apart_from(self, allowed: list[AllowedSkip]) -> dict[str, str]:
        """What no line of `allowed_skips.txt` names."""
        return {n: r for n, r in self.reasons.items() if not any(a.matches(n, r) for a in allowed)}


def read_allowed_skips(path: Path) -> list[AllowedSkip]:
    """Parse the file; a line without `: ` is an error that names it."""
    allowed: list[AllowedSkip] = []
    for number, line in listed_lines(path):
        nodeid, colon, reason = line.partition(": ")
        if not colon:
            raise pytest.UsageError(f"{path}:{number}: required `nodeid-glob: reason-glob`, found {line!r}")
        allowed.append(AllowedSkip(glob_pattern(nodeid.strip()), glob_pattern(reason.strip())))
    return allowed


class SkipPolicy:
    """Runs where reports come together: in the only process, or in the controller of xdist."""

    def __init__(self, path: Path, environment: Mapping[str, str] = os.environ) -> None:
        self.path = path
        self.ledger = SkipLedger()
        self.allowed = read_allowed_skips(path)
        self.is_ci = bool(environment.get("CI"))

    def unexpected(self) -> dict[str, str]:
        """The skips that fail the session."""
        rest = self.ledger.apart_from(self.allowed)
        return rest if self.is_ci else {n: reason for n, reason in rest.items() if not is_missing_tool(reason)}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ledger.record(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.ledger.record(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and self.unexpected():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        unexpected = self.unexpected()
        missing: dict[str, list[str]] = defaultdict(list)
        for nodeid, reason in self.ledger.reasons.items():
            if nodeid not in unexpected and is_missing_tool(reason):
                missing[reason].append(nodeid)
        if missing:
            terminalreporter.section("not tested: what this machine lacks")
            for reason, nodeids in sorted(missing.items()):
                terminalreporter.line(f"{reason} ({len(nodeids)} test{'s' * (len(nodeids) > 1)})")
        if self.ledger.reasons:
            terminalreporter.section("skipped tests")
            for nodeid, reason in sorted(self.ledger.reasons.items()):
                verdict = "NOT ALLOWED" if nodeid in unexpected else "allowed"
                terminalreporter.line(f"{verdict}: {nodeid}: {reason}", red=nodeid in unexpected)
        if unexpected:
            named = f"that {self.path.name} does not name"
            terminalreporter.line(f"failed: {len(unexpected)} skip(s) {named}", red=True)
