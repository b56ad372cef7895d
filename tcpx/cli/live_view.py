"""The live view of tcpx tune, by rich: the fastest so far, verdicts, time left, the last candidates."""

from collections import deque
from typing import Final

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from tcpx.cli.plain_lines import PlainLines
from tcpx.quantities import percent
from tcpx.tune.export import counts
from tcpx.tune.progress import Listener, Progress, line_of
from tcpx.tune.verdicts import Verdict

SHOWN: Final = 8


class LiveView(PlainLines):
    """A few lines that are drawn over again."""

    def __init__(self) -> None:
        self._live = Live(Text("compiling the defaults"), auto_refresh=False)
        self._last: deque[Text] = deque(maxlen=SHOWN)

    def __enter__(self) -> Listener:
        self._live.__enter__()
        return self.say

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def say(self, progress: Progress) -> None:
        """Draw where the study is."""
        for candidate in progress.finished:
            style = "" if candidate.verdict is Verdict.OK else "dim"
            self._last.append(
                Text(
                    line_of(candidate, progress.names, progress.candidates),
                    style=style,
                    no_wrap=True,
                    overflow="ellipsis",
                )
            )
        best = progress.best
        fastest = "nothing yet"
        if best is not None and best.relative is not None:
            found, share = best.comparison, progress.fraction
            width = f" ({found.shown} of #{best.against})" if found is not None else ""
            limit = f", {percent(share)} of the limit" if share is not None else ""
            fastest = f"#{best.number}, {best.relative:.3f} of the time of the first{width}{limit}"
        left = "" if progress.budget is None else f", {max(0.0, progress.budget - progress.seconds):.0f} s left"
        done = len(progress.candidates)
        self._live.update(
            Group(
                *self._last,
                Text(f"fastest: {fastest}", style="bold"),
                Text(f"{counts(progress.candidates)}{left}"),
                *([Text(f"{progress.seconds:.0f} s: {progress.phase}")] if progress.phase else []),
                ProgressBar(total=progress.trials, completed=min(done, progress.trials)),
            ),
            refresh=True,
        )
