"""Variables of sizes: which operation defines one, and which it uses."""

from collections.abc import Iterable, Iterator

from tcpx.payload.attribute_sizes import dims_of
from tcpx.payload.ir import Operation, defined_by
from tcpx.payload.ops.index import Bind
from tcpx.payload.sizes import Var, variables
from tcpx.payload.types import shape_of


def variable_of(op: Operation) -> Var | None:
    """The variable that a loop defines in its body, or that `gml_st.bind` defines for the rest of its block."""
    var = op.attributes.get("var")
    return var if isinstance(var, Var) else None


def mentioned(op: Operation) -> Iterator[Var]:
    """The variables in the sizes of an operation and of all inside it."""
    for inner in op.walk():
        for attribute in inner.attributes.values():
            for dim in dims_of(attribute):
                yield from variables(dim)
        for value in defined_by(inner):
            for dim in shape_of(value.type):
                yield from variables(dim)


def free_variables(op: Operation) -> dict[str, Var]:
    """The variables that an operation and all inside it mention, and do not define, by their text."""
    own = {var.text for inner in op.walk() if (var := variable_of(inner)) is not None}
    return {var.text: var for var in mentioned(op) if var.text not in own}


def users_of_sizes(ops: Iterable[Operation]) -> dict[Operation, list[Operation]]:
    """Of the operations of a block, each that binds a variable to a value, with those that use the variable."""
    ops = list(ops)
    binds: dict[str, Operation] = {op.var.text: op for op in ops if isinstance(op, Bind)}
    users = {op: list[Operation]() for op in binds.values()}
    for op in ops if binds else ():
        for text in free_variables(op):
            if text in binds and binds[text] is not op:
                users[binds[text]].append(op)
    return users
