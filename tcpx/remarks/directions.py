"""What is said of a slow statement where no text is known that repairs it: why, and what could be written."""

from collections.abc import Sequence
from typing import Final

from tcpx.costs.losses import masked_lanes
from tcpx.costs.vector_forms import is_on_elements, on_vectors
from tcpx.costs.visits import Run
from tcpx.payload.diagnostics import Direction
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.memory import At
from tcpx.payload.sizes import evaluate, symbols
from tcpx.payload.types import dtype_of
from tcpx.remarks.causes import ELEMENT_COPY, PADDING, SCALAR
from tcpx.remarks.finding import Finding
from tcpx.remarks.hints import listed
from tcpx.remarks.tile_sizes import waste

COMPUTE: Final = "compute"
_WORD: Final = 32


def direction(found: Finding, *, is_given: bool) -> Direction | None:
    """The direction for a statement that no change which is known makes faster; None where nothing that can be written
    does. `is_given` says that somebody wrote its schedule."""
    if found.cause in (SCALAR, ELEMENT_COPY):
        loop = found.runs[0].loop
        if loop is not None and not loop.steps:
            rows = (
                "write operations on whole rows, parts of which `tcp.slice` takes, in place of the loop over elements"
            )
            return Direction(rows)
    if found.cause is SCALAR:
        lacking = without_vectors(found.runs)
        if lacking:
            return Direction(f"no change is known that helps: {_without(found, lacking)}")
        if any(isinstance(op, At) for run in found.runs for op in run.ops):
            return Direction("no change is known that helps: elements of another array say where it reads or writes")
    if found.cause is PADDING:
        return _whole_tiles(found)
    return Direction((not is_given and found.cause.unscheduled) or found.cause.fix)


def _whole_tiles(found: Finding) -> Direction | None:
    """How tiles come to divide sizes: of a symbol by its declaration, unless it is less than a tile; of a size by other
    tiles. Nothing, where no step of a schedule made the tiles."""
    trips = [(trip, run) for run in found.runs for trip in run.trips]
    wasted = {trip.loop: run for trip, run in trips if isinstance(trip.loop, Loop) and waste(trip, run) > 1}
    for loop, run in wasted.items():
        names = sorted({symbol.name for symbol in symbols(loop.var.upper - loop.var.lower)})
        step = evaluate(loop.var.step, run.sizes)
        if names and all(run.sizes[name] >= step for name in names):
            return Direction(f"declare {listed([f'`{name} multiple_of {step}`' for name in names])}")
        if names:
            return Direction(f"write the size of {listed([f'`{name}`' for name in names])} in place of the symbol")
    masked = [(lanes, used) for run in found.runs for lanes, used in masked_lanes(run) if used]
    if masked and 2 * sum(used for _, used in masked) <= sum(lanes for lanes, _ in masked):
        return Direction("let vectors lie along a dim that has as many elements, or compute several rows in one vector")
    return Direction("tile by divisors of the sizes") if any(loop.steps for loop in wasted) else None


def _without(found: Finding, lacking: Sequence[str]) -> str:
    return f"{found.runs[0].target.title} has no instruction on vectors for {listed(lacking)}"


def without_vectors(kernel: Sequence[Run]) -> list[str]:
    """The operations on single elements of these runs for which the target has no instruction on vectors of their
    dtype: `floordiv(a, b)` of si64."""
    found: dict[str, None] = {}
    for op, target in ((op, run.target) for run in kernel for op in run.ops if "row" in op.attributes and op.operands):
        row = target.row(str(op.attributes["row"]))
        if row.kind == COMPUTE and row.result is not None and is_on_elements(row):
            lanes = target.vector_bits // max(_WORD, dtype_of(op.results[0].type).bits)
            if on_vectors(target, row, lanes, in_words=False) is None:
                found[f"`{row.semantics}` of {row.result.dtype}"] = None
    return list(found)
