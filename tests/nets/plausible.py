"""Which operations and loops are worth a try: what a transform is for, seen in the payload as it is now.

A transform that is not here is tried on anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeGuard

from tcpx.payload.interfaces import Elementwise, IteratorKind, Structured, Tileable
from tcpx.payload.ir import Operation
from tcpx.payload.ops.composite import Composite
from tcpx.payload.ops.generic import Generic
from tcpx.payload.ops.gml_st import Loop, Materialize, StYield
from tcpx.payload.sizes import ceildiv, mod, upper_bound
from tcpx.payload.sizes.bounds import is_equal
from tcpx.payload.traits.memory import Memory
from tcpx.payload.traits.ragged import is_irregular
from tcpx.payload.traits.scan import Scan
from tcpx.payload.traits.tree import Tree
from tcpx.payload.types import TensorType, shape_of
from tcpx.transform.invariants import loop_invariants
from tests.nets.rows import row_of


def on_tensors(op: Operation) -> bool:
    """Whether an operation is not vectorized or lowered yet."""
    return all(isinstance(r.type, TensorType) for r in op.results)


def _iterates(op: Operation) -> bool:
    return isinstance(op, Tileable) and on_tensors(op) and bool(op.iterators())


def _reduces_tensors(op: Operation) -> bool:
    return isinstance(op, Structured) and on_tensors(op) and any(it.is_reduction for it in op.iterators())


def _is_bounded(op: Operation) -> bool:
    return isinstance(op, Tileable) and on_tensors(op) and any(upper_bound(d) is not None for d in op.domain())


def _accumulates(op: Operation) -> bool:
    return isinstance(op, Structured) and op.init is not None and not on_tensors(op)


def _adds_integers(op: Operation) -> bool:
    return (
        isinstance(op, Structured)
        and on_tensors(op)
        and op.acc_types[0].is_integer
        and "contract" in Tree(op).tree_classes()
    )


def _contracts(op: Operation) -> bool:
    return "contract" in Tree(op).tree_classes() and on_tensors(op)


def _factor_by(op: Operation, semantics: str) -> bool:
    """Whether the left factor of a contraction is made by an operation that does this to each element."""
    made = op.operands[0].defining_op if "contract" in Tree(op).tree_classes() else None
    return isinstance(made, Elementwise) and made.semantics == semantics


def _writes_in_parts(loop: Loop) -> bool:
    """Whether an iteration of a loop writes what a loop in it makes from nothing."""
    made = [(s.operands[0], s.operands[0].defining_op) for k in range(len(loop.results)) for s in loop.yields_to(k)]
    starts = [op.operands[op.results.index(value)] for value, op in made if isinstance(op, Loop)]
    return any(
        v.defining_op is not None
        and Memory(v.defining_op).leaves_undefined
        and not Memory(v.defining_op).has_own_memory
        for v in starts
    )


def _is_written_in_parts(op: Operation) -> bool:
    return any(isinstance(a, Loop) and _writes_in_parts(a) for a in op.ancestors())


def _becomes_vectors(op: Operation) -> TypeGuard[Structured]:
    return _iterates(op) and isinstance(op, Structured) and not (is_irregular(op) or Scan.of(op) is not None)


def is_elementwise(op: Operation) -> TypeGuard[Structured]:
    """Whether `fuse_elementwise` may take an operation."""
    return _becomes_vectors(op) and not any(it.is_reduction for it in op.iterators()) and not op.inits


def _has_rows_of_one(op: Operation) -> bool:
    """Whether several dims of an elementwise operation lie in the same order in all that it reads and writes."""
    return is_elementwise(op) and len(op.iterators()) > 1 and len({*op.maps(), *op.result_maps()}) == 1


def reads(op: Operation, other: Operation) -> bool:
    """Whether one operation reads what the other makes, of the shape of its own result."""
    is_read = any(value.defining_op is other for value in op.operands)
    return is_read and shape_of(op.results[0].type) == shape_of(other.results[0].type)


OPS: Mapping[str, Callable[[Operation], bool]] = {
    "vectorize": _becomes_vectors,
    "tile": _iterates,
    "split_reduction": _reduces_tensors,
    "reduce_first": _reduces_tensors,
    "pad": _is_bounded,
    "fuse": on_tensors,
    "pack": on_tensors,
    "generalize": lambda op: isinstance(op, Structured) and not isinstance(op, Generic),
    "specialize": lambda op: isinstance(op, Generic),
    "interchange": lambda op: isinstance(op, Structured) and len(op.iterators()) > 1,
    "transpose_result": lambda op: isinstance(op, Structured) and on_tensors(op) and len(op.result_maps()[0]) > 1,
    "group": on_tensors,
    "decompose": lambda op: isinstance(op, Composite) or (bool(op.regions) and is_elementwise(op)),
    "fuse_elementwise": is_elementwise,
    "hoist": lambda op: any(op in loop_invariants(a) for a in op.ancestors() if isinstance(a, Loop)),
    "coalesce": _has_rows_of_one,
    "hoist_accumulator": _accumulates,
    "fold_cast": lambda op: _factor_by(op, "cast(a)"),
    "unfold_cast": _contracts,
    "fold_offset": lambda op: _factor_by(op, "a - b") and _adds_integers(op),
    "shift_factor": _adds_integers,
    "promote": _is_written_in_parts,
    "lower_to": lambda op: row_of(op) is not None,
}
RESULTS = ("promote",)
"""Transforms of the result of an operation in a loop."""
FACTORS = ("fold_cast", "unfold_cast", "fold_offset", "shift_factor")
"""Transforms of a factor of a contraction, in a loop or not."""
NOT_FUNCTIONS = ("vectorize", "hoist", "coalesce")
"""Transforms of a loop or an operation that take no function."""
DTYPES: Mapping[str, tuple[str, ...]] = {
    "shift_factor": ("ui8", "ui8", "si64", "f32"),
    "unfold_cast": ("f64", "f64", "f32", "si64", "si64", "si32"),
}
FACTOR = "lhs"
"""The factor they are tried on."""

DIMS: Mapping[str, IteratorKind] = {
    "split_reduction": IteratorKind.REDUCTION,
    "transpose_result": IteratorKind.PARALLEL,
}
"""The kind of dim that a transform is for."""
INEXACT: Mapping[str, tuple[str, ...]] = {"canonicalize": ("zeros",)}
"""Options by which infinities and NaN may give other results: the oracle does not know them."""
ONE_OF: Mapping[str, tuple[str, ...]] = {"split_reduction": ("parts", "factor")}
"""Parameters of which a transform takes just one."""


def is_static(loop: Loop) -> bool:
    """Whether every operation of the body works on static tiles, and one of them on tensors."""
    ops = [op for op in loop.walk() if isinstance(op, Tileable)]
    static = all(isinstance(d, int) for op in ops for r in op.results for d in shape_of(r.type))
    return static and any(map(on_tensors, ops))


def _has_tail(loop: Loop) -> bool:
    var = loop.var
    return is_equal(mod(var.upper - var.lower, var.step), 0) is not True


def _unrolls(loop: Loop) -> bool:
    trips = ceildiv(loop.var.upper - loop.var.lower, loop.var.step)
    return isinstance(trips, int) and trips > 1


def _is_alone(loop: Loop) -> bool:
    around = (*loop.ancestors(), *loop.walk())
    return not any(isinstance(a, Loop) and a.is_parallel for a in around)


def _reduces(loop: Loop) -> bool:
    return any(isinstance(op, StYield) and op.operands[0].type != op.operands[1].type for op in loop.body.ops)


def are_siblings(loop: Loop, other: Loop) -> bool:
    """Whether two loops stand side by side and have the same iterations."""
    a, b = loop.var, other.var
    pairs = ((a.lower, b.lower), (a.upper, b.upper), (a.step, b.step))
    return loop is not other and loop.parent is other.parent and all(is_equal(x, y) is True for x, y in pairs)


def _has_sibling(loop: Loop) -> bool:
    return any(isinstance(op, Loop) and are_siblings(loop, op) for op in (loop.parent.ops if loop.parent else ()))


def _jams(loop: Loop) -> bool:
    """Whether an even number of iterations that need nothing of one another have a loop in them."""
    trips = ceildiv(loop.var.upper - loop.var.lower, loop.var.step)
    is_even = is_equal(mod(trips, 2), 0) is True and not _has_tail(loop)
    carries = any(isinstance(user, Loop | Materialize) for dest in loop.destinations for user in dest.users)
    return is_even and not carries and any(isinstance(op, Loop) for op in loop.body.ops)


LOOPS: Mapping[str, Callable[[Loop], bool]] = {
    "unroll_and_jam": _jams,
    "coalesce": lambda loop: len(loop.body.ops) == 1 + len(loop.results) and isinstance(loop.body.ops[0], Loop),
    "fission": lambda loop: sum(isinstance(op, Structured) for op in loop.body.ops) > 1,
    "licm": lambda loop: bool(loop_invariants(loop)),
    "fuse_siblings": _has_sibling,
    "vectorize": is_static,
    "peel": _has_tail,
    "unroll": _unrolls,
    "split": lambda loop: isinstance(loop.var.lower, int),
    "parallelize": _is_alone,
    "promote": _writes_in_parts,
    "hoist_accumulator": _reduces,
}
