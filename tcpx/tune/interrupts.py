"""Ctrl-C while a study runs."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class Interrupts:
    """While a search goes on (`is_patient`), the first Ctrl-C says `stopped`, and the search ends when the candidates
    at hand are through. The next one, and one at any other time, ends all at once: what follows must not interrupt the
    cleaning up, and is ignored."""

    stopped: bool = False
    is_patient: bool = False

    @contextmanager
    def caught(self) -> Generator[None]:
        """Until everything is cleaned up. In another thread than the main one, Ctrl-C is nothing that it hears of."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._hear)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def patient(self) -> Generator[None]:
        """While the first one is only noted."""
        self.is_patient = True
        try:
            yield
        finally:
            self.is_patient = False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.is_patient and not self.stopped:
            self.stopped = True
            return
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt
