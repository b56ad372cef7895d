"""The chain of instructions that an iteration of a loop waits for in the one before."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

NodeT = TypeVar("NodeT", bound=Hashable)


def slowest_cycle(edges: Mapping[tuple[NodeT, NodeT], float]) -> tuple[float, tuple[NodeT, ...]]:
    """The largest mean weight of a cycle, and its nodes; 0 and none without cycles. An edge leads from a value that a
    loop carries to one that the next iteration starts from."""
    alone = [(weight, (start,)) for (start, end), weight in edges.items() if start == end]
    best = max(alone, key=lambda held: held[0], default=(0.0, ()))
    nodes = {node for pair in edges if pair[0] != pair[1] for node in pair}
    if not nodes:
        return best
    found = _by_length(edges, nodes)
    return found if found[0] > best[0] else best


def _by_length(edges: Mapping[tuple[NodeT, NodeT], float], nodes: set[NodeT]) -> tuple[float, tuple[NodeT, ...]]:
    """The largest mean over walks of each length that come back to where they began."""
    best: tuple[float, tuple[NodeT, ...]] = 0.0, ()
    inner = {pair: weight for pair, weight in edges.items() if nodes.issuperset(pair)}
    for begin in nodes:
        walks: dict[NodeT, tuple[float, tuple[NodeT, ...]]] = {begin: (0.0, ())}
        for length in range(1, len(nodes) + 1):
            further: dict[NodeT, tuple[float, tuple[NodeT, ...]]] = {}
            for (start, end), weight in inner.items():
                if start in walks:
                    held = walks[start][0] + weight, (*walks[start][1], start)
                    if end not in further or held[0] > further[end][0]:
                        further[end] = held
            if begin in further and further[begin][0] / length > best[0]:
                best = further[begin][0] / length, further[begin][1]
            walks = further
    return best
