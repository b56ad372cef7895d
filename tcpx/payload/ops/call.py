"""Calls of other functions of the module: on values, and on memory."""

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Self

import numpy as np

from tcpx.payload.contexts import are_equal_at, context_at, is_less_equal_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import DimsAttribute, ElementsAttribute, TextAttribute
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import FuncOp, Operation, Value, endless_call, register
from tcpx.payload.ops.gml_st import Parallel
from tcpx.payload.sizes import (
    Dim,
    Size,
    Symbol,
    as_symbol,
    floordiv,
    is_equal,
    product,
    substitute,
    to_text,
    told_symbol,
)
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes_of_arguments import telling_dims
from tcpx.payload.strided import strided_positions
from tcpx.payload.subsets import Tile
from tcpx.payload.text.scope import suggestion
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.constant import Constant
from tcpx.payload.types import BufferType, TensorType, Type, dtype_of, row_major, shape_of, substitute_type
from tcpx.payload.value_ranges import SPANNING, Declared, declared_ranges, value_order, value_range
from tcpx.plurals import counted

Binding = Mapping[Symbol, Dim]
IN_PLACE, ALIGNMENT, SCRATCH, CONTRACT = "in_place", "alignment", "scratch", "contract"
"""Attributes of a function that stands for a row: the argument that the result is written over; by argument, then for
the result, the bytes that its first element is aligned to; bytes of memory that it works in; words of `CONTRACTS`."""
NONEMPTY, DISJOINT_ROWS, OWN_THREADS = CONTRACTS = ("nonempty", "disjoint_rows", "own_threads")
"""What a row takes less than others: it is called where no size is 0; the rows of what is `strided` do not overlap; it
has threads of its own, so that no iterations of a parallel loop call it side by side."""
ALIGNED_SPACES: Mapping[str, int] = {"stack": 64, "arena": 64, "constant": 64}
"""The alignment in bytes of the buffers of a kernel, by space; those of a caller have that of their elements."""


class CallBase(Operation):
    """What calls on values and on memory share: the function, by its name, and what its symbols are."""

    __slots__ = ()
    name_of_callee = TextAttribute(key="callee")
    variadic = True

    def usual_attribute(self, key: str) -> str:
        """The one function that a call here can be of, where there is one."""
        func = self.func
        module = func.module if func is not None else None
        others = [name for name, held in module.funcs.items() if held is not func] if module is not None else []
        return f'"{others[0]}"' if key == "callee" and len(others) == 1 else ""

    @property
    def callee(self) -> FuncOp | None:
        callee = self._found
        return callee if callee is None or callee.row is None else None

    @property
    def _found(self) -> FuncOp | None:
        func = self.func
        held = self.attributes.get("callee")
        return func.module.funcs.get(held) if func and func.module and isinstance(held, str) else None

    @property
    def called(self) -> FuncOp:
        """The function. Raises VerifyError where the module has none of this name, and where it is the one round it."""
        callee = self._found
        if callee is not None:
            if callee is self.func:
                raise endless_call(self, (callee.name, callee.name))
            return callee
        module = self.func.module if self.func is not None else None
        known = [] if module is None else list(module.funcs)
        raise self.error(
            f"there is no function @{self.name_of_callee}",
            required="a function of the payload",
            found=", ".join(f"@{name}" for name in known) or "no functions",
            fix=suggestion(self.name_of_callee, known, "@"),
        )

    def keeps(self, word: str) -> bool:
        """Whether a word of `CONTRACTS` is in the contract of the row."""
        held = self.called.attributes.get(CONTRACT)
        return isinstance(held, tuple) and word in held

    def check_values(self, binding: Binding, formals: Sequence[Value], given: Sequence[Value], what: str) -> None:
        """Values of the callee and those here have the same dtypes and, with what its symbols are, the same shapes."""
        for formal, value in zip(formals, given, strict=True):
            wanted = substitute_type(formal.type, binding)
            pairs = zip(shape_of(wanted), shape_of(value.type), strict=True)
            if dtype_of(wanted) != dtype_of(value.type) or any(not are_equal_at(self, a, b) for a, b in pairs):
                raise self.error(
                    f"%{value.name} is not the {what} %{formal.name} of @{self.called.name}",
                    required=f"{formal.type}{_where(binding, formal.type)}",
                    found=f"{value.type}",
                    fix=f"write {wanted}" if what == "result" and isinstance(formal.type, TensorType) else None,
                )

    def check_count(self, formals: Sequence[Value], given: Sequence[Value], what: str) -> None:
        """There are as many values as the callee takes or gives, of the same ranks, in memory."""
        if len(formals) != len(given):
            raise self.error(
                f"@{self.called.name} has another number of {what}s",
                required=f"{len(formals)}: {', '.join(map(repr, formals))}" if formals else "none",
                found=f"{len(given)}: {', '.join(map(repr, given))}" if given else "none",
            )
        numbers = {self.called.args[k] for k in self.called.numbers}
        for formal, value in zip(formals, given, strict=True):
            for type_ in (formal.type, value.type) if formal not in numbers else ():
                if not isinstance(type_, TensorType | BufferType):
                    raise self.error(
                        "a call takes and gives tensors",
                        required=f"tensor<{dtype_of(type_).name}> for a number",
                        found=f"the {what} %{formal.name} of @{self.called.name}: {type_}",
                    )
            if len(shape_of(formal.type)) != len(shape_of(value.type)):
                raise self.error(
                    f"%{value.name} is not the {what} %{formal.name} of @{self.called.name}",
                    required=f"rank {len(shape_of(formal.type))}: {formal.type}",
                    found=f"rank {len(shape_of(value.type))}: {value.type}",
                )

    def check_symbols(self, binding: Binding) -> None:
        """Every symbol of the callee is bound, to a size that is in its range wherever the call runs."""
        callee, facts = self.called, context_at(self)
        for symbol in callee.symbols:
            if symbol not in binding:
                raise self.error(
                    f"the size `{symbol.name}` of @{callee.name} follows from no operand",
                    required=f"an argument with a dimension [{symbol.name}]",
                    found=", ".join(map(repr, callee.inputs)) or "no arguments",
                    fix=Direction(f"make the whole dim a symbol: [{symbol.name}]"),
                )
            size = binding[symbol]
            decided = is_in_range(facts, symbol, size)
            if decided is not True:
                raise self.error(
                    f"the size `{symbol.name}` of @{callee.name} is not known to be in its range",
                    required=range_text(symbol),
                    found=f"{symbol.name} = {to_text(size)}",
                    fix=Direction(f"declare the range in @{self.func.name}") if self.func is not None else None,
                    unproven=decided is None,
                )


def _shared_loop(op: Operation) -> Operation | None:
    """The parallel loop round an operation, or round a call of the function that it is in."""
    func = op.func
    found = next((a for a in op.ancestors() if isinstance(a, Parallel)), None)
    above = func.callers() if found is None and func is not None else []
    return found or next((loop for call in above if (loop := _shared_loop(call)) is not None), None)


def place_of_result(func: FuncOp) -> int | None:
    """The argument in whose memory a row writes its result; None for one that writes elsewhere."""
    held = func.attributes.get(IN_PLACE)
    return held if isinstance(held, int) else None


def range_text(symbol: Symbol) -> str:
    """The range of a symbol, as it is declared."""
    text = f"{symbol.lower}..{'' if symbol.upper is None else symbol.upper}"
    return text if symbol.multiple_of == 1 else f"{text} multiple_of {symbol.multiple_of}"


def _where(binding: Binding, type_: Type) -> str:
    """What the symbols in a type are, for a message."""
    named = {s.name: size for s, size in binding.items()}
    found = {s: named[s] for d in shape_of(type_) if (held := as_symbol(d)) is not None and (s := held.name) in named}
    return f", where {', '.join(f'{name} = {to_text(size)}' for name, size in found.items())}" if found else ""


def is_in_range(here: Context, symbol: Symbol, size: Dim) -> bool | None:
    """Whether a size is one that a symbol is declared to be, wherever a context holds."""
    wanted = [Predicate.of("<=", symbol.lower, size)]
    wanted += [] if symbol.upper is None else [Predicate.of("<=", size, symbol.upper)]
    decided = [here.decide(predicate) for predicate in wanted]
    if here.divisor(size) % symbol.multiple_of:
        rest = here.mod(size, symbol.multiple_of)
        decided.append(None if not isinstance(rest, int) else rest == 0)
    if False in decided:
        return False
    return None if None in decided else True


def bound_sizes(func: FuncOp, given: Sequence[Value]) -> dict[Symbol, Dim]:
    """What the symbols of a function are for these operands, in order: each where it is a dim by itself for the first
    time, or a number; strides those of the operands."""
    known = {symbol.name: symbol for symbol in func.symbols}
    found = {
        symbol: size
        for k, symbol in func.numbers.items()
        if k < len(given) and (size := _size_known_by(given[k])) is not None
    }
    pairs = [(formal.type, value.type) for formal, value in zip(func.args, given, strict=False)]
    for name, (k, position) in telling_dims(shape_of(formal) for formal, _ in pairs).items():
        if name in known:
            formal, type_ = pairs[k]
            told = told_symbol(shape_of(formal)[position])
            _, factor, offset = told or (None, 1, 0)
            found.setdefault(known[name], floordiv(shape_of(type_)[position] - offset, factor))
    for formal, type_ in pairs:
        if isinstance(formal, BufferType):
            strides = type_.strides if isinstance(type_, BufferType) else row_major(shape_of(type_))
            for dim, stride in zip(formal.strides, strides, strict=True):
                symbol = as_symbol(dim)
                if symbol is not None and symbol.name in known:
                    found.setdefault(known[symbol.name], stride)
    return found


def _size_known_by(value: Value) -> Dim | None:
    """The size that a number is: an argument that a symbol is known by, or a literal."""
    func, made = value.func, value.defining_op
    if made is None and func is not None and value in func.args:
        symbol = func.numbers.get(func.args.index(value))
        return None if symbol is None else symbol.size()
    number = Constant(made).number if made is not None else None
    return number if isinstance(number, int) else None


def _fits(call: Operation, wanted: Type, given: Type) -> bool:
    """Whether memory has the elements that are wanted, and they lie as is wanted, where it is passed in a call."""
    if not isinstance(wanted, BufferType) or not isinstance(given, BufferType) or wanted.dtype != given.dtype:
        return False
    holds = all(is_less_equal_at(call, a, b) for a, b in zip(wanted.shape, given.shape, strict=True))
    return holds and all(are_equal_at(call, a, b) for a, b in zip(wanted.strides, given.strides, strict=True))


@register
class Call(CallBase):
    """The results of another function of the module for these operands: `%y = tcp.call @f(%x) : TYPE`.

    The types of the operands determine the symbols of the function.
    """

    __slots__ = ()
    opcode = "tcp.call"
    class_name = "call"
    result_count = None
    computes_result = True

    @classmethod
    def of(cls, callee: FuncOp, operands: Sequence[Value]) -> Self:
        """A detached call; the types of its results are those of the function for these operands."""
        binding = bound_sizes(callee, operands)
        types: list[Type] = []
        for value in callee.outputs:
            type_ = substitute_type(value.type, binding)
            types.append(TensorType(shape_of(type_), dtype_of(type_)))
        return cls(operands, types, {"callee": callee.name})

    @property
    def binding(self) -> Mapping[Symbol, Dim]:
        return bound_sizes(self.called, self.operands)

    def gives_up(self) -> Mapping[int, int]:
        callee = self.callee
        return {} if callee is None else callee.states

    def _check_ranges(self, callee: FuncOp, binding: Binding) -> None:
        """What is given for an argument that declares a range is known to be in it."""
        facts = context_at(self)
        for k, declared in declared_ranges(callee).items():
            value, found = self.operands[k], value_range(self.operands[k])
            lower, end = (substitute(d, {**binding}) for d in declared[:2])
            inside = found is not None and [
                facts.decide(Predicate.of("<=", a, b)) for a, b in ((lower, found[0]), (found[1], end))
            ]
            if found is None or inside != [True, True]:
                shown = "no integers" if found is None else f"{to_text(found[0])} to {to_text(found[1])}"
                raise self.error(
                    f"the elements of the argument `{callee.inputs[k].name}` of @{callee.name} are in a range",
                    required=f"a value with elements in {to_text(lower)} to {to_text(end)}",
                    found=f"%{value.name}: {value.type}, in {shown}",
                    fix=Direction(f"declare the argument: `in {to_text(lower)} to {to_text(end)}`")
                    if value.defining_op is None
                    else None,
                    unproven=True,
                )
            known = [
                word
                for word in value_order(value)
                if word != SPANNING or (is_equal(found[0], lower), is_equal(found[1], end)) == (True, True)
            ]
            missing = [word for word in declared.order if word not in known]
            if missing:
                raise self.error(
                    f"the elements of the argument `{callee.inputs[k].name}` of @{callee.name} are in an order",
                    required=f"a value that is known to be {' and '.join(missing)}",
                    found=f"%{value.name}: {value.type}" + "".join(f", {word}" for word in known),
                    fix=Direction(f"declare the argument: `{Declared(lower, end, declared.order)}`")
                    if value.defining_op is None
                    else None,
                    unproven=True,
                )

    def overwritten_by(self, index: int) -> int | None:
        """A row that works in place reads its result's first value where it writes it."""
        return 0 if index == place_of_result(self.called) else self.gives_up().get(index)

    def in_step(self, index: int, number: int = 0) -> Tile | None:
        return Tile.full(shape_of(self.operands[index].type)) if self.overwritten_by(index) == number else None

    def verify(self) -> None:
        callee = self.called
        if not self.results:
            raise self.error("a call gives something", required="a result or more", found=f"none, of @{callee.name}")
        self.check_count(callee.inputs, self.operands, "argument")
        self.check_count(callee.outputs, self.results, "result")
        binding = self.binding
        for k, symbol in callee.numbers.items():
            if _size_known_by(self.operands[k]) is None:
                raise self.error(
                    f"the size `{symbol.name}` of @{callee.name} is not known by %{self.operands[k].name}",
                    required="a literal, or an argument that a size is known by",
                    found=repr(self.operands[k]),
                    fix=Direction("declare the argument: %n: index as [N]"),
                )
        self.check_symbols(binding)
        self.check_values(binding, callee.inputs, self.operands, "argument")
        self.check_values(binding, callee.outputs, self.results, "result")
        self._check_ranges(callee, binding)
        target = place_of_result(callee)
        if target is not None and not 0 <= target < len(callee.args):
            raise self.error(
                f"@{callee.name} writes its result over an argument that it has not",
                required=f"{IN_PLACE} = a number below {len(callee.args)}",
                found=str(target),
            )

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return evaluation.call(self.called, args)


@register
class BufferCall(CallBase):
    """Run a function on buffers: it writes the last operands, its results. `sizes` are the values of its symbols."""

    __slots__ = ()
    opcode = "buffer.call"
    class_name = "call"
    result_count = 0
    has_side_effects = True
    attribute_names = ("callee", "sizes", "offset", "per_thread")
    sizes = DimsAttribute(example="[N]")

    @classmethod
    def of(cls, call: Call, operands: Sequence[Value]) -> Self:
        """A detached call of a function that is on buffers now; the last operands are written."""
        callee = call.called
        passed = [v for n, v in enumerate(call.results) if n not in callee.states.values()]
        binding = bound_sizes(callee, [*call.operands, *passed])
        return cls(operands, [], {"callee": callee.name, "sizes": tuple(binding[s] for s in callee.symbols)})

    @property
    def formals(self) -> list[Value]:
        """The arguments of the function that are memory."""
        return [value for k, value in enumerate(self.called.args) if k not in self.called.numbers]

    @property
    def binding(self) -> Mapping[Symbol, Dim]:
        return dict(zip(self.called.symbols, self.sizes, strict=True))

    @property
    def workspace(self) -> tuple[Dim, Dim]:
        planned = (self.called.attributes.get(key, 0) for key in ("workspace", "workspace_live"))
        size, live = (substitute(held, self.binding) for held in planned if isinstance(held, int | Size))
        return size, live

    def verify(self) -> None:
        callee = self.called
        if "results" not in callee.attributes:
            raise self.error(
                f"@{callee.name} is not on buffers",
                required="a function that `bufferize` has put into memory",
                found="a function on tensors",
            )
        self.check_count(self.formals, self.operands, "argument")
        if len(self.sizes) != len(callee.symbols):
            names = ", ".join(symbol.name for symbol in callee.symbols)
            raise self.error(
                f"@{callee.name} has another number of symbols",
                required=f"{counted(len(callee.symbols), 'size')}: {names}" if names else "no sizes",
                found=counted(len(self.sizes), "size"),
            )
        self.check_symbols(self.binding)
        for formal, value in zip(self.formals, self.operands, strict=True):
            if not _fits(self, substitute_type(formal.type, self.binding), value.type):
                raise self.error(
                    f"%{value.name} does not lie as @{callee.name} takes %{formal.name}",
                    required=f"{formal.type}{_where(self.binding, formal.type)}",
                    found=str(value.type),
                )

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        callee, formals = self.called, self.formals
        shapes = [shape_of(substitute_type(value.type, self.binding)) for value in formals]
        args = [a[(..., *(slice(evaluation.extent(d)) for d in shape))] for a, shape in zip(args, shapes, strict=True)]
        written = callee.outputs
        for formal, value in zip(formals, self.operands, strict=True):
            if formal in callee.inputs:
                evaluation.note_read(value, Tile.full(shape_of(value.type)))
            if formal in written:
                evaluation.note_write(value, Tile.full(shape_of(value.type)))
        given = dict(zip(formals, args, strict=True))
        given |= {callee.args[k]: np.array(evaluation.size(self.binding[s])) for k, s in callee.numbers.items()}
        ordered, split = [given[value] for value in callee.args], len(callee.inputs)
        evaluation.call(callee, ordered[:split], ordered[split:], self)
        return ()


@register
class RowCall(CallBase):
    """Run a row of the target on `tiles` of buffers: the arguments, the result unless it overwrites an argument, then
    the scratch memory. `sizes` are the values of the symbols of its function."""

    __slots__ = ()
    opcode = "buffer.row"
    result_count = 0
    has_side_effects = True
    attribute_names = ("callee", "sizes", "tiles")
    sizes = DimsAttribute(example="[N]")
    tiles = ElementsAttribute(Tile, "a list of subsets", example="[tile [0, 0] [4, 16]]")

    @classmethod
    def of(cls, call: Call, operands: Sequence[Value], tiles: Sequence[Tile]) -> Self:
        """A detached call of a row on parts of buffers, in place of one on values."""
        sizes = tuple(Calling(call).binding[s] for s in call.called.symbols)
        made = cls(operands, [], {"callee": call.called.name, "sizes": sizes, "tiles": tuple(tiles)}, name=call.name)
        made.stand_for(call)
        return made

    @property
    def binding(self) -> Mapping[Symbol, Dim]:
        return dict(zip(self.called.symbols, self.sizes, strict=True))

    @property
    def formals(self) -> list[Value]:
        """What the operands stand for: arguments and result of the function."""
        func = self.called
        return [*func.args, *(func.returned if place_of_result(func) is None else ())]

    @property
    def work(self) -> Dim:
        return product(self.domain)

    def strides(self, index: int) -> list[Dim]:
        """The distances of the rows of an operand, in elements, dim for dim; the last is that of elements."""
        tile, type_ = self.tiles[index], self.operands[index].type
        held = type_.strides if isinstance(type_, BufferType) else ()
        return [tile.strides[dim] * held[dim] for dim in tile.kept]

    def verify(self) -> None:
        func = self.called
        if func.row is None:
            raise self.error(
                f"@{func.name} stands for no row of the target", required="a function with `row`", found="none"
            )
        count = len(self.formals) + (SCRATCH in func.attributes)
        if not count == len(self.operands) == len(self.tiles) or len(self.sizes) != len(func.symbols):
            raise self.error(
                f"the row {func.row} has another number of operands, tiles or sizes",
                required=f"{counted(count, 'operand')} and tiles, {counted(len(func.symbols), 'size')}",
                found=f"{counted(len(self.operands), 'operand')}, {counted(len(self.tiles), 'tile')}, "
                + counted(len(self.sizes), "size"),
            )
        for value, tile in zip(self.operands, self.tiles, strict=True):
            if not isinstance(value.type, BufferType) or tile.rank != len(value.type.shape):
                raise self.error("a row works on parts of buffers", tile.text(), f"%{value.name}: {value.type}")
        self.check_symbols(self.binding)
        for index, formal in enumerate(self.formals):
            self._check_place(index, formal)
        shared = _shared_loop(self) if self.keeps(OWN_THREADS) else None
        if shared is not None:
            raise self.error(
                f"the row {func.row} has threads of its own",
                required="a call that no threads make side by side",
                found=f"a call in the parallel loop {shared.name}",
                fix=Direction("make that loop without `parallel: true`, or lower the whole operation to the row"),
            )

    @property
    def domain(self) -> tuple[Dim, ...]:
        """The extents of the operation that the row does."""
        op = self.called.body.ops[0]
        return tuple(substitute(d, self.binding) for d in op.domain()) if isinstance(op, Structured) else ()

    def _check_place(self, index: int, formal: Value) -> None:
        """A tile has the elements that the row takes, they lie as it takes them, and the first one is aligned."""
        func, value, tile = self.called, self.operands[index], self.tiles[index]
        type_, is_strided = substitute_type(formal.type, self.binding), index in strided_positions(func)
        shown = f"%{formal.name}" if index < len(func.args) else "the result"
        shape, strides = shape_of(type_), self.strides(index)
        fits = dtype_of(type_) == dtype_of(value.type) and len(shape) == len(strides)
        if not fits or any(not are_equal_at(self, a, b) for a, b in zip(shape, tile.shape, strict=True)):
            raise self.error(
                f"%{value.name} is not {shown} of the row {func.row}",
                required=f"{formal.type}{_where(self.binding, formal.type)}",
                found=f"{tile.text()} of {value.type}",
            )
        given = list(zip(strides, row_major(shape), shape, strict=True))
        loose = [] if is_strided else given[:-1]
        if any(n != 1 and not are_equal_at(self, a, b) for a, b, n in [*given[-1:], *loose]):
            raise self.error(
                f"%{value.name} does not lie as the row {func.row} takes {shown}",
                required="elements of a row next to one another" if is_strided else "elements without gaps",
                found=f"strides [{', '.join(map(to_text, strides))}] of {tile.text()} in {value.type}",
                fix=Direction(
                    f"`pack` the operand that is {shown}"
                    + ("" if is_strided or len(shape) < 2 else f", or declare {shown} `strided` in the row")
                ),
            )
        held = func.attributes.get(ALIGNMENT, ())
        wanted = held[index] if isinstance(held, tuple) and index < len(held) else 0
        known = self._alignment(index)
        if isinstance(wanted, int) and wanted and known % wanted:
            raise self.error(
                f"{shown} of the row {func.row} is not known to be aligned",
                required=f"an address that is a multiple of {wanted} bytes",
                found=f"a multiple of {known}: {tile.text()} of %{value.name}: {value.type}",
                fix=Direction("`pack` or `promote` it, in rows that are a multiple of that"),
                unproven=True,
            )

    def _alignment(self, index: int) -> int:
        """Bytes that are known to divide the address of the first element of an operand; 0: any."""
        tile, type_ = self.tiles[index], self.operands[index].type
        if not isinstance(type_, BufferType):
            return 1
        here, width = context_at(self), type_.dtype.bytes
        terms = [o * s for o, s in zip(tile.offsets, type_.strides, strict=True)]
        return gcd(ALIGNED_SPACES.get(type_.space, width), *(width * here.divisor(term) for term in terms))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        func = self.called
        for value, tile in zip(self.operands, self.tiles, strict=True):
            evaluation.note_read(value, tile)
        parts = [a[(*evaluation.slices(a.shape, tile), ...)] for a, tile in zip(args, self.tiles, strict=True)]
        target, count = place_of_result(func), len(func.args)
        written = count if target is None else target
        evaluation.note_write(self.operands[written], self.tiles[written])
        evaluation.call(func, [np.ascontiguousarray(part) for part in parts[:count]], parts[written : written + 1])
        return ()
