"""The winner beside its rivals, again and again in processes that start anew."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Final

from tcpx.tune.slots import Slot, TrialError, prepare
from tcpx.tune.statistics import interval_of_processes
from tcpx.tune.verdicts import Candidate, Comparison

MOST_TIMES: Final = 3
"""So many times the sets that are asked for are measured at most."""


def compared_in_fresh_processes(
    candidates: Sequence[Candidate | None],
    slots: Sequence[Slot],
    threads: ThreadPoolExecutor,
    compared: Callable[[Slot, Slot], Comparison],
    processes: int,
    width: float,
    on_set: Callable[[str], None],
) -> list[Comparison | str]:
    """The first of some candidates beside each of the others, each in a slot, in `processes` sets of fresh processes,
    and in up to twice as many more until the intervals, where a further one lies with 95 % confidence, are at most
    `width` wide. None is the payload without the schedule; what is said of one that does not run is why. Raises
    TrialError for the first. `on_set` hears which set begins, and how long the rest may take."""
    first, *rivals = zip(slots, candidates, strict=False)
    found: list[list[Comparison]] = [[] for _ in rivals]
    refused: dict[int, str] = {}
    began = monotonic()
    while len(refused) < len(rivals) and (rounds := max(map(len, found))) < MOST_TIMES * processes:
        open_ = [k for k in range(len(rivals)) if k not in refused]
        if rounds >= processes and all(_width(found[k]) <= width for k in open_):
            break
        on_set(set_text(rounds + 1, processes, monotonic() - began))
        entered = list(threads.map(_entered, [first, *(rivals[k] for k in open_)]))
        if entered[0] is not None:
            raise entered[0]
        for k, error in zip(open_, entered[1:], strict=True):
            if error is not None:
                refused[k] = str(error)
            else:
                found[k].append(compared(first[0], rivals[k][0]))
    return [refused.get(k) or _together(many) for k, many in enumerate(found)]


def set_text(number: int, least: int, seconds: float) -> str:
    """Which set begins, and what the rest takes, if each set takes as long as the ones before, `seconds` together."""
    text = f"set {number} of {least} to {MOST_TIMES * least}"
    if number == 1:
        return text
    each, done = seconds / (number - 1), number - 1
    return f"{text}, {max(least - done, 1) * each:.0f} to {(MOST_TIMES * least - done) * each:.0f} s more"


def _entered(pair: tuple[Slot, Candidate | None]) -> TrialError | None:
    """Make a candidate ready to be timed, in a fresh process; the error where it does not get there."""
    slot, candidate = pair
    try:
        slot.renew()
        prepare(slot, candidate)
    except TrialError as error:
        return error
    return None


def _width(found: Sequence[Comparison]) -> float:
    """The width of the interval of several pairs of processes, relative to the ratio."""
    ratio, low, high = interval_of_processes([held.ratio for held in found])
    return (high - low) / ratio


def _together(found: Sequence[Comparison]) -> Comparison:
    """What comparisons in several pairs of processes say."""
    ratio, low, high = interval_of_processes([held.ratio for held in found])
    seconds = min(held.seconds for held in found)
    return Comparison(ratio, low, high, sum(held.rounds for held in found), seconds, all(held.steady for held in found))
