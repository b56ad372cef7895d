"""Lines of candidates: short, also where a schedule has many knobs."""

from __future__ import annotations

import tcpx
from tcpx.tune.progress import line_of
from tcpx.tune.verdicts import Candidate, Verdict

POINT = {f"s/knob{k}": k for k in range(30)}
NAMES = tcpx.KnobNames({})


def candidate(number: int, **changed: int) -> Candidate:
    point = {**POINT, **{f"s/{name}": value for name, value in changed.items()}}
    return Candidate(number, point, point, verdict=Verdict.TIMEOUT, reason="r")


def test_only_changed_knobs_are_printed() -> None:
    first, other = candidate(1), candidate(2, knob3=7, knob9=8)
    every = candidate(3, **{f"knob{k}": -1 for k in range(30)})
    both = [first, other, every]
    assert line_of(first, NAMES, both).endswith("30 knobs; others say what they change")
    assert line_of(other, NAMES, both).endswith(f"{NAMES('s/knob3')}=7 {NAMES('s/knob9')}=8")
    assert line_of(every, NAMES, both).endswith(".. and 18 more")
    assert len(line_of(every, NAMES, both)) < 400
