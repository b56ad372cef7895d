"""`compile(.., cache=True)`: the same request is not compiled again, any other is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx import api, request_cache

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
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was scheduled, in a cache of its own."""
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / "cache"))
    found: list[object] = []
    lowered = api.lowered

    def noted(*arguments: Any) -> Any:
        found.append(arguments)
        return lowered(*arguments)

    monkeypatch.setattr(api, "lowered", noted)
    return found


def module(text: str = PAYLOAD, scale: float = 1.0, file: str = "f.tcp") -> tcpx.Module:
    weights = np.full((8, 4), scale, np.float32)
    return tcpx.parse(text, file, constants={"w": weights} if "constant" in text else {})


def compiled(payload: tcpx.Module | None = None, schedule: str | None = SCHEDULE, **options: Any) -> tcpx.Kernel:
    given = tcpx.parse_schedule(schedule) if schedule is not None else None
    return tcpx.compile(payload or module(), given, **{"target": "generic", "cache": True, **options})


def test_the_same_request_is_not_scheduled_again(made: list[object]) -> None:
    for schedule in (SCHEDULE, None):
        kernel, again = compiled(schedule=schedule), compiled(schedule=schedule)
        assert (again.signature, again.sources, again.remarks) == (kernel.signature, kernel.sources, kernel.remarks)
        assert np.array_equal(kernel(X), again(X))
        assert kernel.trace is not None
        assert again.trace is None
    assert len(made) == 2


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
            tcpx.compile(module(), tcpx.load_schedule(library), target="generic", cache=True)
    assert len(made) == len(others) + 2
    assert np.array_equal(compiled(payload=module(scale=2.0))(X), X @ np.full((8, 4), 2.0, np.float32))


def test_without_cache_and_sanitized_it_is_compiled(made: list[object]) -> None:
    several: list[dict[str, Any]] = [{"cache": False}, {"cache": False}, {"sanitize": True}, {"sanitize": True}]
    for options in several:
        compiled(**options)
    assert len(made) == 4


def test_what_is_from_outside_is_compiled(made: list[object], tmp_path: Path) -> None:
    table = tmp_path / "mine.yaml"
    table.write_text("name: mine\nbase: generic.yaml\nflags: [-O1, -ffp-contract=off]\n", encoding="utf-8")
    for _ in range(2):
        compiled(target=tcpx.load_target(table, allow_native=True))
    assert len(made) == 2
    table.write_text("name: generic\nbase: generic.yaml\nl2: 4096\n", encoding="utf-8")
    compiled(target="generic")
    for _ in range(2):  # called like the installed one, of which a kernel is there
        compiled(target=tcpx.load_target(table))
    assert len(made) == 5


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


def test_entries_used_least_recently_go(made: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several = [{"params": {"rows": 4}}, {"params": {"rows": 2}}, {"name": "other"}]
    folder = tmp_path / "cache" / "kernels"
    for age, options in enumerate(several[:2]):
        compiled(**options)
        for entry in folder.iterdir():
            os.utime(entry, (1000.0 + age, 1000.0 + age))
    size = max(sum(path.stat().st_size for path in entry.iterdir()) for entry in folder.iterdir())
    monkeypatch.setattr(request_cache, "MOST_BYTES", int(2.5 * size))
    compiled(**several[0])  # used now: the other one is the oldest
    compiled(**several[2])
    assert len(list(folder.iterdir())) == 2
    assert len(made) == 3
    compiled(**several[0])
    compiled(**several[2])
    assert len(made) == 3
    compiled(**several[1])
    assert len(made) == 4
    monkeypatch.setattr(request_cache, "MOST_BYTES", 1)
    compiled(threads=2)
    assert len(list(folder.iterdir())) == 1, "the newest stays, however large"


def test_a_kernel_that_cannot_be_kept_is_there(made: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the disk is full."""

    def full(*_: object) -> None:
        raise tcpx.ArgumentError(tcpx.Diagnostic("the kernel cannot be saved", found="No space left on device: f.bin"))

    monkeypatch.setattr(request_cache, "write_folder", full)
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
