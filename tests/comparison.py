"""Whether two payloads are the same but for what the text does not show: places, handles, the order of keys."""

from collections.abc import Sequence

from tcpx.payload.comparison import same_attribute
from tcpx.payload.constants import Constants, NumpyArray
from tcpx.payload.ir import Block, FuncOp, Module, Operation, Value


def structurally_equal(a: Module, b: Module) -> str | None:
    """None if the modules are the same; else where they first differ, and how."""
    if list(a.funcs) != list(b.funcs):
        return f"functions: {list(a.funcs)} and {list(b.funcs)}"
    difference = _constants(a.constants, b.constants)
    for name in a.funcs:
        difference = difference or _Comparison().func(a.funcs[name], b.funcs[name])
    return difference


def _constants(a: Constants, b: Constants) -> str | None:
    if a.source != b.source or sorted(a) != sorted(b):
        return f'constants: "{a.source}" {sorted(a)} and "{b.source}" {sorted(b)}'
    for name in a:
        x, y = a.get(name), b.get(name)
        if x is not y and (x is None or y is None or not _same_bits(x, y)):
            return f'the constant "{name}"'
    return None


def _same_bits(x: NumpyArray, y: NumpyArray) -> bool:
    """NaN is the same as itself, and -0 is not 0."""
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


class _Comparison:
    """Pairs the values of two functions while it walks them."""

    def __init__(self) -> None:
        self.pairs: dict[Value, Value] = {}

    def func(self, a: FuncOp, b: FuncOp) -> str | None:
        facts = [[(s.name, s.lower, s.upper, s.multiple_of) for s in f.symbols] for f in (a, b)]
        if facts[0] != facts[1]:
            return f"@{a.name}: symbols {facts[0]} and {facts[1]}"
        return self._operation(a, b, f"@{a.name}")

    def _operation(self, a: Operation, b: Operation, where: str) -> str | None:
        if type(a) is not type(b) or a.name != b.name:
            return f"{where}: {a!r} and {b!r}"
        if len(a.operands) != len(b.operands) or len(a.regions) != len(b.regions):
            return f"{where}: numbers of operands or regions"
        for index, (x, y) in enumerate(zip(a.operands, b.operands, strict=True)):
            if self.pairs.get(x) is not y:
                return f"{where}: operand {index}: {x!r} and {y!r}"
        if a.attributes.keys() != b.attributes.keys():
            return f"{where}: attributes {sorted(a.attributes)} and {sorted(b.attributes)}"
        for key, held in a.attributes.items():
            if not same_attribute(held, b.attributes[key]):
                return f"{where}: attribute `{key}`: {held!r} and {b.attributes[key]!r}"
        for index, (x, y) in enumerate(zip(a.regions, b.regions, strict=True)):
            difference = self._block(x, y, f"{where}, region {index}")
            if difference is not None:
                return difference
        return self._define(a.results, b.results, where)

    def _block(self, a: Block, b: Block, where: str) -> str | None:
        difference = self._define(a.args, b.args, where)
        if difference is None and len(a.ops) != len(b.ops):
            difference = f"{where}: {len(a.ops)} and {len(b.ops)} operations"
        for x, y in zip(a.ops, b.ops, strict=False):
            shown = f"{where}, {f'%{x.name} ' if x.name else ''}{x.opcode}"
            difference = difference or self._operation(x, y, shown)
        return difference

    def _define(self, a: Sequence[Value], b: Sequence[Value], where: str) -> str | None:
        if [(v.name, v.type) for v in a] != [(v.name, v.type) for v in b]:
            return f"{where}: values {a} and {b}"
        self.pairs.update(zip(a, b, strict=True))
        return None
