"""The view of tcpx tune where there is no terminal, or no rich: one line per candidate."""

from tcpx.tune.progress import Listener, Progress, line_of


class PlainLines:
    """One line per candidate. A context manager, like the live view."""

    def __enter__(self) -> Listener:
        return self.say

    def __exit__(self, *_: object) -> None:
        return

    def say(self, progress: Progress) -> None:
        """The candidates that just came out, or what begins."""
        for candidate in progress.finished:
            print(line_of(candidate, progress.names, progress.candidates), flush=True)
        if progress.phase:
            print(f"{progress.seconds:.0f} s: {progress.phase}", flush=True)
