"""The YAML file: what it narrows, and the places of what it cannot use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tcpx
from tcpx.tune.space_file import Workload, read_space_file, seconds_of, space_file_of
from tests.tune.conftest import MakeSpace, schedule_text

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


def test_values_beyond_the_domain(make_space: MakeSpace, module: tcpx.Module) -> None:
    search = make_space(BODY).search
    space = space_file_of("knobs: {mr: {widen: [16, 6]}, kc: [64]}").narrowed(search)
    points = list(space.points())
    assert [point["s.mr"] for point in points] == [1, 2, 3, 4, 5, 6, 16]
    assert space.params(points[-1]) == {"s.mr!": 16, "s.kc": 64}
    assert space.params(points[-2]) == {"s.mr": 6, "s.kc": 64}
    schedule = tcpx.parse_schedule(schedule_text(BODY), "s.tcps")
    assert "+= 16)" in tcpx.emit(module, schedule, params={"s.mr!": 16}, target="generic").c_source
    assert "let mr = 16" in tcpx.freeze(module, schedule, params={"*.mr!": 16}, target="generic")
    with pytest.raises(tcpx.ScheduleError, match="not in its domain"):
        tcpx.emit(module, schedule, params={"mr": 16}, target="generic")


def test_a_value_beyond_the_domain_reaches_all_uses_of_a_shared_knob(module: tcpx.Module) -> None:
    before = "sequence rows(x: op) {\n  knob height: int = 4 in 1..6\n  tile(x, [m: height])\n}"
    body = "for mm in match some contract in root { rows(mm) }"
    text = """\
    func @f(%x: tensor<[N]x8xf32>, %w: tensor<8x8xf32>) -> tensor<[N]x8xf32> symbols [N] {
      %a = tcp.matmul(%x, %w) : tensor<[N]x8xf32>
      %b = tcp.matmul(%a, %w) : tensor<[N]x8xf32>
      tcp.return(%b)
    }
    """
    schedule = tcpx.parse_schedule(schedule_text(body, before), "s.tcps")
    for key in ("height!", "*/b/*.height!", "*/a/*.height!"):
        found = tcpx.emit(tcpx.parse(text), schedule, params={key: 32}, target="generic").c_source
        assert found.count("+= 32)") == 2


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
        ("knobs:\n\n  kc: [8, 12]", "`s.kc` has no such value", 3, "`{widen: [..]}` adds values, or widen the domain"),
        ("knobs: {mr: {from: 7, to: 9}}", "`s.mr` has no such value", 1, "widen the domain where it is declared"),
        ("knobs: {mr: {from: 7}}", "`mr` is no range", 1, None),
        ("knobs: {mr: []}", "`mr` has no values", 1, None),
        ("knobs: {mr: {widen: []}}", "`mr` has no values", 1, None),
        ("knobs: {mr: {widen: {from: 1}}}", "`mr` is no range", 1, None),
        ("knobs: {mr: true}", "`s.mr` is declared `int`", 1, None),
        ("knobs: {mr: four}", "`s.mr` is declared `int`", 1, None),
        ("knobs: {mr: {widen: [2.5]}}", "`s.mr` is declared `int`", 1, None),
        ("knobs: {mr: {from: true, to: 4}}", "`mr` is no range", 1, None),
        ("trials: true", "`trials` is no number of candidates", 1, None),
        ("sizes: [{B: true}]", "`B` is no number that fits", 1, None),
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


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_bytes(b"trials: \xae")
    with pytest.raises(tcpx.ArgumentError) as caught:
        read_space_file(path)
    assert caught.value.diagnostic.message == f"the space file {path} cannot be read"
    assert caught.value.diagnostic.found == "the byte 0xae, which is no character"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[" * 100_000, "lists and mappings too deep in one another"),
        ("budget: 2026-99-99", "month must be in 1..12"),
        ("sampler: !!python/name:os.system", "could not determine a constructor"),
        ("{[1]: 2}", "found unhashable key"),
    ],
)
def test_values_that_there_are_not(text: str, found: str) -> None:
    with pytest.raises(tcpx.ArgumentError) as caught:
        space_file_of(text, "space.yaml")
    diagnostic = caught.value.diagnostic
    assert diagnostic.message in ("the space file cannot be read", "the file has no part `[1]`")
    assert found in str(diagnostic.found) or diagnostic.found == "[1]"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(tcpx.ArgumentError) as caught:
        read_space_file(tmp_path / "pipe")
    assert caught.value.diagnostic.found == "a folder, a pipe or a device"
