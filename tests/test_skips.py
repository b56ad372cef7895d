"""Skips: what fails a session, in CI and elsewhere, and what the summary says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import optional_tools
from tests.optional_tools import CLANG, TOOLS, is_missing_tool
from tests.skips import SkipPolicy

pytest_plugins = ["pytester"]

TESTS = Path(__file__).resolve().parent
CI = {"CI": "true"}

SKIPPING_TESTS = """
import pytest

@pytest.mark.parametrize("k", [1])
def test_skips(k):
    pytest.skip("no GPU here")

@pytest.mark.xfail(reason="known")
def test_expected_failure():
    assert False

def test_passes():
    pass
"""
ASKING_TESTS = """
import pytest
from tests.optional_tools import CHROMIUM, CLANG, require_cpu

@pytest.mark.parametrize("k", [1, 2])
@CLANG.needed
def test_compiles(k):
    pass

@CHROMIUM.needed
def test_draws():
    pass

def test_computes():
    require_cpu(["no_such_extension"], "target quantum")
"""
LACKED = [
    "clang is not installed; to get it: apt-get install clang libc6-dev (Debian) (2 tests)",
    "chromium is not installed; to get it: apt-get install chromium (Debian) (1 test)",
    "this CPU has no no_such_extension for target quantum; to get it: another machine (1 test)",
]


def run(pytester: pytest.Pytester, test: str, allowed: str, environment: dict[str, str]) -> tuple[int, str]:
    """The exit status and the output of a session with `test` under the policy."""
    listed = pytester.makefile(".txt", allowed_skips=f"# comment\n{allowed}\n")
    pytester.makepyfile(test_it=test)
    plugins = [SkipPolicy(listed, environment), optional_tools]
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", plugins=plugins)
    return done.ret, done.stdout.str()


def run_alone(folder: Path, test: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A session in two workers, under this project's conftest."""
    (folder / "conftest.py").write_text((TESTS / "conftest.py").read_text(encoding="utf-8"))
    (folder / "allowed_skips.txt").write_text("# none\n")
    (folder / "test_it.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "."]
    known = {name: value for name, value in os.environ.items() if name != "CI"}
    known |= {"PYTHONPATH": str(TESTS.parent), **environment}  # the conftest imports from `tests`
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=known)


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A PATH on which there is no program; PATH is set to it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return str(folder)


@pytest.mark.parametrize(
    ("allowed", "status"),
    [
        ("test_it.py::test_skips*: no * here", 0),
        ("test_it.py::test_skips[*]: no GPU here", 0),
        ("", 1),
        ("test_it.py::test_skips*: another reason", 1),
    ],
)
@pytest.mark.parametrize("environment", [{}, CI], ids=["elsewhere", "CI"])
def test_a_skip_must_be_allowed(
    pytester: pytest.Pytester, allowed: str, status: int, environment: dict[str, str]
) -> None:
    found, printed = run(pytester, SKIPPING_TESTS, allowed, environment)
    assert found == status
    verdict = "allowed" if status == 0 else "NOT ALLOWED"
    assert f"{verdict}: test_it.py::test_skips[1]: no GPU here" in printed
    assert "test_expected_failure: " not in printed


def test_a_skipped_module_must_be_allowed(tmp_path: Path) -> None:
    """Both workers report it."""
    done = run_alone(tmp_path, "import pytest\npytest.importorskip('no_such_module')\n", {})
    assert done.returncode != 0, done.stdout + done.stderr
    assert done.stdout.count("NOT ALLOWED: test_it.py: could not import 'no_such_module'") == 1


def test_a_malformed_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "allowed_skips.txt").write_text("# comment\ntest_it.py no colon\n")
    with pytest.raises(pytest.UsageError, match=r"allowed_skips.txt:2: required `nodeid-glob: reason-glob`"):
        SkipPolicy(tmp_path / "allowed_skips.txt")


@pytest.mark.usefixtures("bare_path")
@pytest.mark.parametrize("environment", [{}, {"CI": ""}, CI], ids=["elsewhere", "empty", "CI"])
def test_an_optional_tool_may_be_missing_outside_of_ci(pytester: pytest.Pytester, environment: dict[str, str]) -> None:
    status, printed = run(pytester, ASKING_TESTS, "", environment)
    is_ci = environment == CI
    assert status == int(is_ci)
    assert [line in printed.splitlines() for line in LACKED] == [not is_ci] * 3
    assert printed.count("NOT ALLOWED") == (4 if is_ci else 0)
    assert ("failed: 4 skip(s)" in printed) == is_ci


@pytest.mark.parametrize("environment", [{}, CI], ids=["elsewhere", "CI"])
def test_the_conftest_keeps_the_policy(tmp_path: Path, bare_path: str, environment: dict[str, str]) -> None:
    done = run_alone(tmp_path, ASKING_TESTS, {"PATH": bare_path, **environment})
    assert done.returncode == bool(environment), done.stdout + done.stderr
    assert [line in done.stdout.splitlines() for line in LACKED] == [not environment] * 3


@pytest.mark.usefixtures("bare_path")
def test_a_failure_is_not_hidden_by_a_missing_tool(pytester: pytest.Pytester) -> None:
    status, printed = run(pytester, f"{ASKING_TESTS}\ndef test_fails():\n    assert False\n", "", {})
    assert status == 1
    assert LACKED[0] in printed


def test_every_tool_says_how_to_get_it() -> None:
    assert len({tool.reason for tool in TOOLS}) == len(TOOLS)
    assert all(re.search(r"(apt-get|pip) install \w", tool.how_to_get_it) for tool in TOOLS)
    assert is_missing_tool(CLANG.reason)
    assert not is_missing_tool("clang is not installed")


SKIP = re.compile(r"pytest\.(?:mark\.)?(?:skip|skipif|importorskip)\(")
DECLARE_THEM = {"optional_tools.py", "test_skips.py"}


def test_skips_are_declared_in_one_place() -> None:
    """A skip elsewhere would not say how to get what is missing."""
    files = [path for path in TESTS.rglob("*.py") if path.name not in DECLARE_THEM]
    assert len(files) > 150
    assert [str(path) for path in files if SKIP.search(path.read_text(encoding="utf-8"))] == []
