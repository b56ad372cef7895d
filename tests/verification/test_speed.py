"""The step that lost the speed, with a clock of the test's own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import tcpx
from tcpx.emit_c.kernel import Kernel
from tcpx.verification.speed import interleaved

PAYLOAD = """\
func @chain(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %a = tcp.add(%x, %y) : tensor<[N]xf32>
  %b = tcp.mul(%a, %y) : tensor<[N]xf32>
  tcp.return(%b)
}
"""
SCHEDULE = """\
language 1
sequence two(x: op) {
  let i = tile(x, [d0: 64])
  let j = tile(x, [d0: 8])
}
schedule s(root: func) {
  let a = match one elementwise "a" in root
  let b = match one elementwise "b" in root
  two(a)
  two(b)
}
"""


def clock(seconds: dict[int, float]):
    """Kernels are told apart by how many loops they have."""

    def measure(kernels: Sequence[Kernel], arrays: object) -> list[float]:
        return [seconds[kernel.c_source.count("for (")] for kernel in kernels]

    return measure


@pytest.mark.parametrize(
    ("times", "slow", "after"),
    [
        ({2: 1.0, 3: 1.0, 4: 1.0, 5: 1.0, 6: 1.0}, None, 4),
        ({2: 1.0, 3: 1.0, 4: 1.05, 5: 1.05, 6: 1.0}, None, 4),
        ({2: 1.0, 3: 0.5, 4: 0.5, 5: 0.5, 6: 2.0}, 4, 3),
        ({2: 1.0, 3: 0.5, 4: 0.5, 5: 2.0, 6: 2.0}, 3, 2),
        ({2: 1.0, 3: 2.0, 4: 2.0, 5: 2.0, 6: 2.0}, 1, 0),
        ({2: 1.0, 3: 9.0, 4: 0.5, 5: 9.0, 6: 0.5}, None, 4),
    ],
)
def test_the_step_that_was_never_made_up_for(times: dict[int, float], slow: int | None, after: int) -> None:
    found = tcpx.bisect_speed(
        tcpx.parse(PAYLOAD),
        tcpx.parse_schedule(SCHEDULE),
        target="generic",
        sizes={"N": 100},
        measure=clock(times),
    )
    assert (found.slow and found.slow.number, found.fastest.number) == (slow, after)
    if slow is not None and found.slow is not None and found.slow.step is not None:
        assert found.slow.step.transform == "tile"
        assert [cut.number for cut in found.cuts] == sorted(cut.number for cut in found.cuts)


def test_every_kernel_gets_a_time() -> None:
    module = tcpx.parse(PAYLOAD)
    kernel = tcpx.compile(module, tcpx.parse_schedule(SCHEDULE), target="generic")
    times = interleaved([kernel, kernel], tcpx.random_inputs(module, sizes={"N": 10}))
    assert len(times) == 2
    assert all(time > 0 for time in times)


def test_a_size_that_nothing_tells() -> None:
    with pytest.raises(tcpx.ArgumentError):
        tcpx.bisect_speed(tcpx.parse(PAYLOAD), tcpx.parse_schedule(SCHEDULE), target="generic")


def test_a_step_that_is_fast_when_it_is_measured_again_is_not_named() -> None:
    """It said that after step 2 the kernel was never again as fast as after step 2."""
    again = {2: 1.0, 3: 1.0, 4: 1.0, 5: 1.0, 6: 2.0}
    rounds = iter([again | {4: 2.0}, again, again])

    def measure(kernels: Sequence[Kernel], arrays: Sequence[object]) -> list[float]:
        return clock(next(rounds))(kernels, arrays)

    found = tcpx.bisect_speed(
        tcpx.parse(PAYLOAD), tcpx.parse_schedule(SCHEDULE), target="generic", sizes={"N": 100}, measure=measure
    )
    assert found.slow is not None
    assert (found.slow.number, found.fastest.number) == (4, 3)
