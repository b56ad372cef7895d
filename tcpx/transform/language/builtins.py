"""What the language offers in expressions: functions, constants, navigation. The engine gives them their meaning."""

from collections.abc import Mapping

from tcpx.payload.types import SCALARS
from tcpx.records import frozen
from tcpx.transform.language.kinds import Static


@frozen
class Function:
    """A function of expressions: names of its parameters, those that may be left out behind `optional`."""

    name: str
    params: tuple[str, ...]
    result: Static
    doc: str
    optional: int = 0
    variadic: bool = False

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(self.params)}{', ...' if self.variadic else ''})"


def _table(*functions: Function) -> Mapping[str, Function]:
    return {f.name: f for f in functions}


FUNCTIONS = _table(
    Function("size", ("dim",), Static.SIZE, "the extent of `mm.m`; of a value: its number of elements"),
    Function("dtype", ("value",), Static.DTYPE, "the element type of a value, or of an op's result"),
    Function(
        "lanes",
        ("dtype", "elements"),
        Static.INT,
        "how many elements of a dtype, or of the widest value of an op, a full vector register of the target holds; a"
        " part of it that holds so many elements",
        optional=1,
    ),
    Function(
        "dot_width",
        ("lhs", "rhs", "acc"),
        Static.INT,
        "how many neighbours of these dtypes one instruction multiplies and adds to an accumulator; 1 without one",
    ),
    Function(
        "instructions",
        ("ops",),
        Static.INT,
        "the instructions of the target that a vector of what an op does to elements takes; of a list, all together",
    ),
    Function(
        "cheapest",
        ("kind", "recipes", "rows", "bytes"),
        Static.BOOL,
        "whether the first of some recipes costs least on the target, for this many rows and bytes of the right factor",
    ),
    Function("bytes", ("dtype",), Static.INT, "the size of one element in bytes"),
    Function("footprint", ("value",), Static.SIZE, "the bytes of one value, or of all operands and results of an op"),
    Function("rank", ("value",), Static.INT, "the number of dims of a value, or of an op's result"),
    Function("min", ("a",), Static.SIZE, "the least of its arguments, or of a list", variadic=True),
    Function("max", ("a",), Static.SIZE, "the greatest of its arguments, or of a list", variadic=True),
    Function("ceildiv", ("a", "b"), Static.SIZE, "a / b, rounded up"),
    Function("align_up", ("a", "b"), Static.SIZE, "the least multiple of b that is at least a"),
    Function("lower_bound", ("size", "otherwise"), Static.INT, "the least value a size can have, else the other"),
    Function("upper_bound", ("size", "otherwise"), Static.INT, "the largest value a size can have, else the other"),
    Function("pow2", ("low", "high"), Static.LIST, "the powers of two from low to high"),
    Function("multiples", ("of", "high"), Static.LIST, "of, 2*of, ... up to high"),
    Function("divisors", ("n",), Static.LIST, "the divisors of n, ascending"),
    Function("dims", ("value",), Static.LIST, "the dims of its op that `mm.rhs` or `mm.out` has, in the order stored"),
    Function(
        "operands",
        ("op",),
        Static.LIST,
        "the values that an op reads, in an order that is no matter of spelling: those read by windows first, then by"
        " how many dims they have, most first",
    ),
    Function("contains", ("list", "item"), Static.BOOL, "whether the item is in the list"),
    Function("without", ("list", "others"), Static.LIST, "the items that are not in the other list, in order"),
    Function("starting", ("list", "item"), Static.LIST, "the items of a list from this one on"),
    Function("outermost", ("list",), Static.ANY, "the first of a list of dims or loops"),
    Function("innermost", ("list",), Static.ANY, "the last of a list of dims or loops"),
    Function("exists", ("handle",), Static.BOOL, "whether the handle still denotes anything"),
    Function("len", ("list",), Static.INT, "the number of items, or of copies of a handle"),
    Function("epilogue", ("op",), Static.OP, "the last op of the elementwise chain that `op` alone feeds, or `op`"),
    Function(
        "prologue", ("operand",), Static.OP, "the first op of the elementwise chain that leads to an operand alone"
    ),
    Function(
        "only_positions",
        ("op",),
        Static.BOOL,
        "whether all that an op computes are positions, such as an iota: `fuse_elementwise` computes them where they"
        " are read",
    ),
    Function("clusters", ("ops",), Static.LIST, "the lists of elementwise ops that `fuse_elementwise` can make one of"),
    Function(
        "row_clusters",
        ("ops",),
        Static.LIST,
        "what can be computed row by row, in pairs of lists: reductions over the same dims, and all ops with them",
    ),
    Function("like", ("dims", "op"), Static.LIST, "the dims of an op that are called as those of a list"),
    Function(
        "counterparts",
        ("items", "list", "others"),
        Static.LIST,
        "of a list of the same length, the items at the places that these have in theirs",
    ),
    Function("reversed", ("list",), Static.LIST, "the items of a list, the last one first"),
    Function("producer", ("operand",), Static.OP, "the op that makes the operand's value"),
    Function("users", ("value",), Static.LIST, "the ops that read a value, in program order"),
    Function("parent", ("op",), Static.ANY, "the loop, group or function round an op"),
)

TARGET_SIZES = ("vector_registers", "vector_bits", "l1", "l2", "l3", "l3_rate", "page", "parallel_threshold")
TARGET_ATTRIBUTES: Mapping[str, Static] = {
    **dict.fromkeys(TARGET_SIZES, Static.INT),
    "name": Static.STRING,
    "has": Static.BOOL,
}
CONSTANTS: Mapping[str, Static] = {
    "target": Static.TARGET,
    "threads": Static.INT,
    **dict.fromkeys(SCALARS, Static.DTYPE),
}

NAVIGATION: Mapping[str, Static] = {
    "lhs": Static.VALUE,
    "rhs": Static.VALUE,
    "acc": Static.VALUE,
    "out": Static.VALUE,
    "init": Static.VALUE,
    "start": Static.OP,
    "name": Static.STRING,
    "scheduled": Static.BOOL,
    "constant": Static.BOOL,
    "opcode": Static.STRING,
    "kind": Static.STRING,
}
"""What `x.` offers besides the dims and the operand names of x, which only the payload knows."""


ALWAYS_ASKED = ("out", "result", "acc", "start", "name", "scheduled", "constant", "opcode", "kind")
"""Of these, what can be asked of any operation; the others are operands that it may not have."""


@frozen
class Method:
    """`x.name(argument)`: what the argument is (`dim` and `class` are bare names) and what is given back."""

    name: str
    takes: str
    result: Static
    doc: str


_METHODS = (
    Method("loop", "dim", Static.LOOP, "the innermost loop that steps a dim"),
    Method("loops", "dim", Static.LIST, "all loops that step a dim, outermost first"),
    Method("copy", "string", Static.OP, "the copies on this side of a split"),
    Method("is_a", "class", Static.BOOL, "whether the op is of a class of the operation tree, or fits a matcher"),
    Method("dims", "string", Static.LIST, 'the dims of a kind, `"parallel"` or `"reduction"`'),
    Method("attribute", "string", Static.ANY, "an attribute of the op, as the payload writes it"),
)
METHODS: Mapping[str, Method] = {m.name: m for m in _METHODS}

CANDIDATE = ("it", *NAVIGATION)
"""Bare names in a `where`: the candidate itself and what can be asked of it, its dims and operands included."""
