"""The Makefile, .ci and the package say the same of targets and of versions of Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CLASSIFIED = [
    found[1]
    for line in PROJECT["project"]["classifiers"]
    if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
]


def output(*command: str) -> str:
    """What a command in the repository prints, also in a test that `make test ARGS=..` started."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "ARGS")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def write_script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
    path.chmod(0o755)


def python(version: str, answer: str) -> str:
    """A stand-in for an interpreter of this version, by the two questions that .ci/pythons asks."""
    return f'case "$2" in *realpath*) echo {answer} ;; *"!= \'{version}\'"*) exit 0 ;; *) exit 1 ;; esac'


def test_versions_are_declared_once() -> None:
    assert output(".ci/versions").split() == CLASSIFIED
    assert sorted(CLASSIFIED, key=lambda version: int(version.partition(".")[2])) == CLASSIFIED
    oldest = CLASSIFIED[0]
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert PROJECT["tool"]["pyright"]["pythonVersion"] == oldest
    assert f"({oldest} to {CLASSIFIED[-1]} are tested)" in (ROOT / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "Makefile", *(ROOT / ".ci").iterdir()):
        code = [line for line in path.read_text(encoding="utf-8").splitlines() if not re.search(r"^\s*#|##", line)]
        named = re.findall(r"python3\.\d+|\b3, \d+\b", "\n".join(code))
        assert set(named) <= {oldest.replace(".", ", ")}, f"{path} names versions of its own: {named}"


def test_this_python_is_declared() -> None:
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in CLASSIFIED


def test_pythons_of_a_machine(tmp_path: Path) -> None:
    """One on the PATH, one that only says that it is not chosen, one of pyenv's, a new one that is not declared."""
    assert CLASSIFIED[:3] == ["3.11", "3.12", "3.13"]
    shims, pyenv = tmp_path / "bin", tmp_path / "pyenv"
    write_script(shims / "python3", python("3.11", "/system/python3.11"))
    write_script(shims / "python3.12", "exit 127")
    write_script(shims / "python3.13", "exit 127")
    write_script(pyenv / "versions/3.13.7/bin/python3.13", python("3.13", "/pyenv/python3.13"))
    write_script(shims / "python3.15", python("3.15", "/new/python3.15"))
    for tool in ("dirname", "sed"):
        (shims / tool).symlink_to(shutil.which(tool) or tool)
    bash = shutil.which("bash") or "bash"
    environment = {"PATH": str(shims), "HOME": str(tmp_path), "PYENV_ROOT": str(pyenv)}
    done = subprocess.run(
        [bash, str(ROOT / ".ci" / "pythons")], env=environment, capture_output=True, text=True, check=True
    )
    wanted = ["3.11 /system/python3.11", "3.12 -", "3.13 /pyenv/python3.13", *(f"{v} -" for v in CLASSIFIED[3:])]
    assert done.stdout.splitlines() == [*wanted, "3.15 /new/python3.15"]


@pytest.mark.parametrize(
    ("target", "selected"),
    [
        ("test", None),
        ("test-long", "long and not slow"),
        ("test-python", None),
        ("errors", "not slow"),
        ("conformance", "slow"),
    ],
)
def test_what_targets_select(target: str, selected: str | None) -> None:
    command = output("make", "--dry-run", "--assume-old=.venv/.dev", "--assume-old=.venv/.test", target)
    assert re.findall(r"-m '?((?!pytest)[^'\n]*?)'?(?: -| tests| *\n)", command) == ([selected] if selected else [])
    default = PROJECT["tool"]["pytest"]["ini_options"]["addopts"]
    assert default[default.index("-m") + 1] == "not slow and not long"
    # Before a path in the next argument, which pytest takes for tests once that file is there.
    assert ("--errors-page=" in command) == (target in ("test", "test-long", "errors"))


def test_what_ci_runs(tmp_path: Path) -> None:
    """.ci/run, with stand-ins for make and for what it installs, and none of 3.13."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    log = tmp_path / "log"
    record = f'echo "$(basename "$0")" "$@" >>{log}'
    write_script(tmp_path / ".ci" / "fresh", record)
    write_script(tmp_path / ".ci" / "pythons", "printf '3.11 /a/python3.11\\n3.12 /b/python3.12\\n3.13 -\\n'")
    write_script(tmp_path / ".venv/bin/python", "echo 3.11 /a/python3.11")
    for name in ("make", "gcc", "clang", "addr2line", "python3"):
        write_script(tmp_path / "bin" / name, record if name == "make" else "exit 0")
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}
    command = ["bash", str(tmp_path / ".ci" / "run")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert log.read_text().splitlines() == [
        *("make lint", "make types", "make test", "make test-long", "make test-avx2"),
        "fresh /a/python3.11",
        "make VENV=.venv-3.12 PYTHON=/b/python3.12 demo",
        "make VENV=.venv-3.12 PYTHON=/b/python3.12 test-python",
    ]
    assert "== Python 3.13: not on this machine, so not tested" in done.stdout
    assert "all tests ran on Python 3.11" in done.stdout
    write_script(tmp_path / "bin" / "make", '[ "$1" != test-long ]')
    failed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "== passed" not in failed.stdout
