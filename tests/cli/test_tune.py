"""tcpx tune: a study, what it printed, the ledger looked at again; wrong command lines."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

import tcpx
from tcpx.cli.tune_commands import status_of
from tcpx.tune import tuner
from tcpx.tune.final_comparison import FinalComparison
from tcpx.tune.verdicts import Comparison
from tcpx.tuned import read_records
from tests.optional_tools import RICH

Command = Callable[..., SimpleNamespace]


@pytest.fixture
def storage(files: SimpleNamespace) -> str:
    return str(files.folder / "tune.db")


@pytest.fixture
def tune(
    files: SimpleNamespace,
    storage: str,
    tcpx_command: Command,
    monkeypatch: pytest.MonkeyPatch,
    known_limits: None,
) -> Command:
    """`tune("--trials", "2")`: on the small payload."""

    def run(*words: str) -> SimpleNamespace:
        given = ["tune", files.payload, "-s", files.schedule, "--size", "N=64", "--storage", storage]
        given += ["--target", "generic", "--sampler", "grid", "--quick", "--final", "0", *words]
        monkeypatch.setattr(sys, "argv", ["tcpx", *given])
        return tcpx_command(*given)

    return run


def test_a_study_and_its_ledger(tune: Command, storage: str, tcpx_command: Command, files: SimpleNamespace) -> None:
    done = tune("--trials", "2")
    assert (done.status, done.err) == (0, "")
    assert "#0 " in done.out
    assert "% of the limit (" in done.out
    assert "2 candidates: 2 ok" in done.out
    assert f"tcpx emit {files.payload} -s {files.schedule} --target generic --param height=" in done.out
    assert "all 2 trials are done" in done.out
    assert "--trials 4 --resume" in done.out

    again = tune("--trials", "3")
    assert again.status == 1
    assert "has this study already" in again.err
    assert "--resume" in again.err
    resumed = tune("--resume")
    assert "3 candidates: 3 ok" in resumed.out
    assert "the space has no further points" in resumed.out
    assert "to go on" not in resumed.out

    shown = tcpx_command("tune", "--show", "--storage", storage)
    assert "target: generic" in shown.out
    assert "3 candidates: 3 ok" in shown.out
    assert shown.out.endswith(f"{storage}: 0.0 MiB\n")
    rows = list(csv.DictReader(io.StringIO(tcpx_command("tune", "--export", "csv", "--storage", storage).out)))
    assert {row["axpy/s/rows.height"] for row in rows} == {"2", "4", "8"}
    assert len(json.loads(tcpx_command("tune", "--export", "json", "--storage", storage).out)) == 3
    other = str(files.folder / "other.db")
    merged = tcpx_command("tune", "--merge", storage, "--storage", other)
    assert merged.out == f"{other}: 1 studies and 3 candidates from {storage}\n"


def test_a_winner_is_recorded_and_used(tune: Command, tcpx_command: Command, files: SimpleNamespace) -> None:
    words = ("run", files.payload, "-s", files.schedule, "--random", "0", "--size", "N=8", "--tuned", "--target")
    refused = tcpx_command(*words, "generic")
    assert refused.status == 1
    assert "cannot read the tuned records" in refused.err
    done = tune("--trials", "3", "--record")
    record = files.schedule.replace(".tcps", ".tuned.yaml")
    assert f"wrote {record}" in done.out
    used = tcpx_command(*words, "generic")
    assert (used.status, used.err) == (0, "")
    assert "tuned: axpy/s/rows.height=" in used.out
    out = files.folder / "c"
    emitted = tcpx_command(*("emit", *words[1:4], "--tuned", "--target", "generic", "-o", str(out)))
    assert (emitted.status, emitted.err) == (0, "")
    assert emitted.out.startswith("tuned: axpy/s/rows.height=")
    height = emitted.out.splitlines()[0].rpartition("=")[2]
    assert f"+= {height})" in (out / "axpy.c").read_text()
    files.write("axpy.tcp", Path(files.payload).read_text().replace("tcp.add", "tcp.max"))
    stale = tcpx_command(*words, "generic")
    assert stale.status == 1
    assert "%s (tcp.max) is new" in stale.err


def test_every_phase_is_told_and_counted(tune: Command) -> None:
    """Final measuring was silent, and 12 s of 107 were counted."""
    started = monotonic()
    done = tune("--trials", "2", "--final", "2")
    passed = monotonic() - started
    assert (done.status, done.err) == (0, "")
    phases = ["finding the knobs that these sizes reach", "measuring the limits of the machine"]
    phases += [
        "compiling the defaults",
        "measuring the winner again beside .* beyond the budget$",
        "set 1 of 2 to 6",
        r"set 2 of 2 to 6, \d+ to \d+ s more$",
    ]
    places = [re.search(rf"^\d+ s: {phase}", done.out, re.MULTILINE) for phase in phases]
    assert None not in places, done.out
    assert [place.start() for place in places if place] == sorted(place.start() for place in places if place)
    told = re.search(
        r"^(\d+) s: ([\d.]+) to prepare, ([\d.]+) in candidates, ([\d.]+) the search itself, "
        r"([\d.]+) to measure the winner again$",
        done.out,
        re.MULTILINE,
    )
    assert told is not None, done.out
    whole, *parts = map(float, told.groups())
    assert whole == pytest.approx(sum(parts), abs=1)
    assert passed / 2 < whole <= passed + 1  # of the command nearly all is the study


def test_the_last_lines_apply_the_winner(tune: Command, tcpx_command: Command, files: SimpleNamespace) -> None:
    done = tune("--trials", "2", "--threads", "2")
    lines = done.out.splitlines()
    use = shlex.split(lines[lines.index("to use it:") + 1])
    assert use[:2] == ["tcpx", "emit"]
    assert " ".join(["--target", "generic", "--threads", "2", "--param"]) in " ".join(use)
    out = files.folder / "used"
    assert tcpx_command(*use[1:], "-o", str(out)).status == 0
    record = shlex.split(lines[lines.index("to write it into a file for --tuned:") + 1])
    assert record[:2] == ["tcpx", "tune"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", record)
        written = tcpx_command(*record[1:])
    path = files.schedule.replace(".tcps", ".tuned.yaml")
    assert f"wrote {path}" in written.out
    assert "#2 " not in written.out  # it searches no further
    tuned = shlex.split(written.out.splitlines()[written.out.splitlines().index("to use it:") + 1])
    assert tuned[-2:] == ["--tuned", path]
    again = files.folder / "again"
    assert tcpx_command(*tuned[1:], "-o", str(again)).status == 0
    assert (again / "axpy.c").read_text() == (out / "axpy.c").read_text()


@pytest.mark.parametrize("option", ["--record", "--html", "--dispatch"])
def test_a_folder_to_write_into_is_asked_for_before_the_search(tune: Command, storage: str, option: str) -> None:
    refused = tune(option, "/no/such/folder/file")
    assert refused.status == 1
    assert "make the folder /no/such/folder first" in refused.err
    assert not Path(storage).exists()


def test_the_command_to_go_on_after_an_interruption(tune: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tcpx, "tune", interrupted)
    printed = tune("--trials", "3").out
    assert "ended at once; to go on:\n  tcpx tune " in printed
    assert printed.endswith("--trials 3 --resume\n")


def test_a_search_that_was_interrupted_exits_130() -> None:
    assert [status_of(True), status_of(True, done=False), status_of(False), status_of(False, done=False)] == [
        130,
        130,
        0,
        1,
    ]


def test_an_interrupted_study_keeps_its_winner_and_exits_130(tune: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    search = tuner.tune

    def interrupted(*arguments: Any, **options: Any) -> object:
        return replace(search(*arguments, **options), is_interrupted=True)

    monkeypatch.setattr(tcpx, "tune", interrupted)
    done = tune("--trials", "1", "--final", "0")
    assert done.status == 130
    assert "best: #" in done.out


def test_the_last_lines_keep_the_defaults(
    tune: Command, monkeypatch: pytest.MonkeyPatch, files: SimpleNamespace
) -> None:
    """Where fresh processes do not tell the winner from them, the record has the values of the defaults."""
    search = tuner.tune

    def unsure(*arguments: Any, **options: Any) -> object:
        found = search(*arguments, **options)
        final = FinalComparison(Comparison(0.98, 0.95, 1.02, 3, 1e-6))
        return replace(found, first=found.candidates[0], best=found.candidates[1], final=final)

    monkeypatch.setattr(tcpx, "tune", unsure)
    path = files.schedule.replace(".tcps", ".tuned.yaml")
    printed = tune("--trials", "2", "--record", path).out
    assert "best: the defaults, #0: #1 height=" in printed
    assert f"wrote {path}" in printed
    assert [held.params for held in read_records(path)] == [{"axpy/s/rows.height": 4}]


def test_winners_of_several_sizes_in_one_schedule(files: SimpleNamespace, storage: str, tcpx_command: Command) -> None:
    space = files.write("sizes.yaml", "sizes: [{N: 4}, {N: 256}]\ntrials: 2\nsampler: grid\n")
    out = str(files.folder / "both.tcps")
    words = ["tune", files.payload, "-s", files.schedule, "--space", space, "--storage", storage, "--quick"]
    done = tcpx_command(*words, "--final", "0", "--target", "generic", "--dispatch", out)
    assert (done.status, done.err) == (0, "")
    assert f"wrote {out}" in done.out
    text = Path(out).read_text(encoding="utf-8")
    assert "<= 32 { axpy_N4(root) }" in text
    checked = tcpx_command(
        "run", files.payload, "-s", out, "--random", "0", "--size", "N=33", "--check", "--target", "generic"
    )
    assert checked.status == 0
    refused = tcpx_command(*words[:4], "--dispatch", out, "--storage", storage)
    assert (refused.status, "two or more `sizes`" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "required a payload"),
        (["x.tcp", "--show"], 2, "no payload beside them"),
        (["x.tcp", "--budget", "soon"], 2, "required a time such as 90s"),
        (["x.tcp", "--sampler", "nope"], 2, "invalid choice"),
        (["absent.tcp"], 1, "cannot read absent.tcp"),
        (["--show", "--storage", "absent.db"], 1, "there is no ledger absent.db"),
        (["--merge", "absent.db"], 1, "there is no ledger absent.db"),
    ],
)
def test_what_is_refused(words: list[str], status: int, message: str, tcpx_command: Command) -> None:
    done = tcpx_command("tune", *words)
    assert done.status == status
    assert message in done.err


def test_a_knob_that_there_is_not(tune: Command, files: SimpleNamespace) -> None:
    space = files.write("space.yaml", "knobs:\n  heigth: [2]\n")
    done = tune("--space", space)
    assert done.status == 1
    assert "no knob is called `heigth`" in done.err
    assert f"{space}:2:" in done.err
    assert "did you mean `height`?" in done.err


@pytest.mark.parametrize(
    ("place", "fix"), [("file/tune.db", "fix: choose another path"), ("folder", "choose another --storage")]
)
def test_a_ledger_that_cannot_be_made(tune: Command, tmp_path: Path, place: str, fix: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    done = tune("--storage", str(tmp_path / place))
    assert done.status == 1
    assert fix in done.err


@RICH.needed
def test_the_live_view(tune: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    done = tune("--trials", "2")
    assert done.status == 0
    assert "2 candidates: 2 ok" in done.out
