"""tcpx ops: lists and pages."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

import tcpx

Command = Callable[..., SimpleNamespace]


def test_every_operation_has_a_line(tcpx_command: Command) -> None:
    done = tcpx_command("ops")
    assert (done.status, done.err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert lines.keys() == tcpx.ops().keys()
    assert lines["tcp.add"] == "a + b; integers wrap around."


def test_every_transform_has_its_signature(tcpx_command: Command) -> None:
    done = tcpx_command("ops", "--transforms")
    assert (done.status, done.err) == (0, "")
    for transform in tcpx.transforms().values():
        assert f"\n  {transform.signature()}\n" in done.out


@pytest.mark.parametrize("name", ["tcp.matmul", "matmul"])
def test_operation_page(name: str, tcpx_command: Command) -> None:
    done = tcpx_command("ops", name)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("tcp.matmul(%lhs, %rhs, [%init])\n  Matrix product")
    assert "in the operation tree: matmul" in done.out


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gelu", "  approximate: none | tanh (else none)"),
        ("softmax", "  dim: an int, or a list of ints"),
        ("empty", "  own: true, or false, which is the same as left out"),
    ],
)
def test_operation_page_lists_attributes(name: str, line: str, tcpx_command: Command) -> None:
    assert line in tcpx_command("ops", name).out.splitlines()


def test_transform_page(tcpx_command: Command) -> None:
    done = tcpx_command("ops", "tile", "--transforms")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("tile(target: op, sizes: map from dims to sizes")
    assert "before:" in done.out
    assert "parameters:\n    target: the operation to tile" in done.out


@pytest.mark.parametrize(
    ("words", "fix"), [(["matmull"], "matmul"), (["tyle"], "tile"), (["tiles", "--transforms"], "tile"), (["?"], None)]
)
def test_unknown_name(words: list[str], fix: str | None, tcpx_command: Command) -> None:
    done = tcpx_command("ops", *words)
    assert (done.status, done.out) == (1, "")
    assert f"`{words[0]}`" in done.err
    assert ("did you mean" in done.err) is (fix is not None)
    assert fix is None or f"did you mean `{fix}`?" in done.err
