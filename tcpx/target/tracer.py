"""Evaluates the C of rows with instructions for values.

Helpers are followed. Where the C has a branch, the way is taken that full vectors take; loops run as often as they say.
Constants cost nothing: they stay in registers, or are operands in memory.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from tcpx.installed import TABLES
from tcpx.records import frozen
from tcpx.target.c_text import NOTHING, Helper, Tree
from tcpx.target.c_types import FLOAT_BITS, INTEGER, MASK, SCALAR_BITS, CType, c_type_of
from tcpx.target.table import read_table

_INTRINSIC: Final = re.compile(r"_mm(512|256|)_(mask_|maskz_|m(?=mask_))?(\w+)")
_SUFFIX: Final = re.compile(r"_(ps|pd|ss|sd|ep[iu](\d+)x?)(_mask)?$")
_COMPARISONS: Final = ("==", "!=", "<", ">", "<=", ">=")
_STATEMENTS: Final = ("block", "return", "variable", "array", "if", "for", "nothing")
_MOST_ROUNDS: Final = 64
_UNKNOWN_ROUNDS: Final = 8
"""How often a loop runs whose end only the elements tell."""


@frozen
class Instruction:
    """One instruction of a trace. `operands` are numbers of instructions and of sources, whose name is empty; `bits`
    those of its vectors; a gather reads `lanes`."""

    name: str
    bits: int = SCALAR_BITS
    operands: tuple[int, ...] = ()
    lanes: int = 1


@frozen
class Trace:
    """The instructions of a row, each behind its operands. `sources` are the numbers of its placeholders, `result` that
    of its value; -1 where that is a constant or there is none."""

    instructions: tuple[Instruction, ...]
    sources: Mapping[str, int]
    result: int


@frozen
class Held:
    """A value: the number of what gives it, and -1 for a constant, which has a text."""

    number: int
    type: CType
    text: str = ""

    @property
    def is_constant(self) -> bool:
        return self.number < 0


Scope = dict[str, Held]
ALONE: Final = "alone"
"""The key of an instruction that another one like it does not replace."""


def constant(text: str, type_: CType = INTEGER) -> Held:
    """A value that does not change."""
    return Held(-1, type_, text)


@lru_cache(maxsize=1)
def _patterns() -> Mapping[str, Sequence[tuple[str, tuple[str, ...]]]]:
    root = read_table(TABLES / "ports" / "instructions.yaml").fields(("intrinsics", "functions"))
    return {key: [(name, held.texts()) for name, held in node.fields().items()] for key, node in root.items()}


@lru_cache(maxsize=4096)
def class_of(section: str, name: str) -> str:
    """The class of an intrinsic, or of a function; `call` of those that no line names."""
    return next((held for held, found in _patterns()[section] if any(fnmatchcase(name, p) for p in found)), "call")


@dataclass(slots=True)
class Tracer:
    """The instructions of one row, as they are found."""

    helper: Callable[[str], Helper | None]
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    kept: list[int] = field(default_factory=list[int])
    """What runs whether or not its value is used."""
    sources: dict[str, int] = field(default_factory=dict[str, int])
    known: dict[object, int] = field(default_factory=dict[object, int])

    def source(self, name: str, type_: CType) -> Held:
        """A placeholder."""
        self.sources[name] = len(self.instructions)
        self.instructions.append(Instruction(""))
        return Held(self.sources[name], type_)

    def trace(self, result: Held | None, type_: CType) -> Trace:
        """What is needed for this value, which the row gives as this type, and for stores."""
        if result is not None:
            result = self._cast(result, type_)
        last = -1 if result is None else result.number
        needed, pending = set(self.sources.values()), [*self.kept, *([last] if last >= 0 else [])]
        while pending:
            at = pending.pop()
            if at not in needed:
                needed.add(at)
                pending += self.instructions[at].operands
        numbers = {old: new for new, old in enumerate(sorted(needed))}
        kept = (self.instructions[old] for old in sorted(needed))
        renumbered = (
            Instruction(op.name, op.bits, tuple(numbers[k] for k in op.operands if k in numbers), op.lanes)
            for op in kept
        )
        sources = {name: numbers[old] for name, old in self.sources.items()}
        return Trace(tuple(renumbered), sources, numbers.get(last, -1))

    def row(self, tree: Tree, scope: Scope) -> Held | None:
        """The value of the C of a row."""
        return self.run(tree, scope) if tree.kind in _STATEMENTS else self.value(tree, scope)

    def run(self, tree: Tree, scope: Scope) -> Held | None:
        """What a statement returns; None where it goes on behind it."""
        match tree.kind:
            case "block":
                for part in tree.parts:
                    found = self.run(part, scope)
                    if found is not None:
                        return found
                return None
            case "return":
                return self.value(tree.parts[0], scope)
            case "variable" | "array":
                self._declare(tree, scope)
                return None
            case "if":
                return self._branch(tree, scope)
            case "for":
                return self._loop(tree, scope)
            case _:
                self.value(tree, scope)
                return None

    def _declare(self, tree: Tree, scope: Scope) -> None:
        type_ = c_type_of(tree.parts[0].text)
        if tree.kind == "array":
            scope[tree.text] = constant("array", CType("pointer", SCALAR_BITS, type_.lane))
        elif tree.parts[1] == NOTHING:
            scope[tree.text] = constant("0", type_)
        else:
            scope[tree.text] = self._cast(self.value(tree.parts[1], scope), type_)

    def _branch(self, tree: Tree, scope: Scope) -> Held | None:
        """A branch that returns at once is not taken, one that does something is."""
        condition, then, otherwise = tree.parts
        decided = self.value(condition, scope)
        if decided.is_constant and decided.text in ("0", "1"):
            return self.run(then if decided.text == "1" else otherwise, scope)
        return None if then.kind == "return" else self.run(then, scope)

    def _loop(self, tree: Tree, scope: Scope) -> Held | None:
        start, condition, step, body = tree.parts
        self.run(start, scope)
        end = condition.parts[-1] if condition.kind == "operator" else NOTHING
        is_counted = end.kind == "number" and step.kind == "unary"
        rounds = min(_MOST_ROUNDS, int(end.text.rstrip("uUlL"))) if is_counted else _UNKNOWN_ROUNDS
        for k in range(rounds):
            if is_counted:
                scope[step.parts[0].text] = constant(str(k))
            found = self.run(body, scope)
            if found is not None:
                return found
            if not is_counted:
                self.run(step, scope)
        return None

    def value(self, tree: Tree, scope: Scope) -> Held:
        """The value of an expression."""
        match tree.kind:
            case "number":
                is_float = "." in tree.text or "p" in tree.text
                return constant(tree.text, CType("float", FLOAT_BITS, "f64") if is_float else INTEGER)
            case "name":
                return scope.get(tree.text) or constant(tree.text)
            case "call":
                return self._call(tree, scope)
            case "cast":
                return self._cast(self.value(tree.parts[0], scope), c_type_of(tree.text))
            case "lanes":
                return self._lanes(tree, scope)
            case "element":
                return self._element(*(self.value(part, scope) for part in tree.parts))
            case "unary":
                return self._unary(tree, scope)
            case "choice":
                return self._choice(*(self.value(part, scope) for part in tree.parts))
            case "assign":
                return self._assign(tree, scope)
            case "operator":
                return self._operator(tree.text, *(self.value(part, scope) for part in tree.parts))
            case _:
                return constant("0")

    def add(self, name: str, type_: CType, *operands: Held, bits: int = 0, lanes: int = 1, key: object = None) -> Held:
        """The value of one more instruction; that of one with the same operands, unless it has none, is used again."""
        bits = bits or (SCALAR_BITS if type_.kind in ("integer", "mask", "pointer") else type_.bits)
        found = tuple(held.number for held in operands if not held.is_constant)
        known = (name, bits, tuple(held.text or held.number for held in operands), key)
        if key != ALONE and known in self.known:
            return Held(self.known[known], type_)
        self.known[known] = len(self.instructions)
        self.instructions.append(Instruction(name, bits, found, lanes))
        return Held(len(self.instructions) - 1, type_)

    def _memory(self, name: str, type_: CType, *operands: Held, bits: int = 0, lanes: int = 1) -> Held:
        """An access to memory: another one may give another value."""
        found = self.add(name, type_, *operands, bits=bits, lanes=lanes, key=ALONE)
        if "store" in name or name in ("prefetch", "fence"):
            self.kept.append(found.number)
        return found

    def _call(self, tree: Tree, scope: Scope) -> Held:
        if tree.text == "__builtin_memcpy":
            return self._copied(tree, scope)
        arguments = [self.value(part, scope) for part in tree.parts]
        intrinsic = _INTRINSIC.fullmatch(tree.text)
        if intrinsic is not None:
            return self._intrinsic(
                int(intrinsic.group(1) or 128), intrinsic.group(2) or "", intrinsic.group(3), arguments
            )
        helper = self.helper(tree.text)
        if helper is not None:
            inner = {
                name: self._cast(held, c_type_of(type_))
                for (name, type_), held in zip(helper.parameters, arguments, strict=True)
            }
            return self.run(helper.body, inner) or constant("0")
        if not arguments or all(held.is_constant for held in arguments):
            return constant(f"{tree.text}({', '.join(held.text for held in arguments)})", _first_type(arguments))
        name = class_of("functions", tree.text)
        if name == "prefetch":
            return self._memory(name, INTEGER, arguments[0])
        type_ = INTEGER if name == "bits_below" else _first_type(arguments)
        return self.add(name, type_, *arguments)

    def _intrinsic(self, bits: int, mask: str, stem: str, arguments: list[Held]) -> Held:
        name, type_ = class_of("intrinsics", stem), _result_of(stem, bits)
        varying = [held for held in arguments if not held.is_constant]
        masks = [held for held in varying if held.type.kind == "mask"]
        if name in ("load", "store", "masked_load", "stream_store"):
            masks = masks or [held for held in varying if mask and held.type.kind == "integer"]
            held = f"masked_{name}" if mask and masks and name in ("load", "store") else name
            return self._memory(held, type_, *(self._cast(a, MASK) if a in masks else a for a in varying), bits=bits)
        if name == "gather":
            narrowest = 64 if "i64" in stem or stem.endswith(("epi64", "pd")) else 32
            return self._memory(name, type_, *varying, bits=bits, lanes=bits // narrowest)
        if name == "fence":
            return self._memory(name, type_)
        if not varying:
            return constant(f"{stem}({', '.join(held.text for held in arguments)})", type_)
        if name == "constant":
            return constant(stem, type_)
        if name == "free" or (name == "move" and not mask):
            return Held(varying[0].number, type_)
        if mask:
            at = 0 if mask == "maskz_" else 1
            arguments[at] = self._cast(arguments[at], MASK) if at < len(arguments) else MASK_OFF
        if name == "move" or (name == "blend" and mask):
            return self.add("blend_mask", type_, *arguments, bits=bits)
        if name == "splat":
            return self._splat(type_, arguments, bits)
        if name == "reduce":
            return self._reduced(stem, bits, varying[-1])
        return self.add(name, type_, *arguments, bits=bits, key=stem)

    def _splat(self, type_: CType, arguments: Sequence[Held], bits: int) -> Held:
        is_float = arguments[-1].type.kind == "float"
        if is_float and arguments[-1].is_constant:  # in the lanes that a mask lets through
            return self.add("blend_mask", type_, *arguments, bits=bits)
        return self.add("broadcast" if is_float else "broadcast_scalar", type_, *arguments, bits=bits)

    def _reduced(self, stem: str, bits: int, held: Held) -> Held:
        """Halves of the lanes together, down to one."""
        _, operation, lane = stem.split("_")
        width = 64 if lane.endswith(("pd", "64")) else 32
        type_, name = _result_of(stem, bits), class_of("intrinsics", f"{operation}_{lane}")
        while bits > FLOAT_BITS:
            bits //= 2
            half = self.add("extract_part", type_, held, bits=2 * bits, key=bits)
            held = self.add(name, type_, held, half, bits=bits)
        while bits > width:
            bits //= 2
            held = self.add(
                name, type_, held, self.add("shuffle", type_, held, bits=FLOAT_BITS, key=bits), bits=FLOAT_BITS
            )
        if type_.is_float:
            return Held(held.number, CType("float", FLOAT_BITS, type_.lane))
        return self.add("to_scalar", INTEGER, held, bits=FLOAT_BITS)

    def _cast(self, held: Held, type_: CType) -> Held:
        """A value as another type, or moved to the registers of that."""
        if held.is_constant:
            return constant(held.text, type_)
        kinds = held.type.kind, type_.kind
        scalars = ("integer", "float")
        if kinds == ("integer", "mask"):
            return self.add("mask_from_scalar", type_, held)
        if kinds == ("mask", "integer"):
            return self.add("mask_to_scalar", type_, held)
        if kinds[0] in scalars and kinds[1] in scalars and kinds[0] != kinds[1]:
            name = "scalar_to_float" if kinds[1] == "float" else "float_to_scalar"
            return self.add(name, type_, held, bits=FLOAT_BITS, key=type_.lane)
        if kinds == ("float", "float") and held.type.lane != type_.lane:
            return self.add("convert_scalar", type_, held, bits=FLOAT_BITS, key=type_.lane)
        return Held(held.number, type_)

    def _lanes(self, tree: Tree, scope: Scope) -> Held:
        """A vector of scalars: the first is its lowest lane, each other one is put beside those there."""
        type_ = c_type_of(tree.text)
        given = [self.value(part, scope) for part in tree.parts]
        given = [held for held in given if not held.is_constant]
        if not given:
            return constant(f"lanes {tree}", type_)
        found = given[0]
        for held in given[1:]:
            found = self.add("insert_lane", type_, found, held, bits=min(type_.bits, FLOAT_BITS), key=held.number)
        for _ in range(type_.bits // FLOAT_BITS - 1):
            found = self.add("insert_part", type_, found, bits=type_.bits, key=ALONE)
        return Held(found.number, type_)

    def _element(self, held: Held, index: Held) -> Held:
        """An element behind a pointer, or a lane."""
        if held.type.kind == "pointer":
            return self._memory("load", _scalar(held.type.lane), held, index)
        return self._lane(held, index)

    def _lane(self, held: Held, index: Held) -> Held:
        type_ = _scalar(held.type.lane)
        if held.is_constant:
            return constant(held.text, type_)
        if held.type.is_float:
            is_first = index.text == "0"
            return (
                Held(held.number, type_)
                if is_first
                else self.add("shuffle_across", type_, held, index, bits=held.type.bits)
            )
        return self.add("to_scalar", type_, held, index, bits=FLOAT_BITS)

    def _unary(self, tree: Tree, scope: Scope) -> Held:
        (part,) = tree.parts
        held = self.value(part, scope)
        if tree.text in ("++", "--"):
            scope[part.text] = self.add("alu", INTEGER, held) if not held.is_constant else held
            return held
        if tree.text == "*":
            return self._element(held, constant("0"))
        if tree.text in ("&", "+"):
            return held
        if held.is_constant:
            return constant(tree.text + held.text, held.type)
        return self.add(_operator_class("^" if held.type.is_float else "-", held.type), held.type, held, key=tree.text)

    def _operator(self, operator: str, left: Held, right: Held) -> Held:
        type_ = max(
            left.type, right.type, key=lambda held: ("integer", "mask", "pointer", "float", "vector").index(held.kind)
        )
        result = INTEGER if operator in (*_COMPARISONS, "&&", "||") and type_.kind != "vector" else type_
        if left.is_constant and right.is_constant:
            if operator in ("==", "!=") and left.text.isdigit() and right.text.isdigit():
                return constant(str(int((left.text == right.text) == (operator == "=="))))
            return constant(f"({left.text} {operator} {right.text})", result)
        if type_.kind == "pointer":
            return left if left.type.kind == "pointer" else right
        if "mask" in (left.type.kind, right.type.kind) and operator in _COMPARISONS:
            return self.add("mask_to_scalar", INTEGER, left, right, key=operator)
        return self.add(_operator_class(operator, type_), result, left, right, bits=type_.bits, key=operator)

    def _choice(self, condition: Held, then: Held, otherwise: Held) -> Held:
        if condition.is_constant and condition.text in ("0", "1"):
            return then if condition.text == "1" else otherwise
        type_ = then.type if otherwise.is_constant else otherwise.type
        name = "blend_lanes" if type_.kind in ("float", "vector") else "select"
        return self.add(name, type_, condition, then, otherwise, bits=type_.bits)

    def _assign(self, tree: Tree, scope: Scope) -> Held:
        target, value = tree.parts
        held = self.value(value, scope)
        if target.kind == "name":
            known = scope.get(target.text, held)
            scope[target.text] = self._operator(tree.text, known, held) if tree.text else self._cast(held, known.type)
            return scope[target.text]
        if target.kind == "unary":
            return self._memory("store", held.type, self.value(target.parts[0], scope), held)
        vector = self.value(target.parts[0], scope)
        if vector.type.kind == "vector":
            index = self.value(target.parts[1], scope)
            scope[target.parts[0].text] = self.add(
                "insert_lane", vector.type, vector, held, index, bits=min(vector.type.bits, FLOAT_BITS)
            )
            return held
        stored = self._memory("store", held.type, vector, held)
        if vector.is_constant or self.instructions[vector.number].name == "store":  # an array, which is read later
            scope[target.parts[0].text] = Held(stored.number, vector.type)
        return held

    def _copied(self, tree: Tree, scope: Scope) -> Held:
        """A copy of bytes: to a pointer, from one, or to the registers of another type."""
        target, source = tree.parts[:2]
        held = self.value(source, scope)
        if target.kind != "unary":
            return self._memory("store", held.type, self.value(target, scope), held, bits=held.type.bits)
        name = target.parts[0].text
        type_ = scope[name].type if name in scope else held.type
        if held.type.kind == "pointer":
            scope[name] = self._memory("load", type_, held)
        elif held.type.kind == type_.kind:
            scope[name] = Held(held.number, type_, held.text)
        else:
            moved = "from_scalar" if type_.kind in ("float", "vector") else "to_scalar"
            scope[name] = self.add(moved, type_, held, bits=FLOAT_BITS) if not held.is_constant else held
        return scope[name]


MASK_OFF: Final = constant("0", MASK)


def _first_type(arguments: Sequence[Held]) -> CType:
    return arguments[0].type if arguments else INTEGER


def _scalar(lane: str) -> CType:
    return CType("float", FLOAT_BITS, lane) if lane.startswith("f") else CType("integer", SCALAR_BITS, lane)


def _result_of(stem: str, bits: int) -> CType:
    """The type of an intrinsic's value."""
    if stem.endswith("_mask"):
        return MASK
    if stem in ("cvtss_f32", "cvtsd_f64"):
        return CType("float", FLOAT_BITS, "f32" if stem == "cvtss_f32" else "f64")
    if stem.startswith(("cvtsi128_si", "movemask", "test")):
        return INTEGER
    suffix = _SUFFIX.search(stem)
    if suffix is None:
        return CType("vector", bits, "i32")
    return CType(
        "vector", bits, f"i{suffix.group(2)}" if suffix.group(2) else "f32" if suffix.group(1)[1] == "s" else "f64"
    )


def _operator_class(operator: str, type_: CType) -> str:
    """The class of an operator of C on values of this type."""
    if type_.kind == "mask":
        return "mask_logic"
    if type_.kind == "integer":
        return {"*": "multiply", "/": "divide", "%": "divide", "<<": "shift_scalar", ">>": "shift_scalar"}.get(
            operator, "alu"
        )
    if operator in _COMPARISONS:
        kind = "scalar" if type_.kind == "float" else "f" if type_.is_float else "i64" if type_.lane == "i64" else "i"
        return f"compare_{kind}"
    if operator in ("&", "|", "^", "~", "!"):
        return "logic"
    if type_.is_float:
        return {"*": "mul_f", "/": f"div_{type_.lane}"}.get(operator, "add_f")
    if operator == "*":
        return f"mul_{type_.lane}" if type_.lane != "i8" else "mul_i16"
    return "shift_lanes" if operator in ("<<", ">>") else "add_i"
