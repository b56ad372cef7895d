"""Loops and subsets. A loop has destinations; `materialize` reads a subset, `yield` writes one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final, Self

import numpy as np

from tcpx.limits import MOST_UNROLLED
from tcpx.payload.contexts import context_at, context_in
from tcpx.payload.diagnostics import Direction
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import FlagAttribute, Operand, PredicateAttribute, SubsetAttribute, VariableAttribute
from tcpx.payload.ir import Block, Operation, Range, Value, parent_op, register
from tcpx.payload.memory_effects import Move, MoveKind
from tcpx.payload.sizes import Dim, Var, ceildiv, is_less_equal, to_text
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import ScalarType, TensorType, Type, VectorType, dtype_of, i1, like, shape_of, with_shape
from tcpx.payload.value_ranges import SORTED, UNIQUE, union
from tcpx.plurals import counted

UNROLLED: Final = "unrolled"


class Loop(Operation):
    """One loop variable, any number of destinations. `var` holds name, lower and upper bound and step.

    Operand k is the first value of destination k; block argument k is its current value; result k its last.
    Destinations of tensor type are storage; those of vector or scalar type are loop-carried values.
    """

    __slots__ = ()
    variadic = True
    result_count = None
    region_count = 1
    class_name = "loop"
    attribute_names = None
    var = VariableAttribute()
    """The loop variable: `lower`, `lower + step`, ... below `upper`."""

    @classmethod
    def over(cls, var: Var, inits: Sequence[Value], body: Block) -> Self:
        """A detached loop; `body` has one argument per init, of its type."""
        return cls(inits, [v.type for v in inits], {"var": var}, [body], name=var.name)

    @property
    def body(self) -> Block:
        return self.regions[0]

    @property
    def destinations(self) -> list[Value]:
        """The block arguments."""
        return self.body.args

    @property
    def is_parallel(self) -> bool:
        """Whether iterations may run in any order or at once."""
        return False

    @property
    def is_counted(self) -> bool:
        """Whether it has as many iterations as `var` says."""
        return True

    @property
    def unrolled(self) -> int:
        """Iterations that the C compiler is asked to put one after the other: 1, or the attribute `unrolled`."""
        held = self.attributes.get(UNROLLED, 1)
        if not isinstance(held, int) or isinstance(held, bool) or not 1 <= held <= MOST_UNROLLED:
            raise self.error(
                "the compiler is asked for a number of copies",
                required=f"`{UNROLLED}` in 1..{MOST_UNROLLED}",
                found=str(held),
            )
        return held

    def moves(self) -> Sequence[Move]:
        return [Move(MoveKind.INIT, k, result) for k, result in enumerate(self.results)]

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        return of(self.destinations[number])

    def argument_range(self, argument: Value, of: Callable[[Value], Range | None]) -> Range | None:
        index = self.destinations.index(argument)
        return union(map(of, (self.operands[index], *(end.value for end in self.yields_to(index)))))

    def yields_to(self, index: int) -> list[StYield]:
        """The yields to destination `index`, in program order."""
        dest = self.destinations[index]
        return [op for op, k in dest.uses if k == 1 and isinstance(op, StYield)]

    def verify(self) -> None:
        if self.unrolled > 1 and self.is_parallel:
            raise self.error("the iterations of a parallel loop are in no order", required="a sequential loop")
        if not len(self.operands) == len(self.destinations) == len(self.results):
            raise self.error(
                "a loop has as many inits, destinations and results",
                required="one destination and one result per init",
                found=f"{counted(len(self.operands), 'init')}, {counted(len(self.results), 'result')}",
                fix=Direction(f"name a result for each init: %y = {self.opcode} .. (%d = %init) {{ .. }} : TYPE"),
            )
        for init, dest, result in zip(self.operands, self.destinations, self.results, strict=True):
            if init.type != dest.type or dest.type != result.type:
                raise self.error(
                    "init, destination and result have one type",
                    required=str(init.type),
                    found=f"destination {dest.type}, result {result.type}",
                )

    def _iterations(self, evaluation: Evaluation) -> Sequence[int]:
        var = self.var
        step = evaluation.size(var.step)
        if step <= 0:
            raise self.error("the step of a loop is positive", required="at least 1", found=str(step))
        return range(evaluation.size(var.lower), evaluation.size(var.upper), step)

    def _goes_on(self, evaluation: Evaluation) -> bool:
        """Whether the next iteration runs, of those that `var` counts."""
        return True

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        held = [a if self._begins_alone(value) else np.array(a) for value, a in zip(self.operands, args, strict=True)]
        for formal, array in zip(self.destinations, held, strict=True):
            evaluation.values[formal] = array
        for value in self._iterations(evaluation):
            if not self._goes_on(evaluation):
                break
            evaluation.sizes[self.var.name] = value
            carried: dict[Value, Array] = {}
            outer, evaluation.carried = evaluation.carried, carried
            evaluation.enter_iteration(self, value)
            evaluation.run_block(self.body, [evaluation.values[d] for d in self.destinations])
            evaluation.carried = outer
            evaluation.values.update(carried)
        evaluation.leave_loop(self)
        return tuple(evaluation.values[d] for d in self.destinations)

    def _begins_alone(self, init: Value) -> bool:
        """Whether a destination begins with memory that nothing else reads: new, or a tile of a destination further
        outside."""
        made = init.defining_op
        if made is None or made.parent is not self.parent or len(init.uses) > 1:
            return False
        return Memory(made).leaves_undefined or (isinstance(made, Materialize) and _is_destination(made.source))


STREAM = "stream"
"""The attribute of a write that goes past the caches."""


@register
class For(Loop):
    """A sequential loop."""

    __slots__ = ()
    opcode = "gml_st.for"


@register
class Parallel(Loop):
    """A loop whose iterations may run in any order or concurrently; they yield to disjoint subsets."""

    __slots__ = ()
    opcode = "gml_st.parallel"

    @property
    def is_parallel(self) -> bool:
        return True

    def verify(self) -> None:
        for dest in self.destinations:
            if not isinstance(dest.type, TensorType):
                raise self.error(
                    "a parallel loop carries no values",
                    required="destinations on tensors or buffers",
                    found=f"%{dest.name}: {dest.type}",
                )
        super().verify()

    def _iterations(self, evaluation: Evaluation) -> Sequence[int]:
        order = super()._iterations(evaluation)
        return [order[int(k)] for k in evaluation.random.permutation(len(order))]


UNBOUNDED: Final = 1 << 62
"""How often a loop on a condition runs at most, where nothing else is said."""


@register
class While(Loop):
    """A sequential loop that runs while its first destination, a truth value, holds, at most as often as `var` says."""

    __slots__ = ()
    opcode = "gml_st.while"

    @property
    def condition(self) -> Value:
        """What an iteration needs to run: the first destination."""
        return self.destinations[0]

    @property
    def is_counted(self) -> bool:
        return False

    def verify(self) -> None:
        super().verify()
        first = self.destinations[0] if self.destinations else None
        if first is None or first.type != i1:
            raise self.error(
                "the first destination of a gml_st.while is its condition",
                required="a scalar i1: (%go = %first, ..)",
                found=f"%{first.name}: {first.type}" if first is not None else "no destination",
                fix=_truth(self.operands[0]) if first is not None else None,
            )

    def _goes_on(self, evaluation: Evaluation) -> bool:
        return bool(evaluation.values[self.condition])


def uncounted(result: str) -> Var:
    """The variable of a gml_st.while that is written without one, by the name of its first result."""
    return Var(f"{result}/step", 0, UNBOUNDED)


def _truth(value: Value) -> str:
    """What gives the scalar i1 of a value that is meant to be a condition."""
    name = "%holds" if value.name != "holds" else "%go"
    if value.type == TensorType((), i1):
        return Direction(f"use {name}, before it: {name} = gml_st.materialize(%{value.name}) point [] : i1")
    if isinstance(value.type, ScalarType):
        return Direction(f"use {name}, before it: {name} = tcp.cast(%{value.name}) : i1")
    return Direction(
        "compute one truth value, as tcp.reduce_any of all dims, and read it: gml_st.materialize(..) point [] : i1"
    )


class Conditional(Operation):
    """Runs one of two regions; each ends in a `tcp.yield` of the results."""

    __slots__ = ()
    result_count = None
    region_count = 2
    attribute_names = None

    @property
    def then(self) -> Block:
        return self.regions[0]

    @property
    def orelse(self) -> Block:
        return self.regions[1]

    def verify(self) -> None:
        for k, block in enumerate(self.regions):
            given = _types_yielded(block)
            wanted = [r.type for r in self.results]
            is_same = given == wanted or _are_same(given, wanted, context_in(self, k))
            if block.terminator is None or not is_same:
                raise self.error(
                    "each branch yields the results",
                    required=_listed(wanted),
                    found=f"{_listed(given)} in the {'second' if k else 'first'} branch",
                    fix=self._what_to_yield(k, given),
                )

    def _what_to_yield(self, branch: int, given: Sequence[Type]) -> str:
        """The yield that is missing in a branch, or the type of what both branches yield."""
        yields = [inner for inner in self.regions[branch].ops if inner is not self.regions[branch].terminator]
        if not given and branch == 1 and not yields:
            return Direction(f"write `else {{ tcp.yield({self._unchanged()}) }}` behind the first branch")
        if not given:
            computed = [value for inner in reversed(yields) for value in inner.results]
            names = [next((f"%{v.name}" for v in computed if v.type == r.type), "%..") for r in self.results]
            return Direction(f"end the {'second' if branch else 'first'} branch with tcp.yield({', '.join(names)})")
        if all(_types_yielded(block) == given for block in self.regions):
            names = "" if self.results else "name the results, `%y = gml_st.if`, and "
            return Direction(f"{names}write `: {_listed(given)}` behind the branches")
        return Direction(f"yield {_listed([r.type for r in self.results])} in both branches")

    def _unchanged(self) -> str:
        """The values from before the condition that the first branch reads, which the other one can yield."""
        ops = [inner for op in self.then.ops for inner in op.walk()]
        own = {result for op in ops for result in op.results}
        read = [value for op in ops for value in op.operands if value not in own]
        return ", ".join(next((f"%{v.name}" for v in read if v.type == r.type), "%..") for r in self.results)

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        ends = (block.terminator for block in self.regions)
        return union(of(end.operands[number]) if end is not None else None for end in ends)


@register
class If(Conditional):
    """A branch on sizes and loop variables."""

    __slots__ = ()
    opcode = "gml_st.if"
    predicate = PredicateAttribute()
    """The condition, on sizes and loop variables."""

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return evaluation.run_block(self.then if evaluation.holds(self.predicate) else self.orelse)


class IfValue(Conditional):
    """A branch on a truth value that is computed, `gml_st.if %c {`: the other form of a `gml_st.if`."""

    __slots__ = ()
    opcode = If.opcode
    condition = Operand()

    @classmethod
    def of(cls, condition: Value, types: Sequence[Type]) -> Self:
        """A detached branch with empty regions."""
        return cls([condition], types, {}, [Block(), Block()])

    def verify(self) -> None:
        if self.condition.type != i1:
            raise self.error(
                "the condition of a branch is a truth value",
                required="a scalar i1, or a comparison of sizes",
                found=f"%{self.condition.name}: {self.condition.type}",
                fix=_truth(self.condition),
            )
        super().verify()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return evaluation.run_block(self.then if bool(args[0]) else self.orelse)


def _is_destination(value: Value) -> bool:
    """Whether later operations write to parts of a tensor."""
    return isinstance(value.owner, Block) and isinstance(value.owner.parent, Loop)


def _types_yielded(block: Block) -> list[Type]:
    return [value.type for value in block.terminator.operands] if block.terminator is not None else []


def _listed(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _are_same(given: Sequence[Type], wanted: Sequence[Type], facts: Context) -> bool:
    """Whether types are the same where facts hold: an operation in a branch may be of a type that says less."""
    if [with_shape(t, ()) for t in given] != [with_shape(t, ()) for t in wanted]:
        return False
    shapes = [(shape_of(a), shape_of(b)) for a, b in zip(given, wanted, strict=True)]
    pairs = [pair for a, b in shapes if len(a) == len(b) for pair in zip(a, b, strict=True)]
    has_ranks = all(len(a) == len(b) for a, b in shapes)
    return has_ranks and all(a == b or facts.decide(Predicate.of("==", a, b)) is True for a, b in pairs)


class OnSubset(Operation):
    """An operation on a subset of an operand."""

    __slots__ = ()
    attribute_names = None
    subset = SubsetAttribute()
    """The subset it reads or writes."""

    @property
    def subset_of(self) -> Value:
        """The tensor or buffer the subset is part of."""
        return self.operands[-1]

    @property
    def is_of_all(self) -> bool:
        """Whether the subset provably is all of the tensor or buffer."""
        return self.subset.is_full(shape_of(self.subset_of.type), context_at(self).names)

    @property
    def accesses(self) -> Sequence[tuple[Value, Tile]]:
        """What it reads or writes: tensors or buffers, and their parts."""
        return [(self.subset_of, self.subset)]

    def part_read(self, index: int) -> Tile | None:
        return self.subset if index == len(self.operands) - 1 else Tile.full(shape_of(self.operands[index].type))

    def verify(self) -> None:
        rank = len(shape_of(self.subset_of.type))
        if len(self.subset.offsets) != rank or len(self.subset.sizes) != rank:
            raise self.error(
                "a subset has an offset and a size per dim",
                required=f"rank {rank} of %{self.subset_of.name}: {self.subset_of.type}",
                found=self.subset.text(),
            )
        self.check_inside(self.subset, self.subset_of, "its source")

    def check_inside(self, tile: Tile, value: Value, name: str) -> None:
        """Raise VerifyError where a tile provably leaves what it is part of."""
        # In a loop or a branch that never runs, sizes may be anything.
        runs_always = (outer := parent_op(self)) is not None and outer.parent is None
        for dim, extent in enumerate(shape_of(value.type) if runs_always else ()):
            if tile.leaves(dim, extent):
                raise self.error(
                    f"the subset leaves {name} in dim {dim}",
                    required=f"elements 0 to {to_text(extent - 1)} of %{value.name}: {value.type}",
                    found=tile.text(),
                )

    def check_value(self, value: Value) -> None:
        """The value has the shape of the subset, or is a vector that is at least as large."""
        shape, wanted = shape_of(value.type), self.subset.shape
        static = isinstance(value.type, VectorType) or not isinstance(value.type, TensorType)
        if dtype_of(value.type) != dtype_of(self.subset_of.type):
            raise self.error(
                "value and subset have one dtype",
                required=dtype_of(self.subset_of.type).name,
                found=f"%{value.name}: {value.type}",
            )
        here = context_at(self)
        equal = [True if static else here.is_equal(a, b) for a, b in zip(shape, wanted, strict=False)]
        if len(shape) != len(wanted) or not all(equal):
            raise self.error(
                "value and subset have one shape",
                required=f"[{', '.join(map(to_text, wanted))}]",
                found=f"%{value.name}: {value.type}",
                fix=_drop(self.subset, shape),
                unproven=len(shape) == len(wanted) and False not in equal,
            )


def _drop(subset: Tile, shape: Sequence[Dim]) -> str | None:
    """The subset of a value that has not the dims of size 1, or has those that are dropped."""
    if subset.dropped and tuple(shape) == tuple(subset.sizes):
        return Direction(f"keep the dims of size 1: {replace(subset, dropped=()).text()}")
    ones = [dim for dim, size in enumerate(subset.sizes) if size == 1]
    for dropped in combinations(ones, len(subset.sizes) - len(shape)) if not subset.dropped else ():
        if [size for dim, size in enumerate(subset.sizes) if dim not in dropped] == list(shape):
            return Direction(f"drop the dims of size 1: {replace(subset, dropped=dropped).text()}")
    return None


@register
class Materialize(OnSubset):
    """The value of a subset of a tensor: a tile, `full`, a `point`, or a `filter` by indices."""

    __slots__ = ()
    opcode = "gml_st.materialize"
    source = Operand()

    @classmethod
    def of(cls, source: Value, subset: Tile) -> Operation:
        """A detached materialize."""
        return cls([source], [like(source.type, subset.shape, dtype_of(source.type))], {"subset": subset})

    def verify(self) -> None:
        super().verify()
        self.check_value(self.result)

    def moves(self) -> Sequence[Move]:
        return [Move(MoveKind.SUBSET, 0, self.result, source_tile=self.subset)]

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        return of(self.source)

    def result_order(self, number: int, of: Callable[[Value], Collection[str]]) -> Collection[str]:
        known, rises = of(self.source), all(isinstance(s, int) and s > 0 for s in self.subset.strides)
        if self.is_of_all:
            return known
        return [word for word in known if word == UNIQUE or (word == SORTED and rises)]

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        evaluation.note_read(self.operands[0], self.subset)
        part = evaluation.select(args[0], self.subset)
        if _is_destination(self.source) and not self._is_put_back():
            part = np.array(part)
        return (part.reshape(evaluation.shape(self.result.type)),)

    def _is_put_back(self) -> bool:
        """Whether only a loop reads the tile, and nothing else in an iteration reads or writes the destination but a
        yield of what the loop makes of it: it may change in its place."""
        uses, others = self.result.uses, [op for op, _ in self.source.uses if op is not self]
        loop = next((op for op, _ in uses), None)
        end = others[0] if len(others) == 1 else None
        return (
            isinstance(loop, Loop)
            and len(uses) == 1
            and loop.parent is self.parent
            and isinstance(end, StYield)
            and end.parent is self.parent
            and end.subset == self.subset
            and end.value.defining_op is loop
        )


@register
class StYield(OnSubset):
    """Write a value to a subset of a destination, or `combine` it with the contents. A vector larger than the subset is
    written only within it."""

    __slots__ = ()
    opcode = "gml_st.yield"
    result_count = 0
    value, destination = Operand(), Operand()
    stream = FlagAttribute(STREAM)
    """Whether what is written goes past the caches, as it is not read soon."""
    attribute_names = None  # written with `filter` or `combine` it stands for an operation with attributes of its own
    has_side_effects = True

    @classmethod
    def of(cls, value: Value, destination: Value, subset: Tile) -> Operation:
        """A detached yield."""
        return cls([value, destination], [], {"subset": subset})

    def moves(self) -> Sequence[Move]:
        return [Move(MoveKind.YIELD, 0, self.destination, self.subset)]

    def part_read(self, index: int) -> Tile | None:
        return None if index == 1 else Tile.full(shape_of(self.operands[index].type))

    @property
    def loop(self) -> Loop | None:
        """The innermost loop around it."""
        return next((op for op in self.ancestors() if isinstance(op, Loop)), None)

    @property
    def loop_result(self) -> Value | None:
        """The result of the loop whose destination it writes to; None once that is memory."""
        dest = self.operands[1]
        owner = dest.owner.parent if isinstance(dest.owner, Block) else None
        return owner.results[owner.destinations.index(dest)] if isinstance(owner, Loop) and owner.results else None

    def verify(self) -> None:
        super().verify()
        dest = self.operands[1]
        if isinstance(dest.type, ScalarType) and self.value.type != dest.type:
            raise self.error(
                "what a carried scalar becomes is a scalar",
                required=f"{dest.type}, as %{dest.name}",
                found=f"%{self.value.name}: {self.value.type}",
                fix=Direction(f"before it: %next = gml_st.materialize(%{self.value.name}) point [] : {dest.type}")
                if self.value.type == TensorType((), dest.type)
                else None,
            )
        self.check_value(self.operands[0])

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        value, dest = args
        if not isinstance(self.operands[1].type, TensorType):
            evaluation.carried[self.operands[1]] = np.array(value)
            return ()
        evaluation.note_write(self.operands[1], self.subset)
        write_subset(evaluation, value, dest, self.subset)
        return ()


def write_subset(evaluation: Evaluation, value: Array, dest: Array, subset: Tile) -> None:
    """Store the part of `value` that a subset covers."""
    sizes = [evaluation.size(s) for s in subset.sizes]
    if any(n <= 0 for n in sizes):
        return
    kept = [n for d, n in enumerate(sizes) if d not in subset.dropped]
    dest[evaluation.slices(dest.shape, subset)] = value[tuple(slice(0, n) for n in kept)]


def full_like(value: Value) -> Tile:
    """The subset that is all of a value."""
    return Tile.full(shape_of(value.type))


def never_runs(loop: Loop) -> bool:
    """Whether a loop provably has no iteration."""
    return is_less_equal(loop.var.upper, loop.var.lower, context_at(loop).names) is True


def trip_count(loop: Loop) -> Dim:
    """The number of iterations of a loop that has any, the most of one on a condition; of one that has none, not above
    0."""
    return ceildiv(loop.var.upper - loop.var.lower, loop.var.step)


def runs_at_most_once(loop: Loop) -> bool:
    """Whether a loop provably has no second iteration."""
    return is_less_equal(loop.var.upper - loop.var.lower, loop.var.step, context_at(loop).names) is True


def trip_count_is_one(loop: Loop) -> bool:
    """Whether a loop provably runs exactly once."""
    runs = loop.is_counted and is_less_equal(1, loop.var.upper - loop.var.lower, context_at(loop).names) is True
    return runs and runs_at_most_once(loop)
