"""The workers of a Dask cluster that have one kind of processor: tasks are given to them, and again when they die."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final, cast

import distributed
from distributed.scheduler import KilledWorker

import tcpx
from tcpx.records import frozen
from tcpx.tune.slots import TrialError
from tcpx.tune.verdicts import Verdict, crash_reason
from tcpx.tuned import cpu_name

CONNECT_SECONDS: Final = 20
RETURN_SECONDS: Final = 60.0
"""How long a study waits for a worker with its kind of processor when there is none."""
POLL_SECONDS: Final = 0.5
MOST_LOSSES: Final = 4


@frozen
class Task:
    """`function(shared, *arguments)` on one of the workers at `addresses`."""

    function: Callable[..., object]
    arguments: tuple[object, ...]
    addresses: tuple[str, ...]
    future: Any


class DaskWorkers:
    """Those of the cluster at `address` with the processor `cpu`. All tasks get `shared` first, which each worker holds
    once."""

    def __init__(self, address: str, cpu: str, shared: object) -> None:
        self._address = address
        self._client = _connected(address)
        self._cpu = cpu
        self._shared = shared
        self._held: Any = None
        self._cpus: dict[str, str] = {}
        self._absent_since: float | None = None

    def close(self) -> None:
        """Leave the cluster."""
        self._client.close()

    def addresses(self) -> tuple[str, ...]:
        """The workers that there are now; new ones are asked which processor they have. Raises TrialError where the
        scheduler is gone."""
        try:
            info = self._client.scheduler_info(n_workers=-1)  # what it knew before, where nobody answers
            if self._client.status == "closed":  # it tried in vain to connect again
                raise ConnectionError(f"no connection within {CONNECT_SECONDS} s")
            connected = sorted(info.get("workers", ()))
            strangers = [address for address in connected if address not in self._cpus]
            if strangers:
                self._cpus |= cast("dict[str, str]", self._client.run(cpu_name, workers=strangers, on_error="ignore"))
        except OSError as error:
            raise TrialError(Verdict.WORKERS_GONE, f"the scheduler at {self._address} is gone: {error}") from error
        found = tuple(address for address in connected if self._cpus.get(address) == self._cpu)
        if found:
            self._absent_since = None
        elif self._absent_since is None:
            self._absent_since = monotonic()
        return found

    def submit(self, function: Callable[..., object], *arguments: object) -> Task:
        """Give a task to the workers. Raises TrialError where there is none, and none comes."""
        addresses = self._present()
        while self._held is None:
            try:
                self._held = self._client.scatter(self._shared, workers=list(addresses), broadcast=True, hash=False)
            except Exception as error:
                before, addresses = addresses, self._present()
                if set(before) <= set(addresses):  # none of them died meanwhile
                    raise _lost(error) from error
        future = self._client.submit(answer, function, self._held, *arguments, workers=list(addresses), pure=False)
        return Task(function, arguments, addresses, future)

    def result(self, task: Task) -> object:
        """What a task gives, on another worker if need be. Raises TrialError where it fails, where workers die of it,
        and where there is none left, and none comes."""
        for _ in range(MOST_LOSSES):
            with suppress(CancelledError, OSError):  # when the last worker dies that holds what is shared
                while set(task.addresses).intersection(self.addresses()):
                    with suppress(TimeoutError):
                        return _answered(task.future)
            task.future.cancel()
            self._held = None
            task = self.submit(task.function, *task.arguments)
        raise TrialError(Verdict.CRASHED, f"{MOST_LOSSES} times the workers died while it was tried")

    def _present(self) -> tuple[str, ...]:
        """The workers, once there is one."""
        while not (found := self.addresses()):
            if self._absent_since is not None and monotonic() - self._absent_since >= RETURN_SECONDS:
                reason = f"the workers with `{self._cpu}` are gone, and none came within {RETURN_SECONDS:g} s"
                raise TrialError(Verdict.WORKERS_GONE, reason)
            sleep(POLL_SECONDS)
        return found


def answer(function: Callable[..., object], *arguments: object) -> object:
    """On a worker: what a function gives, or a TrialError instead of any error, since the tuner may have no class for
    what is raised here."""
    try:
        return function(*arguments)
    except TrialError as error:
        return TrialError(error.verdict, str(error))
    except Exception as error:  # noqa: BLE001 - whatever a worker raises is a verdict
        return TrialError(Verdict.CRASHED, crash_reason(error))


def _answered(future: Any) -> object:  # noqa: ANN401 - Dask's future has no types
    """Raises TrialError; CancelledError and OSError where the connection is lost, TimeoutError where there is no answer
    yet."""
    try:
        found: object = future.result(timeout=POLL_SECONDS)
    except (CancelledError, OSError):
        raise
    except KilledWorker as error:
        raise TrialError(Verdict.CRASHED, f"workers died while it was tried: {error}") from error
    except Exception as error:
        raise _lost(error) from error
    if isinstance(found, TrialError):
        raise found
    return found


def _lost(error: Exception) -> TrialError:
    return TrialError(Verdict.CRASHED, f"lost between tuner and worker: {crash_reason(error)}")


def cpus_of_cluster(address: str) -> list[str]:
    """The kinds of processors that workers have, the one that most have first. Raises ArgumentError where there are no
    workers."""
    with _connected(address) as client:
        found = Counter(cast("dict[str, str]", client.run(cpu_name)).values())
    if not found:
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                f"no worker is connected to {address}",
                required="one worker or more",
                found="a scheduler without workers",
            )
        )
    return [name for name, _ in sorted(found.items(), key=lambda held: (-held[1], held[0]))]


def _connected(address: str) -> Any:  # noqa: ANN401 - Dask's client has no types
    try:
        return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TypeError, ValueError) as error:  # Dask raises the latter two for a protocol it cannot speak
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                f"no Dask scheduler answers at {address}",
                required="the address of a scheduler that runs, such as dask://host:8786, or dask://tls://host:8786 "
                "with certificates in Dask's configuration",
                found=str(error).partition(" (")[0] or type(error).__name__,
            )
        ) from error
