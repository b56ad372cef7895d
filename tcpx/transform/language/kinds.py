"""The static types of the language, and what a parameter of a transform accepts."""

from enum import Enum

from tcpx.transform.declaration import ParameterKind, Result


class Static(Enum):
    """What the checker knows about an expression; the value is its name in the language."""

    OP = "op"
    LOOP = "loop"
    VALUE = "value"
    FUNC = "func"
    DIM = "dim"
    INT = "int"
    SIZE = "size"
    FLOAT = "float"
    BOOL = "bool"
    STRING = "string"
    DTYPE = "dtype"
    LIST = "list"
    TARGET = "target"
    ANY = "any"


MAPS = (ParameterKind.DIM_SIZES, ParameterKind.DIM_STEPS)
"""What takes `[m: 6, n: 64]`."""
HANDLES = frozenset((Static.OP, Static.LOOP, Static.FUNC))
PARAMETERS = frozenset((Static.INT, Static.SIZE, Static.FLOAT, Static.BOOL, Static.STRING, Static.DTYPE))
TYPE_NAMES = {
    **{s.value: s for s in Static if s not in (Static.TARGET, Static.ANY)},
    "group": Static.OP,
}
"""The names a schedule may write for a type. `op` and `list` take an argument: `op<contract>`, `list<op>`."""

_ACCEPTED = {
    ParameterKind.OP: frozenset((Static.OP,)),
    ParameterKind.LOOP: frozenset((Static.LOOP,)),
    ParameterKind.OP_OR_LOOP: HANDLES,
    ParameterKind.OPS: HANDLES | {Static.LIST},
    ParameterKind.LOOPS: frozenset((Static.LOOP, Static.LIST)),
    ParameterKind.VALUE: frozenset((Static.VALUE, Static.OP)),
    ParameterKind.FUNC: frozenset((Static.FUNC,)),
    ParameterKind.INT: frozenset((Static.INT, Static.SIZE)),
    ParameterKind.INTS: frozenset((Static.LIST,)),
    ParameterKind.SIZE: frozenset((Static.INT, Static.SIZE)),
    ParameterKind.FLOAT: frozenset((Static.FLOAT, Static.INT, Static.SIZE)),
    ParameterKind.BOOL: frozenset((Static.BOOL,)),
    ParameterKind.STRING: frozenset((Static.STRING,)),
    ParameterKind.DTYPE: frozenset((Static.DTYPE,)),
    ParameterKind.PREDICATE: frozenset((Static.BOOL,)),
}
_RESULTS = {
    Result.LOOP: Static.LOOP,
    Result.LOOPS: Static.LOOP,
    Result.OP: Static.OP,
    Result.TARGET: Static.ANY,
    Result.VALUE: Static.VALUE,
}


def parameter_accepts(kind: ParameterKind, given: Static) -> bool:
    """Whether an argument of this static type may be passed; kinds that take bare names are not asked for here."""
    return given is Static.ANY or given in _ACCEPTED.get(kind, frozenset((given,)))


def declared_accepts(declared: Static, given: Static) -> bool:
    """Whether a value of type `given` may stand where a sequence declares `declared`."""
    if Static.ANY in (declared, given) or declared is given:
        return True
    wider = {
        Static.INT: {Static.SIZE},
        Static.SIZE: {Static.INT},
        Static.FLOAT: {Static.INT, Static.SIZE},
        Static.LIST: set(HANDLES),
        Static.OP: {Static.FUNC},
        Static.VALUE: {Static.OP},
    }
    return given in wider.get(declared, set())


def static_of_result(result: Result) -> Static:
    return _RESULTS[result]
