"""The table of a profile, for text and pages alike: which lines it has, and what stands in their columns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import tcpx
from tcpx.columns import aligned
from tcpx.measure.rows import Row
from tcpx.plurals import counted
from tcpx.quantities import amount, duration, percent
from tcpx.records import frozen

COLUMNS: Final[Mapping[str, str]] = {
    "share": "Its part of the time of a call: the mean over the fastest quarter of the calls.",
    "median": "The time of all its runs in a call, over the calls.",
    "min": "The same of the fastest.",
    "runs": "How often it runs in a call.",
    "operations": "Scalar operations that the payload asks for; a multiply-add is two.",
    "padding": "Issued beyond, where tiles are longer than what they compute, or for elements that no result needs: "
    "a part of the operations.",
    "recomputed": "Issued beyond, where a fused operation is computed more than once.",
    "added": "Issued for what the payload does not ask for: sums that correct a product, constants, positions.",
    "Gop/s": "10^9 operations of the payload a second.",
    "GB/s": "10^9 bytes a second from beyond the first-level cache, by a model.",
    "of limit": "The least time that the machine needs for these operations and bytes, over the median.",
    "limit": "What sets this least time.",
    "statement": "Its name in the C, and where the operation was written that it is named after.",
}
"""What each column is."""
LEFT: Final = (len(COLUMNS) - 2, len(COLUMNS) - 1)
LEAST: Final = 1e-3
"""The part of the time from which on a statement, and what no statement accounts for, has a line of its own."""
FEWEST_PARTS: Final = 2
BUSY: Final = 1.25
"""Other programs run, where calls take so many times as long as the fastest."""


@frozen
class ProfileLine:
    """A line of the table. A `part` follows its statement, a `statement` the head of its function."""

    kind: Literal["function", "statement", "part", "rest"]
    cells: tuple[str, ...]
    remarks: tuple[tcpx.Diagnostic, ...] = ()


def lines_of(profile: tcpx.Profile, rows: Sequence[Row], least: float = 0.0) -> Iterator[ProfileLine]:
    """The statements of each function, the longest first, each with the operations of the payload that are fused in it,
    and what they do not account for; the function of the kernel first. `rows` has their limits. Those with less than
    the part `least` of the time have a line together."""
    limits = dict(zip(map(id, profile.rows), rows, strict=False))
    spent = {name: sum(r.seconds for r in profile.rows if r.function == name) for name in _functions(profile)}
    for name in sorted(spent, key=lambda name: (name != profile.kernel, -spent[name])):
        if name != profile.kernel:
            yield ProfileLine("function", _head(profile, name, spent[name]))
        own = [row for row in profile.rows if row.function == name]
        long = [row for row in own if profile.share(row) >= least]
        for row in sorted(long, key=lambda row: -row.seconds):
            yield ProfileLine("statement", _statement(profile, row, limits.get(id(row))), profile.remarks_on(row))
            for part in row.parts if len(row.parts) >= FEWEST_PARTS else ():
                yield ProfileLine("part", _part(profile, row, part))
        if len(long) < len(own):
            together = sum(profile.share(row) for row in own) - sum(profile.share(row) for row in long)
            shorter = f"{counted(len(own) - len(long), 'statement')} of less than {percent(least)}"
            yield ProfileLine("rest", _cells(share=percent(together), statement=shorter))
        yield from (_rest(profile, rest) for rest in profile.rest if rest.function == name and _counts(profile, rest))
    yield from (_rest(profile, rest) for rest in profile.rest if not rest.function)


def title_of(profile: tcpx.Profile) -> str:
    """What was measured, in a line."""
    return f"@{profile.kernel} for {profile.target}, {counted(profile.threads, 'thread')}"


def summary_of(profile: tcpx.Profile) -> str:
    """How long a call takes."""
    calls = counted(profile.calls, "call")
    busy = "; the machine was busy" if profile.median > BUSY * profile.minimum else ""
    return f"median {duration(profile.median)}, min {duration(profile.minimum)}, of {calls}{busy}"


def text_of(profile: tcpx.Profile, rows: Sequence[Row]) -> Iterator[str]:
    """The whole profile for a terminal."""
    yield f"{title_of(profile)}: {summary_of(profile)}"
    yield from aligned([tuple(COLUMNS), *(line.cells for line in lines_of(profile, rows, LEAST))], LEFT)
    yield memory_of(profile)
    for remark in profile.remarks:
        yield f"\n{remark.render()}"


def memory_of(profile: tcpx.Profile) -> str:
    """The memory that a call works in, and what of it is not counted."""
    workspace, constants = (counted(held, "byte") for held in (profile.workspace_bytes, profile.constants_bytes))
    clocks = duration(profile.clock_seconds)
    return f"workspace {workspace}, constants {constants}; without {clocks} that the clocks took"


def _functions(profile: tcpx.Profile) -> dict[str, None]:
    return dict.fromkeys([profile.kernel, *(row.function for row in profile.rows)])


def _head(profile: tcpx.Profile, name: str, spent: float) -> tuple[str, ...]:
    runs = sum(row.runs for row in profile.rows if row.callee == name)
    return _cells(share=percent(spent / profile.seconds), runs=f"{runs}" if runs else "", statement=f"@{name}")


def _statement(profile: tcpx.Profile, row: tcpx.ProfileRow, limit: Row | None) -> tuple[str, ...]:
    fraction = limit.fraction if limit is not None else None
    return _cells(
        share=percent(profile.share(row)),
        median=duration(row.median),
        min=duration(row.minimum),
        runs=f"{row.runs}",
        **_work(row),
        **{
            "Gop/s": f"{row.gflops:.1f}" if row.operations else "",
            "GB/s": f"{row.gigabytes:.1f}" if row.l2_bytes else "",
            "of limit": percent(fraction) if fraction is not None else "",
            "limit": limit.limited_by if limit is not None else "",
        },
        statement=_with_place(row.title, row.place),
    )


def _part(profile: tcpx.Profile, row: tcpx.ProfileRow, part: tcpx.ProfilePart) -> tuple[str, ...]:
    """Its time is modelled, so it has a share alone."""
    share = f"~{percent(part.share * profile.share(row))}"
    return _cells(share=share, **_work(part), statement=f"  {_with_place(part.node or 'other', part.place)}")


def _with_place(name: str, place: str) -> str:
    return f"{name} ({place})" if place else name


def _rest(profile: tcpx.Profile, rest: tcpx.ProfileRest) -> ProfileLine:
    times = {"median": duration(rest.median), "min": duration(rest.minimum)}
    cells = _cells(share=percent(rest.seconds / profile.seconds), **times, statement=rest.title)
    return ProfileLine("rest", cells)


def _counts(profile: tcpx.Profile, rest: tcpx.ProfileRest) -> bool:
    return rest.seconds >= LEAST * profile.seconds


def _work(work: tcpx.ProfileRow | tcpx.ProfilePart) -> Mapping[str, str]:
    """The operations, and what is issued beyond as a part of them; of none, as a number."""

    def beyond(number: int) -> str:
        if not number:
            return ""
        return percent(number / work.operations) if work.operations else amount(number)

    asked = amount(work.operations) if work.operations else ""
    return {
        "operations": asked,
        "padding": beyond(work.padding),
        "recomputed": beyond(work.recomputation),
        "added": beyond(work.added),
    }


def _cells(**named: str) -> tuple[str, ...]:
    return tuple(named.get(column, "") for column in COLUMNS)
