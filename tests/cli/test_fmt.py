"""tcpx fmt: files, folders and standard input; --check and --diff write nothing."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

Command = Callable[..., SimpleNamespace]
UGLY = "language  1\nschedule s( root:func ) { print( root ) } // all\n"
NICE = "language 1\n\nschedule s(root: func) { print(root) }  // all\n"


def test_writes_files_and_folders(tmp_path: Path, tcpx_command: Command) -> None:
    path = tmp_path / "lib" / "a.tcps"
    path.parent.mkdir()
    path.write_text(UGLY)
    done = tcpx_command("fmt", str(tmp_path))
    assert (done.status, done.out, done.err) == (0, f"{path}: formatted\n", "")
    assert path.read_text() == NICE
    again = tcpx_command("fmt", "--check", str(path))
    assert (again.status, again.out, again.err) == (0, "", "")


BLURRED = """\
func @f(%x: tensor<[N + 1]xf32>, %z: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %p = tcp.exp(%x) : tensor<[N + 1]xf32>
  %a = tcp.slice(%p) {offsets = [0]} : tensor<[N]xf32>
  %b = tcp.slice(%p) {offsets = [1]} : tensor<[N]xf32>
  %s = tcp.add(%a, %z) : tensor<[N]xf32>
  %y = tcp.add(%s, %b) : tensor<[N]xf32>
  tcp.return(%y)
}
"""
OLD = """\
language 1

schedule s(root: func) {
  let i = tile(match one "y" in root, [d0: 4])  // rows
  fuse(match one "p" in root, into: i)
}
"""


def test_upgrade(tmp_path: Path, tcpx_command: Command) -> None:
    path, payload = tmp_path / "a.tcps", tmp_path / "f.tcp"
    path.write_text(OLD)
    payload.write_text(BLURRED)
    changes = f"{path}:1: language 2, was 1\n{path}:5: offsets: true, which `fuse` did in language 1\n"
    checked = tcpx_command("fmt", "--upgrade", "--check", str(path))
    assert (checked.status, checked.out) == (1, f"{changes}{path}: is not formatted\n")
    done = tcpx_command("fmt", "--upgrade", str(path), "--payload", str(payload))
    assert (done.status, done.out, done.err) == (0, f"{changes}{path}: formatted\n", "")
    assert 'fuse(match one "p" in root, into: i, offsets: true)\n' in path.read_text()
    again = tcpx_command("fmt", "--upgrade", "--check", str(path))
    assert (again.status, again.out, again.err) == (0, "", "")
    assert tcpx_command("check", str(payload), "-s", str(path)).status == 0
    alone = tcpx_command("fmt", "--payload", str(payload), str(path))
    assert (alone.status, "--upgrade beside --payload" in alone.err) == (2, True)


def test_upgrade_of_standard_input(tcpx_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(UGLY))
    done = tcpx_command("fmt", "--upgrade", "-")
    assert (done.status, done.out) == (0, NICE.replace("language 1", "language 2"))
    assert done.err == "<stdin>:1: language 2, was 1\n"


def test_a_byte_order_mark_goes(tmp_path: Path, tcpx_command: Command) -> None:
    path = tmp_path / "a.tcps"
    path.write_text(UGLY, encoding="utf-8-sig")
    assert tcpx_command("fmt", str(path)).status == 0
    assert path.read_bytes() == NICE.encode()


def test_check_and_diff_write_nothing(tmp_path: Path, tcpx_command: Command) -> None:
    path = tmp_path / "a.tcps"
    path.write_text(UGLY)
    done = tcpx_command("fmt", "--check", str(path))
    assert (done.status, done.out) == (1, f"{path}: is not formatted\n")
    done = tcpx_command("fmt", "--diff", str(path))
    assert done.status == 0
    assert "-language  1\n-schedule s( root" in done.out
    assert "+language 1\n+\n+schedule s(root" in done.out
    assert tcpx_command("fmt", "--check", "--diff", str(path)).status == 1
    assert path.read_text() == UGLY


def test_standard_input(tcpx_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(UGLY))
    done = tcpx_command("fmt", "-")
    assert (done.status, done.out, done.err) == (0, NICE, "")


def test_standard_input_that_is_no_text(tcpx_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"language 1 \xff"), encoding="utf-8"))
    done = tcpx_command("fmt", "-")
    assert done.status == 1
    assert "cannot read <stdin>" in done.err
    assert "found: the byte 0xff, which is no character" in done.err


def test_what_cannot_be_formatted(tmp_path: Path, tcpx_command: Command) -> None:
    payload = tcpx_command("fmt", "a.tcp")
    assert payload.status == 2
    assert "only schedules can be formatted" in payload.err
    path = tmp_path / "a.tcps"
    path.write_text("schedule")
    wrong = tcpx_command("fmt", str(path))
    assert wrong.status == 1
    assert f"{path}:1" in wrong.err
    path.write_bytes(b"\xff")
    assert "which is no character" in tcpx_command("fmt", str(path)).err
    assert tcpx_command("fmt", str(tmp_path / "none.tcps")).status == 1
