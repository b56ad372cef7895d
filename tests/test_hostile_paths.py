"""Paths with a NUL character, and pipes where files should be: an error at once, never a hang or a bare exception."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import tcpx
from tcpx.cli.command import execute
from tcpx.tune.ledger import Ledger, StudyKey
from tcpx.tune.revalidation import revalidate
from tcpx.tune.study import Study
from tcpx.tuned import write_records

PAYLOAD = "func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = tcp.neg(%x) : tensor<4xf32>\n  tcp.return(%y)\n}\n"
BAD = "a\0b"


@pytest.fixture(scope="module")
def module() -> tcpx.Module:
    return tcpx.parse(PAYLOAD)


def empty_study(module: tcpx.Module) -> Study:
    key = StudyKey(1, "abc", {}, 0.0)
    return Study(module, tcpx.program_or_default(None), "generic", 1, key, (), None, None)


CALLS: dict[str, Callable[[tcpx.Module], object]] = {
    "save": lambda m: tcpx.compile(m, target="generic").save(BAD),
    "write": lambda m: tcpx.emit(m, target="generic").write(BAD),
    "load": lambda m: tcpx.load(BAD),
    "load a model": lambda m: tcpx.onnx.load(BAD),
    "write a model": lambda m: tcpx.onnx.write(m, BAD),
    "load_kernel": lambda m: tcpx.load_kernel(BAD),
    "load_schedule": lambda m: tcpx.load_schedule(BAD),
    "load_target": lambda m: tcpx.load_target(f"{BAD}.yaml"),
    "read_array": lambda m: tcpx.read_array(BAD),
    "tuned": lambda m: tcpx.compile(m, target="generic", tuned=BAD),
    "storage": lambda m: Ledger(BAD),
    "space": lambda m: tcpx.tune(m, space=BAD, trials=1),
    "page of a study": lambda m: empty_study(m).html(BAD),
    "record of a study": lambda m: empty_study(m).record(BAD),
    "records": lambda m: write_records(BAD, []),
    "records of functions": lambda m: tcpx.tune_by_kernel(m, record=BAD),
    "records measured again": lambda m: revalidate(m, record=BAD),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_path_with_a_nul_character(name: str, module: tcpx.Module) -> None:
    with pytest.raises(tcpx.TcpxError):
        CALLS[name](module)


@pytest.mark.parametrize(
    "words",
    ["run -o", "emit -o", "freeze -o", "explain --html", "profile --json", "profile --html", "tune --html"]
    + ["tune --record", "tune --dispatch", "tune --revalidate"],
)
def test_outputs_of_commands(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.tcp").write_text(PAYLOAD)
    command, option = words.split()
    assert execute([command, str(tmp_path / "f.tcp"), option, BAD]) == 1
    assert "NUL" in capsys.readouterr().err


def test_pipes_end_at_once(module: tcpx.Module, tmp_path: Path) -> None:
    folder = tcpx.compile(module, target="generic").save(tmp_path / "kernel")
    for file in ("f.json", "f.c"):
        kept = (folder / file).read_bytes()
        (folder / file).unlink()
        os.mkfifo(folder / file)
        with pytest.raises(tcpx.ArgumentError, match="Not a regular file"):
            tcpx.load_kernel(folder)
        (folder / file).unlink()
        (folder / file).write_bytes(kept)
    (folder / "f.so").unlink()
    os.mkfifo(folder / "f.so")
    tcpx.load_kernel(folder)  # the C is compiled
    os.mkfifo(tmp_path / "t.yaml")
    with pytest.raises(tcpx.TargetError, match="Not a regular file"):
        tcpx.load_target(tmp_path / "t.yaml")
