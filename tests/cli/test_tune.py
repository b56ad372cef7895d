"""tcpx tune: a study, what it printed, the ledger looked at again; wrong command lines."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import tcpx
from tests.optional_tools import RICH

Command = Callable[..., SimpleNamespace]


@pytest.fixture
def storage(files: SimpleNamespace) -> str:
    return str(files.folder / "tune.db")


@pytest.fixture
def tune(files: SimpleNamespace, storage: str, tcpx_command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
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
    assert f"tcpx emit {files.payload} -s {files.schedule} --param axpy/s/rows.height=" in done.out
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


def test_a_ledger_that_cannot_be_made(tune: Command, tmp_path: Path) -> None:
    done = tune("--storage", str(tmp_path / "absent" / "tune.db"))
    assert done.status == 1
    assert "choose another --storage" in done.err


@RICH.needed
def test_the_live_view(tune: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    done = tune("--trials", "2")
    assert done.status == 0
    assert "2 candidates: 2 ok" in done.out
