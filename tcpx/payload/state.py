"""Which arguments of a function are state, `inout` in the text: the result with the name of one is put into its memory.
Other names of results are what they are called in C.
What a call is given for state is given up: nothing reads it afterwards."""

from itertools import count

from tcpx.payload.diagnostics import Direction
from tcpx.payload.ir import INOUT, NUMBERS, RESULT_NAMES, Block, FuncOp, Operation, Value
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.sizes import is_equal
from tcpx.payload.text.printer import attribute_text
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import BufferType, TensorType, Type, dtype_of, index, shape_of
from tcpx.plurals import counted


def check_states(func: FuncOp) -> None:
    """Raise VerifyError unless each argument that is state has one result, of its type."""
    held, outputs, pairs = func.attributes.get(INOUT, ()), func.outputs, tuple(func.states.items())
    end = func.body.terminator
    if end is not None and pairs and not outputs:
        states = [func.args[k] for k, _ in sorted(pairs, key=lambda pair: pair[1]) if k < len(func.args)]
        raise end.error(
            "what is state is not returned",
            required=counted(len(pairs), "value"),
            found="none",
            fix=f"write tcp.return({', '.join(f'%{value.name}' for value in states)})",
        )
    in_range = all(0 <= k < len(func.inputs) and 0 <= n < len(outputs) for k, n in pairs)
    if held != pairs or not in_range or len({n for _, n in pairs}) != len(pairs) or list(pairs) != sorted(pairs):
        raise func.error(
            f"`{INOUT}` is the arguments that are state, each with the result that lies in it",
            required="pairs of positions, as [[argument, result]], in order; no result twice",
            found=str(held),
        )
    for position, number in pairs:
        argument, result = func.args[position], outputs[number]
        dims = zip(shape_of(argument.type), shape_of(result.type), strict=False)
        same = len(shape_of(argument.type)) == len(shape_of(result.type)) and all(is_equal(a, b) for a, b in dims)
        if (
            not isinstance(argument.type, TensorType | BufferType)
            or not same
            or dtype_of(argument.type) != dtype_of(result.type)
        ):
            raise func.error(
                f"the result %{argument.name} lies in the memory of the argument %{argument.name}",
                required=f"a tensor of the type of the argument: {argument.type}",
                found=str(result.type),
                fix=_tensor_for(argument, result.type),
            )


def _tensor_for(argument: Value, result: Type) -> str | None:
    """What to write for a number, which has no memory."""
    if isinstance(argument.type, TensorType | BufferType):
        return None
    is_tensor = isinstance(result, TensorType) and dtype_of(result) == dtype_of(argument.type)
    return f"%{argument.name}: inout {result if is_tensor else f'tensor<{argument.type}>'}"


def check_numbers(func: FuncOp) -> None:
    """Raise VerifyError unless each argument that a size is known by is a number, and no size is known by two."""
    held = func.attributes.get(NUMBERS, ())
    found = tuple((k, symbol.name) for k, symbol in func.numbers.items())
    if held != found or len({name for _, name in found}) != len(found):
        raise func.error(
            f"`{NUMBERS}` is the arguments that sizes are known by, each with the symbol",
            required='pairs, as [[argument, "SYMBOL"]]; no symbol twice',
            found=str(held),
        )
    for k in func.numbers:
        if func.args[k].type != index:
            raise func.error(
                "a size is known by a number",
                required=f"%{func.args[k].name}: index",
                found=str(func.args[k].type),
            )


def check_result_names(func: FuncOp) -> None:
    """Raise VerifyError unless each result has at most one name, which nothing else that a caller gives or gets has."""
    held = func.attributes.get(RESULT_NAMES)
    if held is None or "results" in func.attributes:
        return
    names = [name for name in func.names_of_results if name]
    taken = [value.name for value in func.args]
    states = [name for k, name in enumerate(func.names_of_results) if name and k in func.states.values()]
    fits = isinstance(held, tuple) and held == func.names_of_results[: len(func.returned)][: len(held)]
    if not fits or states or len({*names, *taken}) != len(names) + len(taken):
        raise func.error(
            f"`{RESULT_NAMES}` is what results are called",
            required="a text for each of the first results, none of state, all different, and no name of an argument",
            found=attribute_text(held),
        )


def names_in_c(func: FuncOp) -> list[str]:
    """What each result is called in C: its own name, else the first of `out`, `out.1`, `out.2`, .. that no argument and
    no other result has. State has the name of its argument.

    The values of the body do not count: a schedule changes them, and a caller relies on the names."""
    names, states = list(func.names_of_results), func.states.values()
    taken = {*names, *(argument.name for argument in func.args)}
    free = (name for k in count() if (name := f"out.{k}" if k else "out") not in taken)
    return [name or ("" if k in states else next(free)) for k, name in enumerate(names)]


def check_given_up(op: Operation) -> None:
    """Raise VerifyError where something may read, after an operation, what that was given for state."""
    for number in Memory(op).gives_up():
        value = op.operands[number]
        for user, position in value.uses:
            if (user, position) != (op, number) and _may_read_after(user, position, op):
                raise _read_later(user, op, value)
        loop = _loop_round(op, value)
        if loop is not None:
            raise op.error(
                f"%{value.name} is given up in every iteration of %{loop.name}",
                required="a value that the loop carries, or that an iteration makes",
                found=f"%{value.name}, from outside of the loop",
            )


def check_reads(op: Operation) -> None:
    """Raise VerifyError where an operation may read what a call before it was given for state."""
    for number, value in enumerate(op.operands):
        for user, position in value.uses:
            if user is not op and position in Memory(user).gives_up() and _may_read_after(op, number, user):
                raise _read_later(op, user, value)


def _may_read_after(reader: Operation, number: int, call: Operation) -> bool:
    """Whether operand `number` of one operation may be read when another, that uses the same value, is done."""
    return Memory(reader).part_read(number) is not None and _may_follow(
        reader, call, _block_of(reader.operands[number])
    )


def _read_later(reader: Operation, call: Operation, value: Value) -> Exception:
    callee = Calling(call).callee
    return reader.error(
        f"%{value.name} is read after a call was given its memory",
        required=f"no use of %{value.name} behind %{call.name}, for which it is `inout`",
        found=f"{reader.opcode} of it"
        + (f", at {reader.location}" if reader.location is not None else f" behind %{call.name}"),
        fix=Direction(f"read it before, or the result of @{callee.name}") if callee is not None else None,
    )


def _block_of(value: Value) -> Block | None:
    return value.owner if isinstance(value.owner, Block) else value.owner.parent


def _loop_round(op: Operation, value: Value) -> Operation | None:
    """A loop round an operation in which a value is not made."""
    block = _block_of(value)
    for around in op.ancestors():
        if block is not None and block in around.regions:
            return None
        if isinstance(around, Loop):
            return around
    return None


def _may_follow(later: Operation, earlier: Operation, block: Block | None) -> bool:
    """Whether one operation in a block may take effect after another one."""
    while block is not None:
        first, second = (
            next((at for at in (op, *op.ancestors()) if at.parent is block), None) for op in (earlier, later)
        )
        if first is None or second is None:
            return False
        if first is not second:
            return second.order > first.order
        if first in (later, earlier):
            return earlier is later
        if isinstance(first, Loop):
            return True
        block = next((r for r in first.regions if all(_is_inside(op, r) for op in (later, earlier))), None)
    return False


def _is_inside(op: Operation, block: Block) -> bool:
    return any(at.parent is block for at in (op, *op.ancestors()))
