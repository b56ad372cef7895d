"""How long the calls of a timed kernel take, and what of that each statement takes, without what the clocks cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tcpx.emit_c.kernel import Kernel
from tcpx.emit_c.signature import EMPTY, KERNEL, PAIR, STATEMENT, Clock
from tcpx.payload.evaluator import Array

FEWEST: Final = 5
"""Calls that are measured, at least."""
MOST: Final = 4096
"""Calls that are kept: of more, every second one."""
QUARTER: Final = 4
OVERHEADS: Final = 3
"""Clocks of a call that are of no statement."""
Floats = npt.NDArray[np.float64]


class Figures(NamedTuple):
    """Of what was measured in each call: the `minimum`, the `median`, and `seconds`, the mean over the fastest quarter
    of the calls. Such means of statements add up to that of the call; what other programs do to a call is in few of
    them."""

    seconds: float
    minimum: float
    median: float


class TimedStatement(NamedTuple):
    """A statement, how often it ran in a call, and the seconds of all these runs, of shape [calls]."""

    clock: Clock
    runs: int
    seconds: Floats


@dataclass(slots=True)
class CallTimes:
    """What `calls` calls of a kernel took, and each of its `clocks`: `walls` in seconds, `times` of shape [clocks] for
    each call, and the `runs` of the clocks in one of them."""

    clocks: Sequence[Clock]
    threads: int
    calls: int = 0
    walls: list[float] = field(default_factory=list[float])
    times: list[Floats] = field(default_factory=list[Floats])
    runs: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    stride: int = 1
    """Of so many calls one is kept."""

    def add(self, wall: float, counted: npt.NDArray[np.int64]) -> None:
        """What a call took, and what its clocks counted: nanoseconds and runs, of shape [clocks, 2]."""
        if self.calls % self.stride == 0:
            if len(self.walls) == MOST:
                self.walls, self.times, self.stride = self.walls[::2], self.times[::2], 2 * self.stride
            self.walls.append(wall)
            self.times.append(np.asarray(counted[:, 0] * 1e-9, np.float64))
            self.runs = counted[:, 1].copy()
        self.calls += 1

    def clock_cost(self) -> tuple[float, float]:
        """The seconds that a clock adds to what it measures, and to what is round it: medians over the calls."""
        found = [self._of_kind(kind) for kind in (EMPTY, PAIR)]
        inside, pair = (float(np.median(times)) if times.size else 0.0 for times in found)
        return inside, max(0.0, pair - inside)

    def spent_on_clocks(self) -> float:
        """Seconds of a call that clocks take."""
        return self.clock_cost()[1] * (OVERHEADS + self._inside_kernel())

    def call(self) -> Floats:
        """Seconds of each whole call."""
        return np.asarray(self.walls) - self.spent_on_clocks()

    def kernel(self) -> Floats:
        """Of the function of the kernel, without its caller."""
        inside, pair = self.clock_cost()
        return self._of_kind(KERNEL) - inside - pair * self._inside_kernel()

    def statements(self) -> list[TimedStatement]:
        """Of each statement that ran; those with one name count as one."""
        inside, pair = self.clock_cost()
        times, nested = np.asarray(self.times), self._nested()
        groups: dict[tuple[str, str, str], list[int]] = {}
        for k, clock in enumerate(self.clocks):
            if clock.kind == STATEMENT and self.runs[k]:
                groups.setdefault((clock.function, clock.operation, clock.callee), []).append(k)
        found: list[TimedStatement] = []
        for members in groups.values():
            runs = int(self.runs[members].sum())
            spent = inside * runs + pair * sum(nested[k] for k in members)
            found.append(TimedStatement(self.clocks[members[0]], runs, times[:, members].sum(1) - spent))
        return found

    def rest(self) -> dict[str, Floats]:
        """What statements do not account for: of the kernel, and of each function that runs in calls alone."""
        statements = self.statements()
        main = next(clock.function for clock in self.clocks if clock.kind == KERNEL)
        in_loops = {name for held in statements if not held.clock.callee for name in held.clock.inside}
        whole = {main: self.kernel()}
        for held in statements:
            name = held.clock.callee
            if name and name not in in_loops:
                whole[name] = whole.get(name, 0.0) + held.seconds
        for held in statements:
            if held.clock.function in whole:
                whole[held.clock.function] = whole[held.clock.function] - held.seconds
        return whole

    def figures(self, seconds: Floats) -> Figures:
        """Of one number a call; means are over the same calls, whatever is measured."""
        fastest = np.argsort(self.walls, kind="stable")[: -(-len(self.walls) // QUARTER)]
        found = (seconds[fastest].mean(), seconds.min(), np.median(seconds))
        return Figures(*(max(0.0, float(held)) for held in found))

    def _of_kind(self, kind: str) -> Floats:
        return np.asarray(self.times)[:, [k for k, clock in enumerate(self.clocks) if clock.kind == kind]].sum(1)

    def _inside_kernel(self) -> float:
        """Clocks that ran in a call, but for those of no statement."""
        main = next((clock.function for clock in self.clocks if clock.kind == KERNEL), "")
        nested = self._nested()
        return sum(nested[k] + self.runs[k] for k, clock in enumerate(self.clocks) if _is_of(clock, main))

    def _nested(self) -> list[float]:
        """How many clocks ran while each one ran: those of the functions inside. A function has as many runs in each of
        its callers as these have of all; what several threads run at the same time counts once."""
        callers: dict[str, int] = {}
        for clock, runs in zip(self.clocks, self.runs.tolist(), strict=True):
            for name in clock.inside if clock.kind == STATEMENT else ():
                callers[name] = callers.get(name, 0) + runs
        known: dict[str, float] = {}

        def of_clock(k: int) -> float:
            clock, runs = self.clocks[k], int(self.runs[k])
            shared = 1 if clock.callee else self.threads
            return sum(of_function(name) * runs / callers[name] / shared for name in clock.inside if runs)

        def of_function(name: str) -> float:
            if name not in known:
                own = (k for k, clock in enumerate(self.clocks) if _is_of(clock, name))
                known[name] = sum(of_clock(k) + int(self.runs[k]) for k in own)
            return known[name]

        return [of_clock(k) for k in range(len(self.clocks))]


def _is_of(clock: Clock, function: str) -> bool:
    return clock.kind == STATEMENT and clock.function == function


def measured(kernel: Kernel, arrays: Sequence[Array | int], seconds: float, clock: Callable[[], float]) -> CallTimes:
    """Call a timed kernel for some seconds; the first call, which brings everything into the caches, does not count."""
    found = CallTimes(kernel.signature.clocks, kernel.threads)
    counted = kernel.clock_times()
    kernel(*arrays)
    end = clock() + seconds
    while found.calls < FEWEST or clock() < end:
        counted[:] = 0
        begin = clock()
        kernel(*arrays)
        found.add(clock() - begin, counted)
    return found
