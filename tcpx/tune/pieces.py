"""What of a payload is tuned by itself: functions that it calls, its own loop nests, and what else it does."""

from collections.abc import Mapping, Sequence

import tcpx
from tcpx.nests import SIGN, Nest, Nests
from tcpx.parts import Parts
from tcpx.records import frozen


@frozen
class Piece:
    """The function of a key; or, with an empty one, a nest of the payload, by the `paths` of its knobs; or without a
    nest what else the payload does itself. `names` are those of equal ones, `share` is their part of the time."""

    key: str
    names: tuple[str, ...]
    share: float
    calls: int
    paths: frozenset[str] = frozenset()
    nest: Nest | None = None


def pieces_of(
    parts: Parts, nests: Nests, shares: Mapping[str, float], sizes: Sequence[Mapping[str, int]]
) -> list[Piece]:
    """All of them, what has the most of the time first; calls are those where the payload is called with each of these
    sizes."""
    found = [
        Piece(key, parts.named(key), shares.get(key, 0.0), sum(parts.sizes_of_calls(key, sizes).values()))
        for key in dict.fromkeys(parts.keys.values())
    ]
    for number, nest in enumerate(nests.nests):
        names = nest.part.functions
        found.append(Piece("", names, shares.get(f"{SIGN}{number}", 0.0), len(names), nest.paths, nest))
    others = frozenset(use.path for use in parts.knobs("")) - nests.paths
    found.append(Piece("", (), shares.get("", 0.0), 1, others))
    return sorted(found, key=lambda piece: -piece.share)


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
