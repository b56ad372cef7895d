"""Paths with a NUL character, and pipes where files should be: an error at once, never a hang or a bare exception."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import tcpx
from tcpx.tune.ledger import Ledger

PAYLOAD = "func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = tcp.neg(%x) : tensor<4xf32>\n  tcp.return(%y)\n}\n"
BAD = "a\0b"


@pytest.fixture(scope="module")
def module() -> tcpx.Module:
    return tcpx.parse(PAYLOAD)


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
}


@pytest.mark.parametrize("name", CALLS)
def test_a_path_with_a_nul_character(name: str, module: tcpx.Module) -> None:
    with pytest.raises(tcpx.TcpxError):
        CALLS[name](module)


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
