"""The YAML file: what it narrows, and the places of what it cannot use."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.tune.space_file import Workload, seconds_of, space_file_of
from tests.tune.conftest import MakeSpace

BODY = """
knob mr: int = 4 in 1..6
knob kc: int = 8 in pow2(4, 64)
let mm = match one contract in root
tile(mm, [m: mr, k: kc])
"""


def test_values_ranges_and_pins(make_space: MakeSpace) -> None:
    search = make_space(BODY).search
    space = space_file_of('knobs:\n  "*.kc": [8, 32]\n  mr: {from: 5, to: 9}\n').narrowed(search)
    assert [tuple(point.values()) for point in space.points()] == [(5, 8), (5, 32), (6, 8), (6, 32)]
    assert space.defaults() == {"s.mr": 5, "s.kc": 8}
    pinned = space_file_of("knobs: {mr: 3, s.kc: 16}").narrowed(search)
    assert [dict(point) for point in pinned.points()] == [{"s.mr": 3, "s.kc": 16}]


def test_how_to_search() -> None:
    file = space_file_of("sampler: random\ntrials: 20\nbudget: 10m\nsizes: [{B: 64, weight: 2}, {B: 1}]")
    assert (file.sampler, file.trials, file.budget) == ("random", 20, 600.0)
    assert file.workloads == (Workload((("B", 64),), 2.0), Workload((("B", 1),), 1.0))
    assert space_file_of("").knobs == ()


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("2h", 7200), ("1.5m", 90), ("5s", 5), ("soon", None)])
def test_times(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("text", "message", "line", "fix"),
    [
        ("knobs:\n  kcc: 4", "no knob is called `kcc`", 2, "did you mean `kc`?"),
        ("knobs:\n\n  kc: [8, 12]", "`s.kc` has no such value", 3, "widen the domain where the knob is declared"),
        ("knobs: {mr: {from: 7, to: 9}}", "`s.mr` has no such value", 1, "widen the domain"),
        ("knobs: {mr: {from: 7}}", "`mr` is no range", 1, None),
        ("knobs: {mr: []}", "`mr` has no values", 1, None),
        ("knob: {mr: 3}", "the file has no part `knob`", 1, "did you mean `knobs`?"),
        ("trials: 0", "`trials` is no number of candidates", 1, None),
        ("\nbudget: soon", "`budget` is no time", 2, None),
        ("sizes: {B: 4}", "`sizes` is no list", 1, None),
        ("sizes: [{B: -4}]", "`B` is no number that fits", 1, None),
        ("knobs: {mr: 3, mr: 4}", "`mr` is there twice", 1, None),
        ("- a", "this is no mapping", 1, None),
        ("knobs: [", "the space file cannot be read", 1, None),
    ],
)
def test_what_it_cannot_use(text: str, message: str, line: int, fix: str | None, make_space: MakeSpace) -> None:
    with pytest.raises(tcpx.ArgumentError) as caught:
        space_file_of(text, "space.yaml").narrowed(make_space(BODY).search)
    diagnostic = caught.value.diagnostic
    assert message in diagnostic.message
    assert diagnostic.schedule is not None
    assert (diagnostic.schedule.file, diagnostic.schedule.line) == ("space.yaml", line)
    assert diagnostic.required
    assert diagnostic.found
    assert fix is None or (diagnostic.fix is not None and fix in diagnostic.fix)
