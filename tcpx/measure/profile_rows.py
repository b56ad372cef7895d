"""What a profile says, beside what the machine can do at most."""

from collections.abc import Mapping, Sequence

import tcpx
from tcpx.measure.limits import Limits
from tcpx.measure.roofline import Bound, limit_of_operations
from tcpx.measure.rows import Row


def shown_rows(profile: tcpx.Profile, limits: Limits) -> Sequence[Row]:
    """A row for each statement: `fraction` is the least time for the operations that the payload asks for in it and for
    its bytes, over its median time.

    Operations count by the peak that limits them, and bytes as read from the level that holds as many of them.
    """
    return [_row(profile, row, limits) for row in profile.rows]


def goes_through(profile: tcpx.Profile, limits: Limits) -> bool:
    """Whether a statement runs faster than these limits allow. What it issues counts: a payload may ask for more, where
    a kernel leaves out what does not matter."""
    for row in profile.rows:
        part = min(1.0, row.issued / row.operations) if row.operations else 0.0
        bound = _bound(row, {peak: part * number for peak, number in row.peaks.items()}, limits)
        if bound is not None and bound.seconds > row.minimum > 0:
            return True
    return False


def _bound(row: tcpx.ProfileRow, operations: Mapping[str, float], limits: Limits) -> Bound | None:
    """The least time of a statement, and what sets it."""
    far = limits.level(row.l3_bytes / max(1.0, row.runs))
    far = "l3" if far in ("l1", "l2") else far
    needed = {"read_l2": row.l2_bytes, f"read_{far}": row.l3_bytes}
    known = [Bound(held / limits.rates[name], name) for name, held in needed.items() if held and name in limits.rates]
    computing = limit_of_operations(operations, limits)
    known += [computing] if computing is not None else []
    return max(known, key=lambda bound: bound.seconds, default=None)


def _row(profile: tcpx.Profile, row: tcpx.ProfileRow, limits: Limits) -> Row:
    bound = _bound(row, row.peaks, limits)
    return Row(
        row.operation,
        profile.threads,
        f"@{row.function}",
        median_s=row.median,
        best_s=row.minimum,
        operations=row.operations,
        bytes=row.l2_bytes,
        limit_s=bound.seconds if bound is not None else None,
        limited_by=bound.by if bound is not None else "",
        fraction=bound.seconds / row.median if bound is not None and row.median > 0 else None,
    )
