"""How long operations keep the ports of a core, if each goes where it delays the least."""

from collections.abc import Mapping
from itertools import combinations

Pressure = dict[frozenset[str], float]
"""Cycles that operations take, by the ports any one of which does them."""
_MOST_UNITED = 12
"""Sets of ports of which all unions are looked at; of more, the sets themselves and the union of all."""


def cycles_by_port(pressure: Mapping[frozenset[str], float]) -> dict[str, float]:
    """Cycles that each port is busy. The ports that are the busiest share what only they can do; the others share the
    rest in the same way."""
    left = {ports: cycles for ports, cycles in pressure.items() if cycles}
    found: dict[str, float] = {}
    while left:
        busiest = max(_unions(left), key=lambda union: (_density(union, left), len(union)))
        each = _density(busiest, left)
        found.update(dict.fromkeys(busiest, each))
        rest: dict[frozenset[str], float] = {}
        for ports, cycles in left.items():
            if not ports <= busiest:
                rest[ports - busiest] = rest.get(ports - busiest, 0.0) + cycles
        left = rest
    return found


def _density(union: frozenset[str], left: Mapping[frozenset[str], float]) -> float:
    return sum(cycles for ports, cycles in left.items() if ports <= union) / len(union)


def _unions(left: Mapping[frozenset[str], float]) -> set[frozenset[str]]:
    """Of the sets of ports, those that may be the busiest."""
    groups = list(left)
    if len(groups) > _MOST_UNITED:
        return {*groups, frozenset[str]().union(*groups)}
    found: set[frozenset[str]] = set()
    for count in range(1, len(groups) + 1):
        found |= {frozenset[str]().union(*chosen) for chosen in combinations(groups, count)}
    return found
