"""Random payloads, one operation after the other, from the uses that `structures` finds for every class."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import inf

import numpy as np
import numpy.typing as npt

from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import Location, TcpxError
from tcpx.payload.indexing_maps import map_dim
from tcpx.payload.ir import Attribute, Block, FuncOp, Module, Operation, Value
from tcpx.payload.ops.arithmetic import Neg
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.contract import Matmul
from tcpx.payload.ops.elementwise import Add, Cast, Div, Max, Sub
from tcpx.payload.ops.exponential import Exp
from tcpx.payload.ops.generic import Generic, Return, Yield
from tcpx.payload.ops.indexing import Iota
from tcpx.payload.ops.movement import Broadcast, Fill
from tcpx.payload.ops.normalization import LayerNorm, Softmax
from tcpx.payload.ops.reduce import ReduceMax, ReduceSum
from tcpx.payload.ops.scan import CumMax
from tcpx.payload.ops.select import GreaterEqual, Select
from tcpx.payload.ops.shorthand import Shorthand, standing_nowhere
from tcpx.payload.sizes import Dim, Symbol, symbols
from tcpx.payload.strided import STRIDED, can_be_strided
from tcpx.payload.types import ScalarType, TensorType, dtype_of, f32, f64, i1, shape_of, si8, si32, si64, ui8
from tcpx.payload.verifier import verify_module
from tests.nets.structures import (
    NUMBERS,
    Use,
    class_of,
    combiners,
    payload_classes,
    scalar_classes,
    shape_at,
    uses_of,
    with_dtypes,
)

Array = npt.NDArray[np.generic]
STATIC = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17)
MOST_ARGUMENTS = 5
STRIDED_PART = 0.3
"""How often an argument or result is strided that can be."""
QUANTIZED = 0.12
"""How often four operations are a product of quantized factors."""
REPEATED, PARTS = 0.15, 2
"""How often four operations follow each other twice, as layers do; how many times."""
ROWS, ROW_OPERATIONS = 0.07, 8
"""How often a payload begins with sums of rows that need their maxima; how many operations that are."""
CONSTANTS, MANY_CONSTANTS = 0.15, 0.6
"""How often a new value of static shape is a constant, and where `constant_fold` needs them."""
UNREAD = 0.6
"""How often one of several results is not read."""
WITHOUT_VALUE = ("tcp.empty",)
"""Operations whose elements nobody has written: not for a program that is to give numbers."""
INDIRECT = ("tcp.const",)
"""Made where another operation needs it."""


def drawn_classes() -> list[str]:
    """The opcodes a payload is drawn from."""
    classes = payload_classes().items()
    return [
        *(o for o, cls in classes if o not in WITHOUT_VALUE + INDIRECT and cls.signature.result_count == 1),
        Generic.opcode,
    ]


class RandomPayload:
    """One function of 1 to `most` operations; the same seed gives the same one."""

    def __init__(
        self,
        seed: int,
        most: int = 8,
        opcodes: Sequence[str] = (),
        constant_part: float = CONSTANTS,
        dtypes: tuple[ScalarType, ...] = (),
    ) -> None:
        """`dtypes` are those of the first of the opcodes, of its operands and results; without, any."""
        self.random = random.Random(seed)
        self.dtypes = dtypes
        self.constant_part = constant_part
        self.most = most
        self.opcodes = list(opcodes) or drawn_classes()
        self.is_any = not opcodes
        self.func = FuncOp("f", [])
        self.func.location = Location("<net>", 1, 1)  # diagnostics about it have a place
        self.constants = Constants()
        self.symbols = self._symbols()
        self.made: list[Value] = []
        self.dtype = dtypes[0] if dtypes else self.random.choice((f32, f32, f32, f64, self.random.choice(NUMBERS)))
        self.names = 0
        self.has_rows = self.is_any and most >= ROW_OPERATIONS and random.Random(f"rows {seed}").random() < ROWS

    def make(self) -> Module:
        """The payload, verified. What nothing reads is returned, but for what `dce` may find."""
        wanted = self.random.choice((1, 2, 3, 3, 4, 4, 5, 6, 7, 8)[: self.most + 2])
        if self.has_rows:
            self._add_rows()
        for _ in range(20 * wanted):
            if len(self.made) >= min(wanted, self.most):
                break
            room = self.most - len(self.made) if self.is_any else 0
            if room >= 4 and self.random.random() < QUANTIZED:
                self._add_quantized()
            elif room >= 4 * PARTS and self.random.random() < REPEATED:
                self._add_layers()
            else:
                self._add()
        if self.made and self.random.random() < 0.3:
            self._again(self.random.choice(self.made))
        sinks = [v for v in self.made if not v.users and not self._is_left_out(v)]
        if len(sinks) > 1 and self.random.random() < 0.25:
            sinks.pop(self.random.randrange(len(sinks)))
        extra = [v for v in self.made if v not in sinks and self.random.random() < 0.1]
        self.func.body.append(Return([*sinks, *extra][:4]))
        for value in sinks[4:]:
            self._erase(value)
        used = {s.name for a in self.func.args for d in shape_of(a.type) for s in symbols(d)}
        self.func.symbols = tuple(s for s in self.symbols if s.name in used)
        self._mark_strided()
        module = Module(self.constants)
        module.add(self.func)
        verify_module(module)
        return module

    def _is_left_out(self, value: Value) -> bool:
        """Whether nothing reads one of several results, of which another is read; so it is with some."""
        others = value.defining_op.results if value.defining_op is not None else []
        return len(others) > 1 and any(v.users for v in others) and self.random.random() < UNREAD

    def _again(self, value: Value) -> None:
        """The operation that made a value once more: for `cse`."""
        op = value.defining_op
        if op is not None and not op.regions and len(self.made) < self.most:
            self._append(type(op)(op.operands, [v.type for v in op.results], op.attributes))

    def _mark_strided(self) -> None:
        """Some arguments and results have rows any distance apart."""
        drawn = random.Random(self.random.random())
        chosen = tuple(k for k in can_be_strided(self.func) if drawn.random() < STRIDED_PART)
        if chosen:
            self.func.attributes[STRIDED] = chosen

    def _erase(self, value: Value) -> None:
        op = value.defining_op
        if op is not None and op in self.func.body.ops and not any(v.users for v in op.results):
            self.func.body.ops.remove(op)
            _drop_uses(op)

    def _symbols(self) -> list[Symbol]:
        facts = ((0, None, 1), (0, None, 1), (1, None, 1), (0, 40, 1), (0, None, 4), (1, 13, 1))
        return [Symbol(name, *self.random.choice(facts)) for name in ("M", "N", "K")]

    # -- one operation -----------------------------------------------------------------------------------------------

    def _add(self) -> None:
        use = self._use()
        if use is None:
            return
        extents: dict[str, Dim] = {}
        operands = self._operands(use, extents)
        if operands is None or not self._bind_result(use, extents):
            return
        results = use.results(extents)
        if use.takes_init:
            operands += map(self._value, results)
        op = self._operation(use, operands, results)
        try:
            parts = self._written_for(op) if isinstance(op, Shorthand) else [op]
            for part in parts:
                part.verify()
        except TcpxError:
            _drop_uses(op)
            return
        for part in parts:
            self._append(part)

    def _written_for(self, op: Shorthand) -> list[Operation]:
        """The operations that it is written for."""
        tops = [value.defining_op for value in op.expanded()]
        if op.demands():
            raise op.error("sizes are drawn that have nothing to do with one another", required="no demands of them")
        return [part for top in tops if top is not None for part in (*standing_nowhere(top), top)]

    def _add_quantized(self) -> None:
        """A product of bytes, one factor widened, and mostly less its zero point."""
        m, k, n = (self._extent(new=True) for _ in range(3))
        x, w = (self._value(TensorType(shape, self.random.choice((si8, ui8)))) for shape in ((m, k), (k, n)))
        wide = self._append(Cast.of(x, si32))
        factor = wide
        if self.random.random() < 0.6:
            factor = self._append(Sub.of(wide, self._append(Fill.of(self.random.choice((1, 7)), wide.type))))
        self._append(Matmul([factor, w], [TensorType((m, n), si32)]))

    def _add_rows(self) -> None:
        """The powers of rows below their maximum, summed; the rows over that, negated: it is sums and a quotient that
        may be moved. The largest up to each element: a scan. The sums of rows up to their diagonal, and a softmax of
        what is there. A norm of two groups of rows."""
        m, n = (self._extent(new=True) for _ in range(2))
        x, row = self._value(TensorType((m, n), f32)), TensorType((m,), f32)
        largest = self._append(ReduceMax([x], [row], {"dims": (1,)}))
        powers = self._append(
            Exp([self._append(Sub.of(x, self._append(Broadcast.of(largest, (0,), x.type))))], [x.type])
        )
        total = self._append(ReduceSum([powers], [row], {"dims": (1,)}))
        spread = self._append(Broadcast.of(total, (0,), x.type))
        negated = self._append(Neg.of(self._append(Div.of(x, spread))))
        weights = self._append(Softmax([self._behind(x, -inf)], [x.type], {"dim": 1}))
        self._append(Add([negated, weights], [x.type]))
        self._append(CumMax([x], [x.type, row], {"dim": 1}))
        self._append(ReduceSum([self._behind(x, 0.0)], [row], {"dims": (1,)}))
        groups = TensorType((6, n), f32)
        self._append(LayerNorm([self._value(groups)], [groups], {"dims": (0, 1), "parts": (2, 1)}))

    def _behind(self, x: Value, number: float) -> Value:
        """The elements up to the diagonal, and a number."""
        own, other = (self._append(Iota([], [TensorType(shape_of(x.type), si64)], {"dim": k})) for k in (0, 1))
        kept = Select.of(self._append(GreaterEqual.of(own, other)), x, self._append(Fill.of(number, x.type)))
        return self._append(kept)

    def _add_layers(self) -> None:
        """Four operations on two values, one of which the layer before has made."""
        type_ = TensorType((self._extent(new=True),), f32)
        value, other = (Value(f"a{len(self.func.args) + k}", type_, self.func.body) for k in range(2))
        self.func.args.extend([value, other])
        drawn = [(self.random.choice((Add, Sub, Max)), self.random.random() < 0.5) for _ in range(4)]
        for _ in range(PARTS):
            first = value
            for cls, reads_other in drawn:
                value = self._append(cls([value, other if reads_other else first], [value.type]))

    def _append(self, op: Operation) -> Value:
        self.names += 1
        for k, value in enumerate(op.results):
            value.name = f"v{self.names}{f'.{k}' if k else ''}"
        op.name = op.results[0].name
        self.made += self.func.body.append(op).results
        return op.results[0]

    def _use(self) -> Use | None:
        """A class, a structure and dtypes; mostly those that read a value made before."""
        cls = class_of(self.random.choice(self.opcodes))
        found, dtypes = uses_of(cls)
        if not found:
            return None
        use = self.random.choice(found)
        inputs = len(use.structure.operands)
        last = dtype_of(self.random.choice(self.made[-3:]).type) if self.made else self.dtype
        if cls is Generic:
            chosen = (last,) * (inputs + 1) if last != i1 else (self.dtype,) * (inputs + 1)
            return Use(cls, use.structure, chosen, (), bool(use.structure.reduced) and self.random.random() < 0.3)
        fitting = [d for d in dtypes if last in d[:-1] or not inputs] or [d for d in dtypes if d[-1] == self.dtype]
        if self.dtypes and cls.opcode == self.opcodes[0]:
            fitting = [self.dtypes]
        same = [d for d in fitting if len(set(d)) == 1]
        pool = same if same and self.random.random() < 0.7 else fitting or list(dtypes)
        return with_dtypes(
            use, self.random.choice(pool), bool(cls.signature.optional_operand) and self.random.random() < 0.3
        )

    def _operands(self, use: Use, extents: dict[str, Dim]) -> list[Value] | None:
        """Values for every operand; one of the last made first, so that operations feed each other."""
        count = len(use.structure.operands)
        order = self.random.sample(range(count), count)
        found: list[Value | None] = [None] * count
        for at in order:
            fitting = [v for v in reversed(self.made) if self._matches(v, use, at, extents)]
            if fitting and self.random.random() < 0.85:
                value = fitting[0] if self.random.random() < 0.6 else self.random.choice(fitting)
                self._matches(value, use, at, extents, bind=True)
                found[at] = value
        for at in order:
            if found[at] is None:
                found[at] = self._argument_for(use, at, extents)
        return [v for v in found if v is not None] if None not in found else None

    def _matches(self, value: Value, use: Use, at: int, extents: dict[str, Dim], bind: bool = False) -> bool:
        shape, wanted = shape_of(value.type), use.structure.operands[at]
        if len(shape) != len(wanted) or dtype_of(value.type) != use.dtypes[at]:
            return False
        here = dict(extents)
        for dim, expression in zip(shape, wanted, strict=True):
            name = map_dim(expression)
            if name is None or here.setdefault(name, dim) != dim:
                return False
        if bind:
            extents.update(here)
        return True

    def _argument_for(self, use: Use, at: int, extents: dict[str, Dim]) -> Value | None:
        wanted = use.structure.operands[at]
        bound = {s.name for d in wanted for s in symbols(d) if map_dim(d) is not None}
        for name in dict.fromkeys(s.name for d in wanted for s in symbols(d)):
            extents.setdefault(name, self._extent(new=name in bound))
        return self._value(TensorType(shape_at(wanted, extents), use.dtypes[at]))

    def _known_symbols(self) -> list[Symbol]:
        held = [d for a in self.func.args for d in shape_of(a.type)]
        return [s for s in self.symbols if s.size() in held]

    def _extent(self, new: bool) -> Dim:
        pool = self.symbols if new else self._known_symbols()
        if pool and self.random.random() < 0.6:
            return self.random.choice(pool).size()
        return self.random.choice(STATIC)

    def _bind_result(self, use: Use, extents: dict[str, Dim]) -> bool:
        """Dims that only the result has are static, or symbols that an argument has."""
        for name in dict.fromkeys(s.name for shape in use.structure.results for d in shape for s in symbols(d)):
            extents.setdefault(name, self._extent(new=False))
        return True

    def _value(self, type_: TensorType) -> Value:
        """A value of this type: one that is there, an argument, or a constant array."""
        held = [v for v in (*self.func.args, *self.made) if v.type == type_]
        if held and self.random.random() < 0.5:
            return self.random.choice(held)
        static = all(isinstance(d, int) for d in type_.shape)
        if static and self.random.random() < self.constant_part:
            return self._constant(type_)
        if len(self.func.args) >= MOST_ARGUMENTS and held:
            return self.random.choice(held)
        value = Value(f"a{len(self.func.args)}", type_, self.func.body)
        self.func.args.append(value)
        return value

    def _constant(self, type_: TensorType) -> Value:
        shape = tuple(d for d in type_.shape if isinstance(d, int))
        generator = np.random.default_rng(self.random.randrange(1 << 30))
        low = 0 if type_.dtype.minimum == 0 else -3
        name = f"c{len(list(self.constants))}"
        self.constants.put(name, np.asarray(generator.integers(low, 4, shape)).astype(type_.dtype.numpy))
        made = Const([], [type_], {"constant": name}, result_names=[name], name=name)
        return self.func.body.append(made).result

    def _operation(self, use: Use, operands: list[Value], results: list[TensorType]) -> Operation:
        if use.cls is not Generic:
            return use.cls(operands, results, dict(use.attributes))
        (result,) = results
        structure = use.structure
        accumulates = bool(structure.reduced)
        body = Block([(f"e{k}", dtype_of(v.type)) for k, v in enumerate(operands[: len(structure.operands)])])
        end = self._expression(body, list(body.args), result.dtype)
        kinds = [(d, "reduction" if d in structure.reduced else "parallel") for d in structure.dims]
        attributes: dict[str, Attribute] = {"iterators": tuple(kinds), "maps": (*structure.maps, structure.result)}
        if accumulates:
            combiner = self.random.choice(combiners(result.dtype))
            attributes["combiner"] = combiner
            acc = Value("acc", result.dtype, body)
            body.args.append(acc)
            pair = [acc, end] if self.random.random() < 0.7 else [end, acc]
            end = self._lane(body, class_of(combiner), pair, result.dtype)
        body.append(Yield([end]))
        return Generic(operands, [result], attributes, [body])

    def _expression(self, body: Block, known: list[Value], dtype: ScalarType) -> Value:
        """A few operations on one lane, the last of which is handed out."""
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            arity = self.random.choice((1, 2, 2, 3))
            pool = scalar_classes(dtype, arity)
            if pool:
                operands = [self.random.choice(known) for _ in range(arity)]
                known.append(self._lane(body, self.random.choice(pool), operands, dtype))
        if self.random.random() < 0.2:
            number = min(self.random.randrange(4), int(min(dtype.maximum, 3)))
            made = Const.literal(number, dtype)
            made.name = made.result.name = f"l{len(body.ops)}"
            literal = body.append(made).result
            known.append(self._lane(body, self.random.choice(scalar_classes(dtype, 2)), [known[-1], literal], dtype))
        return known[-1]

    def _lane(self, body: Block, cls: type[Operation], operands: list[Value], dtype: ScalarType) -> Value:
        made = cls(operands, [dtype])
        made.name = made.result.name = f"s{len(body.ops)}"
        return body.append(made).result


def _drop_uses(op: Operation) -> None:
    for index, operand in enumerate(op.operands):
        operand.uses.remove((op, index))
