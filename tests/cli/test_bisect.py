"""tcpx bisect: a step is named with exit status 1, or it is said that none is wrong."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tests.verification.planted import drop_last

__all__ = ["drop_last"]

Command = Callable[..., SimpleNamespace]
PAYLOAD = """\
func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %a = tcp.exp(%x) : tensor<[N]xf32>
  tcp.return(%a)
}
"""
WRONG = """\
language 1
sequence both(a: op, root: func) {
  let i = tile(a, [d0: 8])
  drop_last(root)
}
schedule s(root: func) {
  let a = match one elementwise in root
  both(a, root)
  bufferize(root)
}
"""
RIGHT = WRONG.replace("  drop_last(root)\n", "")


@pytest.mark.usefixtures("drop_last")
def test_the_step_is_named(files: SimpleNamespace, tcpx_command: Command) -> None:
    payload, schedule = files.write("f.tcp", PAYLOAD), files.write("f.tcps", WRONG)
    done = tcpx_command("bisect", payload, "-s", schedule, "--target", "generic")
    assert done.status == 1
    for expected in (
        "step 2, `drop_last(root)`, changes the numbers",
        f"{schedule}:4:3 (schedule)",
        f"in both, called from {schedule}:8:3",
        "N=1, random data: 1 of 1 element; result 0, element [0]",
    ):
        assert expected in done.err
    assert "steps evaluated" in done.out
    verified = tcpx_command("explain", payload, "-s", schedule, "--target", "generic", "--verify", "numeric")
    assert verified.status == 1
    assert "step 2, `drop_last(root)`, changes the numbers" in verified.err
    passed = tcpx_command("bisect", payload, "-s", schedule, "--target", "generic", "--size", "N=8")
    assert passed.status == 0


def test_nothing_is_wrong(files: SimpleNamespace, tcpx_command: Command) -> None:
    payload, schedule = files.write("f.tcp", PAYLOAD), files.write("f.tcps", RIGHT)
    done = tcpx_command("bisect", payload, "-s", schedule, "--target", "generic")
    assert (done.status, done.err) == (0, "")
    assert "keep the numbers" in done.out
    assert "N=17, " in done.out
    verified = tcpx_command("explain", payload, "-s", schedule, "--target", "generic", "--verify", "numeric")
    assert (verified.status, verified.err) == (0, "")
    assert "the numbers stay the same in" in verified.out


def test_speed(files: SimpleNamespace, tcpx_command: Command) -> None:
    payload, schedule = files.write("f.tcp", PAYLOAD), files.write("f.tcps", RIGHT)
    done = tcpx_command("bisect", payload, "-s", schedule, "--target", "generic", "--speed", "--size", "N=64")
    assert done.status in (0, 1)
    assert done.err == ""
    assert "   0 " in done.out
    assert "nothing of it" in done.out
    missing = tcpx_command("bisect", payload, "-s", schedule, "--target", "generic", "--speed")
    assert missing.status == 1
    assert "is not known" in missing.err
