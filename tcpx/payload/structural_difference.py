"""How two payload functions differ in structure, in their own words."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from tcpx.payload.diagnostics import Location
from tcpx.payload.ir import CALLEE, FuncOp, Operation, Value
from tcpx.payload.sizes import Symbol
from tcpx.payload.structure import Structure, is_data
from tcpx.payload.text.printer import attribute_text
from tcpx.payload.traits.call import Calling
from tcpx.payload.types import Type, dim_text, dtype_of, shape_of
from tcpx.plurals import counted
from tcpx.records import frozen


@frozen
class Difference:
    """One difference, with its place in the function that was expected and in the one that is there."""

    text: str
    expected: Location | None = None
    found: Location | None = None

    def __str__(self) -> str:
        places = [f"{word} {at}" for word, at in (("expected at", self.expected), ("found at", self.found)) if at]
        return f"{self.text} ({', '.join(places)})" if places else self.text


def structural_differences(expected: FuncOp, found: FuncOp) -> tuple[Difference, ...]:
    """All differences in program order; () for two functions of one structure."""
    return tuple(_Comparison(expected, found).differences())


def signature_differences(signature: FuncOp, found: FuncOp) -> tuple[Difference, ...]:
    """How the types of arguments and results differ from a signature, whose results are its last arguments."""
    return tuple(_Comparison(signature, found).signature())


class _Comparison:
    """Walks two functions side by side; `pairs` are the values that stand for each other."""

    def __init__(self, expected: FuncOp, found: FuncOp) -> None:
        self.expected, self.found = expected, found
        self.texts = (Structure(), Structure())
        self.pairs: dict[Value, Value] = {}
        self.callees: set[tuple[FuncOp, FuncOp]] = set()

    def differences(self) -> Iterator[Difference]:
        yield from self._arguments()
        yield from self._operations(self.expected.body.ops, self.found.body.ops)
        yield from self._symbols()

    def signature(self) -> Iterator[Difference]:
        old, arguments, returned = self.expected.args, self.found.args, self.found.returned
        inputs = [v for v in old if v.name.startswith("argument")]
        for what, before, after in (("argument", inputs, arguments), ("result", old[len(inputs) :], returned)):
            if len(before) != len(after):
                text = f"@{self.found.name} has {len(after)} {what}s, not {len(before)}"
                yield Difference(text, found=self.found.location)
            for x, y in zip(before, after, strict=False):
                text = self._type(x.type, y.type)
                if text:
                    yield Difference(f"{what} %{y.name}: {text}", found=self.found.location)

    def _arguments(self) -> Iterator[Difference]:
        places = self.expected.location, self.found.location
        old, new = self.expected.args, self.found.args
        if len(old) != len(new):
            yield Difference(f"@{self.found.name} takes {counted(len(new), 'argument')}, not {len(old)}", *places)
        for x, y in zip(old, new, strict=False):
            self.pairs[x] = y
            text = self._type(x.type, y.type)
            if text:
                yield Difference(f"argument %{y.name}: {text}", *places)

    def _operations(self, old: Sequence[Operation], new: Sequence[Operation]) -> Iterator[Difference]:
        matcher = SequenceMatcher(a=[op.opcode for op in old], b=[op.opcode for op in new], autojunk=False)
        for tag, i, j, k, m in matcher.get_opcodes():
            if tag == "equal":
                for x, y in zip(old[i:j], new[k:m], strict=True):
                    yield from self._operation(x, y)
                continue
            for x in old[i:j]:
                yield Difference(f"{_shown(x)} is not there any more", expected=x.location)
            for y in new[k:m]:
                yield Difference(f"{_shown(y)} is new", found=y.location)

    def _operation(self, old: Operation, new: Operation) -> Iterator[Difference]:
        here = _shown(new)
        for text in self._inside(old, new):
            yield Difference(f"{here}: {text}", old.location, new.location)
        callees = Calling(old).callee, Calling(new).callee
        if callees[0] is not None and callees[1] is not None and callees not in self.callees:
            self.callees.add((callees[0], callees[1]))
            for inner in structural_differences(callees[0], callees[1]):
                yield replace(inner, text=f"{here}: in @{callees[1].name}: {inner.text}")
        self.pairs.update(zip(old.results, new.results, strict=False))
        for a, b in zip(old.regions, new.regions, strict=False):
            self.pairs.update(zip(a.args, b.args, strict=False))
            yield from self._operations(a.ops, b.ops)

    def _inside(self, old: Operation, new: Operation) -> Iterator[str]:
        if len(old.operands) != len(new.operands):
            yield f"has {counted(len(new.operands), 'operand')}, not {len(old.operands)}"
        for k, (x, y) in enumerate(zip(old.operands, new.operands, strict=False)):
            role = new.operand_roles[k] if k < len(new.operand_roles) else f"operand {k}"
            if x in self.pairs and self.pairs[x] is not y:
                yield f"`{role}` is %{y.name}, not %{self.pairs[x].name}"
        for key in sorted({*old.attributes, *new.attributes}):
            text = self._attribute(old, new, key)
            if text:
                yield text
        for k, (x, y) in enumerate(zip(old.results, new.results, strict=False)):
            text = self._type(x.type, y.type)
            if text:
                yield f"result{k or ''} {text}"

    def _attribute(self, old: Operation, new: Operation, key: str) -> str:
        if key not in new.attributes:
            return f"the attribute `{key}` is not there any more"
        if key not in old.attributes:
            return f"the attribute `{key}` is new"
        a, b = old.attributes[key], new.attributes[key]
        if is_data(old, key) or (key == CALLEE and Calling(old).callee is not None and Calling(new).callee is not None):
            return ""
        if self.texts[0].attribute(a) == self.texts[1].attribute(b):
            return ""
        return f"`{key}` is {attribute_text(b)}, not {attribute_text(a)}"

    def _type(self, old: Type, new: Type) -> str:
        """What differs between two types: element type, rank, or the first dim."""
        if self.texts[0].type(old) == self.texts[1].type(new):
            return ""
        if dtype_of(old) != dtype_of(new):
            return f"is {dtype_of(new)}, not {dtype_of(old)}"
        before, after = shape_of(old), shape_of(new)
        if len(before) != len(after):
            return f"has {counted(len(after), 'dim')}, not {len(before)}"
        for k, (a, b) in enumerate(zip(before, after, strict=True)):
            if self.texts[0].dim(a) != self.texts[1].dim(b):
                return f"dim {k} is {dim_text(b)}, not {dim_text(a)}"
        return f"is {new}, not {old}"

    def _symbols(self) -> Iterator[Difference]:
        for x, y in zip(self.texts[0].numbered(), self.texts[1].numbered(), strict=False):
            if _facts(x) != _facts(y):
                text = f"[{y.name}] is in {_range(y)}, not {_range(x)}"
                yield Difference(text, self.expected.location, self.found.location)


def _facts(symbol: Symbol) -> tuple[int, int | None, int]:
    return symbol.lower, symbol.upper, symbol.multiple_of


def _range(symbol: Symbol) -> str:
    text = f"{symbol.lower}..{'' if symbol.upper is None else symbol.upper}"
    return text if symbol.multiple_of == 1 else f"{text} multiple_of {symbol.multiple_of}"


def _shown(op: Operation) -> str:
    return f"%{op.name} ({op.opcode})" if op.name else op.opcode
