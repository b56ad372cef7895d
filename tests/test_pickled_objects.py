"""Errors and targets go to other processes, and copies are equal."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

import tcpx
from tcpx.frontends.onnx.errors import OnnxError, UnsupportedError
from tcpx.interp.navigation import UnknownNameError
from tcpx.payload.diagnostics import Diagnostic, Location, TcpxError

PLACE = Location("f.tcp", 2, 3)
DIAGNOSTIC = Diagnostic("no", required="a", found="b", fix="c")
ERRORS = [
    tcpx.ArgumentError(DIAGNOSTIC),
    tcpx.TargetError("no", required="a", found="b", where="x.yaml"),
    UnknownNameError(DIAGNOSTIC, "m"),
    OnnxError(DIAGNOSTIC, ["N"]),
    UnsupportedError(DIAGNOSTIC, ["N"], []),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors(error: TcpxError) -> None:
    for found in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(found) is type(error)
        assert str(found) == str(error)
        assert vars(found) == vars(error)
    placed = error.with_places(payload=PLACE)
    assert type(placed) is type(error)
    assert (placed.diagnostic.payload, error.diagnostic.payload) == (PLACE, None)
    assert vars(placed) == {**vars(error), "diagnostic": placed.diagnostic}
    assert "f.tcp:2:3" in str(placed)


def test_the_error_of_a_text() -> None:
    with pytest.raises(tcpx.ParseError) as caught:
        tcpx.parse("func @f(")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_targets(tmp_path: Path) -> None:
    for name in ("generic", "x86_avx512+", "sapphire_rapids"):
        target = tcpx.load_target(name)
        found = pickle.loads(pickle.dumps(target))
        assert (found.spec, found.features, found.rows) == (target.spec, target.features, target.rows)
        assert copy.deepcopy(target) is target
    mine = tmp_path / "mine.yaml"
    mine.write_text("name: mine\nbase: generic.yaml\nl1: 16384\n", encoding="utf-8")
    with pytest.raises(tcpx.TargetError, match="found: mine, whose table is a file"):
        pickle.dumps(tcpx.load_target(mine))


def test_sources() -> None:
    text = "func @f(%x: tensor<4xf32>) -> tensor<4xf32> { %y = tcp.exp(%x) : tensor<4xf32> tcp.return(%y) }"
    source = tcpx.emit(tcpx.parse(text), target="generic")
    found = pickle.loads(pickle.dumps(source))
    assert found == source
    assert found.files == source.files
