"""Predicted costs of recipes: what of a table they complete, how they follow the rates, and how far measured lines
agree with them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import exp, log
from pathlib import Path

import pytest

from tcpx.measure.recipe_lines import KINDS
from tcpx.target import load_target
from tcpx.target.predicted_costs import RECIPES, Machine, completed
from tcpx.target.recipe_costs import Level, Line, regions
from tests.target.test_target import TABLE, write

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
MACHINE = Machine(vector_bits=512, vector_registers=32, l1=32768, l2=1 << 20, l3=1 << 25, l3_rate=24)


def machine_of(name: str) -> Machine:
    target = load_target(name)
    sizes = (target.vector_bits, target.vector_registers, target.l1, target.l2, target.l3, target.l3_rate)
    return Machine(*sizes, memory_rates=target.memory_rates)


def agreement(name: str, kind: str = "rows") -> tuple[float, float]:
    """In which part of all levels, pairs of recipes and numbers of rows model and table agree on the cheaper one; and
    how much longer the recipe takes that the model chooses than the best of the table, in the geometric mean."""
    levels, machine = load_target(name).costs[kind], machine_of(name)
    same: list[bool] = []
    excess: list[float] = []
    for level in levels:
        guessed = machine.lines(kind, level.size)
        for rows in ROWS:
            real = {recipe: line.start + rows * line.row for recipe, line in level.lines.items()}
            guess = {recipe: guessed[recipe].start + rows * guessed[recipe].row for recipe in real}
            same += [(real[a] <= real[b]) == (guess[a] <= guess[b]) for a, b in combinations(real, 2)]
            excess.append(real[min(guess, key=lambda recipe: guess[recipe])] / min(real.values()))
    return sum(same) / len(same), exp(sum(map(log, excess)) / len(excess))


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("sapphire_rapids", 0.92, 1.01),
        ("x86_avx512", 0.94, 1.01),
        ("x86_avx2", 0.90, 1.01),
        ("zen4", 0.50, 1.13),  # measured without rows of powers of two, where reading in place costs little
    ],
)
def test_the_model_agrees_with_what_was_measured(name: str, least: float, most: float) -> None:
    same, excess = agreement(name)
    assert same >= least
    assert excess <= most


@pytest.mark.parametrize(("kind", "least"), [("made", 0.9), ("depths", 0.95), ("batch_columns", 0.75)])
def test_the_model_agrees_with_tables_of_other_kinds(kind: str, least: float) -> None:
    assert agreement("x86_avx2", kind)[0] >= least


def test_a_target_without_costs_has_predictions(tmp_path: Path) -> None:
    found = load_target(write(tmp_path, TABLE), allow_native=True).costs
    assert {kind: set(levels[0].lines) for kind, levels in found.items()} == {k: set(v) for k, v in RECIPES.items()}


def test_predictions_follow_the_rates() -> None:
    def places(machine: Machine) -> dict[str, list[tuple[int, int | None]]]:
        level = Level(None, machine.lines("rows", 1 << 22), 1 << 22)
        ways = list(RECIPES["rows"])
        found = {way: regions([level], way, ways) for way in ways}
        return {way: [(part.least_rows, part.most_rows) for part in parts] for way, parts in found.items() if parts}

    fast, slow = places(MACHINE), places(replace(MACHINE, l3_rate=3))
    assert fast == {"stream": [(0, 5)], "tile": [(6, 251)], "large": [(252, None)]}
    assert slow == fast  # each of these waits once
    small = Level(None, MACHINE.lines("rows", 8192), 8192)
    assert regions([small], "direct", ["panel", "tile", "large"]) == regions([small], "direct", [])
    for rate, rows in ((24, [16]), (3, [])):  # reading in place from L3 pays for a few rows, or for none
        level = Level(None, replace(MACHINE, l3_rate=rate).lines("rows", 1 << 22), 1 << 22)
        assert [part.most_rows for part in regions([level], "direct", ["large"])] == rows


def test_the_rate_of_memory_is_used_where_it_is_known() -> None:
    far = 1 << 26
    guessed, known = MACHINE, replace(MACHINE, memory_rates=(64, 128))
    assert known.lines("rows", far)["stream"].start == 640.0
    assert guessed.lines("rows", far)["stream"].start == 80.0
    assert known.lines("rows", 8192) == guessed.lines("rows", 8192)


def test_a_prediction_is_in_the_unit_of_the_lines_beside_it() -> None:
    own = MACHINE.lines("rows", 1 << 22)
    for unit, wait in ((1.0, 0.0), (3.0, 0.0), (3.0, 500.0)):
        measured = {way: Line(wait + unit * own[way].start, unit * own[way].row) for way in ("stream", "large")}
        level = completed({"rows": (Level(None, measured, 1 << 22),)}, MACHINE)["rows"][0]
        assert level.lines["stream"] == measured["stream"]
        assert level.lines["tile"].start == pytest.approx(wait + unit * own["tile"].start)
        assert level.lines["tile"].row == pytest.approx(unit * own["tile"].row)


def test_a_prediction_takes_no_negative_time() -> None:
    lines = completed({"rows": (Level(None, {"large": Line(0, 10)}, 1 << 22),)}, MACHINE)["rows"][0].lines
    assert min(line.start for line in lines.values()) == 0
    assert lines["large"].start - lines["tile"].start > 0


def test_what_is_whole_stays() -> None:
    costs = {
        "rows": (Level(None, {"large": Line(0, 10)}, 1 << 22, is_whole=True),),
        "mine": (Level(None, {"a": Line(0, 1)}, 1 << 22),),
    }
    found = completed(costs, MACHINE)
    assert found["rows"] == costs["rows"]
    assert found["mine"] == costs["mine"]
    assert set(found) == {"mine", *RECIPES}


def test_caches_may_leave_a_predicted_level_nothing() -> None:
    limits = [level.most_bytes for level in completed({}, replace(MACHINE, l3=1 << 21))["rows"]]
    assert limits == [16384, 1 << 20, 3 << 20, None]


def test_calibrate_measures_all_recipes_that_are_predicted() -> None:
    assert {kind: kind_of.recipes for kind, kind_of in KINDS.items()} == {k: tuple(v) for k, v in RECIPES.items()}


def test_a_table_may_say_zero() -> None:
    none = completed({}, Machine(0, 0, 0, 0, 0, 0))
    assert [level.most_bytes for level in none["rows"]] == [None]
    assert completed({}, replace(MACHINE, l3_rate=0)) == completed({}, replace(MACHINE, l3_rate=1))
