"""The command as a whole: help, exit statuses, the entry points."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tcpx

SUBCOMMANDS = (
    *(
        "run",
        "emit",
        "check",
        "explain",
        "bench",
        "tune",
        "freeze",
        "diff",
        "fmt",
        "ops",
        "import",
        "cache",
        "calibrate",
    ),
)
Command = Callable[..., SimpleNamespace]


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpx.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_terminal_that_lacks_a_character(tmp_path: Path) -> None:
    payload, schedule = tmp_path / "p.tcp", tmp_path / "s.tcps"
    payload.write_text("func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n  %s = tcp.add(%x, %x) : tensor<8xf32>\n"
                       "  tcp.return(%s)\n}\n")  # fmt: skip
    text = 'language 1\n\nschedule s(root: func) { emit_remark(match one add in root, "größe") }\n'
    schedule.write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "tcpx.cli"]
    arguments = ["explain", str(payload), "-s", str(schedule)]
    done = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr\\xf6\\xdfe" in done.stdout
    piped = subprocess.run(
        [*command, "fmt", "-"], env=environment, input=text.encode(), capture_output=True, check=False
    )
    assert (piped.returncode, piped.stdout.decode()) == (0, text)
    refused = subprocess.run([*command, "fmt", "-"], input=b"language 1 // \xff", capture_output=True, check=False)
    assert refused.returncode == 1
    assert b"found: the byte 0xff, which is no character" in refused.stderr


def test_help_names_every_subcommand(tcpx_command: Command) -> None:
    done = tcpx_command("--help")
    assert done.status == 0
    assert all(name in done.out for name in SUBCOMMANDS)


def test_a_schedule_without_its_option_is_told_so(tcpx_command: Command) -> None:
    done = tcpx_command("check", "mine.tcps", "f.tcp")
    assert done.status == 2
    assert done.err.endswith("unrecognized arguments: f.tcp; a schedule is given with -s mine.tcps\n")


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_has_an_example_and_a_word_on_every_option(name: str, tcpx_command: Command) -> None:
    done = tcpx_command(name, "--help")
    assert done.status == 0
    assert f"example:\n  tcpx {name} " in done.out
    assert "exit status: 0 done, 1 a diagnostic" in done.out


def test_version(tcpx_command: Command) -> None:
    assert tcpx_command("--version").out == f"tcpx {tcpx.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["compile"],
        ["run"],
        ["run", "x.tcp", "--threads", "0"],
        ["run", "x.tcp", "--target", "z80"],
        ["run", "x.tcp", "--size", "B"],
        ["run", "x.tcp", "--size", "B=-1"],
        ["run", "x.tcp", "--size", "B=4"],
        ["run", "x.tcp", "--random", "0", "--size", "B=4", "--size", "B=5"],
        ["run", "x.tcp", "--random", "-1"],
        ["run", "x.tcp", "--input", "x"],
        ["run", "x.tcp", "--param", "=4"],
        ["run", "x.tcp", "--tolerance", "1e-6"],
        ["run", "x.tcp", "-o", "y.txt"],
        ["check"],
        ["ops", "a", "b"],
    ],
)
def test_a_wrong_command_line_is_2(arguments: list[str], files: SimpleNamespace, tcpx_command: Command) -> None:
    words = [files.payload if word == "x.tcp" else word for word in arguments]
    done = tcpx_command(*words)
    assert done.status == 2
    assert done.out == ""
    assert done.err


@pytest.mark.parametrize("name", ["run", "emit", "check", "explain"])
def test_a_missing_payload_is_1(name: str, files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command(name, "absent.tcp", "-s", files.schedule)
    assert done.status == 1
    assert "cannot read absent.tcp" in done.err


@pytest.mark.parametrize("name", ["run", "emit", "check", "explain"])
def test_a_missing_schedule_is_1(name: str, files: SimpleNamespace, tcpx_command: Command) -> None:
    more = ["--random", "0", "--size", "N=3"] if name == "run" else []
    done = tcpx_command(name, files.payload, "-s", "absent.tcps", *more)
    assert done.status == 1
    assert "cannot read absent.tcps" in done.err


def test_a_schedule_that_is_no_text_is_1(files: SimpleNamespace, tcpx_command: Command) -> None:
    path = files.folder / "binary.tcps"
    path.write_bytes(b"\xff\xfe\x00")
    done = tcpx_command("check", "-s", str(path))
    assert done.status == 1
    assert f"cannot read {path}" in done.err


@pytest.mark.parametrize("name", ["run", "emit", "check", "explain"])
def test_a_failing_step_shows_both_carets(name: str, files: SimpleNamespace, tcpx_command: Command) -> None:
    more = ["--random", "0", "--size", "N=3"] if name == "run" else []
    done = tcpx_command(name, files.payload, "-s", files.wrong_dim, *more)
    assert done.status == 1
    schedule, payload = done.err.index("(schedule)"), done.err.index("(payload)")
    assert "let i = tile(s, [q: height])" in done.err[schedule:payload]
    assert "^^^" in done.err[schedule:payload]
    assert "%s = tcp.add(%r, %y)" in done.err[payload:]
    assert "^^^" in done.err[payload:]
    assert "in rows, called from" in done.err
    assert "Traceback" not in done.err


def test_a_payload_with_an_error_is_located(files: SimpleNamespace, tcpx_command: Command) -> None:
    path = files.write("bad.tcp", "func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  tcp.return(%z)\n}\n")
    done = tcpx_command("explain", path, "-s", files.schedule)
    assert done.status == 1
    assert f"{path}:2:" in done.err
    assert "^" in done.err


def test_as_a_module(files: SimpleNamespace) -> None:
    done = process("check", files.payload, "-s", files.wrong_dim)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "(schedule)" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_stops_is_no_traceback() -> None:
    command = f"{sys.executable} -m tcpx.cli ops --transforms | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


def test_the_entry_point_is_declared() -> None:
    entries = metadata.entry_points(group="console_scripts", name="tcpx")
    assert [entry.value for entry in entries] == ["tcpx.cli:main"]


def test_where_nothing_can_be_written_is_said_before_the_work(files: SimpleNamespace, tcpx_command: Command) -> None:
    """Before the payload is read: it does not even have to be there."""
    name, absent = str(files.folder / "none.tcp"), files.folder / "absent"
    for words in (
        ("run", name, "-o", f"{absent}/y.npy"),
        ("explain", name, "--html", f"{absent}/y.npy"),
        ("profile", name, "--json", f"{absent}/y.npy"),
        ("profile", name, "--html", f"{absent}/y.npy"),
        ("bench", name, "-o", f"{absent}/y.npy"),
        ("freeze", name, "-o", f"{absent}/y.npy"),
        *(("tune", name, option, f"{absent}/y.npy") for option in ("--record", "--dispatch", "--html")),
    ):
        done = tcpx_command(*words)
        assert (done.status, done.out) == (1, "")
        assert done.err == (
            f"definite error: cannot use {absent}/y.npy\n  required: a path that exists\n"
            f"  found: No such file or directory\n  fix: make the folder {absent} first\n"
        )
    done = tcpx_command("profile", name, "--json", str(files.folder))
    assert done.err == (
        f"definite error: cannot use {files.folder}\n  required: a file\n  found: Is a directory\n"
        "  fix: name a file in that folder\n"
    )
    for words in (("-o", f"{files.payload}/out"), ("-o", str(files.payload))):
        assert "definite error: cannot use " in tcpx_command("emit", name, *words).err


def test_what_the_system_refuses_is_a_diagnostic(files: SimpleNamespace, tcpx_command: Command) -> None:
    absent = files.folder / "absent"
    run = ["run", files.payload, "-s", files.schedule, "--random", "0", "--size", "N=3", "-o", str(absent / "y.npy")]
    page = ["explain", files.payload, "-s", files.schedule, "--html", str(absent / "page.html")]
    for words, name in ((run, "y.npy"), (page, "page.html")):
        done = tcpx_command(*words)
        assert done.status == 1
        assert done.err == (
            f"definite error: cannot use {absent / name}\n  required: a path that exists\n"
            f"  found: No such file or directory\n  fix: make the folder {absent} first\n"
        )
    done = tcpx_command("emit", files.payload, "-s", files.schedule, "-o", files.payload)
    assert (done.status, done.err) == (
        1,
        f"definite error: cannot use {files.payload}\n  required: a folder, or a free path\n"
        "  found: File exists\n  fix: choose another path\n",
    )
    done = tcpx_command("emit", files.payload, "-s", files.schedule, "-o", f"{files.payload}/out")
    assert (done.status, done.err) == (
        1,
        f"definite error: cannot use {files.payload}/out\n  required: a folder at every part of the path but the last\n"
        "  found: Not a directory\n  fix: choose another path\n",
    )
    done = tcpx_command("fmt", "nope.tcps")
    assert (done.status, done.err) == (
        1,
        "definite error: cannot read nope.tcps\n  --> nope.tcps:1:1 (schedule)\n  required: a schedule text in UTF-8\n"
        "  found: No such file or directory\n",
    )


def test_interrupted(tcpx_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tcpx.load", interrupt)
    done = tcpx_command("check", "x.tcp")
    assert (done.status, done.out, done.err) == (130, "", "tcpx: interrupted\n")


def test_ctrl_c_in_a_kernel_counts_when_it_ends(
    files: SimpleNamespace, tcpx_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    call = tcpx.Kernel.__call__

    def interrupted(kernel: tcpx.Kernel, *arrays: Any) -> object:
        results = call(kernel, *arrays)
        signal.raise_signal(signal.SIGINT)
        return results

    monkeypatch.setattr(tcpx.Kernel, "__call__", interrupted)
    saved = tmp_path / "out.npy"
    done = tcpx_command("run", files.payload, "--random", "0", "--size", "N=3", "-o", str(saved))
    assert (done.status, done.out, done.err) == (130, "", "tcpx: interrupted\n")
    assert not saved.exists()


def test_ctrl_c_ends_a_command(files: SimpleNamespace) -> None:
    ugly = files.write("ugly.tcps", "language  1\nschedule s(root: func) { print(root) }\n")
    command = [sys.executable, "-u", "-m", "tcpx.cli", "fmt", "--diff", ugly, "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() != b""  # it runs, and reads standard input next
        running.send_signal(signal.SIGINT)
        _, err = running.communicate()
    assert (running.returncode, err) == (130, b"tcpx: interrupted\n")


def test_streams_that_are_closed(files: SimpleNamespace) -> None:
    command = [sys.executable, "-m", "tcpx.cli", "check", files.payload]
    for redirection in (">&-", "2>&-", ">&- 2>&-"):
        done = subprocess.run(["sh", "-c", f'"$@" {redirection}', "sh", *command], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
