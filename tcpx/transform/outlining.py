"""Move operations into a function, inline calls, and merge functions of one structure."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, cast

from tcpx.payload.attribute_sizes import dims_of
from tcpx.payload.contexts import context_at, context_in, context_of, ways_around
from tcpx.payload.diagnostics import Diagnostic, Kind, ScheduleError
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import (
    CALLEE,
    INLINED,
    INOUT,
    NUMBERS,
    PROMISE,
    TARGET,
    Block,
    CloneMap,
    FuncOp,
    Operation,
    Value,
    defined_by,
    is_in,
    substitute_attribute,
    written_at,
)
from tcpx.payload.memory_effects import MoveKind
from tcpx.payload.ops.assertion import Assert
from tcpx.payload.ops.call import Call, CallBase, bound_sizes, is_in_range
from tcpx.payload.ops.generic import Return
from tcpx.payload.ops.gml_st import If, Parallel
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.runs import runs_on_one
from tcpx.payload.sizes import Dim, Symbol, Var, as_symbol, redeclare, variables
from tcpx.payload.sizes.context import EMPTY, Context
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes.traversal import leaves
from tcpx.payload.strided import STRIDED
from tcpx.payload.structure import computation_fingerprint, is_data
from tcpx.payload.traits.call import Calling, Demand
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.memory import Memory
from tcpx.payload.traits.ragged import ragged_dims
from tcpx.payload.types import TensorType, shape_of, substitute_type
from tcpx.payload.value_ranges import RANGES, Declared, dtype_range, range_entries, value_order, value_range
from tcpx.payload.variables import free_variables
from tcpx.transform.convex import replace_outside, used_outside
from tcpx.transform.editing import erase_dead, is_pure

Known = dict[str, list[FuncOp]]
"""Functions by what they compute."""
KNOWN_BY_CALLERS: Final = "the function is called where this is known"
"""The message of an assertion that holds in every call."""


def outline(
    rewriter: Rewriter,
    ops: Sequence[Operation],
    known: Known | None = None,
    promise: str = "",
    name: str = "",
) -> Call:
    """Move operations, which are adjacent and convex, into a function; returns its call.

    `known` maps what functions compute to these; it gets the new one. A function with a `promise` is called, and never
    inlined. It has its own target, that of the enclosing function or group. Call and function are named `name`, else
    like the last operation.

    The function declares of its sizes what is known of them where the operations stand, and repeats the assertions of
    the caller about them; what the branches around say beyond that, it asserts. Stored constants stay outside and
    become arguments. Operations without operands, and broadcasts, are copied into the function. If a function exists
    that computes the same, and may be called here, that one is called. Raises ScheduleError for operations that cannot
    be in a function.
    """
    ops = [op for op in ops if not _is_stored(op)]
    caller, here = (rewriter.func_of(ops[-1]), context_at(ops[-1])) if ops else (None, EMPTY)
    used = used_outside(ops)
    if caller is None or not used:
        raise _refused(ops, "nothing else uses what they compute", "operations whose results are used", "none that is")
    for value in used:
        if not isinstance(value.type, TensorType):
            raise _refused(ops, f"they give %{value.name}", "results that are tensors", repr(value))
    inputs = _inputs(rewriter, ops)
    symbols = _told(ops, inputs, caller, here)
    name = name or ops[-1].name
    func = FuncOp(_free_name(rewriter, f"{caller.name}.{name}"), [(v.name, v.type) for v in inputs], symbols)
    func.location = next((op.location for op in ops if op.location is not None), written_at(ops[0]))
    numbers = tuple(_numbers(caller, inputs).items())
    if numbers:
        func.attributes[NUMBERS] = numbers
    states = _states(caller, ops, inputs, used)
    if states:
        func.attributes[INOUT] = states
    ranges = _ranges(ops, inputs, symbols)
    if ranges:
        func.attributes[RANGES] = range_entries(ranges)
    if promise:
        func.attributes[PROMISE] = promise
    own = next((outer.attributes[TARGET] for outer in ops[0].ancestors() if TARGET in outer.attributes), None)
    if own is not None:
        func.attributes[TARGET] = own
    rewriter.add_function(func)
    rewriter.adopt(func)
    call = Call(inputs, [value.type for value in used], {"callee": func.name})
    call.location = ops[-1].location
    rewriter.insert(call, InsertPoint.after(ops[-1]), name)
    replace_outside(rewriter, [*ops, call], used, call.results)
    for op in ops:
        rewriter.move(op, InsertPoint.end(func.body))
    rewriter.insert(Return(used), InsertPoint.end(func.body))
    for outer, inner in zip(inputs, func.args, strict=True):
        rewriter.replace_uses(outer, inner, lambda user: is_in(user, func))
    _demand(rewriter, func, caller, here)
    _call_equal(rewriter, call, func, known)
    return call


def _demand(rewriter: Rewriter, func: FuncOp, caller: FuncOp, here: Context) -> None:
    """Let the sizes of a function be of the symbols that it declares, and let it assert what its caller does of them,
    and what else is known of them where it is called."""
    symbols = {symbol.name: symbol for symbol in func.symbols}
    for op in _assertions(caller):
        if symbols.keys() >= {s.name for p in op.alternatives for s in p.symbols()}:
            _assert(rewriter, func, op.clone(CloneMap(), str))
    rewriter.redeclare([func], func.symbols)
    conditions = (Predicate((c,)).map(partial(redeclare, symbols=symbols)) for c in here.comparisons)
    for condition in (c for c in conditions if c.symbols() and not c.variables()):
        is_told = symbols.keys() >= {symbol.name for symbol in condition.symbols()}
        if is_told and not context_of(func.body).holds(condition):
            _assert(rewriter, func, Assert.of([condition], KNOWN_BY_CALLERS))


def _assertions(func: FuncOp) -> list[Assert]:
    return [op for op in func.body.ops if isinstance(op, Assert)]


def _assert(rewriter: Rewriter, func: FuncOp, made: Assert) -> None:
    """Put an assertion at the start of a function that does not have it, behind its own."""
    if all(made.attributes != held.attributes for held in _assertions(func)):
        rewriter.insert(made, InsertPoint.start(func.body))


def _told(ops: Sequence[Operation], inputs: list[Value], caller: FuncOp, here: Context) -> list[Symbol]:
    """The symbols in operations; arguments of the caller that determine the remaining symbols become inputs."""
    while True:
        symbols, known = _symbols(ops, inputs, caller, here), _numbers(caller, inputs).values()
        untold = next((s for s in symbols if s.name not in known and not _tell(inputs, s)), None)
        if untold is None:
            return symbols
        numbers = [caller.args[k] for k, symbol in caller.numbers.items() if symbol.name == untold.name]
        told = [*numbers, *(value for value in caller.args if _tell([value], untold))]
        if not told:
            raise _refused(ops, f"no argument tells `{untold.name}`", "an argument with this dim", caller.name)
        inputs.append(told[0])


def _numbers(caller: FuncOp, inputs: Sequence[Value]) -> Mapping[int, str]:
    """The positions of inputs that are numbers, each with the symbol that it determines."""
    named = {caller.args[k]: symbol.name for k, symbol in caller.numbers.items()}
    return {k: named[value] for k, value in enumerate(inputs) if value in named}


def _states(
    caller: FuncOp, ops: Sequence[Operation], inputs: Sequence[Value], used: Sequence[Value]
) -> tuple[tuple[int, int], ...]:
    """The inputs that calls among the operations change as state, and the state of the caller that loops change and
    nothing else reads; with the results in their memory."""
    becomes = {op.operands[k]: op.results[n] for op in ops for k, n in Memory(op).gives_up().items()}
    states = {caller.args[k] for k in caller.states}
    for op in ops:
        for move in Memory(op).moves():
            value = op.operands[move.operand]
            is_own = value in states and all(any(user is o or is_in(user, o) for o in ops) for user in value.users)
            if is_own and move.kind is MoveKind.INIT and move.to is not None:
                becomes[value] = move.to
    pairs: list[tuple[int, int]] = []
    for k, value in enumerate(inputs):
        last = value
        while last in becomes:
            last = becomes[last]
        if last is not value and last in used:
            pairs.append((k, used.index(last)))
    return tuple(pairs)


def _ranges(ops: Sequence[Operation], inputs: Sequence[Value], symbols: Sequence[Symbol]) -> Mapping[int, Declared]:
    """The declared properties of inputs whose elements are indices, in terms of the sizes of the function."""
    inside = [op for top in ops for op in top.walk() if isinstance(op, Structured)]
    if not any(Indices(op).operands or ragged_dims(op) for op in inside):
        return {}
    known, declared = {symbol.text for symbol in symbols}, dict[int, Declared]()
    for k, value in enumerate(inputs):
        bounds = value_range(value)
        if bounds is not None and bounds != dtype_range(value) and all(known >= set(leaves(d)) for d in bounds):
            declared[k] = Declared(*bounds, tuple(value_order(value)))
    return declared


def _tell(values: Sequence[Value], symbol: Symbol) -> bool:
    """Whether one of these values has a symbol as a dim by itself."""
    dims = (as_symbol(d) for value in values for d in shape_of(value.type))
    return any(dim is not None and dim.name == symbol.name for dim in dims)


def _is_stored(op: Operation) -> bool:
    return any(is_data(op, key) for key in op.attributes)


def _refused(ops: Sequence[Operation], message: str, required: str, found: str) -> ScheduleError:
    return ScheduleError(
        Diagnostic(
            f"no function can be made of {', '.join(f'%{op.name}' for op in ops) or 'no operations'}: {message}",
            Kind.SILENCEABLE,
            payload=ops[0].location if ops else None,
            required=required,
            found=found,
        )
    )


def _inputs(rewriter: Rewriter, ops: list[Operation]) -> list[Value]:
    """Values that operations use and do not define, in the order of first use; cheap producers join the operations."""
    again: dict[Value, Value] = {}
    pending = list(ops)
    while pending:
        op = pending.pop(0)
        if not is_pure(op):
            raise _refused(ops, f"%{op.name} does more than compute", "operations without effects", op.opcode)
        for inner in op.walk():
            for index, value in enumerate(inner.operands):
                made = value.defining_op
                if made is None or not is_cheap(made) or _is_inside(value, ops):
                    continue
                if value not in again:
                    copy = rewriter.clone(made, InsertPoint.before(op), CloneMap())
                    ops.insert(ops.index(op), copy)
                    pending.insert(0, copy)
                    again[value] = copy.results[made.results.index(value)]
                rewriter.set_operand(inner, index, again[value])
    erase_dead(
        rewriter, again, {v.defining_op: [c.defining_op] for v, c in again.items() if v.defining_op and c.defining_op}
    )
    used = (value for op in ops for inner in op.walk() for value in inner.operands)
    inside = set(ops)
    inputs = list(dict.fromkeys(value for value in used if not _is_inside(value, inside)))
    for value in inputs:
        of_loop = isinstance(value.owner, Block) and not isinstance(value.owner.parent, FuncOp)
        if of_loop or not isinstance(value.type, TensorType):
            required = "tensors that are no destinations of loops"
            raise _refused(ops, f"they read %{value.name}", required, repr(value))
    return inputs


def _is_inside(value: Value, ops: Container[Operation]) -> bool:
    """Whether operations, or their bodies, define a value."""
    holder = value.owner.parent if isinstance(value.owner, Block) else value.owner
    return holder is not None and (holder in ops or any(around in ops for around in holder.ancestors()))


def is_cheap(op: Operation) -> bool:
    """Whether an operation is copied rather than passed: it has no operands, or is a broadcast."""
    if op.regions or not is_pure(op) or _is_stored(op):
        return False
    if not op.operands:
        return True
    if not isinstance(op, Structured) or not op.is_movement or len(op.operands) > 1:
        return False
    return len(shape_of(op.operands[0].type)) < len(shape_of(op.result.type))


def _symbols(ops: Sequence[Operation], inputs: Sequence[Value], caller: FuncOp, here: Context) -> list[Symbol]:
    """The symbols in operations, with what is known of each at that place, in the order of the inputs."""
    known = {symbol.name: symbol for symbol in caller.symbols}
    of_ops = (var for op in ops for var in free_variables(op).values())
    of_inputs = (var for value in inputs for dim in shape_of(value.type) for var in variables(dim))
    free = next(chain(of_ops, of_inputs), None)
    if free is not None:
        raise _refused(ops, f"they depend on the variable %{free.name}", "sizes of the function alone", free.text)
    symbols: dict[str, Symbol] = {}
    for dim in [*(d for v in inputs for d in shape_of(v.type)), *(d for op in ops for d in _dims_in(op))]:
        for leaf in leaves(dim).values():
            if isinstance(leaf, Symbol) and leaf.name in known:
                symbols.setdefault(leaf.name, here.names.get(leaf.name, known[leaf.name]))
    return list(symbols.values())


def _dims_in(op: Operation) -> list[Dim]:
    dims: list[Dim] = []
    for inner in op.walk():
        dims += [d for attribute in inner.attributes.values() for d in dims_of(attribute)]
        dims += [d for value in defined_by(inner) for d in shape_of(value.type)]
    return dims


def _free_name(rewriter: Rewriter, wanted: str) -> str:
    base, known = re.sub(r"[^\w.]", "_", wanted), rewriter.module.funcs
    return base if base not in known else next(n for k in range(1, len(known) + 2) if (n := f"{base}.{k}") not in known)


def _call_equal(rewriter: Rewriter, call: Call, func: FuncOp, known: Known | None) -> None:
    """Let the only call of a function call another one that computes the same, if there is one that it may call."""
    computed = computation_fingerprint(func)
    if known is None:
        count = len(_computing(func.body.ops))
        others = [
            other
            for other in rewriter.module.funcs.values()
            if other is not func and other.row is None and len(_computing(other.body.ops)) == count
        ]
        same = [o for o in others if o is not rewriter.module.main and computation_fingerprint(o) == computed]
    else:
        same = known.setdefault(computed, [])
    for other in same:
        if _stored(other) == _stored(func) and _may_call(call, other):
            replace_function(rewriter, func, other)
            return
    same.append(func)


def _may_call(call: Call, other: FuncOp) -> bool:
    """Whether the sizes of a call are known to be what a function declares and demands."""
    here, binding = context_at(call), bound_sizes(other, call.operands)
    if any(s not in binding or is_in_range(here, s, binding[s]) is not True for s in other.symbols):
        return False
    caller = call.func
    given = [op.alternatives for op in _assertions(caller)] if caller is not None else []
    demanded = [tuple(p.substitute(binding) for p in op.alternatives) for op in _assertions(other)]
    return all(any(map(here.holds, alternatives)) or alternatives in given for alternatives in demanded)


def _computing(ops: Iterable[Operation]) -> list[Operation]:
    """Operations without those that say what holds of sizes."""
    return [op for op in ops if Demand(op).demanded is None]


def replace_function(rewriter: Rewriter, func: FuncOp, kept: FuncOp) -> None:
    """Let the calls of a function call another one that computes the same. Handles to its operations then denote those
    of the other."""
    for ours, its in zip(_computing(kept.walk()), _computing(func.walk()), strict=True):
        rewriter.join(its, ours)
    for call in func.callers():
        rewriter.set_attribute(call, CALLEE, kept.name)
    rewriter.remove_function(func)


def _stored(func: FuncOp) -> list[object]:
    """The stored constants that operations in a function name."""
    return [op.attributes[key] for op in func.walk() for key in op.attributes if is_data(op, key)]


def inline(rewriter: Rewriter, call: Call) -> None:
    """Replace a call by the operations of the function; erase the function if it has no other call."""
    func = call.called
    values = dict(zip(func.args, call.operands, strict=True))
    sizes = cast("Mapping[Symbol | Var, Dim]", Calling(call).binding)
    mapping = CloneMap(values, sizes)
    is_shared = len(func.callers()) > 1
    has_copies = is_shared or any(len(rewriter.origins[o]) > 1 for op in func.body.ops for o in op.origins)
    split = rewriter.new_split() if has_copies else None
    rewriter.note_inlined(call, split)
    is_entry = func is rewriter.module.main
    _assert_of_call(rewriter, call, mapping)
    for op in [op for op in func.body.ops[:-1] if not isinstance(op, Assert)]:
        made = rewriter.clone(op, InsertPoint.before(call), mapping)
        for branch in [inner for inner in made.walk() if isinstance(inner, If)]:
            for k, region in enumerate(branch.regions):  # the caller does not know the facts of the branches
                inner = context_in(branch, k)
                fixed = {n for n, s in inner.names.items() if s.lower == s.upper}  # a number would change types
                rewriter.substitute(region.ops, {s: d for s, d in inner.symbols().items() if s.name not in fixed})
        if split is not None:
            rewriter.extend_copy_path(made, split, INLINED)
        if split is not None and is_shared:
            rewriter.extend_copy_path(op, split, "called")
    rewriter.end(call, "a call that was inlined")
    rewriter.replace_op(call, [mapping.value(value) for value in func.returned])
    if not is_shared and not is_entry:
        rewriter.remove_function(func)


def _assert_of_call(rewriter: Rewriter, call: Call, mapping: CloneMap) -> None:
    """Let the caller assert what a function demands in a call, where that is not known there: it holds, or the branches
    around the call are not taken."""
    here, ways = context_at(call), [p for p in ways_around(call) if not p.variables()]
    for op in _assertions(call.called):
        made = op.clone(mapping, str)
        if any(map(here.holds, made.alternatives)):
            continue
        free = next((v for p in made.alternatives for v in p.variables()), None)
        if free is not None:
            message = (
                f"@{call.called.name} asserts something of its sizes, and these depend on the variable {free.text}"
            )
            required = f"sizes of which this is known in the call: {', or '.join(map(str, made.alternatives))}"
            raise ScheduleError(
                Diagnostic(message, Kind.SILENCEABLE, payload=written_at(call), required=required, found=free.text)
            )
        made.attributes = made.attributes | {"any": (*ways, *made.alternatives)}
        _assert(rewriter, rewriter.func_of(call), made)


def clone(rewriter: Rewriter, call: CallBase, sizes: Mapping[Symbol, Dim] | None = None) -> FuncOp:
    """Give a call its own copy of the function, with some of its symbols replaced."""
    func, known = call.called, cast("Mapping[Symbol | Var, Dim]", sizes or {})
    args = [(value.name, substitute_type(value.type, known)) for value in func.args]
    made = FuncOp(_free_name(rewriter, func.name), args, [symbol for symbol in func.symbols if symbol not in known])
    made.attributes = {key: substitute_attribute(attribute, known) for key, attribute in func.attributes.items()}
    made.location, made.clone_of = func.location, func
    rewriter.add_function(made)
    rewriter.adopt(made)
    mapping, split = CloneMap(dict(zip(func.args, made.args, strict=True)), known), rewriter.new_split()
    for op in list(func.body.ops):
        copy = rewriter.clone(op, InsertPoint.end(made.body), mapping)
        rewriter.extend_copy_path(copy, split, "clone")
        rewriter.extend_copy_path(op, split, "called")
    rewriter.set_attribute(call, "callee", made.name)
    return made


def own_copy(rewriter: Rewriter, call: Call) -> FuncOp:
    """Give a call its own copy of the function, where sizes that the call knows are numbers. Handles to what was shared
    denote the copy if they are of this call, else the function."""
    func = call.called
    numbers = func.numbers.values()
    made = clone(
        rewriter, call, {s: n for s, n in Calling(call).binding.items() if isinstance(n, int) and s not in numbers}
    )
    for op, copy in zip(list(func.walk()), list(made.walk()), strict=True):
        ours = tuple(o for o in op.origins if rewriter.calls.get(o) in call.origins)
        if ours and len(ours) < len(op.origins):
            rewriter.set_origins(copy, ours)
            rewriter.set_origins(op, tuple(o for o in op.origins if o not in ours))
    return made


def serial_versions(rewriter: Rewriter, main: FuncOp) -> None:
    """Give calls in parallel loops a copy of a parallel function, if it has other calls outside parallel loops."""
    for func in reversed(rewriter.module.reached(main)[:-1]):
        calls = func.callers()
        inside = [call for call in calls if runs_on_one(call)]
        shares = any(isinstance(op, Parallel) for callee in rewriter.module.reached(func) for op in callee.walk())
        if shares and 0 < len(inside) < len(calls):
            made = clone(rewriter, cast("CallBase", inside[0]))
            for call in inside[1:]:
                rewriter.set_attribute(call, "callee", made.name)


def drop_unused_arguments(rewriter: Rewriter, func: FuncOp) -> None:
    """Let calls pass only what a function reads, and what determines its symbols."""
    calls = func.callers()
    if not calls or STRIDED in func.attributes or func is rewriter.module.main:
        return
    for value in reversed(func.args):
        index = func.args.index(value)
        others = [other for other in func.args if other is not value]
        is_told = all(_tell(others, symbol) for symbol in func.symbols if _tell([value], symbol))
        if value.uses or index in func.states or index in func.numbers or not is_told:
            continue
        for call in calls:
            rewriter.set_operands(call, [v for k, v in enumerate(call.operands) if k != index])
        places = {INOUT: func.states, NUMBERS: {k: symbol.name for k, symbol in func.numbers.items()}}
        rewriter.remove_block_arg(func.body, index)
        for name, entries in places.items():
            if name in func.attributes:
                rewriter.set_attribute(func, name, tuple((k - (k > index), n) for k, n in entries.items()))
