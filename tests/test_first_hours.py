"""docs/first-hours.md: every program and every command, in order."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from tests.page_commands import run_commands

PAGE = Path(__file__).parents[1] / "docs" / "first-hours.md"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_every_step(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    commands: list[list[str]] = []
    for language, name, text in blocks:
        if language == "sh":
            commands += [shlex.split(line) for line in text.splitlines()]
            continue
        file = name or "layer.tcp"
        (tmp_path / file).write_text(text, encoding="utf-8")
        if language == "python":
            commands.append([sys.executable, file])
    run_commands(commands, tmp_path)
    assert [words[1] for words in commands] == "three_lines.py run profile check explain bisect run tune emit".split()
    assert {"layer.c", "layer.h", "main.c", "CMakeLists.txt"} <= {
        file.name for file in (tmp_path / "library").iterdir()
    }
