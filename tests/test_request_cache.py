"""The cache of kernels: the same request is not compiled again, any other is."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx import api
from tcpx.interp.trace import Trace
from tcpx.store import store
from tcpx.store.keys import code_of
from tcpx.transform.language.checker import program
from tests.kernel_cache import kernel_cache

PAYLOAD = """\
func @f(%x: tensor<[M]x8xf32>) -> tensor<[M]x4xf32> symbols [M] {
  %w = tcp.const {constant = "w"} : tensor<8x4xf32>
  %o = tcp.matmul(%x, %w) : tensor<[M]x4xf32>
  tcp.return(%o)
}
"""
SCHEDULE = (
    "language 1\nschedule s(root: func) {\n  knob rows: int = 2 in [2, 4]\n  let mm = match one matmul in root\n"
    + ("  tile(mm, [m: rows])\n}\n")
)
X = np.arange(24, dtype=np.float32).reshape(3, 8)


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[list[object]]:
    """What was scheduled, in a cache of its own."""
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / "cache"))
    found: list[object] = []
    lowered = api.lowered

    def noted(*arguments: Any) -> Any:
        found.append(arguments)
        return lowered(*arguments)

    monkeypatch.setattr(api, "lowered", noted)
    with kernel_cache():
        yield found


def module(text: str = PAYLOAD, scale: float = 1.0, file: str = "f.tcp") -> tcpx.Module:
    weights = np.full((8, 4), scale, np.float32)
    return tcpx.parse(text, file, constants={"w": weights} if "constant" in text else {})


def compiled(payload: tcpx.Module | None = None, schedule: str | None = SCHEDULE, **options: Any) -> tcpx.Kernel:
    given = tcpx.parse_schedule(schedule) if schedule is not None else None
    return tcpx.compile(payload or module(), given, **{"target": "generic", **options})


def test_the_same_request_is_not_scheduled_again(made: list[object]) -> None:
    for schedule in (SCHEDULE, None):
        kernel, again = compiled(schedule=schedule), compiled(schedule=schedule)
        assert (again.signature, again.sources, again.remarks) == (kernel.signature, kernel.sources, kernel.remarks)
        assert np.array_equal(kernel(X), again(X))
    assert len(made) == 2


def test_the_trace_is_made_again_when_it_is_read(made: list[object]) -> None:
    kernel, again = compiled(), compiled()
    assert len(made) == 1
    assert isinstance(kernel.trace, Trace)
    for _ in range(2):
        assert isinstance(again.trace, Trace)
        assert [e.statement for e in again.trace.entries] == [e.statement for e in kernel.trace.entries]
    assert len(made) == 2


def test_remarks_and_warnings_are_those_of_the_first(made: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    unread = SCHEDULE.replace("language 1\n", 'language 1\nimport "lib/gemm.tcps" as g\n')
    for _ in range(2):
        monkeypatch.setattr(program, "_WARNED", {})  # as in another process
        with pytest.warns(tcpx.ScheduleWarning, match="nothing reads the import `g`"):
            compiled(schedule=unread)
    assert len(made) == 1


def test_any_other_request_is(made: list[object], tmp_path: Path) -> None:
    library = tmp_path / "mine.tcps"
    others: list[dict[str, Any]] = [
        {},
        {"payload": module(PAYLOAD.replace("symbols [M]", "symbols [M: 1..9]"))},
        {"payload": module(scale=2.0)},
        {"payload": module(file="g.tcp")},
        {"schedule": SCHEDULE.replace("= 2 in", "= 4 in")},
        {"params": {"rows": 4}},
        {"threads": 2},
        {"name": "other"},
        {"strided": True},
        {"target": "x86_avx2"},
        {"target": tcpx.load_target("x86_avx512", ())},
        {"target": tcpx.load_target("x86_avx512")},
    ]
    for options in others:
        compiled(**options)
    assert len(made) == len(others)
    for options in others:
        compiled(**options)
    assert len(made) == len(others)
    for text in (SCHEDULE, "// moved by a line\n" + SCHEDULE):
        library.write_text(text, encoding="utf-8")
        for _ in range(2):
            tcpx.compile(module(), tcpx.load_schedule(library), target="generic")
    assert len(made) == len(others) + 2
    assert np.array_equal(compiled(payload=module(scale=2.0))(X), X @ np.full((8, 4), 2.0, np.float32))


def test_without_cache_and_sanitized_it_is_compiled(made: list[object]) -> None:
    several: list[dict[str, Any]] = [{"cache": False}, {"cache": False}, {"sanitize": True}, {"sanitize": True}]
    for options in several:
        compiled(**options)
    assert len(made) == 4


def test_a_table_of_a_user_counts_by_its_content(made: list[object], tmp_path: Path) -> None:
    table = tmp_path / "mine.yaml"

    def own(text: str) -> None:
        table.write_text(text, encoding="utf-8")
        compiled(target=tcpx.load_target(table, allow_native=True))

    for flags in ("-O1", "-O2", "-O1"):
        own(f"name: mine\nbase: generic.yaml\nflags: [{flags}, -ffp-contract=off]\n")
    assert len(made) == 2
    compiled(target="generic")
    for _ in range(2):  # called like the installed one, of which a kernel is there
        own("name: generic\nbase: generic.yaml\nl2: 4096\n")
    assert len(made) == 4


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[str, str], list[type]]]:
    """A module that uses another one, read anew: the classes of the first."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def read(one: str, other: str) -> list[type]:
        (tmp_path / "cache_one.py").write_text(f"import cache_other\n\nclass Used:\n    value = {one}\n")
        (tmp_path / "cache_other.py").write_text(f"import numpy\n\nvalue = {other}\n")
        for name in ("cache_one", "cache_other"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return [importlib.import_module("cache_one").Used]

    yield read
    for name in ("cache_one", "cache_other"):
        sys.modules.pop(name, None)


def test_code_from_outside_counts_by_its_content(script: Callable[[str, str], list[type]]) -> None:
    first = code_of([*script("1", "2"), tcpx.Kernel])
    assert first is not None
    assert sorted(first) == ["cache_one", "cache_other", "numpy"], "of an installed package the version"
    assert first["numpy"] == np.__version__
    assert first == code_of(script("1", "2"))
    assert first != code_of(script("2", "2"))
    assert first != code_of(script("1", "3"))


def test_code_that_no_file_tells_is_not_looked_for() -> None:
    class Local:
        pass

    typed = type("Typed", (), {"__module__": "typed_in"})
    assert code_of([Local]) is None
    assert code_of([typed]) is None
    assert code_of([]) == {}


def test_an_entry_that_is_damaged_is_made_anew(made: list[object], tmp_path: Path) -> None:
    compiled()
    (entry,) = (tmp_path / "cache" / "kernels").iterdir()
    for name in ("f.json", "f.c"):
        content = (entry / name).read_bytes()
        (entry / name).write_bytes(content[: len(content) // 2])
        assert np.array_equal(compiled()(X), X @ np.ones((8, 4), np.float32))
        assert (entry / name).read_bytes() == content
    assert len(made) == 3
    compiled()
    assert len(made) == 3


@pytest.mark.parametrize("place", ["f.json", "f.c", "", ".."])
def test_what_is_no_file_or_no_folder_is_made_anew(place: str, made: list[object], tmp_path: Path) -> None:
    compiled()
    (entry,) = (tmp_path / "cache" / "kernels").iterdir()
    path = (entry / place).resolve()
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("no folder", encoding="utf-8")
    else:
        path.unlink()
        path.mkdir()
        (path / "inside").write_text("", encoding="utf-8")
    compiled()
    compiled()
    assert len(made) == 2
    assert path.exists()


def test_the_newest_stays_however_large(made: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_LIMIT", "1")
    for name in ("one", "other", "other"):
        compiled(name=name)
    assert len(list((tmp_path / "cache" / "kernels").iterdir())) == 1
    assert len(made) == 2


def test_a_kernel_that_cannot_be_kept_is_there(made: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the disk is full."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "f.bin")

    monkeypatch.setattr(store, "write_whole", full)
    with pytest.warns(
        RuntimeWarning, match=r"^the kernel is not kept for other processes: No space left on device: f\.bin$"
    ):
        kernel = compiled()
    assert np.array_equal(kernel(X), X @ np.ones((8, 4), np.float32))
    assert len(made) == 1


def test_the_command_keeps_what_it_ran(made: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tcpx.cli import main

    payload = tmp_path / "g.tcp"
    payload.write_text(
        "func @g(%x: tensor<[M]xf32>) -> tensor<[M]xf32> symbols [M] { %y = tcp.neg(%x) : tensor<[M]xf32>\n"
        "tcp.return(%y) }",
        encoding="utf-8",
    )
    for options in ([], [], ["--no-cache"]):
        assert main(["run", str(payload), "--random", "0", "--size", "M=9", "--check", *options]) == 0
        assert "out  %out: 9 float32" in capsys.readouterr().out
    assert len(made) == 2
