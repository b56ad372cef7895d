"""Which files a schedule may import: relative paths of schedules, read only where they are files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tcpx
from tcpx.payload.diagnostics import ScheduleError

LIBRARY = "language 1\nsequence tiled(mm: op<contract>) { tile(mm, [m: 4]) }\n"
MAIN = """
language 1
import "{}" as lib
schedule s(root: func) {{ for mm in match some contract in root {{ lib.tiled(mm) }} }}
"""
SECRET = "root:x:0:0:root:/root:/bin/bash"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inner = tmp_path / "inner"
    inner.mkdir()
    for place in (tmp_path, inner):
        (place / "lib.tcps").write_text(LIBRARY)
    (tmp_path / "passwd").write_text(SECRET)
    (inner / "link.tcps").symlink_to("../passwd")
    (inner / "circle.tcps").symlink_to("circle.tcps")
    (inner / "renamed").symlink_to("lib.tcps")
    (inner / "folder.tcps").mkdir()
    os.mkfifo(inner / "pipe.tcps")
    return inner


def load(folder: Path, path: str) -> tcpx.Schedule:
    (folder / "main.tcps").write_text(MAIN.format(path))
    return tcpx.load_schedule(folder / "main.tcps")


@pytest.mark.parametrize("path", ["lib.tcps", "./lib.tcps", "../lib.tcps", "renamed"])
def test_relative_paths_of_schedules(folder: Path, path: str) -> None:
    assert tcpx.check(load(folder, path)) == ()


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("{folder}/lib.tcps", "an absolute path"),
        ("/etc/passwd", "an absolute path"),
        ("../passwd", "the file {above}/passwd"),
        ("link.tcps", "the file {above}/passwd"),
    ],
)
def test_other_files_are_neither_read_nor_quoted(folder: Path, path: str, found: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        load(folder, path.format(folder=folder))
    diagnostic = caught.value.diagnostic
    assert diagnostic.message.endswith("is not imported")
    assert diagnostic.found == found.format(above=folder.parent)
    assert diagnostic.schedule is not None
    assert diagnostic.schedule.line == 3
    assert "root:x" not in diagnostic.render()


@pytest.mark.parametrize("path", ["pipe.tcps", "folder.tcps", "circle.tcps", "none.tcps"])
def test_what_is_no_file_is_not_there(folder: Path, path: str) -> None:
    with pytest.raises(ScheduleError, match=r"is not there|this cannot be the path of a file"):
        load(folder, path)
