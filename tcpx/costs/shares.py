"""What part of the time of a nest each operation of the payload in it has, by a model: nothing is measured."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tcpx.costs.kernel_cost import ACCESS
from tcpx.costs.visits import Run, Statement
from tcpx.costs.work import Place
from tcpx.payload.ir import Operation, written_at
from tcpx.payload.ops.gml_st import OnSubset
from tcpx.payload.sizes import evaluate
from tcpx.payload.traits.call import Calling

Shares = Mapping[Statement, Mapping[Place, float]]


def modelled_shares(kernel: Iterable[Run]) -> Shares:
    """The parts of each statement of a lowered kernel by place of the payload, which add up to 1: the arithmetic
    instructions for it and, at `ACCESS` of one each, loads and stores."""
    found: dict[Statement, dict[Place, float]] = defaultdict(lambda: defaultdict(float))
    for run in kernel:
        for op in run.ops:
            slots = _slots(op, run) * run.times
            if slots:
                found[run.statement][written_at(op)] += slots
    return {
        statement: {place: slots / sum(places.values()) for place, slots in places.items()}
        for statement, places in found.items()
    }


def _slots(op: Operation, run: Run) -> float:
    """The time of one run of an operation, in instructions on full vectors."""
    if Calling(op).work != 0:
        each = ACCESS if isinstance(op, OnSubset) else 1.0
        return evaluate(Calling(op).work, run.sizes) * each / run.target.lanes("f32")
    if isinstance(op, OnSubset):
        return ACCESS
    return float(bool(op.operands) and bool(op.results))
