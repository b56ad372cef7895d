"""A program without errors is checked once; one whose files or imports are others is checked again."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpx
from tcpx.transform.language.checker import program as checking

MAIN = 'language 1\nimport "lib.tcps" as l\nschedule s(root: func) { l.rows(root) }\n'
LIB = "language 1\nsequence rows(root: func) { let unread = 3\n  print(root) }\n"


def test_what_changed_is_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main, lib = tmp_path / "main.tcps", tmp_path / "lib.tcps"
    checked: list[object] = []
    problems_of = checking._problems_of

    def noted(program: tcpx.Schedule) -> tuple[tcpx.Diagnostic, ...]:
        checked.append(program)
        return problems_of(program)

    monkeypatch.setattr(checking, "_problems_of", noted)
    main.write_text(MAIN, encoding="utf-8")

    def found(text: str) -> list[str]:
        lib.write_text(text, encoding="utf-8")
        return [problem.message for problem in tcpx.check(tcpx.load_schedule(main))]

    remark = found(LIB)
    assert len(remark) == 1
    assert found(LIB) == remark
    assert len(checked) == 1
    assert found(LIB.replace("rows", "columns")) != remark
    assert found(LIB.replace("rows", "columns")) != remark
    assert len(checked) == 3, "errors are found again"
    assert found(LIB.replace("let unread = 3\n", "")) == []
    assert found(LIB) == remark
    assert len(checked) == 4
