"""tcpx explain: every step, also those before a failure."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

Command = Callable[..., SimpleNamespace]


def test_explain(files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command("explain", files.payload, "-s", files.schedule, "--param", "height=8")
    assert (done.status, done.err) == (0, "")
    for expected in (
        "step 1: let i = tile(s, [d0: height])",
        f"  at {files.schedule}:6:3",
        f"  in rows, called from {files.schedule}:12:",
        "  target = %s",
        "  sizes = [d0: 8]",
        "  | func @axpy",
        " in 0 to N step 8",
        "step 2: print(i)",
        "axpy/s/rows.height = 8 (overridden)",
        "no statement touched %r",
    ):
        assert expected in done.out
    new = [line.strip() for line in done.out.splitlines() if line.strip().startswith("+")]
    assert len(new) == 1
    assert " in 0 to N step 8" in new[0]


def test_steps_before_a_failure_are_shown(files: SimpleNamespace, tcpx_command: Command) -> None:
    text = (
        'language 1\nschedule f(root: func) {\n  let s = match one elementwise in root where name == "s"\n'
        "  let i = tile(s, [d0: 4])\n  let j = tile(s, [d0: 0])\n}\n"
    )
    done = tcpx_command("explain", files.payload, "-s", files.write("f.tcps", text))
    assert done.status == 1
    assert "step 1: let i = tile(s, [d0: 4])" in done.out
    assert "step 2" not in done.out
    assert "let j = tile(s, [d0: 0])" in done.err


def test_marks(files: SimpleNamespace, tcpx_command: Command) -> None:
    text = (
        'language 1\nschedule f(root: func) {\n  let s = match one elementwise in root where name == "s"\n'
        "  let i = tile(s, [d0: 4])\n  fuse(producer(s.lhs), into: i)\n}\n"
    )
    done = tcpx_command("explain", files.payload, "-s", files.write("f.tcps", text))
    assert (done.status, done.err) == (0, "")
    nests = [[line[2:] for line in part.splitlines() if line[2:3] in "|+~"] for part in done.out.split("\nstep ")]
    assert [[line[0] for line in nest if line] for nest in nests] == [
        ["|", "|", "|"],
        ["|", "|", "+", "~"],
        ["|", "|", "~", "|"],
    ]
