"""A small payload with schedules for it, right and wrong, and the command with what it printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tcpx.cli import main, progress

PAYLOAD = """\
func @axpy(%x: tensor<[N]x8xf32>, %y: tensor<[N]x8xf32>) -> tensor<[N]x8xf32> symbols [N: 0..4096] {
  %r = tcp.mul(%x, %y) : tensor<[N]x8xf32>
  %s = tcp.add(%r, %y) : tensor<[N]x8xf32>
  tcp.return(%s)
}
"""
SCHEDULE = """\
language 1

/// Rows of the sum.
sequence rows(s: op) -> loop {
  knob height: int = 4 in [2, 4, 8]   /// rows of a tile
  let i = tile(s, [d0: height])
  return i
}

schedule axpy(root: func) {
  let s = match one elementwise in root where name == "s"
  let i = rows(s)
  print(i)
}
"""
WRONG_DIM = SCHEDULE.replace("d0: height", "q: height")
WRONG_NAME = SCHEDULE.replace("tile(s", "tyle(s")


@dataclass(frozen=True, slots=True)
class Files:
    """Paths, as the command line takes them."""

    folder: Path
    payload: str
    schedule: str
    wrong_dim: str
    wrong_name: str

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stderr says is not that a busy machine took long."""
    monkeypatch.setattr(progress, "FIRST_ELSEWHERE", 3600.0)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(tmp_path, *(str(tmp_path / name) for name in ("axpy.tcp", "axpy.tcps", "dim.tcps", "name.tcps")))
    for path, text in zip(
        (made.payload, made.schedule, made.wrong_dim, made.wrong_name),
        (PAYLOAD, SCHEDULE, WRONG_DIM, WRONG_NAME),
        strict=True,
    ):
        Path(path).write_text(text, encoding="utf-8")
    return made


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str


Tcpx = Callable[..., Outcome]


@pytest.fixture
def tcpx_command(capsys: pytest.CaptureFixture[str]) -> Tcpx:
    """`tcpx_command("run", ...)`: the command in this process, also where argparse exits."""

    def run(*arguments: str) -> Outcome:
        try:
            status = main(arguments)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
        printed = capsys.readouterr()
        return Outcome(status, printed.out, printed.err)

    return run
