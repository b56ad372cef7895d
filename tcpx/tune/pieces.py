"""What of a payload is tuned by itself: functions that it calls, its own loop nests, and what else it does."""

from collections.abc import Mapping, Sequence

import tcpx
from tcpx.nests import SIGN, Nest, Nests
from tcpx.parts import Parts
from tcpx.records import frozen


@frozen
class Piece:
    """The function of a key; or, with an empty one, a nest of the payload, by the `paths` of its knobs; or without a
    nest what else the payload does itself. `names` are those of equal ones, `share` is their part of the time,
    `tunable` that of what has its knobs."""

    key: str
    names: tuple[str, ...]
    share: float
    calls: int
    tunable: float
    paths: frozenset[str] = frozenset()
    nest: Nest | None = None


def pieces_of(
    parts: Parts, nests: Nests, shares: Mapping[str, float], sizes: Sequence[Mapping[str, int]]
) -> list[Piece]:
    """All of them, what has the most of the time first; calls are those where the payload is called with each of these
    sizes."""
    found: list[Piece] = []
    for key in dict.fromkeys(parts.keys.values()):
        calls, share = sum(parts.sizes_of_calls(key, sizes).values()), shares.get(key, 0.0)
        found.append(Piece(key, parts.named(key), share, calls, share))
    for number, nest in enumerate(nests.nests):
        names, share = nest.part.functions, shares.get(f"{SIGN}{number}", 0.0)
        found.append(Piece("", names, share, len(names), share, nest.paths, nest))
    others = frozenset(use.path for use in parts.knobs("")) - nests.paths
    found.append(Piece("", (), shares.get("", 0.0), 1, _tunable(others, nests, shares), others))
    return sorted(found, key=lambda piece: -piece.share)


def _tunable(paths: frozenset[str], nests: Nests, shares: Mapping[str, float]) -> float:
    """The part of the time of what has knobs that no nest has for itself: those of a sequence are of all nests that it
    schedules, and of what is in no nest where there are none, as those of the schedule are."""
    scheduled = {
        path: [n for n, nest in enumerate(nests.nests) if any(own.startswith(_use(path)) for own in nest.paths)]
        for path in paths
    }
    is_of_others = any("/" not in path or not numbers for path, numbers in scheduled.items())
    together = {number for numbers in scheduled.values() for number in numbers}
    return (shares.get("", 0.0) if is_of_others else 0.0) + sum(shares.get(f"{SIGN}{n}", 0.0) for n in together)


def _use(path: str) -> str:
    """How the paths of knobs begin in sequences that the one with this knob uses."""
    return f"{path.rpartition('.')[0]}/"


def shares_of(profile: tcpx.Profile, parts: Parts, nests: Nests) -> dict[str, float]:
    """What part of the time each function takes, without those that it calls, by its key; each nest of the payload, by
    its number behind a `SIGN`; and what is left of the payload, by nothing."""
    rows = [row for row in profile.rows if not row.callee]
    total = sum(row.seconds for row in rows)
    found: dict[str, float] = {}
    for row in rows:
        nest = next((nests.number_of[name] for name in _ops_of(row) if name in nests.number_of), None)
        of_main = f"{SIGN}{nest}" if nest is not None and row.function == profile.kernel else ""
        key = parts.keys.get(row.function, of_main)
        found[key] = found.get(key, 0.0) + row.seconds / total
    return found


def _ops_of(row: tcpx.ProfileRow) -> list[str]:
    """The operations of the payload in a statement, those that take most of its time first."""
    return [*(part.node for part in row.parts), row.node]
