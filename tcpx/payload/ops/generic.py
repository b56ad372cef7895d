"""The root of the operation tree: iterators, indexing maps and a scalar body, all given."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Final

import numpy as np

from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import Direction
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import ChoiceAttribute, DimsAttribute, FlagAttribute, NumberAttribute, OptionalOperand
from tcpx.payload.indexing_maps import (
    IndexingMap,
    element_of,
    index_operands,
    index_range,
    map_dim,
    map_element,
    map_name,
    map_symbols,
)
from tcpx.payload.interfaces import Build, Elementwise, Iterator, IteratorKind, Position, Ragged, Structured
from tcpx.payload.ir import (
    VALID,
    Attribute,
    Block,
    CloneMap,
    Operation,
    Range,
    Value,
    operation_class,
    parent_op,
    register,
    tree_classes_of,
)
from tcpx.payload.memory_effects import Move, MoveKind
from tcpx.payload.ops.batched_body import LoopNest, beyond, checked_indices, is_batchable
from tcpx.payload.ops.constant import Const, check_literal
from tcpx.payload.ops.elementwise import Binary
from tcpx.payload.ops.gml_st import Conditional
from tcpx.payload.ops.movement import Broadcast
from tcpx.payload.ops.sums_of_products import of_nest
from tcpx.payload.sizes import Dim, Size, Symbol, as_dim, evaluate, to_text, variables
from tcpx.payload.traits.algebra import accumulating_operands
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.ragged import is_irregular, ragged_dims
from tcpx.payload.traits.ranges import Ranges
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.traits.scatter import Scatter
from tcpx.payload.traits.to_write import wrong_attribute
from tcpx.payload.types import ScalarType, VectorType, dtype_of, like, shape_of, si64
from tcpx.payload.value_ranges import dtype_range
from tcpx.plurals import counted


@register
class Yield(Operation):
    """Ends the body of a generic or a branch and returns its values."""

    __slots__ = ()
    opcode = "tcp.yield"
    attribute_names = ()
    result_count = 0
    variadic = True
    is_terminator = True

    def moves(self) -> Sequence[Move]:
        holder = parent_op(self)
        results = holder.results if isinstance(holder, Conditional) else ()
        return [Move(MoveKind.BRANCH, k, result) for k, result in enumerate(results)]


@register
class Return(Operation):
    """Ends a function and returns its results."""

    __slots__ = ()
    opcode = "tcp.return"
    attribute_names = ()
    result_count = 0
    variadic = True
    is_terminator = True
    has_side_effects = True

    def moves(self) -> Sequence[Move]:
        return [Move(MoveKind.RETURN, k, None) for k in range(len(self.operands))]


ERROR: Final = "error"
"""The value of `out_of_range` where every index is known to be inside, as what arguments declare is checked."""
CLAMP: Final = "clamp"
"""The one with which an index that is outside stands for the nearest that is not."""
FILL: Final = "fill"
"""The one with which nothing is read or written there; what is read is the number `fill`."""
SCATTER: Final = "scatter"
"""The class of operations that write where elements of an input say."""
_ROLE: Final = re.compile(r"in(0|[1-9][0-9]*)")


def _entry(expression: Dim, dims: Collection[str]) -> Dim:
    """An entry of a map; a name that is no dim may be the role of an input, whose element is the index."""
    name = map_dim(expression)
    role = _ROLE.fullmatch(name) if name is not None and name not in dims else None
    return element_of(int(role[1])) if role is not None else expression


@register
class Generic(Structured):
    """A loop nest over `iterators`; `maps` index the inputs, then the results; the region is the scalar body.

    Attributes: `iterators` = [[name, kind], ...], or [name, kind, extent] if no operand determines it; `maps` = one
    list of expressions over the dims per input and one per result. The body has the elements of the inputs as
    arguments, then the values of the expressions over dims that `positions` lists. With reduction iterators or an
    `init` there is either `combiner`, the opcode of an associative binary operation, and an accumulator as the last
    argument; or a second region, which combines two partial results, and `neutral`, the neutral partial result.

    Along a sequential dim, the body gets the values of the previous iteration, one for each result that is not indexed
    by the dim, and also yields elements of the other results; the first iteration gets `neutral`.

    An entry of a map may be an input, `in1`: its element is the index. It must be known to be in range, as for an
    argument that declares it (`%ix: tensor<[N]xsi64> in 0 to V`), or `out_of_range` is "clamp" or "fill". A `ragged`
    dim, `["k", in2, in3]`, has the iterations from one element up to, excluding, the other.
    """

    __slots__ = ()
    opcode = "tcp.generic"
    attribute_names = (
        "iterators",
        "maps",
        "combiner",
        "positions",
        "origins",
        "neutral",
        "commutative",
        "out_of_range",
        "fill",
        "ragged",
    )
    read_positions = DimsAttribute("positions", "[i, 2*j]")
    position_origins = DimsAttribute("origins")
    init = OptionalOperand()
    variadic = True
    result_count = None
    region_count = None
    reads_all_of_operands = False
    out_of_range = ChoiceAttribute(ERROR, CLAMP, FILL)
    """What an index outside stands for."""
    fill = NumberAttribute(default=0)
    """What is read there."""
    is_declared_commutative = FlagAttribute("commutative")
    """Whether partial results may be combined in any order, where a region says how."""

    @property
    def _required_operands(self) -> int:
        return len(self.maps())

    def iterators(self) -> tuple[Iterator, ...]:
        return self.once("iterators", (self.attributes.get("iterators"),), self._iterators)

    def _iterators(self) -> tuple[Iterator, ...]:
        held = self.attributes.get("iterators")
        found: list[Iterator] = []
        for entry in held if isinstance(held, tuple) else (None,):
            match entry:
                case (str() as name, ("parallel" | "reduction" | "sequential") as kind):
                    found.append(Iterator(name, IteratorKind(kind)))
                case (
                    str() as name,
                    ("parallel" | "reduction" | "sequential") as kind,
                    (int() | Size() | Symbol()) as extent,
                ) if not isinstance(extent, bool) and not (isinstance(extent, int) and extent < 0):
                    found.append(Iterator(name, IteratorKind(kind), as_dim(extent)))
                case _:
                    from tcpx.payload.text.printer import attribute_text  # the printer reads the IR: late, as in ir.py

                    raise self.error(
                        "the attribute `iterators` is not a list of names with their kinds",
                        required='iterators = [["m", "parallel"], ["k", "reduction"]], or ["k", "reduction", 3]',
                        found="none" if held is None else attribute_text(held),
                    )
        return tuple(found)

    @property
    def is_contraction(self) -> bool:
        """Whether it reduces over two inputs that share every reduction dim, as a contract does: the product and the
        sum may be others, such as `+` and `min`."""
        if Scatter.of(self) is not None:
            return False
        reduced = {it.name for it in self.iterators() if it.is_reduction}
        names = [{map_name(e) for e in m} for m in self.maps()]
        return len(names) == 2 and bool(reduced) and all(reduced <= n and None not in n for n in names)

    @property
    def operand_roles(self) -> tuple[str, ...]:
        return ("lhs", "rhs") if self.is_contraction else tuple(f"in{k}" for k in range(len(self.maps())))

    def tree_classes(self) -> tuple[str, ...]:
        known = tree_classes_of(type(self))
        return (
            ("contract", *known)
            if self.is_contraction
            else (SCATTER, *known)
            if Scatter.of(self) is not None
            else known
        )

    def _all_maps(self) -> tuple[IndexingMap, ...]:
        return self.once("maps", (self.attributes.get("maps"), self.attributes.get("iterators")), self._read_maps)

    def _read_maps(self) -> tuple[IndexingMap, ...]:
        held = self.attributes.get("maps")
        if not isinstance(held, tuple) or not held:
            raise self.error("the attribute `maps` is missing", required="a map per input and one for the result")
        dims = {it.name for it in self.iterators()}
        return tuple(
            tuple(_entry(as_dim(e), dims) for e in entry if isinstance(e, int | Size | Symbol))
            for entry in held
            if isinstance(entry, tuple)
        )

    @property
    def clamps_indices(self) -> bool:
        return self.out_of_range == CLAMP

    @property
    def outside(self) -> float | int | None:
        return self.fill if self.out_of_range == FILL else None

    def maps(self) -> tuple[IndexingMap, ...]:
        return self._all_maps()[: -len(self.results)]

    def result_maps(self) -> tuple[IndexingMap, ...]:
        return self._all_maps()[-len(self.results) :]

    def result_map(self) -> IndexingMap:
        return self.result_maps()[0]

    def positions(self) -> tuple[Position, ...]:
        read, first = self.read_positions, len(self.maps())
        types = [dtype_of(a.type) for a in self.regions[0].args[first : first + len(read)]] if self.regions else []
        origins = self.position_origins or (0,) * len(read)
        return tuple(map(Position, read, types, origins))

    def declaring(self, extents: Mapping[str, Dim]) -> Mapping[str, Attribute]:
        its = self.iterators()
        if all(it.extent is None for it in its):
            return {}
        return {"iterators": tuple(it.entry if it.extent is None else (*it.entry[:2], extents[it.name]) for it in its)}

    def reading_by(self, index: int, indexing_map: IndexingMap) -> Mapping[str, Attribute]:
        maps = list(self._all_maps())
        maps[index] = indexing_map
        return {"maps": tuple(maps)}

    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        """A value that, in every input at once, makes the body hand its accumulator on; None where none is found, or
        where an input lacks a reduction dim: what it holds there is not padding."""
        if not reduced:
            return 0
        names = [{map_name(e) for e in m} for m in self.maps()]
        if any(it.name not in n for it in self.iterators() if it.is_reduction for n in names):
            return None
        if len(self.regions) > 1 or self.positions():
            return None
        found = next((v for v in (0, self.neutral(), 1) if v is not None and self._leaves_accumulator(v)), None)
        return 0 if index in self._places and found is not None else found

    @property
    def _places(self) -> tuple[int, ...]:
        """The inputs that say where or how often something is done."""
        return *Indices(self).operands, *(k for r in self.ragged().values() for k in (r.first, r.end))

    def _leaves_accumulator(self, padding: float | int) -> bool:
        """Whether the body combines the accumulator with the neutral element where every input is `padding`."""
        block, neutral = self.regions[0], self.neutral()
        last = block.ops[-1].operands[0].defining_op if block.ops else None
        acc = block.args[-1]
        if neutral is None or last is None or type(last) is not self.combiner or acc not in last.operands:
            return False
        if len(acc.uses) != 1:
            return False
        places = self._places
        given = [0 if k in places else padding for k in range(len(self.maps()))] + [neutral]
        elements = [np.asarray(v).astype(dtype_of(a.type).numpy) for v, a in zip(given, block.args, strict=True)]
        if any(element.item() != value for element, value in zip(elements, given, strict=True)):
            return False
        with np.errstate(all="ignore"):
            made = Evaluation(Constants(), {}).run_block(block, elements)[0]
        return bool(made == elements[-1])

    @property
    def combiner(self) -> type[Binary] | None:
        """The class of the operation that combines partial results."""
        held = self.attributes.get("combiner")
        found = operation_class(held) if isinstance(held, str) else None
        return found if found is not None and issubclass(found, Binary) else None

    @property
    def is_commutative(self) -> bool:
        return (len(self.regions) == 1 or self.is_declared_commutative) and Scan.of(self) is None

    def ragged(self) -> Mapping[str, Ragged]:
        held, found = self.attributes.get("ragged", ()), dict[str, Ragged]()
        for entry in held if isinstance(held, tuple) else (None,):
            match entry:
                case (str() as name, Size() as first, Size() as end, *origin) if len(origin) < 2:
                    roles = [map_element(_entry(bound, ())) for bound in (first, end)]
                    begin = origin[0] if origin else 0
                    if isinstance(begin, int | Size) and roles[0] is not None and roles[1] is not None:
                        found[name] = Ragged(roles[0], roles[1], begin)
                        continue
                case _:
                    pass
            raise wrong_attribute(self, "ragged", 'dims, each with the inputs that bound it: [["k", in1, in2]]')
        return found

    def ragged_from(self, origins: Mapping[str, Dim]) -> Mapping[str, Attribute]:
        known = {name: (element_of(r.first), element_of(r.end), r.origin) for name, r in self.ragged().items()}
        return {"ragged": tuple((name, *held[:2], origins.get(name, held[2])) for name, held in known.items())}

    @property
    def _accumulated(self) -> list[int]:
        """The results whose accumulators are arguments of the body, behind what it reads."""
        if len(self.regions) > 1 or not (self.inits or Reduction.of(self) is not None):
            return []
        return [k for k in range(len(self.results)) if Reduction(self).has_accumulator(k)]

    def neutral(self) -> float | int | None:
        numbers = self.neutrals()
        return numbers[0] if numbers is not None and len(numbers) == 1 else None

    def neutrals(self) -> tuple[float | int, ...] | None:
        if len(self.regions) > 1 or Scan.of(self) is not None:
            held = self.attributes.get("neutral")
            numbers = iter([n for n in held if isinstance(n, int | float)] if isinstance(held, tuple) else ())
            known = [next(numbers, None) if Reduction(self).has_accumulator(k) else 0 for k in range(len(self.results))]
            return tuple(n for n in known if n is not None) if None not in known else None
        number = self.combiner.neutral_of(self.acc_type) if self.combiner is not None else None
        return None if number is None else (number,)

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return self.joined(build, (lhs,), (rhs,))[0]

    def joined(self, build: Build, lhs: Sequence[Value], rhs: Sequence[Value]) -> tuple[Value, ...]:
        if len(self.regions) > 1:
            return _run(self.regions[1], (*lhs, *rhs), build)
        if self.combiner is None:
            raise self.error("a reduction names its `combiner`", required='combiner = "tcp.add"')
        return (build(self.combiner.of(lhs[0], rhs[0])),)

    def verify(self) -> None:
        its = self.iterators()
        if not 1 <= len(self.regions) <= 2:
            raise self.error("a generic has a body", required="one region, or two", found=f"{len(self.regions)}")
        block = self.regions[0]
        held = self.attributes.get("maps")
        if not self.results or not isinstance(held, tuple) or len(held) <= len(self.results) - 1:
            raise self.error("a generic has a map for each result", required="as many", found=f"{len(self.results)}")
        if "fill" in self.attributes and self.out_of_range != FILL:
            raise self.error(
                "`fill` is what is read where an index is outside",
                required=f'out_of_range = "{FILL}"',
                found=f'out_of_range = "{self.out_of_range}"',
                fix=Direction("leave out `fill`, or fill instead"),
            )
        accumulates = bool(self.inits) or Reduction.of(self) is not None
        if Scan.of(self) is not None:
            self._verify_first_state()
        elif len(self.regions) > 1:
            self._verify_combiner(accumulates)
        elif accumulates and (self.neutrals() is None or len(self.results) != 1):
            raise self.error(
                "a generic with a reduction iterator or an `init` names an associative `combiner`"
                + (", or has a second region that combines several results" if len(self.results) != 1 else ""),
                required='combiner = "tcp.add", "tcp.mul", "tcp.max" or "tcp.min"'
                if len(self.results) == 1
                else "a region that combines two partial results",
                found=str(self.attributes.get("combiner", "no `combiner`")),
            )
        count = len(self.read_positions)
        wanted = len(self.maps()) + count + len(self._accumulated)
        if len(block.args) != wanted:
            raise self.error(
                "the body has one argument per input, then an accumulator if there is a reduction or an `init`"
                if not count and len(self.regions) == 1
                else "the body has one argument per input and position, then an accumulator unless a region combines",
                required=counted(wanted, "argument"),
                found=f"{len(block.args)}",
            )
        self._verify_names(its)
        self._verify_body(block)
        self._verify_result_maps(its, accumulates)
        super().verify()
        self._verify_positions()
        for value, indexing_map in zip(self.inputs, self.maps(), strict=True):
            if self.outside is not None and index_operands([indexing_map]):
                check_literal(self, self.outside, dtype_of(value.type))

    def _verify_names(self, its: Sequence[Iterator]) -> None:
        """Each dim has a name of its own, and maps are over dims."""
        names = {it.name for it in its}
        if len(names) < len(its):
            raise self.error(
                "two iterators have one name",
                required="a name for each dim",
                found=", ".join(it.name for it in its),
            )
        for expression in (e for m in (*self._all_maps(), [p.expression for p in self.positions()]) for e in m):
            for name in (*map_symbols(expression), *(var.text for var in variables(expression))):
                if name not in names:
                    raise self.error(
                        f"a map uses `{name}`",
                        required=f"numbers and dims ({', '.join(sorted(names)) or 'there are none'}), no sizes",
                        found=name,
                        fix=self._reversed(expression),
                    )

    def _reversed(self, expression: Dim) -> str | None:
        """What to write for an entry that reads an input from its own end, `N - 1 - i`."""
        for value, indexing_map in zip(self.inputs, self.maps(), strict=False):
            for k, (entry, extent) in enumerate(zip(indexing_map, shape_of(value.type), strict=False)):
                for it in self.iterators() if entry == expression else ():
                    if entry + it.dim + 1 == extent:
                        return f"read it backwards: `tcp.reverse(%{value.name}) {{dims = [{k}]}}` by `{it.name}`"
        return None

    def _verify_result_maps(self, its: Sequence[Iterator], accumulates: bool) -> None:
        """Each parallel dim is a dim of each result; where elements are others, the result is something before."""
        parallel_dims = [it.name for it in its if not it.is_reduction]
        sequential = [it.name for it in its if it.is_sequential]
        for result_map in self.result_maps():
            named = sorted(map_dim(e) or "" for e in result_map if map_element(e) is None)
            if named not in (sorted(parallel_dims), sorted((*parallel_dims, *sequential))):
                raise self.error(
                    "the result map names each parallel dim once",
                    required=f"{', '.join(parallel_dims) or 'nothing'}"
                    + (f", with or without {', '.join(sequential)}" if sequential else "")
                    + ", each once and in any order",
                    found=f"[{', '.join(map(to_text, result_map))}]",
                )
        if Scatter.of(self) is not None and not accumulates:
            raise self.error(
                "where elements say where to write, what they leave out has a value before",
                required="an `init`, or a reduction dim",
                found=f"parallel dims alone, and [{', '.join(map(to_text, self.result_map()))}]",
            )

    def _verify_positions(self) -> None:
        """Positions are integers that hold every index."""
        extents = {it.name: d for it, d in zip(self.iterators(), self.domain(), strict=True)}
        if len(self.position_origins) not in (0, len(self.read_positions)):
            raise self.error(
                "there is one origin for each position",
                required=f"{len(self.read_positions)} `origins`, or none",
                found=str(len(self.position_origins)),
            )
        for position in self.positions():
            _, end = index_range(position.expression, extents)
            fits = position.dtype == si64 or (
                position.dtype.is_integer
                and self._holds("<=", end + position.origin, int(position.dtype.maximum)) is True
            )
            if not fits:
                raise self.error(
                    f"the position `{to_text(position.expression)}` does not fit into {position.dtype}",
                    required="si64, or a type of integers for which every index is known to be small enough",
                    found=str(position.dtype),
                )

    def _verify_first_state(self) -> None:
        """What an iteration over a sequential dim hands on starts as numbers, or as `init`."""
        handed_on = [k for k in range(len(self.results)) if Reduction(self).has_accumulator(k)]
        numbers = self.attributes.get("neutral", ())
        if len(self.regions) > 1 or "combiner" in self.attributes:
            raise self.error(
                "the body of a sequential dim goes on by itself",
                required="one region, which takes what the iteration before hands on",
                found="a second region" if len(self.regions) > 1 else f"combiner = {self.attributes['combiner']}",
            )
        if not isinstance(numbers, tuple) or len(numbers) != len(handed_on):
            raise self.error(
                "`neutral` is what the first iteration of a sequential dim goes on from",
                required=f"{len(handed_on)} number(s), one for each result without a sequential dim",
                found=str(numbers),
                fix=f"{{neutral = [{', '.join('0.0' if self.acc_types[k].is_float else '0' for k in handed_on)}]}}",
            )
        for k, number in zip(handed_on, numbers, strict=True):
            check_literal(self, number, self.acc_types[k])

    def _verify_combiner(self, accumulates: bool) -> None:
        """The second region makes a partial result of two, and there is one that adds nothing."""
        types, block = self.acc_types, self.regions[1]
        end = block.terminator
        if "combiner" in self.attributes or not accumulates:
            raise self.error(
                "a region combines partial results, in place of a `combiner`",
                required="one of the two, and a reduction or an `init`",
                found="both" if accumulates else "no reduction and no `init`",
            )
        if (
            tuple(a.type for a in block.args) != types * 2
            or end is None
            or tuple(v.type for v in end.operands) != types
        ):
            raise self.error(
                "the second region combines two partial results",
                required=f"({', '.join(map(str, types * 2))}) and tcp.yield of {', '.join(map(str, types))}",
                found=f"({', '.join(str(a.type) for a in block.args)}) and "
                + (f"tcp.yield of {', '.join(str(v.type) for v in end.operands)}" if end is not None else "no end"),
            )
        numbers, given = self.neutrals() or (), self.attributes.get("neutral")
        accumulators = sum(map(Reduction(self).has_accumulator, range(len(self.results))))
        if len(numbers) != len(types) or not isinstance(given, tuple) or len(given) != accumulators:
            raise self.error(
                "`neutral` is a partial result that adds nothing",
                required=f"{len(types)} number(s)",
                found=str(len(given)) if isinstance(given, tuple) else str(given),
                fix=f"{{neutral = [{', '.join('0.0' if t.is_float else '0' for t in types)}]}}",
            )
        for number, type_ in zip(numbers, types, strict=True):
            check_literal(self, number, type_)

    def _verify_body(self, block: Block) -> None:
        """The arguments are the elements of the inputs, then the accumulator; the end hands out one like it."""
        first, types = len(self.maps()) + len(self.read_positions), list(self.acc_types)
        wanted = [dtype_of(v.type) for v in self.inputs]
        wanted += [dtype_of(a.type) for a in block.args[len(wanted) : first]]
        wanted += [types[k] for k in self._accumulated]
        if [a.type for a in block.args] != wanted:
            raise self.error(
                "the arguments of the body are elements of the inputs, then the accumulator",
                required=", ".join(map(str, wanted)),
                found=", ".join(str(a.type) for a in block.args),
            )
        end = block.terminator
        if end is None or [v.type for v in end.operands] != types:
            given = ", ".join(str(v.type) for v in end.operands) or "nothing" if end is not None else "no tcp.yield"
            raise self.error(
                "the body hands out one element of the result"
                if len(types) == 1
                else "the body hands out an element of each result",
                required=f"tcp.yield of one {types[0]}" if len(types) == 1 else f"tcp.yield of {types}",
                found=given,
            )
        if len(block.args) > first and Scan.of(self) is None:
            self._verify_accumulation(block.args[-1], end.operands[0])

    def _verify_accumulation(self, acc: Value, result: Value) -> None:
        """The body joins the accumulator with what one iteration gives by the combiner, and reads it nowhere else."""
        combiner = self.combiner
        if combiner is not None and result is not acc and not _accumulates(result, acc, combiner):
            raise self.error(
                "the body joins its accumulator by the `combiner`, with what does not depend on it",
                required=f"tcp.yield of {combiner.opcode} of %{acc.name} and an element",
                found=f"%{result.name}" + (f" = {result.defining_op.opcode}" if result.defining_op is not None else ""),
            )

    def on_tiles(self, operands: Sequence[Value], *shapes: Sequence[Dim]) -> Operation:
        made = super().on_tiles(operands, *shapes)
        made.regions += [region.clone(CloneMap(), lambda name: name, made) for region in self.regions]
        return made

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return self.elements(build, args, [acc] if acc is not None else [])[0]

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        block, given = self.regions[0], list(args)
        if len(self.regions) > 1:
            made = _run(block, given, build)
            return self.joined(build, accumulators, made) if accumulators else made
        if Scan.of(self) is not None:
            given += [accumulators[k] for k in self._accumulated]
        elif len(block.args) > len(args):
            neutral = self.neutral()
            kind = like(args[0].type, shape_of(args[0].type), self.acc_type) if args else self.acc_type
            given += accumulators or [build(Const.literal(0 if neutral is None else neutral, kind))]
        return _run(block, given, build)

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        extents = [evaluation.extent(d) for d in Masked(self).counted()]
        inputs, held = list(args[: len(self.maps())]), args[len(self.maps()) :]
        numbers = self.neutrals() or (0,) * len(self.results)
        starts = held or [np.full(evaluation.shape(r.type), n) for r, n in zip(self.results, numbers, strict=True)]
        made = [np.array(a).astype(t.numpy) for a, t in zip(starts, self.acc_types, strict=True)]
        names = [it.name for it in self.iterators()]
        reading = list(zip(inputs, self.maps(), strict=True))
        body = self.regions[0]
        in_any_order = not is_irregular(self) and Scan.of(self) is None
        if in_any_order and all(is_batchable(region) for region in self.regions):
            sizes = dict(zip(names, extents, strict=True))
            standing = self.clamps_indices, self.outside
            nest = LoopNest(self.regions, self.iterators(), sizes, reading, self.positions(), evaluation, *standing)
            if not evaluation.in_order and len(made) == 1:
                total = of_nest(nest, made[0], self.result_maps()[0])
                if total is not None:
                    return (total,)
            return nest.run(made, self.result_maps())
        accumulates, shapes = bool(held) or Reduction.of(self) is not None, [array.shape for array in made]
        if self.outside is not None:
            reading = [(beyond(array, m, self.outside), m) for array, m in reading]
            made = [beyond(array, m, 0) for array, m in zip(made, self.result_maps(), strict=True)]
        with np.errstate(all="ignore"):
            for point in self._points(extents, inputs, evaluation):
                at = dict(zip(names, point, strict=True))
                places = {k: int(inputs[k][_index(self.maps()[k], at)]) for k in Indices(self).operands}
                out = [self._place(m, shape, at, places) for m, shape in zip(self.result_maps(), shapes, strict=True)]
                before = [np.asarray(array[index]) for array, index in zip(made, out, strict=True)]
                elements = [
                    np.asarray(a[self._place(m, given.shape, at, places)])
                    for (a, m), given in zip(reading, inputs, strict=True)
                ]
                for position in self.positions():
                    dims = {Symbol(name): number for name, number in at.items()}
                    elements.append(np.asarray(evaluation.size(position.at(dims)), position.dtype.numpy))
                elements += [before[k] for k in self._accumulated]
                after = evaluation.run_block(body, elements)
                if len(self.regions) > 1 and accumulates:
                    after = evaluation.run_block(self.regions[1], [*before, *after])
                for array, index, element in zip(made, out, after, strict=True):
                    array[index] = element
                evaluation.note_points(1)
        return tuple(array[tuple(map(slice, shape))] for array, shape in zip(made, shapes, strict=True))

    def _points(
        self, extents: Sequence[int], inputs: Sequence[Array], evaluation: Evaluation
    ) -> Iterable[tuple[int, ...]]:
        """The iterations there are, in their order."""
        ragged = self.ragged()
        if not ragged:
            return product(*(range(n) for n in extents))
        points: list[tuple[int, ...]] = [()]
        names = [it.name for it in self.iterators()]
        for name, extent in zip(names, extents, strict=True):
            longer: list[tuple[int, ...]] = []
            for point in points:
                steps, bounds = range(extent), ragged.get(name)
                if bounds is not None:
                    at = dict(zip(names, point, strict=False))
                    ends = [int(inputs[k][_index(self.maps()[k], at)]) for k in (bounds.first, bounds.end)]
                    first, end = (n - evaluation.size(bounds.origin) for n in ends)
                    steps = range(max(0, first), min(extent, end))
                longer += [(*point, step) for step in steps]
            points = longer
        return points

    def _place(
        self, indexing_map: IndexingMap, shape: Sequence[int], at: dict[str, int], places: Mapping[int, int]
    ) -> tuple[int, ...]:
        """Where in an array an iteration reads or writes; `places` has the elements that are indices. One that is
        outside, where it may be, is the extent."""
        index: list[int] = []
        for expression, extent in zip(indexing_map, shape, strict=True):
            operand = map_element(expression)
            if operand is None:
                index += _index((expression,), at)
            else:
                place, fills = np.asarray(places[operand]), self.outside is not None
                index.append(int(checked_indices(place, extent, self.clamps_indices, fills)))
        return tuple(index)

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        """That of what the body hands out, of the ranges of the inputs and the positions, where nothing accumulates."""
        block, end = self.regions[0], self.regions[0].terminator
        if self.inits or Reduction.of(self) is not None or end is None:
            return None
        known = dict(zip(block.args, self._element_ranges(of), strict=False))
        extents = {it.name: d for it, d in zip(self.iterators(), self.domain(), strict=True)}
        for argument, position in zip(block.args[len(self.inputs) :], self.positions(), strict=True):
            first, last = index_range(position.expression, extents)
            known[argument] = (first + position.origin, last + position.origin)

        def inside(value: Value) -> Range | None:
            if value not in known:
                made = value.defining_op
                found = Ranges(made).result_range(0, inside) if made is not None else None
                known[value] = dtype_range(value) if found is None else found
            return known[value]

        return inside(end.operands[number])


def _run(block: Block, args: Sequence[Value], build: Build) -> tuple[Value, ...]:
    """What a block of scalar operations hands out, built on these arguments."""
    values: dict[Value, Value] = dict(zip(block.args, args, strict=True))
    build_again(block.ops[:-1], values, build)
    return tuple(values.get(v, v) for v in block.ops[-1].operands)


def build_again(ops: Sequence[Operation], values: dict[Value, Value], build: Build) -> None:
    """Build scalar operations on what `values` has for their operands, numbers or lanes; it then has their results."""
    for op in ops:
        values[op.result] = build(_on_lanes(op, [values.get(v, v) for v in op.operands], build))


def _accumulates(value: Value, acc: Value, combiner: type[Operation]) -> bool:
    """Whether a value of the body is the combiner of the accumulator and of something that does not depend on it."""
    op = value.defining_op
    if value is acc or not isinstance(op, Elementwise):
        return value is acc
    depends = {k for k, operand in enumerate(op.operands) if _depends(operand, acc)}
    return any(
        depends <= set(places) and all(_accumulates(op.operands[k], acc, combiner) for k in places)
        for places in accumulating_operands(op, combiner)
    )


def _depends(value: Value, on: Value) -> bool:
    op = value.defining_op
    return value is on or (op is not None and any(_depends(operand, on) for operand in op.operands))


def _index(indexing_map: IndexingMap, at: dict[str, int]) -> tuple[int, ...]:
    return tuple(e if isinstance(e, int) else evaluate(e, at) for e in indexing_map)


def _on_lanes(op: Operation, operands: Sequence[Value], build: Build) -> Operation:
    """An operation of a scalar body on the kind (scalar or vector) of its operands; scalars are splat."""
    kind = next((v.type for v in operands if isinstance(v.type, VectorType)), None)
    if kind is None:
        return type(op)(operands, [op.result.type], op.attributes, location=op.location)
    lanes = [
        build(Broadcast.of(v, (), VectorType(kind.shape, v.type))) if isinstance(v.type, ScalarType) else v
        for v in operands
    ]
    return type(op)(lanes, [VectorType(kind.shape, dtype_of(op.result.type))], op.attributes, location=op.location)


def positions_of_sizes(op: Structured) -> list[Dim]:
    """The positions that no generic can state: those that depend on sizes."""
    names = {it.name for it in op.iterators()}
    return [p.expression for p in positions_read(op) if not names.issuperset(map_symbols(p.expression))]


def generalize(op: Structured) -> Generic:
    """The generic that computes the same: a detached operation on the same operands."""
    block = Block([("", dtype_of(v.type)) for v in op.inputs])
    names = iter(range(1_000_000))
    for arg in block.args:
        arg.name = f"e{next(names)}"
    positions = positions_read(op)
    for position in positions:
        block.args.append(Value(f"at{len(block.args)}", position.dtype, block))
    accumulates = bool(op.inits) or Reduction.of(op) is not None
    given, has_tuple = list(block.args), len(op.results) > 1
    accumulators: list[Value] = []
    if accumulates and (Scan.of(op) is not None or not has_tuple):
        accumulators = [Value(f"acc{k}" if k else "acc", dtype, block) for k, dtype in enumerate(op.acc_types)]
        block.args += [v for k, v in enumerate(accumulators) if Reduction(op).has_accumulator(k)]

    def build(made: Operation) -> Value:
        block.append(made)
        made.result.name = made.name = f"e{next(names)}"
        return made.result

    block.append(Yield(op.elements(build, given, accumulators)))
    attributes: dict[str, Attribute] = {
        "iterators": tuple(it.entry for it in op.iterators()),
        "maps": (*op.maps(), *op.result_maps()),
    }
    blocks = [block]
    if positions:
        attributes["positions"] = tuple(p.expression for p in positions)
        attributes["origins"] = tuple(p.origin for p in positions)
    if Scan.of(op) is not None:
        numbers = Reduction(op).neutrals() or ()
        attributes["neutral"] = tuple(n for k, n in enumerate(numbers) if Reduction(op).has_accumulator(k))
    elif accumulates and has_tuple:
        block = Block([(f"{side}{k}", t) for side in "ab" for k, t in enumerate(op.acc_types)])
        blocks.append(block)
        half = len(op.results)
        block.append(Yield(Reduction(op).joined(build, block.args[:half], block.args[half:])))
        attributes["neutral"] = Reduction(op).neutrals() or ()
        if Reduction(op).is_commutative:
            attributes["commutative"] = True
    elif accumulates:
        attributes["combiner"] = _combiner_opcode(op)
    attributes |= _irregular(op)
    return Generic(op.operands, [r.type for r in op.results], attributes, blocks, location=op.location)


def _irregular(op: Structured) -> dict[str, Attribute]:
    """The attributes that say which iterations there are, and what indices stand for."""
    found: dict[str, Attribute] = {VALID: op.attributes[VALID]} if VALID in op.attributes else {}
    if ragged_dims(op):
        bounds = ragged_dims(op).items()
        found["ragged"] = tuple((name, element_of(r.first), element_of(r.end), r.origin) for name, r in bounds)
    if Indices(op).clamps_indices:
        found["out_of_range"] = CLAMP
    outside = Indices(op).outside
    if outside is not None:
        found |= {"out_of_range": FILL, "fill": outside}
    return found


def _combiner_opcode(op: Structured) -> str:
    """The opcode of the operation `combine` builds."""
    block = Block([("a", op.acc_type), ("b", op.acc_type)])
    made: list[str] = []

    def build(built: Operation) -> Value:
        made.append(built.opcode)
        block.append(built)
        return built.result

    Reduction(op).combine(build, *block.args)
    return made[-1]
