"""Every skip is accounted for: one that `allowed_skips.txt` does not name fails the session."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import guarded_calls
from tests.diagnostics.plugin import DiagnosticPolicy

# A machine that does other work is slow, which says nothing of the tests.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

ALLOWED_SKIPS = Path(__file__).parent / "allowed_skips.txt"


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

    def unexpected(self, allowed: list[AllowedSkip]) -> list[str]:
        """Node ids that no line of `allowed_skips.txt` names."""
        return [n for n, reason in self.reasons.items() if not any(a.matches(n, reason) for a in allowed)]


LEDGER = pytest.StashKey[SkipLedger]()


def glob_pattern(glob: str) -> re.Pattern[str]:
    """`*` and `?` are wildcards; brackets are literal, for node ids are full of them."""
    return re.compile(re.escape(glob).replace(r"\*", ".*").replace(r"\?", "."))


def read_allowed_skips(path: Path) -> list[AllowedSkip]:
    """Parse the file; a line without `: ` is an error that names it."""
    allowed: list[AllowedSkip] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        nodeid, colon, reason = line.partition(": ")
        if not colon:
            raise pytest.UsageError(f"{path}:{number}: required `nodeid-glob: reason-glob`, found {line!r}")
        allowed.append(AllowedSkip(glob_pattern(nodeid.strip()), glob_pattern(reason.strip())))
    return allowed


class SkipPolicy:
    """Runs where reports come together: in the only process, or in the controller of xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self.ledger = config.stash.setdefault(LEDGER, SkipLedger())
        self.allowed = read_allowed_skips(ALLOWED_SKIPS)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ledger.record(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.ledger.record(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and self.ledger.unexpected(self.allowed):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        unexpected = set(self.ledger.unexpected(self.allowed))
        if not self.ledger.reasons:
            return
        terminalreporter.section("skipped tests")
        for nodeid, reason in sorted(self.ledger.reasons.items()):
            verdict = "NOT ALLOWED" if nodeid in unexpected else "allowed"
            terminalreporter.line(f"{verdict}: {nodeid}: {reason}", red=nodeid in unexpected)
        if unexpected:
            terminalreporter.line(
                f"failed: {len(unexpected)} skip(s) that {ALLOWED_SKIPS.name} does not name", red=True
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden`: write the golden files instead of comparing with them. `--errors-page`: see diagnostics/."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files from what is computed")
    parser.addoption("--errors-page", type=Path, help="write the page of all errors that the tests provoke, and lint")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written."""
    return bool(request.config.getoption("--update-golden"))


def pytest_configure(config: pytest.Config) -> None:
    """Install the policies; that of skips not in a worker of xdist. Commands that tests start can be interrupted, also
    where this process cannot, as a shell's job in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(guarded_calls, "guarded-calls")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipPolicy(config), "skip-policy")
    errors_page: Path | None = config.getoption("--errors-page")
    if errors_page is not None:
        config.pluginmanager.register(DiagnosticPolicy(config, errors_page), "diagnostic-policy")
