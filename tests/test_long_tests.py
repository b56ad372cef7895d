"""The list of long tests: what it names is marked, and what it names in vain is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpx
from tests.long_tests import LONG_TESTS, SLOW_TESTS, LongTests, NarrowerVectors

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


@pytest.mark.parametrize(("has_wider", "count"), [(True, 1), (False, 2)])
def test_narrower_vectors_are_left_where_there_are_wider(
    pytester: pytest.Pytester, has_wider: bool, count: int
) -> None:
    text = 'import pytest\n@pytest.mark.parametrize("t", ["x86_avx2", "x86_avx512"])\ndef test_net(t):\n    pass\n'
    pytester.makepyfile(test_it=text)
    pytester.makeini("[pytest]\nmarkers =\n    long: takes longer\n    slow: takes longest\n")
    narrower, long = NarrowerVectors(), LongTests(pytester.makefile(".txt", long_tests="test_it.py::test_net[*]\n"))
    narrower.has_wider = has_wider
    chosen = "-p", "no:cacheprovider", "-m", "long and not slow"
    done = pytester.runpytest_inprocess(*chosen, plugins=[narrower, long])
    done.assert_outcomes(passed=count, deselected=2 - count)


def test_other_files_may_be_left_out(listed: LongTests) -> None:
    assert listed.unmatched(["test_else.py::test_a"]) == []
    assert listed.unmatched(["test_it.py::test_net[3]"]) == ["test_it.py::test_net[2]"]


def test_what_stays_has_every_operation_and_transform() -> None:
    """`make test` computes each operation of a payload on random numbers, in most columns of the table, and runs
    the example of each transform. Which messages it provokes is written beside its page of errors."""
    patterns = [pattern for path in (LONG_TESTS, SLOW_TESTS) for pattern in LongTests(path).patterns.values()]
    rows = [f"tests/nets/test_op_table.py::test_row[{opcode}]" for opcode in tcpx.ops()]
    examples = [f"tests/transform/test_reference.py::test_example[{name}]" for name in tcpx.transforms()]
    assert not [test for test in (*rows, *examples) if any(pattern.fullmatch(test) for pattern in patterns)]


@pytest.mark.parametrize("path", [LONG_TESTS, SLOW_TESTS])
def test_files_of_the_list_exist(path: Path) -> None:
    """`unmatched` looks at files that are there."""
    assert all((path.parents[1] / glob.partition("::")[0]).is_file() for glob in LongTests(path).patterns)
