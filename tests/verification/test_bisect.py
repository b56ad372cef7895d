"""The step that broke the numbers is named, wherever it stands; where none did, that is said."""

from __future__ import annotations

import math

import pytest

import tcpx
from tests.verification.planted import drop_last

__all__ = ["drop_last"]

PAYLOAD = """\
func @chain(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %a = tcp.add(%x, %y) : tensor<[N]xf32>
  %b = tcp.mul(%a, %y) : tensor<[N]xf32>
  %c = tcp.sub(%b, %x) : tensor<[N]xf32>
  %d = tcp.max(%c, %y) : tensor<[N]xf32>
  tcp.return(%d)
}
"""
STATEMENTS = (
    "let i = tile(a, [d0: 4])",
    "let j = tile(b, [d0: 8])",
    "let k = tile(c, [d0: 2])",
    "let l = tile(d, [d0: 16])",
    "let ii = tile(a, [d0: 2])",
    "let jj = tile(b, [d0: 4])",
    "let ll = tile(d, [d0: 8])",
    "bufferize(root)",
    "peel(i)",
    "peel(j)",
    "peel(k)",
    "peel(l)",
    "optional canonicalize(root)",
    "optional cse(root)",
    "optional dce(root)",
)
POSITIONS = range(len(STATEMENTS) + 1)


def schedule(*statements: str) -> tcpx.Schedule:
    lines = [*(f'let {name} = match one elementwise "{name}" in root' for name in "abcd"), *statements]
    return tcpx.parse_schedule("language 1\nschedule s(root: func) {\n  " + "\n  ".join(lines) + "\n}\n")


def planted(position: int) -> tcpx.Schedule:
    return schedule(*STATEMENTS[:position], "drop_last(root)", *STATEMENTS[position:])


def test_positions() -> None:
    assert len(POSITIONS) == 16
    assert 0 < STATEMENTS.index("bufferize(root)") < 15


@pytest.mark.usefixtures("drop_last")
@pytest.mark.parametrize("position", POSITIONS)
def test_the_planted_step_is_named(position: int) -> None:
    found = tcpx.bisect(tcpx.parse(PAYLOAD), planted(position), target="generic")
    assert found.wrong is not None
    assert found.wrong.step.transform == "drop_last"
    assert found.probes <= 2 + math.ceil(math.log2(found.steps))
    (size,) = (size for _, size in found.wrong.mismatch.case.sizes)
    assert size % 2 == 1
    assert found.wrong.mismatch.index == (size - 1,)
    shown = found.wrong.diagnostic().render()
    assert f"<schedule>:{7 + position}:3 (schedule)" in shown
    assert "changes the numbers" in shown


@pytest.mark.usefixtures("drop_last")
@pytest.mark.parametrize("position", [0, 7, 8, 15])
def test_every_step_before_it_verifies(position: int) -> None:
    seen: list[str] = []
    found = tcpx.verify_steps(
        tcpx.parse(PAYLOAD), planted(position), target="generic", on_step=lambda step: seen.append(step.transform)
    )
    assert found.wrong is not None
    assert found.wrong.step.transform == "drop_last"
    assert "drop_last" not in seen
    assert len(seen) == found.wrong.step.index


@pytest.mark.usefixtures("drop_last")
def test_a_step_that_a_try_took_back_is_not_named() -> None:
    tried = "try { drop_last(root)\n peel(l) } else { let m = tile(a, [d0: 3]) }"
    found = tcpx.bisect(tcpx.parse(PAYLOAD), schedule(STATEMENTS[3], tried), target="generic")
    assert found.wrong is not None
    assert found.wrong.step.transform == "drop_last"
    undone = "try { drop_last(root)\n let m = tile(a, [d0: 0]) } else { let m = tile(a, [d0: 3]) }"
    found = tcpx.bisect(tcpx.parse(PAYLOAD), schedule(undone), target="generic")
    assert found.wrong is None


def test_nothing_is_wrong() -> None:
    found = tcpx.bisect(tcpx.parse(PAYLOAD), schedule(*STATEMENTS), target="generic")
    assert (found.wrong, found.kernel, found.diagnostic()) == (None, None, None)
    assert found.probes == 1
    sizes = {size for case in found.cases for _, size in case.sizes}
    assert {0, 1, 3, 7, 13, 4, 5, 9, 16, 17, 33} <= sizes
    assert any(case.special for case in found.cases)


@pytest.mark.usefixtures("drop_last")
def test_even_sizes_do_not_show_it() -> None:
    found = tcpx.bisect(tcpx.parse(PAYLOAD), planted(4), target="generic", sizes=[{"N": 8}], run_kernel=False)
    assert found.wrong is None


def test_a_schedule_that_fails_is_its_own_diagnostic() -> None:
    with pytest.raises(tcpx.ScheduleError):
        tcpx.bisect(tcpx.parse(PAYLOAD), schedule("let i = tile(a, [d0: 0])"), target="generic")
