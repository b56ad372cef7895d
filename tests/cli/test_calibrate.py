"""tcpx calibrate: what is measured is what `native` has from then on. What measures is a fake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import tcpx
from tcpx.measure.machine_numbers import Step

Command = Callable[..., SimpleNamespace]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a machine whose measurements are known."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TCPX_CACHE_DIR", str(folder))
    monkeypatch.delenv("TCPX_MACHINE")
    steps = [
        Step("l3_rate", lambda: ["l3_rate: 77"]),
        Step("memory_rates", lambda: ["memory_rates: [50, 70]"]),
        Step("costs", lambda: ["costs:", "  rows:", "    - {large: [0, 3]}"]),
    ]
    monkeypatch.setattr("tcpx.cli.calibrate.steps_of", lambda _: iter(steps))
    return folder


def test_what_is_measured_is_kept_used_shown_and_removed(tcpx_command: Command, cache: Path) -> None:
    before = tcpx.load_target("native")
    assert tcpx_command("calibrate", "--show").out.startswith(f"no calibration, {cache}")
    done = tcpx_command("calibrate")
    (path,) = (cache / "machines").iterdir()
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"wrote {path}\nprocessor: ")
    assert done.out.endswith("\nl3_rate: 77\nmemory_rates: [50, 70]\ncosts:\n  rows:\n    - {large: [0, 3]}\n")
    native = tcpx.load_target("native")
    assert (native.l3_rate, native.costs["rows"][0].lines["large"].row) == (77, 3)
    assert native.memory_rates == (50, 70)
    assert native.costs["depths"] == before.costs["depths"]
    assert native.machine not in ("", before.machine)
    assert tcpx.load_target(native.name).l3_rate != 77
    shown = tcpx_command("calibrate", "--show").out
    assert shown == f"{path}\n{path.read_text(encoding='utf-8')}"
    assert f"place of the numbers of {native.name}.yaml" in shown
    assert tcpx_command("calibrate", "--remove").out == f"removed {path}\n"
    assert tcpx.load_target("native") is before
    assert tcpx_command("calibrate", "--remove").out == f"no calibration, {path}\n"


def test_what_did_not_settle_is_said(tcpx_command: Command, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "    - {large: [0, 3]}   # the table's: times did not settle"
    monkeypatch.setattr("tcpx.cli.calibrate.steps_of", lambda _: [Step("costs", lambda: ["costs:", "  rows:", line])])
    done = tcpx_command("calibrate")
    assert done.status == 0
    again = "calibrate again while this machine does nothing else"
    assert done.err == f"warning: 1 line did not settle, so that the table's stay: {again}\n"
    assert tcpx.load_target("native").costs["rows"][0].lines["large"].row == 3


def test_a_damaged_one_is_measured_again(tcpx_command: Command, cache: Path) -> None:
    assert tcpx_command("calibrate").status == 0
    (path,) = (cache / "machines").iterdir()
    for damaged in (b"l3_rate: [", b"\xff\x8d"):
        path.write_bytes(damaged)
        with pytest.raises(tcpx.TargetError, match="is damaged"):
            tcpx.load_target("native")
    assert tcpx_command("calibrate", "--show").out == f"{path}\n\\xff\\x8d"
    assert tcpx_command("calibrate").status == 0
    assert tcpx.load_target("native").l3_rate == 77


def test_a_machine_that_does_not_count_is_not_measured(
    tcpx_command: Command, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCPX_MACHINE", "table")
    done = tcpx_command("calibrate")
    assert (done.status, done.out) == (1, "")
    assert "found: TCPX_MACHINE=table, which gives it those of its table" in done.err
    assert "fix: unset TCPX_MACHINE" in done.err
    assert not cache.exists()


def test_a_folder_that_cannot_be_written_to(tcpx_command: Command, cache: Path) -> None:
    cache.mkdir()
    (cache / "machines").write_text("in the way", encoding="utf-8")
    done = tcpx_command("calibrate")
    assert done.status == 1
    assert "there is no place for compiled kernels" in done.err
    assert tcpx_command("calibrate", "--show", "--remove").status == 2
