"""Values, operations, blocks, functions, modules: the one IR of every level.

Nothing here is mutated except through `rewriter.Rewriter` (and by the parser and builder while they construct).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from operator import is_not
from typing import TYPE_CHECKING, ClassVar, Final, Self, TypeVar, cast

from tcpx.cells import text_cell
from tcpx.limits import DEEPEST_CALLS
from tcpx.payload import order
from tcpx.payload.diagnostics import Diagnostic, Location, UnprovenError, VerifyError
from tcpx.payload.fields import AttributeField, Field, FlagAttribute, NamedOperand, Operand, OptionalOperand, Result
from tcpx.payload.sizes import Dim, Size, Symbol, Var, substitute
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.sizes.substitution import are_same
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.call import Calling, Demand
from tcpx.payload.traits.signature import Signature, given_operands
from tcpx.payload.traits.trait import DECLARED
from tcpx.payload.types import ScalarType, Type, substitute_type
from tcpx.payload.uses import Uses
from tcpx.records import brief

if TYPE_CHECKING:
    from tcpx.payload.constants import Constants
    from tcpx.payload.evaluator import Array, Evaluation

Attribute = int | float | str | bool | Size | Symbol | Var | Tile | Predicate | ScalarType | tuple["Attribute", ...]
CopyPath = tuple[tuple[int, str], ...]
HEAD, MAIN, TAIL = "head", "main", "tail"
"""The sides of a peeled loop: what is before whole steps, these, and the rest."""
INLINED = "inlined"
"""The side of what a call left where it was; its function is the other."""
OpT = TypeVar("OpT", bound="Operation")
T = TypeVar("T")


class Value:
    """An SSA value: the result of an operation or the argument of a block."""

    __slots__ = ("name", "owner", "type", "uses")

    def __init__(self, name: str, type_: Type, owner: Operation | Block) -> None:
        self.name = name
        self.type = type_
        self.owner = owner
        self.uses = Uses()

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"

    def add_use(self, user: Operation, index: int) -> None:
        """Note that operand `index` of an operation is this value; the function learns that there is news."""
        if not self.uses.unverified:
            func = self.func
            if func is not None:
                func.newly_used.append(self)
        self.uses.append((user, index))

    @property
    def func(self) -> FuncOp | None:
        """The function it belongs to."""
        holder = self.owner.parent if isinstance(self.owner, Block) else self.owner
        return holder.func if holder is not None else None

    @property
    def defining_op(self) -> Operation | None:
        """The operation this is a result of; None for a block argument."""
        return self.owner if isinstance(self.owner, Operation) else None

    @property
    def users(self) -> list[Operation]:
        """The operations that use this value, in order of first use, each once."""
        return list(dict.fromkeys(op for op, _ in self.uses))


@cache
def tree_classes_of(op_class: type[Operation]) -> tuple[str, ...]:
    """The names of a class and its ancestors in the operation tree, nearest first."""
    names = [c.__dict__.get("class_name", "") for c in op_class.__mro__]
    return tuple(n for n in names if n)


ROW: Final = "row"
"""The attribute of any operation that names the instruction it has become."""
PROMISE, TARGET = "promise", "target"
"""What a group ends as, and a function stays; the name of the target that a function or group has of its own."""
VALID: Final = "valid"
"""The attribute of any structured operation that says how many iterations of its reduction dims are no padding."""
DIM_NAMES: Final = "dim_names"
"""The attribute of an operation whose dims are numbered that names them, in their order."""
LANES: Final = "lanes"
"""The attribute of any structured operation on tensors that says along which dim it is computed by vectors, and how
long these are."""
CALLEE: Final = "callee"
"""The attribute of a call that names the function."""
INOUT: Final = "inout"
"""The attribute of a function that holds, in pairs of positions, the arguments that are state and their results."""
NUMBERS: Final = "numbers"
"""The attribute of a function that holds, in pairs, the positions of arguments that are numbers and the symbols that
they are the sizes of."""
RESULT_NAMES: Final = "result_names"
"""The attribute of a function that holds what its results are called in C and Python, "" for those that are not."""
NO_NOTES: Mapping[str, str] = {}


Range = tuple[Dim, Dim]
"""Numbers from the first on to just below the second."""


@cache
def _own_fields(base: type) -> Mapping[str, object]:
    """The fields that a class declares itself."""
    declared = cast("Mapping[str, object]", vars(base))
    return {name: declared[name] for name in declared if isinstance(declared[name], Field)}


def _check_field_names(cls: type[Operation]) -> None:
    """Raise ValueError for a field of a name by which stages ask something else of every operation."""
    for name in _own_fields(cls):
        for base in cls.__mro__[1:]:
            hidden = cast("Mapping[str, object]", vars(base)).get(name)
            if hidden is not None and not isinstance(hidden, Field) and (base is Operation or callable(hidden)):
                raise _field_hides(cls, name, base.__name__)
        if name in DECLARED:
            raise _field_hides(cls, name, DECLARED[name])


def _field_hides(cls: type[Operation], name: str, owner: str) -> ValueError:
    return ValueError(
        f"{cls.__module__}.{cls.__qualname__}: the field `{name}` hides `{owner}.{name}`; call it something else, an"
        " attribute with its name in the text as the `key` of the field"
    )


class Operation:
    """Base of all operations. A subclass declares everything about its kind in one place."""

    __slots__ = (
        "_derived",
        "attributes",
        "copy_path",
        "location",
        "name",
        "notes",
        "operands",
        "order",
        "origins",
        "parent",
        "regions",
        "results",
        "schedule_location",
        "steps",
        "written_as",
    )

    opcode: ClassVar[str] = ""
    class_name: ClassVar[str] = ""
    """Name in the operation tree, where the class stands in it: `generic`, `contract`, `matmul`."""
    init = OptionalOperand()
    signature: ClassVar[Signature] = Signature(common_attributes=(ROW,))
    """Operands, results, attributes and regions, as the class declares them."""
    _attribute_names: ClassVar[tuple[str, ...] | None] = None
    is_terminator: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _check_field_names(cls)
        cls.signature = cls._signature_of()

    @classmethod
    def _signature_of(cls) -> Signature:
        """The form of a class: from its fields and those of its bases, and what the nearest class declares that says
        more than they do."""
        operands: dict[str, None] = {}
        results: dict[str, None] = {}
        named: dict[str, None] = {}
        attributes: dict[str, AttributeField[object]] = {}
        optional: str = getattr(cls, "optional_operand", "")
        for base in reversed(cls.__mro__):
            operands |= dict.fromkeys(cast("tuple[str, ...]", vars(base).get("operand_names", ())))
            for name, field in _own_fields(base).items():
                match field:
                    case Operand():
                        operands[name] = None
                    case Result():
                        results[name] = None
                    case NamedOperand():
                        named[name] = None
                    case AttributeField():
                        attributes[field.key] = cast("AttributeField[object]", field)
                    case OptionalOperand() if base is not Operation:
                        optional = name
                    case _:
                        pass
        fields = tuple(attributes.values())
        flags = tuple(field.key for field in fields if isinstance(field, FlagAttribute))
        if "attribute_names" in vars(cls):
            cls._attribute_names = vars(cls)["attribute_names"]
        elif fields != next(base.signature.attribute_fields for base in cls.__mro__[1:] if issubclass(base, Operation)):
            cls._attribute_names = tuple(dict.fromkeys((*(cls._attribute_names or ()), *attributes)))
        return Signature(
            tuple(operands),
            tuple(results),
            optional,
            tuple(named),
            cls._attribute_names,
            getattr(cls, "common_attributes", (ROW,)),
            fields,
            flags,
            getattr(cls, "variadic", False),
            len(results) if results and "result_count" not in vars(cls) else getattr(cls, "result_count", 1),
            getattr(cls, "more_results", ()),
            getattr(cls, "region_count", 0),
        )

    def __init__(
        self,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: Mapping[str, Attribute] | None = None,
        regions: Sequence[Block] = (),
        result_names: Sequence[str] = (),
        name: str = "",
        location: Location | None = None,
    ) -> None:
        self.operands: list[Value] = []
        self.attributes: dict[str, Attribute] = dict(attributes or {})
        for key in self.signature.flag_keys:
            if self.attributes.get(key) is False:
                del self.attributes[key]
        self.regions: list[Block] = list(regions)
        self.parent: Block | None = None
        self.order = 0
        """Rises along the block it stands in; kept by `Block`."""
        self.location = location
        self.schedule_location: Location | None = None
        self.steps: tuple[int, ...] = ()
        """Numbers of the steps that made and changed it and what it was made from; those of a trace count from 1."""
        self.written_as: tuple[str, str] | None = None
        """The class of an operation in the text that this one does the arithmetic of, which is short for this and
        others, and why."""
        self.notes: Mapping[str, str] = NO_NOTES
        """What a schedule said of it, by name; no part of the payload."""
        self.origins: tuple[int, ...] = ()
        self.copy_path: CopyPath = ()
        self._derived: dict[str, tuple[Sequence[object], object]] | None = None
        """What was computed of attributes and types, by name, with these; see `once`."""
        self.results = [
            Value(result_names[k] if k < len(result_names) else "", t, self) for k, t in enumerate(result_types)
        ]
        self.name = name or (self.results[0].name if self.results else "")
        for block in self.regions:
            block.parent = self
        for value in operands:
            value.add_use(self, len(self.operands))
            self.operands.append(value)

    def __repr__(self) -> str:
        return f"<{self.opcode} {self.name}>"

    # -- declaration -------------------------------------------------------------------------------------------

    def verify(self) -> None:
        """Check operands, attributes and types; raise `VerifyError` where a rule is broken."""

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        """The reference semantics: NumPy arrays in, NumPy arrays out."""
        raise self.error(
            "this operation has no reference semantics",
            required="an operation that declares `evaluate`",
            found="a class without it",
        )

    def once(self, name: str, sources: Sequence[object], compute: Callable[[], T]) -> T:
        """What `compute` gives, computed again where one of `sources`, attributes and types, is another object."""
        if self._derived is None:
            self._derived = {}
        known = self._derived.get(name)
        if known is None or any(map(is_not, known[0], sources)):
            known = self._derived[name] = sources, compute()
        return cast("T", known[1])

    def check_attributes(self) -> None:
        """Raise VerifyError if an attribute that is a field is missing, or of another kind."""
        for field in self.signature.attribute_fields:
            field.of(self)

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def result(self) -> Value:
        """The only result; of several, none is it."""
        if len(self.results) != 1:
            raise self.error(
                "one result is meant, and there are others" if self.results else "there is no result",
                required="an operation with one result",
                found=", ".join(f"%{value.name}" for value in self.results) or self.opcode,
            )
        return self.results[0]

    @property
    def _required_operands(self) -> int:
        """How many operands there are without the optional one."""
        return len(self.signature.operand_names)

    @property
    def inits(self) -> list[Value]:
        """What accumulators start with: the optional operands, one per result, or none."""
        return self.operands[self._required_operands :] if self.signature.optional_operand else []

    @property
    def inputs(self) -> list[Value]:
        """The operands without the optional ones."""
        return self.operands[: len(self.operands) - len(self.inits)]

    @property
    def func(self) -> FuncOp | None:
        """The function this operation stands in, at any depth; a function stands in itself."""
        op: Operation | None = self
        while op is not None and op.parent is not None:
            op = op.parent.parent
        return op if isinstance(op, FuncOp) else None

    def ancestors(self) -> Iterator[Operation]:
        """The enclosing operations, innermost first."""
        block = self.parent
        while block is not None and block.parent is not None:
            yield block.parent
            block = block.parent.parent

    def walk(self) -> Iterator[Operation]:
        """This operation and all inside it, in program order."""
        yield self
        if not self.regions:
            return
        blocks: list[Iterator[Block]] = [iter(self.regions)]
        ops: list[Iterator[Operation]] = [iter(())]
        while blocks:
            for op in ops[-1]:
                yield op
                if op.regions:
                    blocks.append(iter(op.regions))
                    ops.append(iter(()))
                    break
            else:
                block = next(blocks[-1], None)
                if block is not None:
                    ops[-1] = iter(block.ops.copy())
                else:
                    blocks.pop()
                    ops.pop()

    @property
    def operand_roles(self) -> tuple[str, ...]:
        """Names by which a schedule reaches the inputs: those of the class, unless the operation has its own."""
        return (*self.signature.operand_names, *given_operands(self))

    def error(
        self,
        message: str,
        required: str | None = None,
        found: str | None = None,
        fix: str | None = None,
        unproven: bool = False,
    ) -> VerifyError:
        """A located error about this operation; what was found are its attributes, if not given. `unproven`: the rule
        may be kept, but nothing says so."""
        if found is None:
            found = f"{self.opcode} with {', '.join(self.attributes)}" if self.attributes else f"{self.opcode} alone"
        shown = f"%{self.name} ({self.opcode})" if self.name else self.opcode
        kind = UnprovenError if unproven else VerifyError
        return kind(
            Diagnostic(f"{shown}: {message}", payload=written_at(self), required=required, found=found, fix=fix)
        )

    def text(self) -> str:
        """This operation, with its regions, as payload text."""
        from tcpx.payload.text.printer import print_operation  # the printer reads the IR: late to break the cycle

        return print_operation(self)

    def stand_for(self, old: Operation) -> None:
        """Take the places in payload and schedule of an operation that this one is made from, its history and notes."""
        if old.notes:
            self.notes = {**old.notes, **self.notes}
        self.written_as = self.written_as or old.written_as
        self.location = self.location or old.location
        self.schedule_location = self.schedule_location or old.schedule_location
        self.steps = merged_steps(old.steps, self.steps)

    # -- copying -----------------------------------------------------------------------------------------------

    def clone(self, mapping: CloneMap, rename: Callable[[str], str]) -> Self:
        """A detached deep copy with operands, loop variables and symbols replaced by `mapping`."""
        made = self._clone_shell(mapping, rename)
        for block in self.regions:
            made.regions.append(block.clone(mapping, rename, made))
        return made

    def _clone_shell(self, mapping: CloneMap, rename: Callable[[str], str]) -> Self:
        """A copy without regions; the variable that it binds is renamed and entered into `mapping`."""
        attributes = substitute_attributes(self.attributes, mapping.sizes, mapping.known)
        own = self.attributes.get("var")
        name = rename(self.name) if self.name else ""
        if isinstance(own, Var):
            bounds = own.lower, own.upper, own.step
            replaced = [substitute(d, mapping.sizes, mapping.known) for d in bounds]
            called = name or rename(own.name)  # a `gml_st.bind` of a text has no name itself
            if called != own.name or any(new is not old for new, old in zip(replaced, bounds, strict=True)):
                fresh = Var(called, *replaced)
                mapping.sizes[own] = Size.of(fresh)
                attributes["var"] = fresh
        made = type(self)(
            [mapping.value(v) for v in self.operands],
            [substitute_type(r.type, mapping.sizes, mapping.known) for r in self.results],
            attributes,
            (),
            [name if r.name == self.name else rename(r.name) for r in self.results],
            name,
            self.location,
        )
        made.stand_for(self)
        made.origins = self.origins
        made.copy_path = self.copy_path
        for old, new in zip(self.results, made.results, strict=True):
            mapping.values[old] = new
        return made


def defined_by(op: Operation) -> list[Value]:
    """The values that an operation defines: its results and the arguments of its regions."""
    return [*op.results, *(a for block in op.regions for a in block.args)] if op.regions else [*op.results]


def parent_op(op: Operation) -> Operation | None:
    """The operation in whose region an operation stands."""
    return op.parent.parent if op.parent is not None else None


def is_in(op: Operation, other: Operation) -> bool:
    """Whether `other` encloses an operation (an operation encloses itself)."""
    return op is other or any(a is other for a in op.ancestors())


def written_at(op: Operation) -> Location | None:
    """Where an operation was written, or the innermost that encloses it, if a transform made this one."""
    if op.location is not None:
        return op.location
    return next((outer.location for outer in op.ancestors() if outer.location is not None), None)


def merged_steps(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Both histories as one, in the order of the steps."""
    if not first or first == second:
        return second
    return first if not second else tuple(sorted({*first, *second}))


class CloneMap:
    """What a clone replaces: values by values, symbols and loop variables by size expressions. `known` says more of
    symbols where it will stand."""

    def __init__(
        self,
        values: Mapping[Value, Value] | None = None,
        sizes: Mapping[Symbol | Var, Dim] | None = None,
        known: KnownSymbols = NOTHING_KNOWN,
    ) -> None:
        self.values: dict[Value, Value] = dict(values or {})
        self.sizes: dict[Symbol | Var, Dim] = dict(sizes or {})
        self.known = known

    def value(self, value: Value) -> Value:
        return self.values.get(value, value)


OVER_DIMS = frozenset({"maps", "positions"})
"""Attributes whose symbols are iteration dims of the operation, which may have the names of sizes."""


def substitute_attributes(
    attributes: Mapping[str, Attribute], sizes: Mapping[Symbol | Var, Dim], known: KnownSymbols = NOTHING_KNOWN
) -> dict[str, Attribute]:
    """The attributes with symbols and loop variables replaced, but not dims."""
    return map_attributes(attributes, lambda d: substitute(d, sizes, known))


def map_attributes(attributes: Mapping[str, Attribute], of: Callable[[Dim], Dim]) -> dict[str, Attribute]:
    """The attributes with what `of` makes of their sizes, but not of dims."""
    return {key: a if key in OVER_DIMS else _map_attribute(a, of) for key, a in attributes.items()}


def substitute_attribute(
    attribute: Attribute, sizes: Mapping[Symbol | Var, Dim], known: KnownSymbols = NOTHING_KNOWN
) -> Attribute:
    """The attribute with symbols and loop variables replaced, as deep as it goes; itself where nothing is."""
    return _map_attribute(attribute, lambda d: substitute(d, sizes, known))


def _map_attribute(attribute: Attribute, of: Callable[[Dim], Dim]) -> Attribute:
    match attribute:
        case Size():
            return of(attribute)
        case Tile() | Predicate():
            return attribute.map(of)
        case tuple():
            made = tuple([_map_attribute(a, of) for a in attribute])
            return attribute if are_same(made, attribute) else made
        case _:
            return attribute


class Block:
    """A list of operations with arguments: the single block of a region or of a function.

    The operations carry numbers that rise along the list, so places are found and compared without walking it.
    """

    __slots__ = ("args", "ops", "parent")

    def __init__(self, args: Sequence[tuple[str, Type]] = (), parent: Operation | None = None) -> None:
        self.args = [Value(name, type_, self) for name, type_ in args]
        self.ops: list[Operation] = []
        self.parent = parent

    @property
    def terminator(self) -> Operation | None:
        return self.ops[-1] if self.ops and self.ops[-1].is_terminator else None

    def append(self, op: OpT) -> OpT:
        """Append while building; rewriting goes through the Rewriter."""
        self.insert(len(self.ops), op)
        return op

    def insert(self, index: int, op: Operation) -> None:
        """Put an operation before `ops[index]`; rewriting goes through the Rewriter."""
        self.ops.insert(index, op)
        op.parent = self
        order.number(self.ops, index)
        _forget_calls(op)

    def index(self, op: Operation) -> int:
        """The place of an operation in `ops`. Raises ValueError if it does not stand here."""
        place = order.place_of(op, self.ops)
        if place is None:
            raise ValueError(f"{op!r} does not stand in this block")
        return place

    def holds(self, op: Operation) -> bool:
        """Whether an operation stands directly in this block."""
        return order.place_of(op, self.ops) is not None

    def remove(self, op: Operation) -> int:
        """Take an operation out; returns the place it had. Rewriting goes through the Rewriter."""
        index = self.index(op)
        _forget_calls(op)
        del self.ops[index]
        op.parent = None
        return index

    def clone(self, mapping: CloneMap, rename: Callable[[str], str], parent: Operation | None = None) -> Block:
        made = Block(
            [(rename(a.name), substitute_type(a.type, mapping.sizes, mapping.known)) for a in self.args], parent
        )
        for old, new in zip(self.args, made.args, strict=True):
            mapping.values[old] = new
        for op in self.ops:
            made.append(op.clone(mapping, rename))
        return made


def _forget_calls(op: Operation) -> None:
    """Let the function that an operation stands in look for its calls again, if that is or contains one."""
    if CALLEE in op.attributes or (op.regions and any(CALLEE in inner.attributes for inner in op.walk())):
        func = op.func
        if func is not None:
            func.known_calls = None


class FuncOp(Operation):
    """The operation form of a function: the root every handle search starts from."""

    __slots__ = ("clone_of", "known_calls", "module", "newly_used", "shares", "symbols")
    opcode = "func"
    result_count = 0
    region_count = 1
    has_side_effects = True

    def __init__(self, name: str, args: Sequence[tuple[str, Type]], symbols: Sequence[Symbol] = ()) -> None:
        super().__init__(regions=[Block(args)], name=name)
        self.symbols: tuple[Symbol, ...] = tuple(symbols)
        self.module: Module | None = None
        """The module it stands in."""
        self.clone_of: FuncOp | None = None
        """What it is a copy of, for one of the calls."""
        self.known_calls: tuple[Operation, ...] | None = None
        """Its `call_operations`, until one comes or goes."""
        self.newly_used: list[Value] = []
        """Values of the function that got a use the verifier has not seen."""
        self.shares = 1
        """How many times the limits on a payload count: more where the function had many operations when the first
        change was made."""

    @property
    def body(self) -> Block:
        return self.regions[0]

    @property
    def args(self) -> list[Value]:
        return self.body.args

    @property
    def demands(self) -> Iterator[Predicate]:
        """What holds wherever it runs."""
        for op in self.body.ops:
            demanded = Demand(op).demanded
            if demanded is None:
                return
            yield demanded

    @property
    def returned(self) -> list[Value]:
        """The values the function returns."""
        end = self.body.terminator
        return list(end.operands) if end is not None else []

    @property
    def outputs(self) -> list[Value]:
        """What a caller gets: the values returned, or on buffers the last arguments, which are written."""
        if "results" not in self.attributes:
            return self.returned
        found = self.args[self._inputs :]
        for number, argument in sorted((n, k) for k, n in self.states.items()):
            found.insert(number, self.args[argument])
        return found

    @property
    def states(self) -> Mapping[int, int]:
        """The positions of the arguments that are state, each with that of the result that is put into its memory."""
        held = self.attributes.get(INOUT, ())
        pairs = held if isinstance(held, tuple) else ()
        return {
            k: n
            for pair in pairs
            if isinstance(pair, tuple) and len(pair) == 2
            for k, n in [pair]
            if isinstance(k, int) and isinstance(n, int) and 0 <= k < len(self.args)
        }

    @property
    def names_of_results(self) -> tuple[str, ...]:
        """What each result is called, "" where nothing is said: state by the name of its argument."""
        held = self.attributes.get(RESULT_NAMES, ())
        names = [name if isinstance(name, str) else "" for name in held] if isinstance(held, tuple) else []
        return (*names, *[""] * (len(self.returned) - len(names)))

    @property
    def inputs(self) -> list[Value]:
        """The arguments that a caller gives values to."""
        return self.args[: self._inputs]

    @property
    def row(self) -> str | None:
        """The row of the target that the function stands for, whose semantics is its body: no C is made of it."""
        held = self.attributes.get(ROW)
        return held if isinstance(held, str) else None

    @property
    def _inputs(self) -> int:
        held = self.attributes.get("results", 0)
        return len(self.args) - held if isinstance(held, int) else len(self.args)

    @property
    def numbers(self) -> Mapping[int, Symbol]:
        """The positions of the arguments that are numbers, each with the symbol that it is the size of."""
        held, known = self.attributes.get(NUMBERS, ()), {symbol.name: symbol for symbol in self.symbols}
        pairs = [pair for pair in held if isinstance(pair, tuple) and len(pair) == 2] if isinstance(held, tuple) else []
        return {
            k: known[n]
            for k, n in pairs
            if isinstance(k, int) and k < len(self.args) and isinstance(n, str) and n in known
        }

    def callers(self) -> list[Operation]:
        """The operations of the module that run it."""
        if self.module is None or len(self.module.funcs) == 1:
            return []
        calls = (call for func in self.module.funcs.values() for call in func.call_operations())
        return [call for call in calls if call.attributes[CALLEE] == self.name]

    def call_operations(self) -> tuple[Operation, ...]:
        """The operations in it that run functions, in program order."""
        if self.known_calls is None:
            self.known_calls = tuple(op for op in self.walk() if CALLEE in op.attributes)
        return self.known_calls

    def calls(self) -> Iterator[tuple[Operation, FuncOp]]:
        """The operations in it that run functions, in program order, and these."""
        return ((op, callee) for op in self.call_operations() if (callee := Calling(op).callee) is not None)


class Module:
    """A payload: functions and the constants they refer to."""

    __slots__ = ("constants", "entry", "funcs", "next_origin")

    def __init__(self, constants: Constants) -> None:
        self.funcs: dict[str, FuncOp] = {}
        self.constants = constants
        self.next_origin = 0
        self.entry = ""
        """The name of `main`, once somebody has asked: it stays that, whatever becomes of calls."""

    def __repr__(self) -> str:
        return brief("Module", ", ".join(f"@{name}" for name in [*self.funcs][:4]), f"{len(self.funcs)} function(s)")

    def _repr_html_(self) -> str:
        return text_cell(repr(self)[1:-1], self.text(), "print(module.text())")

    def __reduce__(self) -> tuple[Callable[..., Module], tuple[object, ...]]:
        """Pickled as text."""
        from tcpx.payload.text.pickling import reduced  # imported here: the text knows operations

        return reduced(self)

    def add(self, func: FuncOp) -> FuncOp:
        """Enter a function under its name, which is free; rewriting goes through the Rewriter."""
        self.funcs[func.name] = func
        func.module = self
        return func

    def remove(self, func: FuncOp) -> None:
        """Take a function out; rewriting goes through the Rewriter."""
        del self.funcs[func.name]
        func.module = None

    @property
    def main(self) -> FuncOp:
        """The only function, or the one called `main`, or the only one that no other calls."""
        if self.entry not in self.funcs:
            self.entry = self._entry().name
        return self.funcs[self.entry]

    def _entry(self) -> FuncOp:
        if len(self.funcs) == 1:
            return next(iter(self.funcs.values()))
        if "main" in self.funcs:
            return self.funcs["main"]
        called = {callee for func in self.funcs.values() for _, callee in func.calls()}
        first = [func for func in self.funcs.values() if func not in called and func.row is None]
        if len(first) == 1:
            return first[0]
        raise VerifyError(
            Diagnostic(
                "cannot tell which function is meant",
                required="one function, one called @main, or one that no other calls",
                found=", ".join(f"@{func.name}" for func in first or self.funcs.values()) or "no function",
            )
        )

    def reached(self, *funcs: FuncOp) -> list[FuncOp]:
        """Functions and all that run when they do, each once and behind those that it calls.

        Raises VerifyError for a function that calls itself, and for more than `DEEPEST_CALLS` calls within one another.
        """
        if len(self.funcs) == 1:  # without a walk: it calls nothing, or it is refused with its call
            return list(funcs)
        depths: dict[FuncOp, int] = {}

        def enter(at: FuncOp, path: tuple[str, ...]) -> int:
            depth = 0
            for call, callee in at.calls():
                if callee.name in path:
                    raise endless_call(call, (*path, callee.name))
                inner = depths[callee] if callee in depths else enter(callee, (*path, callee.name))
                depth = max(depth, 1 + inner)
                if depth > DEEPEST_CALLS:
                    required = f"at most {DEEPEST_CALLS} calls within one another"
                    raise call.error("the calls stand too deep within one another", required, "more than that")
            depths[at] = depth
            return depth

        for func in funcs:
            if func not in depths:
                enter(func, (func.name,))
        return list(depths)

    def walk(self) -> Iterator[Operation]:
        for func in self.funcs.values():
            yield from func.walk()

    def text(self) -> str:
        """The module as payload text; parses back equal."""
        from tcpx.payload.text.printer import print_module  # the printer reads the IR: late to break the cycle

        return print_module(self)


def endless_call(call: Operation, path: Sequence[str]) -> VerifyError:
    """The error for a call of a function that is reached by calls of these, itself among them."""
    found = " calls ".join(f"@{name}" for name in path[path.index(path[-1]) :])
    return call.error("a function does not call itself", required="calls that come to an end", found=found)


_REGISTRY: dict[str, type[Operation]] = {}


def register(cls: type[OpT]) -> type[OpT]:
    """Class decorator: make an operation known by its opcode to the parser."""
    known = _REGISTRY.get(cls.opcode)
    if known is not None and known is not cls:
        raise ValueError(f"two operations are called {cls.opcode}: {known.__module__} and {cls.__module__}")
    _REGISTRY[cls.opcode] = cls
    return cls


def operation_class(opcode: str) -> type[Operation] | None:
    """The class registered under this opcode."""
    return _REGISTRY.get(opcode)


def operation_classes() -> dict[str, type[Operation]]:
    """All registered operations by opcode, sorted."""
    return dict(sorted(_REGISTRY.items()))
