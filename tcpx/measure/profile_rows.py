"""What a profile says, beside what the machine can do at most."""

from collections.abc import Sequence

import tcpx
from tcpx.measure.limits import Limits
from tcpx.measure.roofline import limit_of_operations
from tcpx.measure.rows import Row


def shown_rows(profile: tcpx.Profile, limits: Limits) -> Sequence[Row]:
    """A row for each statement: `fraction` is the least time for its operations and its bytes, over what it took.

    Operations count by the peak that limits them, and bytes as read from the level that holds as many of them.
    """
    return [_row(profile, row, limits) for row in profile.rows]


def _row(profile: tcpx.Profile, row: tcpx.ProfileRow, limits: Limits) -> Row:
    far = limits.level(row.l3_bytes / max(1.0, row.runs))
    far = "l3" if far in ("l1", "l2") else far
    needed = {"read_l2": row.l2_bytes, f"read_{far}": row.l3_bytes}
    known = {name: amount / limits.rates[name] for name, amount in needed.items() if amount and name in limits.rates}
    computing = limit_of_operations(row.peaks, limits)
    known |= {computing.by: computing.seconds} if computing is not None else {}
    least = max(known, key=lambda name: known[name], default="")
    has_limit = bool(least) and row.seconds > 0
    return Row(
        row.operation,
        profile.threads,
        f"@{row.function}",
        median_s=row.seconds,
        operations=row.operations,
        bytes=row.l2_bytes,
        limit_s=known.get(least),
        limited_by=least,
        fraction=known[least] / row.seconds if has_limit else None,
    )
