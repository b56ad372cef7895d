"""What recipes cost: reading the table, where each is the cheapest, and what a schedule chooses by it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpx
from tcpx.installed import LIBRARY
from tcpx.target import TargetError, available_targets, load_target
from tcpx.target.recipe_costs import Line, Region, read_costs, regions
from tcpx.target.table import Node

SIZES = {"l1": 1000, "l2": 4000, "l3": 16000}
LEVELS = [
    {"bytes": "l1 / 2", "direct": [0, 10]},
    {"bytes": "3 * l2", "stream": [0, 20], "direct": [30, 10], "large": [130, 5]},
    {"stream": [0, 20], "large": [130, 5]},
]


def test_where_each_recipe_is_the_cheapest() -> None:
    levels = read_costs(Node({"rows": LEVELS}, ""), SIZES)["rows"]
    assert [level.most_bytes for level in levels] == [500, 12000, None]
    assert levels[1].lines["large"] == Line(130, 5)
    assert regions(levels, "stream", ["direct", "large"]) == (Region(500, 12000, 0, 3), Region(12000, None, 0, 8))
    assert regions(levels, "direct", ["stream", "large"]) == (Region(0, 500, 0, None), Region(500, 12000, 3, 20))
    large = regions(levels, "large", ["stream", "direct"])
    assert large == (Region(500, 12000, 20, None), Region(12000, None, 9, None))
    # Levels that agree are one; without the one between, two meet elsewhere; what has no line is nowhere.
    assert regions(levels, "stream", ["large"]) == (Region(500, None, 0, 8),)
    assert regions(levels, "tile", ["stream"]) == ()
    assert regions(levels, "direct", []) == (Region(0, 12000, 0, None),)


def test_caches_may_leave_a_level_nothing() -> None:
    levels = read_costs(Node({"rows": LEVELS}, ""), {**SIZES, "l2": 100})["rows"]
    assert [level.most_bytes for level in levels] == [500, None]


@pytest.mark.parametrize(
    ("levels", "required", "found"),
    [
        ([{"bytes": "l1", "direct": [0, 1]}], "`bytes` in every level but the last", "bytes, direct"),
        ([{"direct": [0, 1]}, {"direct": [0, 1]}], "`bytes` in every level but the last", "direct"),
        ([{"bytes": "l4", "direct": [0, 1]}, {}], "a number of bytes, or of caches: `l1 / 2`, `l2`, `3 * l2`", "'l4'"),
        ([{"direct": [0]}], "two numbers, `[start, row]`, that are not negative", "a list of 0"),
        ([{"direct": [0, -1]}], "two numbers, `[start, row]`, that are not negative", "a list of 0, -1"),
        ([], "a mapping", "a list of nothing"),
    ],
)
def test_a_malformed_table_is_refused(levels: object, required: str, found: str) -> None:
    with pytest.raises(TargetError) as caught:
        read_costs(Node({"rows": levels}, "t.yaml: costs"), SIZES)
    assert (caught.value.diagnostic.required, caught.value.diagnostic.found) == (required, found)


@pytest.mark.parametrize("name", available_targets())
def test_every_target_says_what_the_library_asks(name: str) -> None:
    costs = load_target(name).costs
    assert costs.keys() == {"rows", "made", "depths", "batch", "batch_columns"}
    known = {"stream", "direct", "panel", "tile", "large", "columns", "dot"}
    assert {recipe for levels in costs.values() for level in levels for recipe in level.lines} <= known


PRODUCT = """\
func @f(%x: tensor<[M]x512xf32>, %w: tensor<512x512xf32>) -> tensor<[M]x512xf32> symbols [M] {
  %y = tcp.matmul(%x, %w) : tensor<[M]x512xf32>
  tcp.return(%y)
}
"""


def test_the_default_schedule_goes_by_the_table(tmp_path: Path) -> None:
    default, table = tcpx.load_schedule(LIBRARY / "default.tcps"), tmp_path / "mine.yaml"
    head = "name: mine\nbase: x86_avx512.yaml\ncosts:\n  others: dearer\n"
    rest = "  made: [{large: [0, 1]}]\n  depths: [{large: [0, 1]}]\n"
    rest += "  batch: [{large: [0, 1]}]\n  batch_columns: [{large: [0, 1]}]\n"

    def chosen(costs: str) -> list[object]:
        table.write_text(f"{head}{rest}  rows: [{costs}]\n", encoding="utf-8")
        run = tcpx.apply_schedule(tcpx.parse(PRODUCT), default, target=load_target(table))
        return [use.value for use in run.knobs if use.path.endswith(".recipe")]

    assert chosen("{stream: [0, 20], direct: [100, 10], panel: [1000, 5]}") == ["stream", "direct", "panel"]
    assert chosen("{direct: [0, 1], large: [1, 1]}") == ["direct"]
    assert chosen("{large: [0, 1]}") == ["large"]
    head = head.replace("  others: dearer\n", "")
    assert chosen("{large: [130, 10]}") == ["tile", "stream", "large"]  # of which two are predicted


def test_others_are_dearer_or_predicted() -> None:
    assert read_costs(Node({"others": "dearer", "rows": LEVELS}, ""), SIZES)["rows"][0].is_whole
    assert not read_costs(Node({"rows": LEVELS}, ""), SIZES)["rows"][0].is_whole
    with pytest.raises(TargetError) as caught:
        read_costs(Node({"others": "cheaper", "rows": LEVELS}, "t.yaml: costs"), SIZES)
    required = "`dearer`, or no `others` where they are to be predicted"
    assert (caught.value.diagnostic.required, caught.value.diagnostic.found) == (required, "'cheaper'")
