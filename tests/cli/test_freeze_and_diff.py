"""tcpx freeze, and tcpx diff of what it wrote."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

Command = Callable[..., SimpleNamespace]


def test_freeze_and_diff(files: SimpleNamespace, tcpx_command: Command) -> None:
    out = str(files.folder / "frozen.tcps")
    words = ("freeze", files.payload, "-s", files.schedule, "--target", "generic", "-o", out)
    done = tcpx_command(*words, "--param", "height=8")
    assert (done.status, done.err, done.out) == (0, "", f"wrote {out}\n")
    text = (files.folder / "frozen.tcps").read_text()
    assert text.startswith("// frozen: by tcpx ")
    assert "let height = 8" in text

    compare = ("diff", files.schedule, out, "--on", files.payload, "--target", "generic")
    shown = tcpx_command(*compare)
    assert (shown.status, shown.err) == (0, "")
    assert "  height: 4 -> none" in shown.out
    assert "step 4" in shown.out
    assert "step 8" in shown.out
    assert "different lines" in shown.out
    timed = tcpx_command(*compare, "--time", "--size", "N=8", "--c")
    assert "speed: " in timed.out
    assert "+= 8)" in timed.out
    same = tcpx_command("diff", out, out, "--on", files.payload)
    assert same.out.splitlines()[-3:] == ["knobs: the same", "loop nest: the same", "C: the same"]


def test_nothing_to_freeze_from(files: SimpleNamespace, tcpx_command: Command) -> None:
    out = str(files.folder / "frozen.tcps")
    done = tcpx_command("freeze", files.payload, "-s", files.schedule, "--tuned", "-o", out)
    assert done.status == 1
    assert "cannot read the tuned records" in done.err
