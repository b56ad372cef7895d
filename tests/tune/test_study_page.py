"""The page of a study: whole, small, on its own, and drawn by a browser."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import tcpx
from tcpx.measure.limits import Limits
from tcpx.tune import executor
from tcpx.tune.dispatch import dispatch
from tcpx.tune.final_comparison import FinalComparison
from tcpx.tune.ledger import StudyKey
from tcpx.tune.page.drawing import LogScale
from tcpx.tune.page.effects import effect_svg
from tcpx.tune.page.history import history_svg
from tcpx.tune.roof import Roof
from tcpx.tune.study import Study
from tcpx.tune.tuner import no_workers_left
from tcpx.tune.verdicts import Candidate, Comparison, Verdict
from tests.optional_tools import CHROMIUM
from tests.report.test_page import Page
from tests.tune.test_tuner import PAYLOAD, SCHEDULE


def candidate(number: int, step: int, relative: float | None, against: int = 0) -> Candidate:
    """A candidate that took so much of the time of the first one; without a time, one that a step refused."""
    point = {"s.step": step, "s.</script>": f"v{step % 2}"}
    if relative is None:
        return Candidate(number, point, point, Verdict.TRANSFORM_FAILED, reason="<b>no</b>", c_hash="")
    found = Comparison(relative, relative * 0.98, relative * 1.02, 7, relative * 1e-3)
    return Candidate(
        number,
        point,
        point,
        Verdict.OK,
        c_hash=f"c{number}",
        comparison=found,
        against=against,
        relative=relative,
        source="defaults" if number == 0 else "grid",
    )


def study_of(candidates: list[Candidate]) -> Study:
    limits = Limits(1, {"fma_f32": 1e11, "read_l1": 1e11, "read_memory": 1e10}, {"l1": 32768})
    measured = [c for c in candidates if c.is_measured]
    best = min(measured, key=lambda c: c.relative or 0.0, default=None)
    final = FinalComparison(Comparison(0.5, 0.49, 0.51, 30, 4e-4), Comparison(0.1, 0.09, 0.11, 30, 4.1e-4))
    return Study(
        tcpx.parse(PAYLOAD),
        tcpx.parse_schedule(SCHEDULE),
        "generic",
        1,
        StudyKey(1, "0123456789abcdef", {"cpu": "a <cpu>", "workloads": "N=64"}, 0.0),
        tuple(candidates),
        best,
        candidates[0] if candidates else None,
        final if best is not None else FinalComparison(),
        roof=Roof(1e-4, "fma_f32", 1e7, 1e5, limits),
    )


@pytest.fixture
def study() -> Study:
    held = [candidate(0, 1, 1.0), candidate(1, 2, None)]
    held += [candidate(k, k, 1.0 / k, against=k - 1) for k in range(2, 16)]
    return study_of(held)


def test_a_study_that_nothing_won_is_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(tcpx.ArgumentError, match="there is nothing to record"):
        study_of([]).record(tmp_path / "records.json")
    with pytest.raises(tcpx.ArgumentError, match="a version of a dispatch is the winner for one workload"):
        dispatch([study_of([])])


def test_it_is_one_small_file_that_needs_nothing(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "study.html"
    study.html(path)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert set(page.addresses) == {"data:,"}
    assert page.scripts == []
    assert len(text) < 100_000
    assert "<b>no</b>" not in text
    assert "a <cpu>" not in text
    for part in (
        "transform failed",
        "0123456789abcdef",
        "s.step",
        "the winner",
        "read_memory 10 GB/s",
        "25.0 % of the",
    ):
        assert part in text


def test_a_plot_for_each_knob_with_two_values(study: Study) -> None:
    drawn = effect_svg("s.step", study.candidates)
    assert drawn is not None
    assert drawn.count("<circle") == 15
    assert "on average" in drawn
    assert effect_svg("s.absent", study.candidates) is None


def test_history_goes_down_in_steps(study: Study) -> None:
    drawn = history_svg(study.candidates, study.names)
    assert drawn.count("<circle") == 16
    assert drawn.count("<polygon") == 1
    assert "transform failed" in drawn


def test_a_study_without_a_winner_has_a_page(tmp_path: Path) -> None:
    page = tmp_path / "made" / "with it" / "study.html"
    for candidates in ([], [candidate(0, 1, None)], [candidate(0, 1, 1.0)]):
        study_of(candidates).html(page)
        assert Page(page.read_text(encoding="utf-8")).open == []


@pytest.mark.slow
@CHROMIUM.needed
def test_a_browser_draws_it(study: Study, tmp_path: Path) -> None:
    study.html(tmp_path / "study.html")
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    shot = tmp_path / "study.png"
    subprocess.run(
        [*words, f"--screenshot={shot}", (tmp_path / "study.html").as_uri()],
        check=True,
        capture_output=True,
        timeout=120,
    )
    assert shot.stat().st_size > 20_000


@pytest.mark.parametrize("most", [6, 8])
@pytest.mark.parametrize("values", [(0.97, 1.0), (0.8, 1.02), (0.999, 1.2), (0.4, 4.0), (1.0, 1.0), (0.01, 1.0)])
def test_a_scale_has_marks_that_tell_its_size(values: tuple[float, ...], most: int) -> None:
    marks = LogScale.around(values, 0, 100).marks(most)
    assert 3 <= len(marks) <= most + 1
    assert 1.0 in marks


def test_a_search_without_workers_says_what_was_cut_off(study: Study) -> None:
    error = no_workers_left([replace(study, cut_off="the scheduler is gone")], None)
    assert error.diagnostic.message == "the search was cut off: the scheduler is gone"


def test_an_executor_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "find_spec", lambda _: None)
    with pytest.raises(tcpx.ArgumentError, match="the executor needs a package that is not installed"):
        executor.cpus_of("dask://localhost:1")
