"""Bars against rows, the peers' table, and what is refused."""

from __future__ import annotations

import pytest

import tcpx
from benchmarks.bars import bar_of, group_bar_of, judge, judge_groups
from benchmarks.registry import launches, peers
from tcpx.measure.rows import Row

ROWS = [
    Row("a/1", 1, "tcpx", median_s=2.0, fraction=0.9),
    Row("a/1", 1, "tcpx-again", median_s=1.0),
    Row("a/1", 1, "tcpx-clang", median_s=1.9),
    Row("a/1", 1, "numpy", median_s=3.0),
    Row("a/1", 1, "torch", median_s=1.9),
    Row("a/1", 2, "tcpx", median_s=1.0, fraction=0.8),
    Row("a/2", 1, "tcpx", median_s=4.0, fraction=0.4),
    Row("a/2", 1, "numpy", median_s=16.0),
    Row("b", 1, "tcpx", status="unsupported", reason="not yet"),
    Row("c", 1, "tcpx", status="wrong", reason="off by 7"),
    Row("d", 1, "tcpx", status="unsteady", reason="a busy machine"),
]


@pytest.mark.parametrize(
    ("workload", "bar", "found", "missed"),
    [
        ("a/1", {"fraction": 0.9, "threads": 1}, 0.9, False),
        ("a/1", {"fraction": 0.81, "threads": 2}, 0.8, True),
        ("a/1", {"seconds": 1.9, "threads": 1}, 2.0, True),
        ("a/1", {"best_peer": 0.95, "threads": 1}, 0.95, False),
        ("a/1", {"best_peer": 0.96, "threads": 1}, 0.95, True),
        ("a/1", {"best_peer": 0.5, "threads": 2}, None, False),
        ("a/1", {"peer": "numpy", "at_least": 1.5, "threads": 1}, 1.5, False),
        ("a/1", {"peer": "jax", "at_least": 1.5, "threads": 1}, None, False),
        ("a/1", {"workload": "a/2", "at_least": 2, "threads": 1}, 2.0, False),
        ("a/1", {"peer": "tcpx-clang", "apart": 0.06, "threads": 1}, 2 / 1.9 - 1, False),
        ("a/1", {"peer": "tcpx-clang", "apart": 0.05, "threads": 1}, 2 / 1.9 - 1, True),
        ("b", {"fraction": 0.5}, None, True),
        ("d", {"fraction": 0.5}, None, False),
        ("c", {"fraction": 0.5}, None, True),
    ],
)
def test_bars(workload: str, bar: dict[str, object], found: float | None, missed: bool) -> None:
    (verdict,) = judge({workload: [bar_of(bar, {})]}, ROWS)
    assert verdict.found == (None if found is None else pytest.approx(found))
    assert verdict.is_missed == missed
    shown = "MISSED" if missed else "not judged" if found is None else "ok"
    assert verdict.text().lstrip().startswith(shown)


@pytest.mark.parametrize(("again", "missed"), [(2.02, False), (1.98, False), (2.005, True), (2.04, True)])
def test_as_fast_as_the_fastest_peer_is_less_the_spread_of_the_run(again: float, missed: bool) -> None:
    rows = [
        Row("a", 1, "tcpx", median_s=2.0),
        Row("a", 1, "tcpx-again", median_s=again),
        Row("a", 1, "numpy", median_s=1.985),
    ]
    (verdict,) = judge({"a": [bar_of({"best_peer": 1.0}, {})]}, rows)
    assert verdict.is_missed == missed
    (stricter,) = judge({"a": [bar_of({"best_peer": 0.999}, {})]}, rows)
    assert stricter.is_missed


def test_geometric_means() -> None:
    first, second = (
        group_bar_of({"workloads": "a/*", "threads": 1, **bar}) for bar in ({"fraction": 0.6}, {"best_peer": 2.0})
    )
    verdicts = judge_groups([first, second], ROWS)
    assert [verdict.found for verdict in verdicts] == [pytest.approx(0.6), pytest.approx((0.95 * 4) ** 0.5)]
    assert [verdict.is_missed for verdict in verdicts] == [False, True]
    (absent,) = judge_groups([group_bar_of({"workloads": "b", "fraction": 0.6})], ROWS)
    assert absent.found is None


@pytest.mark.parametrize("given", [{}, {"fraction": 1, "seconds": 2}, {"peer": "numpy"}, {"at_least": 1}])
def test_what_is_no_bar(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="required a bar"):
        bar_of(given, {})
    with pytest.raises(ValueError, match="required `workloads`"):
        group_bar_of(given)


def test_launches() -> None:
    assert [launch.name for launch in launches(["numpy", "tcpx", "numpy"])] == ["tcpx", "numpy"]
    again, clang = launches(["tcpx-again", "tcpx-clang"])[1:]
    assert (again.name, clang.name) == ("tcpx-again", "tcpx-clang")
    assert clang.environment == {"CC": "clang"}
    with pytest.raises(tcpx.ArgumentError, match="there is no peer nope"):
        launches(["nope"])


def test_every_peer_has_its_file() -> None:
    assert len(peers()) >= 10
    for spec in peers().values():
        assert spec.module.startswith("benchmarks.peers.")
        assert (spec.environment is None) == (not spec.requirements)
