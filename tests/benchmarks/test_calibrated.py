"""The experiment of calibrated defaults: its workloads are what it says, and its processor has no measured costs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import tcpx
from benchmarks.calibrated import calibrate, each_recipe, emptied, own_cache, workloads
from tcpx.calibrated import uncalibrated
from tcpx.machine import VARIABLE


def test_forty_products_ten_windows_and_ten_operations_on_rows() -> None:
    modules = dict(workloads())
    forms = Counter(name.partition("/")[0] for name in modules)
    windows = sum(forms[name] for name in ("convolution", "depthwise", "pooling", "stencil"))
    assert (sum(count for name, count in forms.items() if name.startswith("product")), windows, len(modules)) == (
        40,
        10,
        60,
    )


def test_the_target_has_the_caches_of_this_machine_and_predictions_for_all_recipes(tmp_path: Path) -> None:
    target, known = emptied(tmp_path), uncalibrated()
    assert (target.l1, target.l2, target.l3) == (known.l1, known.l2, known.l3)
    assert {name for level in target.costs["rows"] for name in level.lines} == {
        "stream",
        "direct",
        "panel",
        "tile",
        "large",
    }
    assert not any(level.is_whole for levels in target.costs.values() for level in levels)


def test_a_calibration_of_before_is_read_and_holds_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    path = tmp_path / "calibration.yaml"
    path.write_text('processor: ""\nl3_rate: 7\ncosts:\n  rows:\n    - {large: [0, 10]}\n')
    usual = tcpx.load_target("native")
    with own_cache() as folder:
        found = calibrate(emptied(folder), path)
        assert found.l3_rate == 7
    assert tcpx.load_target("native") is usual


def test_each_recipe_is_a_point_to_begin_with() -> None:
    module = dict(workloads())["product/64x100x64"]
    words = [next(iter(point.values())) for point in each_recipe(module)]
    assert set(words) >= {"stream", "direct", "panel", "tile", "large"}
