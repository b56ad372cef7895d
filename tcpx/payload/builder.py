"""Payloads built in Python, operation by operation: for frontends and tests.

Errors of what is made show the line of Python.

m = Symbol("M", 1, 4096)
b = Builder()
with b.func("f", {"x": tensor([m, 64], f32)}, [m]) as (x,):
    b.returns(b.op(Exp, [x], name="e"))
module = b.finish()
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from tcpx.payload.constants import Constants, NumpyArray
from tcpx.payload.declared_bodies import check_declared_bodies
from tcpx.payload.diagnostics import Diagnostic, Location, VerifyError
from tcpx.payload.disjointness import check_reads_of_parallel_loops
from tcpx.payload.inside import check_subsets
from tcpx.payload.ir import Attribute, Block, FuncOp, Module, Operation, OpT, Value
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.generic import Return, Yield
from tcpx.payload.ops.gml_st import Conditional, If, IfValue, Loop, StYield, full_like
from tcpx.payload.ops.shorthand import Shorthand, standing_nowhere
from tcpx.payload.python_lines import location_outside
from tcpx.payload.short_operands import OperandLike, broadcast, expand, short_name, written_out
from tcpx.payload.sizes import Operand, Symbol, Var, as_dim
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes_from_data import check_sizes_from_data
from tcpx.payload.subsets import Tile
from tcpx.payload.types import BufferType, ScalarType, TensorType, Type, VectorType, row_major, scalar_of_numpy
from tcpx.payload.verifier import check_lengths, verify_module

__all__ = ["Builder", "broadcast", "buffer", "expand", "tensor", "tile", "vector"]


def tensor(shape: Sequence[Operand], dtype: ScalarType) -> TensorType:
    """A tensor type; dims are ints, symbols, loop variables or expressions over them."""
    return TensorType(tuple(map(as_dim, shape)), dtype)


def vector(shape: Sequence[int], dtype: ScalarType) -> VectorType:
    """A vector type."""
    return VectorType(tuple(shape), dtype)


def buffer(shape: Sequence[Operand], dtype: ScalarType, space: str = "argument") -> BufferType:
    """The type of a contiguous row-major buffer."""
    dims = tuple(map(as_dim, shape))
    return BufferType(dims, dtype, row_major(dims), space)


def tile(
    offsets: Sequence[Operand], sizes: Sequence[Operand], strides: Sequence[Operand] = (), drop: Sequence[int] = ()
) -> Tile:
    """A subset, in elements of its source."""
    return Tile(tuple(map(as_dim, offsets)), tuple(map(as_dim, sizes)), tuple(map(as_dim, strides)), tuple(drop))


class Builder:
    """Adds operations at the end of the innermost open block and gives their results names."""

    def __init__(self, constants: Constants | None = None) -> None:
        self.module = Module(constants if constants is not None else Constants())
        self._blocks: list[Block] = []
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}
        """By a name that is taken, the number behind it from which on another one may be free."""

    @contextmanager
    def func(
        self, name: str, args: Mapping[str, Type], symbols: Sequence[Symbol] = (), **attributes: Attribute
    ) -> Generator[tuple[Value, ...]]:
        """A function, open while in the context; its arguments are handed out."""
        made = FuncOp(name, list(args.items()), symbols)
        made.attributes.update(attributes)
        made.location = location_outside(__name__, "contextlib")
        self._names, self._counts = set(args), {}
        if name in self.module.funcs:
            raise VerifyError(
                Diagnostic(f"the function @{name} is defined twice", found=f"@{name} twice", required="a free name")
            )
        self.module.add(made)
        with self.inside(made.body):
            yield tuple(made.args)

    @contextmanager
    def inside(self, block: Block) -> Generator[Block]:
        """Add to `block` while in the context; a branch that is left without an end yields nothing."""
        self._blocks.append(block)
        try:
            yield block
        finally:
            self._blocks.pop()
        if isinstance(block.parent, Conditional) and block.terminator is None:
            block.append(Yield())

    @property
    def block(self) -> Block:
        """The innermost open block."""
        return self._blocks[-1]

    @contextmanager
    def at_top(self) -> Generator[None]:
        """Add to the body of the function while in the context: before the loop or branch that is being built."""
        with self.inside(self._blocks[0]):
            yield

    def insert(self, op: OpT, *names: str) -> OpT:
        """Add a detached operation; results without a name get a free one."""
        if not self._blocks:
            raise VerifyError(
                Diagnostic(
                    "an operation stands in a function",
                    found="an operation outside of one",
                    required="with builder.func(...)",
                )
            )
        base = op.opcode.rpartition(".")[2]
        loop_name = op.var.name if isinstance(op, Loop) else ""
        for index, result in enumerate(op.results):
            result.name = self.fresh_name(names[index] if index < len(names) else result.name or base)
        op.name = op.name or loop_name or (op.results[0].name if op.results else "")
        op.location = op.location or location_outside(__name__, "contextlib")
        return self._blocks[-1].append(op)

    def value(self, op: Operation) -> Value:
        """Add a detached operation and hand out its result; a `Build` function."""
        return self.values(op)[0]

    def values(self, op: Operation, *names: str, place: Location | None = None) -> Sequence[Value]:
        """Add a detached operation, or those that it is written for, and hand out its results:
        `b.values(Split([x], [part, rest], {"dim": 0}), "part", "rest")`. They come from `place`, or this call."""
        if not isinstance(op, Shorthand):
            return self.insert(op, *names).results
        made = op.expanded()
        for demand in op.demands():
            if all(demand.attributes != known.attributes for known in self._blocks[0].ops):
                demand.location = place or location_outside(__name__, "contextlib")
                known = [op for op in self._blocks[0].ops if isinstance(op, type(demand))]
                self._blocks[0].insert(len(known), demand)
        for index, value in enumerate(made):
            shown = names[index : index + 1] or (op.opcode.rpartition(".")[2],)
            top = value.defining_op
            for part in (*standing_nowhere(top), top) if top is not None else ():
                for inner in [i for i in part.walk() if i is not part and i.results]:
                    inner.name = inner.result.name = self.fresh_name(inner.result.name)
                part.name = ""
                self.insert(part, shown[0] if part is top else f"{shown[0]}.wide")
                part.location = place or part.location
        return made

    def op(
        self,
        cls: type[Operation],
        operands: Sequence[OperandLike] = (),
        type_: Type | None = None,
        name: str = "",
        regions: Sequence[Block] = (),
        **attributes: Attribute,
    ) -> Value:
        """Add an operation with one result, of the type of its first operand that is a value if none is given.

        Numbers, and broadcasts of values, may be operands of elementwise operations: `b.op(Add, [x, 1.0])`,
        `b.op(Add, [x, broadcast(bias, [1])])`.
        """
        result = next(v.type for v in operands if isinstance(v, Value)) if type_ is None else type_
        values = written_out(cls, operands, [result])
        shown = self._free(name or cls.opcode.rpartition(".")[2])
        for index, (given, value) in enumerate(zip(operands, values, strict=True)):
            if value.defining_op is not None and not isinstance(given, Value):
                values[index] = self.values(value.defining_op, short_name(shown, cls, index))[0]
        return self.values(cls(values, [result], attributes, regions), shown)[0]

    def constant(self, name: str, array: NumpyArray) -> Value:
        """Store an array under a name and refer to it."""
        dtype = scalar_of_numpy(array.dtype)
        if dtype is None:
            raise VerifyError(
                Diagnostic(
                    f'the constant "{name}" has no element type here',
                    required="an array of a type that payloads have",
                    found=str(array.dtype),
                )
            )
        self.module.constants.put(name, array)
        return self.insert(Const([], [TensorType(array.shape, dtype)], {"constant": name}), name).result

    @contextmanager
    def loop(
        self,
        cls: type[Loop],
        name: str,
        bounds: tuple[Operand, Operand, Operand],
        destinations: Mapping[str, Value] | None = None,
        results: Sequence[str] = (),
    ) -> Generator[Loop]:
        """A loop from, to (exclusive) and by `bounds`, open while in the context; `destinations` maps the name of
        each to its init. It is handed out: `var`, `destinations`, `results`."""
        inits = destinations or {}
        var = Var(self.fresh_name(name), *map(as_dim, bounds))
        body = Block([(self.fresh_name(d), v.type) for d, v in inits.items()])
        made = self.insert(cls.over(var, list(inits.values()), body), *results)
        with self.inside(body):
            yield made

    def conditional(self, predicate: Predicate, types: Sequence[Type] = (), names: Sequence[str] = ()) -> If:
        """Add a conditional; fill its branches with `inside(op.then)` and `inside(op.orelse)`."""
        return self.insert(If([], types, {"predicate": predicate}, [Block(), Block()]), *names)

    def conditional_on(self, condition: Value, types: Sequence[Type] = (), names: Sequence[str] = ()) -> IfValue:
        """Add a branch on a scalar i1; fill its regions like those of `conditional`."""
        return self.insert(IfValue.of(condition, types), *names)

    def yields(self, value: Value, destination: Value, subset: Tile | None = None) -> None:
        """Write a value to a subset (all, if None) of a destination."""
        self.insert(StYield.of(value, destination, full_like(destination) if subset is None else subset))

    def hands_out(self, *values: Value) -> None:
        """End a branch or the body of a generic."""
        self.insert(Yield(values))

    def returns(self, *values: Value) -> None:
        """End the function."""
        self.insert(Return(values))

    def finish(self) -> Module:
        """The module, verified."""
        verify_module(self.module)
        check_lengths(self.module)
        check_subsets(self.module)
        check_sizes_from_data(self.module)
        check_reads_of_parallel_loops(self.module)
        check_declared_bodies(self.module)
        return self.module

    def fresh_name(self, base: str) -> str:
        """A name that no value of the open function has: this one, or with a number behind it."""
        name = self._free(base)
        self._names.add(name)
        return name

    def _free(self, base: str) -> str:
        if base not in self._names:
            return base
        count = self._counts.get(base, 1)
        while f"{base}.{count}" in self._names:
            count += 1
        self._counts[base] = count  # no name becomes free again
        return f"{base}.{count}"
