"""`pytest --errors-page PATH`: writes the page of errors, and beside it which messages no test provoked; holds every
diagnostic to the rules, and follows every fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.diagnostics.followed import Followed
from tests.diagnostics.ledger import Ledger, Record, order, read
from tests.diagnostics.lint import problems
from tests.diagnostics.messages import messages, unprovoked
from tests.diagnostics.page import page

ALL_TESTS: Final = ("not slow and not long", "not slow")
"""The marks of `make test` and `make errors`."""


class DiagnosticPolicy:
    """In a worker of xdist: sends what it recorded. Else: gathers, writes and lints."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self.config = config
        self.path = path
        self.ledger = Ledger()
        self.ledger.install()
        self.gathered: list[Record] = []
        self.messages_said: set[str] = set()
        self.followed = Followed()
        self.wrong: list[str] = []
        self.lost: list[str] = []
        self.missing = path.with_suffix(".unprovoked.txt")
        self.said = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        sent = getattr(node, "workeroutput", {}).get("diagnostics")
        if sent is None:
            self.lost.append(f"a worker sent no diagnostics: {error}")
            return
        records, followed, said = json.loads(sent)
        self.gathered += read(records)
        self.messages_said.update(said)
        self.followed += Followed.read(followed)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output: dict[str, object] | None = getattr(self.config, "workeroutput", None)
        if output is not None:
            followed = Followed.of(self.ledger.fixes).plain()
            output["diagnostics"] = json.dumps(
                [self.ledger.plain(problems), followed, sorted(self.ledger.said)]
            )  # xdist carries no lone surrogates
            return
        records = sorted([*self.gathered, *read(self.ledger.plain(problems))], key=order)
        self.path.write_text(page(records), encoding="utf-8", errors="backslashreplace")
        never = unprovoked(records, self.ledger.said | self.messages_said)
        self.missing.write_text("".join(f"{m.place}: {m.text}\n" for m in never), encoding="utf-8")
        self.said = f"{len(never)} of {sum(1 for _ in messages())} messages were provoked by no test: {self.missing}"
        self.wrong = sorted(
            {f"{r.template}  [{r.place}]: {problem}" for r in records for problem in problems(r)}
        )  # fmt: skip
        self.followed += Followed.of(self.ledger.fixes)
        option = self.config.option
        is_chosen = self.config.args_source is pytest.Config.ArgsSource.ARGS or option.keyword
        self.wrong += self.followed.problems(is_whole=not is_chosen and option.markexpr in ALL_TESTS)
        self.wrong += self.lost
        if session.exitstatus == pytest.ExitCode.OK and self.wrong:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("diagnostics")
        for line in self.wrong:
            terminalreporter.line(line, red=True)
        for line in self.followed.listed:
            terminalreporter.line(line)
        terminalreporter.line(self.said)
        terminalreporter.line(f"{len(self.wrong)} violations; {self.path} written; {self.followed.summary}")
