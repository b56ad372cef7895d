"""The numbers of a machine: what is measured is turned into lines of a table, which a table takes."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.measure import machine_numbers, recipe_lines
from tcpx.measure.fork_and_join import fork_and_join_seconds
from tcpx.measure.machine_numbers import l3_rate, memory_rates, parallel_threshold, steps_of
from tcpx.measure.recipe_lines import KINDS, Level, Lines, kernels, levels_of, line, shapes_of
from tcpx.measure.timer import settled_seconds
from tcpx.target.recipe_costs import levels_at

TARGET = tcpx.load_target("generic")


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([12.0, 14.0, 18.0], (10.0, 2.0)),
        ([2.0, 4.0, 8.0], (0.0, 2.0)),
        ([5.0, 5.0, 5.0], (5.0, 0.0)),
        ([9.0, 8.0, 6.0], (6.0, 0.0)),  # less for more rows: noise
        ([1.0, 3.0, 7.0], (0.0, 1.264)),  # less than nothing at the start
    ],
)
def test_a_line_through_times(times: list[float], found: tuple[float, float]) -> None:
    assert line((1, 2, 4), times) == pytest.approx(found, abs=1e-3)


def test_sizes_are_inside_their_levels() -> None:
    limits = [1 << 14, 1 << 20, 1 << 24, None]
    sizes = [level.size for level in levels_at(limits)]
    assert sizes == [1 << 13, 1 << 17, 1 << 22, 1 << 25]
    assert [level.size for level in levels_at([None])] == [1 << 22]
    for size in sizes:
        for n, k in shapes_of(size):
            assert n % 32 == k % 16 == 0
            assert size / 2 < n * k * 4 <= size
            assert n & (n - 1) == 0
    assert [list(shapes_of(size)) for size in (1 << 20, 1 << 22)] == [[(512, 512)], [(1024, 1024), (4096, 256)]]


def test_rates_are_whole_numbers_that_do_not_waver() -> None:
    assert l3_rate(TARGET, 16e9, 5.4e9 * 2 * TARGET.lanes("f32")) == 3
    assert l3_rate(TARGET, 1e6, 1e12) == 1
    assert parallel_threshold(0.6e-6, 131e9) == parallel_threshold(0.7e-6, 120e9) == 1 << 19
    assert parallel_threshold(0.0, 1e9) == 1 << 14
    one = {"fma_f32": 5.4e9 * 2 * TARGET.lanes("f32"), "read_memory": 12e9}
    assert memory_rates(TARGET, one, {"read_memory": 15e9}) == [142, 178]
    assert memory_rates(TARGET, one, {"read_memory": 11e9}) == [142, 142]


def test_each_kind_is_a_product_that_its_recipes_compute() -> None:
    for kind in KINDS.values():
        tcpx.parse(kind.text(3, 32, 16))
    calls = kernels(KINDS["depths"], (2, 32, 16), TARGET)
    assert set(calls) <= set(KINDS["depths"].recipes)
    assert calls
    for call in calls.values():
        call()


def test_what_a_recipe_cannot_compute_has_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_lines, "settled_seconds", lambda runs, *_: (dict.fromkeys(runs, 1e-6), False))
    level = Level("batch_columns", 1 << 11, 1 << 11, {"columns": (0.0, 10.0)})
    found = level.lines(TARGET, recipe_lines.Plan(rows=(2,)))
    assert found.by_recipe.keys() <= set(KINDS["batch_columns"].recipes)
    assert not found.is_settled
    entry = "- {bytes: 2048, large: [1.2, 10.0]}"
    assert level.entry(Lines({"large": (1.25, 10.0)}, True)) == entry
    assert level.entry_or_known(Lines({"large": (1.25, 10.0)}, True)) == entry
    assert level.entry(Lines({"large": (1.25, 10.0)}, False)) == f"{entry}   # unsettled: other programs ran"
    kept = "- {bytes: 2048, columns: [0.0, 10.0]}   # the table's: times did not settle"
    assert level.entry_or_known(Lines({"large": (1.25, 10.0)}, False)) == kept


@pytest.mark.parametrize(("settled", "is_settled"), [((1, 2), True), ((1, 4), True), ((4,), False)])
def test_times_that_did_not_settle_do_not_count(
    monkeypatch: pytest.MonkeyPatch, settled: tuple[int, ...], is_settled: bool
) -> None:
    level = Level("rows", None, 1 << 16, {})
    monkeypatch.setattr(recipe_lines, "kernels", lambda _, shape, __: {"large": shape})

    def timed(runs: dict[str, tuple[int, int, int]], *_: object) -> tuple[dict[str, float], bool]:
        m, n, k = runs["large"]
        return {"large": n * k * 1e-12 * (10 + 2 * m if m in settled else 999)}, m in settled

    monkeypatch.setattr(recipe_lines, "settled_seconds", timed)
    found = level.lines(TARGET, recipe_lines.Plan(rows=(1, 2, 4)))
    assert found.is_settled is is_settled
    if is_settled:
        assert found.by_recipe["large"] == pytest.approx((10.0, 2.0))


def test_times_settle_where_the_two_least_agree() -> None:
    taken = iter([9.0, 9.0, 5.0, 7.0, 5.5, 6.0, 5.05])  # the first tells how many calls are a sample
    now = [0.0]

    def run() -> None:
        now[0] += next(taken)

    assert settled_seconds({"a": run}, 1000.0, 1.0, lambda: now[0]) == ({"a": 5.0}, True)
    assert next(taken, None) is None
    taken = iter([9.0, 9.0, 5.0])
    assert settled_seconds({"a": run}, 10.0, 1.0, lambda: now[0]) == ({"a": 5.0}, False)


def test_the_steps_make_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_numbers, "available_cpus", lambda: (0, 1))
    rates = {"read_l3": 16e9, "fma_f32": 5.4e9 * 8, "read_memory": 12e9}
    monkeypatch.setattr(machine_numbers, "_rates", lambda _: rates)
    monkeypatch.setattr(machine_numbers, "_rates_of_all", lambda _: {"read_memory": 15e9})
    monkeypatch.setattr(machine_numbers, "fork_and_join_seconds", lambda _: 1e-6)
    monkeypatch.setattr(Level, "lines", lambda self, _: Lines({"large": (float(self.size), 2.0)}, True))
    lines = [text for step in steps_of(TARGET) for text in step.measure()]
    assert lines[:6] == [
        "l3_rate: 3",
        "memory_rates: [142, 178]",
        "parallel_threshold: 262144",
        "costs:",
        "  rows:",
        "    - {bytes: 16384, large: [8192.0, 2.0]}",
    ]
    assert [text.strip(" :") for text in lines if text.startswith("  ") and text.endswith(":")] == list(KINDS)
    count = sum(len(list(levels_of(kind, TARGET))) for kind in KINDS)
    assert sum(text.startswith("    - ") for text in lines) == count
    monkeypatch.setattr(machine_numbers, "available_cpus", lambda: (0,))
    assert not any(step.name == "parallel_threshold" for step in steps_of(TARGET))


def test_a_fork_and_join_takes_time() -> None:
    assert fork_and_join_seconds(TARGET) > 0
