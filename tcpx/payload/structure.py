"""The structure of a payload function: what it computes on which shapes, whatever its values and symbols are called.

Two functions of one structure differ only in names, places in the text and the data of stored constants, and call
functions of one structure. Symbols are numbered in the order they are first met; their ranges count.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256

from tcpx.payload.contexts import context_at
from tcpx.payload.contraction import CONTRACT
from tcpx.payload.ir import CALLEE, PROMISE, TARGET, Attribute, Block, FuncOp, Operation, Value, defined_by
from tcpx.payload.ops.constant import Const
from tcpx.payload.sizes import Dim, Size, Symbol, Var, substitute, to_text
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.sizes.traversal import leaves
from tcpx.payload.subsets import Tile
from tcpx.payload.text.printer import attribute_text
from tcpx.payload.traits.call import Calling, Demand
from tcpx.payload.types import Type, dtype_of, shape_of, substitute_type
from tcpx.payload.value_ranges import RANGES

DIGITS = 16
"""Length of a fingerprint."""


def fingerprint(func: FuncOp, kind_of: Callable[[int], str] = str) -> str:
    """A hash of the structure of a function: 16 hexadecimal digits, the same for all functions of one structure.
    Extents of tensors count as what `kind_of` says of them."""
    return _digest(Structure(kind_of).function(func))


def computation_fingerprint(func: FuncOp) -> str:
    """A hash of what a function computes, whatever it declares and demands of its sizes: functions of one give the same
    wherever each may be called."""
    return _digest(Structure(is_declared=False).function(func))


def operation_fingerprint(op: Operation) -> str:
    """A hash of the structure of one operation: its kind, attributes and regions, types and constness of operands."""
    made = Structure()
    operands = [f"{made.type(v.type)}{' constant' if isinstance(v.defining_op, Const) else ''}" for v in op.operands]
    return _digest("\n".join([", ".join(operands), *made.operation(op)]))


def part_fingerprint(ops: Sequence[Operation], kind_of: Callable[[int], str] = str) -> str:
    """A hash of the structure of operations, in their order: that of each, the types of the values that they read of
    others, which of these are constant, and what is known of their symbols there. Extents of tensors count as what
    `kind_of` says of them."""
    here = context_at(ops[0])
    made = Structure(kind_of, here.names)
    inside = {value for op in ops for inner in op.walk() for value in defined_by(inner)}
    read = dict.fromkeys(v for op in ops for inner in op.walk() for v in inner.operands if v not in inside)
    operands = [
        f"{made.value(v)}: {made.type(v.type)}{' constant' if isinstance(v.defining_op, Const) else ''}" for v in read
    ]
    lines = [line for op in ops for line in made.operation(op)]
    names = {symbol.name for symbol in made.numbered()}
    related = (c for c in here.comparisons if c.decide(here.names) is not True)
    relations = (p for c in related if not (p := Predicate((c,))).variables())
    known = sorted(made.attribute(p) for p in relations if names >= {symbol.name for symbol in p.symbols()})
    return _digest("\n".join([*operands, *lines, *made.facts, *known]))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:DIGITS]


class Structure:
    """Texts in which values, symbols and loop variables are numbered in the order they are met. Unless `is_declared`,
    what functions declare and demand of sizes is left out."""

    def __init__(
        self, kind_of: Callable[[int], str] = str, known: KnownSymbols = NOTHING_KNOWN, is_declared: bool = True
    ) -> None:
        self._kind_of, self._known, self._is_declared = kind_of, known, is_declared
        self._values: dict[Value, str] = {}
        self._sizes: dict[Symbol | Var, Dim] = {}
        self.facts: list[str] = []
        """What is known of the symbols that were met."""
        self._dims: dict[Dim, str] = {}
        self._types: dict[Type, str] = {}

    def function(self, func: FuncOp) -> str:
        """The whole function."""
        states = [f"{argument} becomes {result}" for argument, result in func.states.items()]
        body = list(self._block(func.body))
        numbers = [f"{argument} is {self.dim(symbol.size())}" for argument, symbol in func.numbers.items()]
        said = {key: func.attributes[key] for key in (PROMISE, TARGET, RANGES, CONTRACT) if key in func.attributes}
        own = [f"{key} = {self.attribute(held)}" for key, held in said.items()]
        return "\n".join([*body, *self.facts, *states, *numbers, *own])

    def operation(self, op: Operation) -> list[str]:
        """One line for the operation, then those of its regions."""
        var = op.attributes.get("var")
        if isinstance(var, Var):
            self._number(var)
        operands = ", ".join(self.value(v) for v in op.operands)
        held = sorted(op.attributes.items())
        attributes = ", ".join(f"{key} = {self.of(op, key, a)}" for key, a in held if not is_data(op, key))
        types = ", ".join(self.type(v.type) for v in op.results)
        results = ", ".join(self.value(v) for v in op.results)
        lines = [f"{results} = {op.opcode}({operands}) {{{attributes}}} : {types}"]
        for block in op.regions:
            lines += [f"  {line}" for line in self._block(block)]
        return lines

    def numbered(self) -> tuple[Symbol, ...]:
        """The symbols met so far, in the order of their numbers."""
        return tuple(leaf for leaf in self._sizes if isinstance(leaf, Symbol))

    def _block(self, block: Block) -> Iterable[str]:
        yield "(" + ", ".join(f"{self.value(v)}: {self.type(v.type)}" for v in block.args) + ")"
        for op in block.ops:
            if self._is_declared or Demand(op).demanded is None:
                yield from self.operation(op)

    def value(self, value: Value) -> str:
        return self._values.setdefault(value, f"v{len(self._values)}")

    def type(self, type_: Type) -> str:
        known = self._types.get(type_)
        if known is None:
            mapping: dict[Symbol | Var, Dim] = {}
            for dim in shape_of(type_):
                mapping.update(self._mapping(dim))
            made = substitute_type(type_, mapping)
            extents = [self._kind_of(dim) if isinstance(dim, int) else to_text(dim) for dim in shape_of(made)]
            known = self._types[type_] = f"{made}" if self._kind_of is str else f"{extents} {dtype_of(made)}"
        return known

    def dim(self, dim: Dim) -> str:
        if isinstance(dim, int):
            return str(dim)
        known = self._dims.get(dim)
        if known is None:
            known = self._dims[dim] = to_text(substitute(dim, self._mapping(dim)))
        return known

    def of(self, op: Operation, key: str, attribute: Attribute) -> str:
        """An attribute of an operation; of a call, the structure of the function."""
        callee = Calling(op).callee if key == CALLEE else None
        return self.attribute(attribute) if callee is None else fingerprint(callee)

    def attribute(self, attribute: Attribute) -> str:
        match attribute:
            case Var():
                bounds = ", ".join(map(self.dim, (attribute.lower, attribute.upper, attribute.step)))
                return f"{self.dim(attribute.size())} in {bounds}"
            case Size() | Symbol():
                return self.dim(attribute.size() if isinstance(attribute, Symbol) else attribute)
            case Tile():
                parts = (attribute.offsets, attribute.sizes, attribute.strides)
                return f"{[[self.dim(d) for d in part] for part in parts]}{attribute.dropped}"
            case Predicate():
                return " and ".join(f"{self.dim(c.lhs)} {c.op} {self.dim(c.rhs)}" for c in attribute.comparisons)
            case tuple():
                return f"[{', '.join(map(self.attribute, attribute))}]"
            case _:
                return attribute_text(attribute)

    def _mapping(self, dim: Dim) -> Mapping[Symbol | Var, Dim]:
        return {leaf: self._number(leaf) for leaf in leaves(dim).values()}

    def _number(self, leaf: Symbol | Var) -> Dim:
        if leaf not in self._sizes:
            made = Symbol(f"s{len(self._sizes)}")
            if isinstance(leaf, Symbol) and self._is_declared:
                leaf = self._known.get(leaf.name, leaf)
                made = Symbol(made.name, leaf.lower, leaf.upper, leaf.multiple_of)
                self.facts.append(f"{made.name}: {leaf.lower}..{leaf.upper} multiple of {leaf.multiple_of}")
            self._sizes[leaf] = made.size()
        return self._sizes[leaf]


def is_data(op: Operation, key: str) -> bool:
    """Whether an attribute names stored data rather than structure."""
    return isinstance(op, Const) and key == "constant"
