"""What is said of this tree beside another revision: faster, slower where fresh processes agree, lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks import beside as beside_module
from benchmarks.beside import Beside, Compared, compared, ratio_of
from benchmarks.revisions import Revision, Tree
from tcpx.measure.rows import Row

REVISION = Revision("0123456789abcdef", "2026-11-28", "main")
SAME = (1.0, 1.01, 0.99, 1.0, 1.0)


def row(peer: str, rounds: Sequence[float | None], workload: str = "gemm/8") -> Row:
    times = [seconds for seconds in rounds if seconds is not None]
    if not times:
        return Row(workload, 1, peer, status="failed", reason="ValueError: no")
    return Row(workload, 1, peer, median_s=min(times), low_s=min(times), high_s=max(times), rounds=tuple(rounds))


def judged(rounds: Sequence[float | None], again: Sequence[float | None] = SAME) -> tuple[Compared, list[list[str]]]:
    """The time of this tree in some rounds, and again in fresh processes, where the revision takes a second."""
    asked: list[list[str]] = []

    def repeat(names: Sequence[str]) -> list[Row]:
        asked.append(list(names))
        return [row("tcpx", again), row(REVISION.peer, SAME)]

    return compared([row("tcpx", rounds), row("numpy", SAME), row(REVISION.peer, SAME)], REVISION.peer, repeat), asked


@pytest.mark.parametrize(
    ("rounds", "again", "verdict", "is_asked"),
    [
        (SAME, SAME, "", False),
        ((0.8, 0.81, 0.79, 0.8, 0.8), SAME, "faster", False),
        ((1.01, 1.02, 1.0, 1.01, 1.01), SAME, "", False),
        ((1.2, 1.21, 1.19, 1.2, 1.2), SAME, "", True),
        ((1.2, 1.21, 1.19, 1.2, 1.2), (1.2, 1.21, 1.19, 1.2, 1.2), "slower", True),
        ((1.2, 3.0, 0.5, 1.2, 1.2), SAME, "", False),
        ((None,) * 5, SAME, "lost", False),
    ],
)
def test_verdicts(rounds: Sequence[float | None], again: Sequence[float], verdict: str, is_asked: bool) -> None:
    found, asked = judged(rounds, again)
    assert found.verdict == verdict
    assert asked == ([["tcpx", REVISION.peer]] if is_asked else [])


def test_rounds_that_one_has_not_do_not_count() -> None:
    found = ratio_of(row("a", (None, 2.0, 2.0, 9.0)), row("b", (1.0, 1.0, 1.0, None)))
    assert found is not None
    assert found.ratio == pytest.approx(2)
    assert ratio_of(row("a", ()), row("b", (1.0,))) is None


def test_the_report_names_what_is_slower(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside_module, "keep", lambda runs: [f"{len(runs)} runs"])
    slow = (1.2, 1.2, 1.2, 1.2, 1.2)
    found = [judged(SAME)[0], judged(slow, slow)[0], judged((None,) * 5)[0]]
    beside = Beside(Tree("fedcba9876", 2), REVISION, [], True, found)
    assert beside.finish([])
    told = capsys.readouterr().out
    assert "this tree (fedcba98, 2 files changed since) beside main (01234567, 2026-11-28)" in told
    assert "geometric mean of 2 workloads: 1.095; 0 faster, 1 slower, 1 not told apart" in told
    assert "slower: gemm/8 on 1 thread, 1.200 (1.190..1.211), in fresh processes 1.200 (1.190..1.211)" in told
    assert "lost: gemm/8 on 1 thread, failed: ValueError: no" in told
    assert "kept in 0 runs" in told
    assert not Beside(Tree("", 0), REVISION, [], False, found[:1]).finish([])
