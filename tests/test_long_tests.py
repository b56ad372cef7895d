"""The list of long tests: what it names is marked, and what it names in vain is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.long_tests import LONG_TESTS, SLOW_TESTS, LongTests

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.mark.parametrize("group", range(4))
def test_net(group):
    pass

def test_other():
    pass
"""


@pytest.fixture
def listed(pytester: pytest.Pytester) -> LongTests:
    pytester.makepyfile(test_it=TESTS)
    pytester.makeini("[pytest]\nmarkers = long: takes longer\n")
    globs = "# groups\ntest_it.py::test_net[2]\ntest_it.py::test_n*[3]\n"
    return LongTests(pytester.makefile(".txt", long_tests=globs))


@pytest.mark.parametrize(("selected", "count"), [("long", 2), ("not long", 3), ("long or not long", 5)])
def test_the_list_is_the_mark(pytester: pytest.Pytester, listed: LongTests, selected: str, count: int) -> None:
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-m", selected, plugins=[listed])
    done.assert_outcomes(passed=count, deselected=5 - count)


def test_a_test_that_is_gone_is_named(pytester: pytest.Pytester, listed: LongTests) -> None:
    pytester.makepyfile(test_it=TESTS.replace("range(4)", "range(3)"))
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", plugins=[listed])
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "required globs of tests, found no test of test_it.py::test_n*[3]" in done.stderr.str()
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "test_it.py::test_other", plugins=[listed])
    done.assert_outcomes(passed=1)


def test_other_files_may_be_left_out(listed: LongTests) -> None:
    assert listed.unmatched(["test_else.py::test_a"]) == []
    assert listed.unmatched(["test_it.py::test_net[3]"]) == ["test_it.py::test_net[2]"]


@pytest.mark.parametrize("path", [LONG_TESTS, SLOW_TESTS])
def test_files_of_the_list_exist(path: Path) -> None:
    """`unmatched` looks at files that are there."""
    assert all((path.parents[1] / glob.partition("::")[0]).is_file() for glob in LongTests(path).patterns)
