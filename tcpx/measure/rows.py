"""What a run gives: one row per workload, number of threads and peer, kept as a JSON list."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import Any, Literal, cast

import tcpx
from tcpx.records import frozen

Status = Literal["measured", "unsteady", "unsupported", "failed", "crashed", "timeout", "wrong"]


@frozen
class Row:
    """One figure, or why there is none.

    `median_s` is the lowest of the medians of the rounds, `best_s` the lowest sample, `spread` how far the medians of
    the rounds are apart, `low_s` and `high_s` the 95 % confidence interval of `median_s`, all of one call. `limit_s` is
    the roofline of the call, set by `limited_by`; `fraction` is limit_s / median_s. `error` is the largest difference
    from the float64 reference in units of what rounding may do. `facts` are about the peer: flags, settings. `rounds`
    are the medians of the rounds in their order, null for one without samples; peers of one run share the rounds.
    """

    workload: str
    threads: int
    peer: str
    version: str = ""
    status: Status = "measured"
    reason: str = ""
    median_s: float | None = None
    best_s: float | None = None
    spread: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    samples: int = 0
    rejected: int = 0
    operations: float = 0.0
    bytes: float = 0.0
    limit_s: float | None = None
    limited_by: str = ""
    fraction: float | None = None
    error: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rounds: Sequence[float | None] = ()


FIELDS = {made.name for made in fields(Row)}
REQUIRED = {"workload", "threads", "peer"}


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write the list; numbers that JSON does not have are null."""
    held = [{name: _plain(value) for name, value in asdict(row).items()} for row in rows]
    path.write_text(json.dumps(held, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_rows(path: Path) -> list[Row]:
    """The rows of a file. Raises ArgumentError for one that is no such list."""
    try:
        held = cast("object", json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise _refused(path, str(error)) from error
    if not isinstance(held, list):
        raise _refused(path, f"{json.dumps(held):.200}")
    rows: list[Row] = []
    for k, given in enumerate(cast("list[object]", held)):
        if not isinstance(given, dict) or not FIELDS >= set(cast("dict[str, Any]", given)) >= REQUIRED:
            raise _refused(path, f"row {k}: {json.dumps(given):.200}")
        made = Row(**cast("dict[str, Any]", given))
        rows.append(replace(made, rounds=tuple(made.rounds)))
    return rows


def _refused(path: Path, found: str) -> tcpx.ArgumentError:
    return tcpx.ArgumentError(
        tcpx.Diagnostic(
            f"cannot read the rows of {path}",
            required=f"a JSON list of objects with {', '.join(sorted(REQUIRED))}, and any of the other fields of a row",
            found=found,
        )
    )


def _plain(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
