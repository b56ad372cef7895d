"""tcpx cache: what there is, and emptying it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import tcpx
from tests.kernel_cache import kernel_cache

Command = Callable[..., SimpleNamespace]
PAYLOAD = "func @f(%x: tensor<4xf32>) -> tensor<4xf32> { %y = tcp.neg(%x) : tensor<4xf32>\ntcp.return(%y) }"


def test_info_and_clear(tcpx_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TCPX_CACHE_DIR", str(cache))
    monkeypatch.setenv("TCPX_CACHE_LIMIT", "2.5G")
    done = tcpx_command("cache", "info")
    assert (done.status, done.out) == (0, f"{cache}\n  0 bytes of at most 2.5 GiB\n")
    with kernel_cache():
        kernel = tcpx.compile(tcpx.parse(PAYLOAD), target="generic")
    (cache / "mine.txt").write_text("keep", encoding="utf-8")
    info = tcpx.cache_info()
    assert {kind: part.entries for kind, part in info.parts.items()} == {"compiled C": 1, "kernels": 1}
    assert kernel.library_path.stat().st_size < info.bytes < 1 << 20
    done = tcpx_command("cache", "info")
    assert done.out.splitlines()[1].startswith("  compiled C: 1, ")
    assert done.out.splitlines()[2].startswith("  kernels: 1, ")
    done = tcpx_command("cache", "clear")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("removed 2 entries, ")
    assert tcpx.cache_info().bytes == 0
    assert (cache / "mine.txt").read_text(encoding="utf-8") == "keep"
    with kernel_cache():
        tcpx.compile(tcpx.parse(PAYLOAD), target="generic")


def test_refused(tcpx_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tcpx_command("cache").status == 2
    assert tcpx_command("cache", "empty").status == 2
    monkeypatch.setenv("TCPX_CACHE_LIMIT", "much")
    done = tcpx_command("cache", "info")
    assert done.status == 1
    assert "fix: write TCPX_CACHE_LIMIT=2G" in done.err
