"""What recipes cost where none was measured: a model of how they read the right factor, with the rates of the machine.

The unit is that of shipped tables: 10 is an element multiplied and added at the peak. A recipe takes `start + rows *
row` for each element of the right factor:

    start = waits * (the element, from the level where the factor lies) + packing (a copy in `packs`) + its computation
    row   = 10 * (1 + RESULT / steps) + (the element, from that level) * IN_PLACE / (rows of a register tile)

The level is the smallest that holds twice (L1), once (L2) or four times (L3) the bytes of the factor, since the other
operands need room as well. L1 delivers a vector in the time in which one is multiplied and added, L2 half of one, L3
`l3_rate` bytes, memory `memory_rates` or, where they are not known, a third of `l3_rate`.

Constants are fitted to the lines of `rows` that were measured for x86_avx2, x86_avx512 and sapphire_rapids. A test
states in how many cases the model and the shipped tables agree.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Literal

from tcpx.records import frozen
from tcpx.target.calibration import RATED_VECTORS
from tcpx.target.recipe_costs import Costs, Line, levels_at

Place = Literal["l1", "l2", "l3", "memory"]

PEAK: Final = 10.0
RESULT: Final = 4
"""Multiply-adds in the time of which an element of the result is read and written."""
IN_PLACE: Final[Mapping[Place, float]] = {"l1": 0.0, "l2": 0.3, "l3": 1.5, "memory": 1.5}
"""How much of the time of a read is not hidden behind multiply-adds: pieces of rows far apart defeat the prefetcher."""
PACKING: Final[Mapping[Place, float]] = {"l1": 2.5, "l2": 6.0}
"""Reads from a cache in the time of which an element is copied to it, and the copy is read."""
UNKNOWN_MEMORY: Final = 3
"""How many times more L3 delivers than memory."""
LIMITS: Final = ((1, "l1", 2), (1, "l2", 1), (3, "l2", 1), (1, "l3", 4))
"""Where levels of a kind end that has none: so many times a cache, divided by a number."""


@frozen
class Recipe:
    """How a recipe reads the right factor."""

    steps: int
    """Summed elements between reading and writing an element of the result."""
    waits: float = 1.0
    """Times that it waits for the factor, in reads of the level where that lies."""
    packs: Place | None = None
    """The cache that a packed copy of the factor is written to."""
    is_in_place: bool = False
    """Whether each tile of rows reads the factor where it lies."""
    computes: bool = False
    """Whether each tile of rows computes the elements of a factor that is computed, not once."""


_STREAM: Final = Recipe(steps=8)
_DIRECT: Final = Recipe(steps=1024, waits=1.5, is_in_place=True)
_PANEL: Final = Recipe(steps=1024, waits=2, is_in_place=True)
_LARGE: Final = Recipe(steps=1024, packs="l2")
RECIPES: Final[Mapping[str, Mapping[str, Recipe]]] = {
    "rows": {
        "stream": _STREAM,
        "direct": _DIRECT,
        "panel": _PANEL,
        "tile": Recipe(steps=96, packs="l1"),
        "large": _LARGE,
    },
    "made": {"stream": Recipe(steps=8, computes=True), "large": _LARGE},
    "depths": {"dot": _STREAM, "large": _LARGE},
    "batch": {"direct": _DIRECT, "large": _LARGE},
    "batch_columns": {
        "direct": _DIRECT,
        "panel": _PANEL,
        "columns": Recipe(steps=512, packs="l2"),
        "large": _LARGE,
    },
}
"""The recipes of the schedule library for each kind of product."""


@frozen
class Machine:
    """What the model knows of a target: `Target` describes the numbers."""

    vector_bits: int
    vector_registers: int
    l1: int
    l2: int
    l3: int
    l3_rate: int
    memory_rates: tuple[int, int] = (0, 0)

    def place(self, size: int) -> Place:
        """Where a right factor of `size` bytes lies between two uses."""
        if 2 * size <= self.l1:
            return "l1"
        if size <= self.l2:
            return "l2"
        return "l3" if 4 * size <= self.l3 else "memory"

    def read(self, place: Place) -> float:
        """The time of reading an element from there."""
        vector = max(1, self.vector_bits // 8)  # a table may say 0 of what it does not know
        l3 = min(vector / 2, max(1, self.l3_rate))
        memory = self.memory_rates[0] / RATED_VECTORS or l3 / UNKNOWN_MEMORY
        rates: dict[Place, float] = {"l1": vector, "l2": vector / 2, "l3": l3, "memory": min(l3, memory)}
        return PEAK * vector / rates[place]

    @property
    def tile_rows(self) -> int:
        """Rows of a register tile of the usual width, as in `gemm.tcps`."""
        wide = max(1, min(4, self.vector_registers // 8))
        return max(1, min(24 // wide, 14, (self.vector_registers - wide - 1) // wide))

    def line(self, recipe: Recipe, size: int, is_made: bool = False) -> Line:
        """What a recipe takes for a right factor of `size` bytes."""
        place = self.place(size)
        packing = PACKING[recipe.packs] * self.read(recipe.packs) if recipe.packs else 0.0
        start = recipe.waits * self.read(place) + packing + (PEAK if is_made and not recipe.computes else 0.0)
        again = IN_PLACE[place] * self.read(place) if recipe.is_in_place else 0.0
        again += PEAK if is_made and recipe.computes else 0.0
        return Line(start, PEAK * (1 + RESULT / recipe.steps) + again / self.tile_rows)

    def lines(self, kind: str, size: int) -> dict[str, Line]:
        """What each recipe of a kind takes for a right factor of `size` bytes."""
        return {name: self.line(recipe, size, kind == "made") for name, recipe in RECIPES[kind].items()}


def completed(costs: Costs, machine: Machine) -> Costs:
    """Costs with predictions for the kinds, and in the levels for the recipes, that have no line."""
    found = dict(costs)
    for kind in RECIPES:
        levels = costs.get(kind) or levels_at(_limits(machine))
        found[kind] = tuple(
            level if level.is_whole else replace(level, lines=_with_lines(level.lines, machine.lines(kind, level.size)))
            for level in levels
        )
    return MappingProxyType(found)


def _limits(machine: Machine) -> list[int | None]:
    found: list[int | None] = []
    for times, cache, parts in LIMITS:
        limit = times * {"l1": machine.l1, "l2": machine.l2, "l3": machine.l3}[cache] // parts
        if limit > (found[-1] or 0 if found else 0):  # else caches leave nothing for it
            found.append(limit)
    return [*found, None]


def _with_lines(measured: Mapping[str, Line], predicted: Mapping[str, Line]) -> Mapping[str, Line]:
    """The measured lines and, in their unit, predictions of the others. The recipe with the cheapest rows of both says
    how long a unit is, and which wait all recipes share."""
    both = [name for name in measured if name in predicted]
    if len(both) == len(predicted):
        return measured
    unit, shift = 1.0, 0.0
    if both:
        known = min(both, key=lambda name: measured[name].row)
        unit = measured[known].row / predicted[known].row or 1.0
        shift = measured[known].start - unit * predicted[known].start
    others = {name: line for name, line in predicted.items() if name not in measured}
    lines = {**measured, **{name: Line(shift + unit * line.start, unit * line.row) for name, line in others.items()}}
    wait = min(0.0, *(line.start for line in lines.values()))
    return MappingProxyType({name: Line(line.start - wait, line.row) for name, line in lines.items()})
