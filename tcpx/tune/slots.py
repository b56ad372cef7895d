"""Places where candidates live: a server each, which holds one candidate at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tcpx.costs.kernel_cost import KernelCost
from tcpx.measure.peer_process import Launch, PeerError, PeerProcess
from tcpx.records import frozen
from tcpx.tune.measurement_slot import building
from tcpx.tune.model import costs_of
from tcpx.tune.space import Value
from tcpx.tune.verdicts import Candidate, Verdict

START_SECONDS: Final = 60.0
NOBODY: Final = -1
"""The number of what is no candidate."""
DOING: Final = {
    "begin": "the schedule",
    "load": "the schedule or the C compiler",
    "build": "the C compiler",
    "check": "the kernel",
    "run": "the kernel",
}
"""What is at work in each request, for messages."""


class TrialError(Exception):
    """A candidate that is at its end: why, as a verdict and in words."""

    def __init__(self, verdict: Verdict, reason: str) -> None:
        super().__init__(verdict, reason)
        self.verdict = verdict

    def __str__(self) -> str:
        return str(self.args[1])


@frozen
class Limits:
    """Seconds that a candidate may take: to run its schedule, to be compiled, to be checked, for one sample."""

    schedule: float = 60.0
    build: float = 120.0
    check: float = 30.0
    sample: float = 30.0


@frozen
class ServerLaunch(Launch):
    """How a server is started."""

    problem: str = ""

    def command(self, cpus: Sequence[int]) -> list[str]:
        """The command line; the server pins candidates itself."""
        del cpus
        return [self.interpreter, "-m", self.module, self.problem]


@frozen
class Begun:
    """A candidate whose schedule ran: the hash of its C, and what a model says of it for each workload."""

    c_hash: str
    costs: Sequence[KernelCost]


@dataclass(slots=True)
class Slot:
    """A server, started when it is needed, and again after a candidate took it along."""

    problem: Path
    cache: Path
    cpus: tuple[int, ...]
    limits: Limits
    holds: int | None = None
    """The number of the candidate that lives here."""
    library: Path | None = None
    _server: PeerProcess | None = field(default=None)
    _is_abandoned: bool = False

    def begin(self, number: int, params: Mapping[str, Value] | None) -> Begun:
        """Run the schedule with these params, or with None no schedule. Raises TrialError."""
        self.clear()
        self.holds = number
        reply = self._ask("begin", self.limits.schedule, params=None if params is None else dict(params))
        return Begun(str(reply["c"]), costs_of(reply["costs"]))

    def load(self, number: int, params: Mapping[str, Value] | None) -> None:
        """Make a candidate that was tried before ready to be checked, from the build cache if another process has been
        there. Raises TrialError."""
        self.clear()
        self.holds = number
        held = None if params is None else dict(params)
        self._ask("load", self.limits.schedule + self.limits.build, params=held)

    def build(self) -> float:
        """Compile the candidate; the seconds it took. Raises TrialError."""
        reply = self._ask("build", self.limits.build)
        self.library = Path(reply["library"])
        return float(reply["seconds"])

    def check(self) -> None:
        """Run the candidate on all examples. Raises TrialError where it is wrong, or dies."""
        self._ask("check", self.limits.check)

    def sample(self, example: int, shortest: float) -> tuple[float, float]:
        """Seconds of a call, and the part of them that was spent waiting for a CPU. Raises TrialError."""
        reply = self._ask("run", self.limits.sample, example=example, shortest=shortest)
        return float(reply["seconds"]), float(reply["waited"])

    def clear(self) -> None:
        """End the candidate that lives here, and remove what was built for it."""
        if self.holds is not None and self._server is not None:
            try:
                self._server.ask("end", START_SECONDS)
            except PeerError:
                self._drop()
        self.holds = None
        if self.library is not None:
            for path in (self.library, self.library.with_suffix(".c")):
                path.unlink(missing_ok=True)
        self.library = None

    def close(self) -> None:
        """End the server."""
        self.clear()
        self._drop()

    def abandon(self) -> None:
        """End the server, whatever it is at: it is not asked. A thread that waits for it hears so, and starts no other;
        the slot is to be closed once no thread does."""
        self._is_abandoned = True
        self.holds = None
        if self._server is not None:
            self._server.kill()

    def renew(self) -> None:
        """End the server; the next candidate has a fresh one."""
        self.close()

    def _drop(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = None

    def _require_wanted(self) -> None:
        if self._is_abandoned:
            raise PeerError("failed", "the study has ended")

    def _ask(self, do: str, seconds: float, **arguments: object) -> dict[str, Any]:
        try:
            if self._server is None:
                launch = ServerLaunch(
                    "candidate",
                    "tcpx.tune.candidate_server",
                    environment={"TCPX_CACHE_DIR": str(self.cache)},
                    problem=str(self.problem),
                )
                self._require_wanted()
                self._server = PeerProcess(launch, self.cpus)
                self._require_wanted()  # asked again: it may have been abandoned while the process began
                self._server.ask("describe", START_SECONDS)
            reply = self._server.ask(do, seconds, **arguments)
        except PeerError as error:
            self.holds = None
            self._drop()
            verdict = Verdict.TIMEOUT if error.outcome == "timeout" else Verdict.CRASHED
            what = DOING[do]
            raise TrialError(verdict, f"{what}: {error}") from error
        if "verdict" in reply:
            verdict = Verdict(reply["verdict"])
            if verdict is Verdict.CRASHED:  # the child is gone, and with it what the server would reply to
                self.holds = None
                self._drop()
            raise TrialError(verdict, str(reply["reason"]))
        return reply


def prepare(slot: Slot, candidate: Candidate | None) -> None:
    """Make a candidate that was tried before, or the payload without the schedule, ready to be timed. Raises
    TrialError."""
    with building():
        slot.load(candidate.number if candidate is not None else NOBODY, candidate and candidate.params)
        slot.check()
