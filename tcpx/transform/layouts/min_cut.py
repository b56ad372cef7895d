"""The cheapest choice of one of two labels for each of some nodes: a minimum cut (Kolmogorov and Zabih, 2004), found by
augmenting along shortest paths (Dinic, 1970)."""

from collections import defaultdict, deque
from collections.abc import Hashable, Mapping
from itertools import pairwise
from typing import Final, Generic, TypeVar

NodeT = TypeVar("NodeT", bound=Hashable)
Table = tuple[tuple[float, float], tuple[float, float]]
"""What a pair costs, by the label of the first, then of the second."""

_SOURCE: Final = -1
_SINK: Final = -2


class Labels(Generic[NodeT]):
    """A sum of costs of labels and of pairs of labels."""

    def __init__(self) -> None:
        self._numbers: dict[NodeT, int] = {}
        self._capacity: defaultdict[int, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
        self._unary: defaultdict[int, float] = defaultdict(float)

    def add(self, node: NodeT, costs: tuple[float, float]) -> None:
        """What each label of a node costs."""
        self._unary[self._numbers.setdefault(node, len(self._numbers))] += costs[1] - costs[0]

    def add_pair(self, first: NodeT | None, second: NodeT | None, costs: Table) -> None:
        """What the labels of two nodes cost together; None has label 0. Where equal labels cost more than different
        ones, the latter count as much."""
        if first is None or second is None or first == second:
            node = second if first is None else first
            if node is not None:
                self.add(node, (costs[0][0], costs[int(first is not None)][int(second is not None)]))
            return
        (both0, second1), (first1, both1) = costs
        self.add(first, (0.0, first1 - both0))
        self.add(second, (0.0, both1 - first1))
        differs = max(0.0, second1 + first1 - both0 - both1)
        a, b = self._numbers[first], self._numbers[second]
        self._capacity[b][a] += differs  # paid where the second has label 1 and the first has 0

    def best(self) -> Mapping[NodeT, int]:
        """The cheapest labels. Of several choices, the one with the fewest nodes of label 1."""
        for number, extra in self._unary.items():
            if extra < 0:
                self._capacity[_SOURCE][number] -= extra
            elif extra > 0:
                self._capacity[number][_SINK] += extra
        while _SINK in (levels := self._levels()):
            self._block(levels)
        return {node: int(number in levels) for node, number in self._numbers.items()}

    def _levels(self) -> dict[int, int]:
        levels, waiting = {_SOURCE: 0}, deque([_SOURCE])
        while waiting:
            here = waiting.popleft()
            for there, left in self._capacity[here].items():
                if left > 1e-9 and there not in levels:
                    levels[there] = levels[here] + 1
                    waiting.append(there)
        return levels

    def _block(self, levels: Mapping[int, int]) -> None:
        """Send as much as the paths of these levels carry."""
        edges = {node: iter([*self._capacity[node]]) for node in levels}
        path = [_SOURCE]
        while path:
            here = path[-1]
            if here == _SINK:
                steps = [*pairwise(path)]
                sent = min(self._capacity[a][b] for a, b in steps)
                for a, b in steps:
                    self._capacity[a][b] -= sent
                    self._capacity[b][a] += sent
                full = next(k for k, (a, b) in enumerate(steps) if self._capacity[a][b] <= 1e-9)
                del path[full + 1 :]
                edges[path[-1]] = iter([*self._capacity[path[-1]]])
                continue
            there = next(
                (n for n in edges[here] if self._capacity[here][n] > 1e-9 and levels.get(n) == levels[here] + 1), None
            )
            if there is None:
                path.pop()
                continue
            path.append(there)
