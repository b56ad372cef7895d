"""Payloads written otherwise: what they compute is the same, names and orders are not."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from itertools import chain

import tcpx
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.fields import Operand
from tcpx.payload.indexing_maps import IndexingMap, dims
from tcpx.payload.interfaces import Build, Iterator, IteratorKind, Structured, parallel
from tcpx.payload.ir import FuncOp, Module, Operation, Value, parent_op, register
from tcpx.payload.ops.elementwise import Add, Mul
from tcpx.payload.ops.generic import Generic, Return, generalize
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes import Dim, Symbol, substitute, symbols
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.ragged import is_irregular
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.types import TensorType, shape_of
from tcpx.payload.verifier import verify_module
from tcpx.target import Target
from tcpx.transform.editing import replace_with
from tests.nets.structures import EXTENTS, Use, shape_at

Change = Callable[[Structured], Structured | None]


@register
class Correlation(Structured):
    """Windows of x [h + p, v + t, c] times w [p, t, c, f], as another package would declare them, with its names."""

    __slots__ = ()
    opcode = "outside.correlation"
    class_name = "correlation"
    fixed_dims = ("h", "v", "f", "p", "t", "c")
    x, w = Operand(), Operand()
    reads_all_of_operands = False

    def iterators(self) -> tuple[Iterator, ...]:
        return (*parallel("h", "v", "f"), *(Iterator(name, IteratorKind.REDUCTION) for name in "ptc"))

    def maps(self) -> tuple[IndexingMap, ...]:
        h, v, p, t, c = dims(*"hvptc")
        return (h + p, v + t, c), dims(*"ptcf")

    def result_map(self) -> IndexingMap:
        return dims(*"hvf")

    def neutral(self) -> float | int | None:
        return 0

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return build(Add.of(lhs, rhs))

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        product = build(Mul.of(args[0], args[1]))
        return product if acc is None else self.combine(build, acc, product)


NORMALIZE = tcpx.parse_schedule("language 1\nschedule s(root: func) { optional normalize(root) }\n")
SYMBOLIC: dict[str, Dim] = {name: Symbol(name.upper()).size() for name in EXTENTS}


def payload_of(use: Use, is_symbolic: bool = False) -> Module | None:
    """A function of one operation, and of what it reads, with fixed sizes or symbols; None if symbols are refused."""
    extents: dict[str, Dim] = dict(SYMBOLIC if is_symbolic else EXTENTS)
    shapes = [shape_at(shape, extents) for shape in use.structure.operands]
    types = [TensorType(shape, dtype) for shape, dtype in zip(shapes, use.dtypes, strict=False)]
    sizes = [d for type_ in (*types, *use.results(extents)) for d in shape_of(type_)]
    names = sorted({symbol.name for d in sizes for symbol in symbols(d)})
    func = FuncOp("f", [(f"x{k}", type_) for k, type_ in enumerate(types)], [Symbol(name) for name in names])
    made = use.cls(func.args, use.results(extents), dict(use.attributes))
    made.name = "y"
    for k, result in enumerate(made.results):
        result.name = f"y{k}" if k else "y"
    func.body.append(made)
    func.body.append(Return(made.results))
    module = Module(Constants())
    module.add(func)
    try:
        verify_module(module)
        return tcpx.parse(module.text())
    except TcpxError:
        if is_symbolic:
            return None
        raise


def normal_form(module: Module) -> str:
    """The text of a payload after `normalize`, without the names of values and dims."""
    made = tcpx.apply_schedule(module, NORMALIZE).module
    names = {it.name for op in made.walk() if isinstance(op, Structured) for it in op.iterators()}
    words = "|".join([r"%[\w.]+", *(rf"\b{re.escape(name)}\b" for name in sorted(names))])
    text, known = re.sub(r' name "[^"]*"', "", made.text()), dict[str, str]()
    return re.sub(words, lambda word: known.setdefault(word.group(), f"%{len(known)}"), text)


def written(module: Module, change: Change) -> Module | None:
    """The payload with each structured operation written otherwise; None where there is no other way."""
    other = tcpx.parse(module.text(), constants=module.constants)
    rewriter, count = Rewriter(other), 0
    for op in _outer(other):
        made = change(op) if isinstance(op, Structured) else None
        if made is not None:
            replace_with(rewriter, op, made)
            count += 1
    return tcpx.parse(other.text(), constants=module.constants) if count else None


def _outer(module: Module) -> list[Operation]:
    """Operations of functions, not those of scalar bodies."""
    return [op for op in module.walk() if not isinstance(parent_op(op), Structured)]


def generalized(op: Structured) -> Structured:
    """Maps and a scalar body instead of a class."""
    made = generalize(op) if not op.regions else op.on_tiles(op.operands, *(shape_of(r.type) for r in op.results))
    assert isinstance(made, Structured)
    return made


def reordered(op: Structured) -> Structured | None:
    """The dims in another order, with other names."""
    its = op.iterators()
    if not its or Scan.of(op) is not None or is_irregular(op):
        return None
    made = generalized(op)
    reduced = [it for it in its if it.is_reduction]
    order = [
        *(reduced[::-1] if Reduction(op).is_commutative else reduced),
        *[it for it in its if not it.is_reduction][::-1],
    ]
    names = {it.name: f"z{k}" for k, it in enumerate(order)}
    sizes: dict[Symbol, Dim] = {Symbol(old): Symbol(new).size() for old, new in names.items()}

    def renamed(held: object) -> IndexingMap:
        return tuple(substitute(entry, sizes) for entry in held) if isinstance(held, tuple) else ()

    made.attributes["iterators"] = tuple((names[it.name], *it.entry[1:]) for it in order)
    made.attributes["maps"] = tuple(map(renamed, (*made.maps(), *made.result_maps())))
    if "positions" in made.attributes:
        made.attributes["positions"] = renamed(made.attributes["positions"])
    return made


def swapped(op: Structured) -> Structured | None:
    """The operands in the opposite order, as arguments of the body, too."""
    count = len(op.inputs)
    if count < 2 or is_irregular(op) or Indices(op).operands:
        return None
    made = generalized(op)
    maps = (*made.maps()[::-1], *made.result_maps())
    arguments = made.regions[0].args
    arguments[:count] = arguments[:count][::-1]
    operands = [*made.inputs[::-1], *made.inits]
    return Generic(operands, [r.type for r in made.results], {**made.attributes, "maps": maps}, made.regions)


def otherwise(op: Structured) -> Structured | None:
    """All of these."""
    made = reordered(op) or generalized(op)
    return swapped(made) or made


SPELLINGS: dict[str, Change] = {"generalized": generalized, "reordered": reordered, "swapped": swapped}
ALL_AT_ONCE: dict[str, Change] = {"otherwise": otherwise}


def meaning(module: Module, target: Target, threads: int = 1) -> tuple[list[str], list[str]]:
    """The C without names: its loops and branches in their order, and its statements, whatever the order of those that
    stand together."""
    source = tcpx.emit(module, target=target, threads=threads).c_source
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", source, flags=re.DOTALL)
    lines = [" + ".join(sorted(line.split(" + "))) for line in _NAME.sub("_", code).splitlines()]
    return [line for line in lines if re.match(r" *(for|if|}|else)\b", line)], sorted(lines)


_NAME = re.compile(r"\b(?!_mm|__m|tcpx_|for\b|if\b|else\b|float\b|double\b|u?int\d+_t\b)[A-Za-z_]\w*")


# -- random generics ----------------------------------------------------------------------------------------------

BODIES = {
    1: ("%t = tcp.mul(%e0, %e0) : f32", "%t = tcp.abs(%e0) : f32", "%t = tcp.max(%e0, %e0) : f32"),
    2: ("%t = tcp.mul(%e0, %e1) : f32", "%t = tcp.add(%e0, %e1) : f32", "%t = tcp.sub(%e0, %e1) : f32"),
    3: ("%u = tcp.mul(%e0, %e1) : f32\n    %t = tcp.mul(%u, %e2) : f32",
        "%u = tcp.sub(%e0, %e1) : f32\n    %t = tcp.max(%u, %e2) : f32"),
}  # fmt: skip
SIZES = (3, 5, 8, 16, 24, 33)


def random_generic(seed: int) -> str:
    """A payload of one generic: parallel dims, at times reduced ones and windows, of one to three operands."""
    draw = random.Random(seed)
    kept, reduced = list("ijlm"[: draw.randint(1, 4)]), list("pqr"[: draw.choice((0, 1, 1, 2, 2, 3))])
    extents = {d: draw.choice(SIZES[:3] if d in reduced or len(kept) > 3 else SIZES) for d in (*kept, *reduced)}
    windows = dict(zip(kept[-2:], reduced, strict=False)) if draw.random() < 0.4 else {}
    count = draw.choice((1, 2, 2, 3))
    maps = [_operand(draw, kept, reduced, windows if k == 0 else {}) for k in range(count)]
    missing = [d for d in (*kept, *reduced) if d not in chain.from_iterable(chain.from_iterable(maps))]
    maps[0] += [(d,) for d in missing]
    shapes = ["x".join(str(sum(extents[d] - 1 for d in e) + 1) for e in held) for held in maps]
    combiner = draw.choice(("add", "add", "max", "min"))
    body = draw.choice(BODIES[count])
    if reduced:
        body += f"\n    %s = tcp.{combiner}(%acc, %t) : f32"
    given = ", ".join(f"%e{k}: f32" for k in range(count)) + (", %acc: f32" if reduced else "")
    kinds = [*((d, "parallel", "") for d in kept), *((d, "reduction", f", {extents[d]}") for d in reduced)]
    iterators = ", ".join(f'["{d}", "{kind}"{extent}]' for d, kind, extent in kinds)
    texts = [f"[{', '.join(' + '.join(e) for e in held)}]" for held in (*maps, [(d,) for d in kept])]
    out = f"tensor<{'x'.join(str(extents[d]) for d in kept)}xf32>"
    held = f', combiner = "tcp.{combiner}"' if reduced else ""
    return (
        f"func @f({', '.join(f'%x{k}: tensor<{shape}xf32>' for k, shape in enumerate(shapes))}) -> {out} {{\n"
        f"  %y = tcp.generic({', '.join(f'%x{k}' for k in range(count))}) {{iterators = [{iterators}], "
        f"maps = [{', '.join(texts)}]{held}}} ({{ ({given}):\n    {body}\n    tcp.yield(%{'s' if reduced else 't'})\n"
        f"  }}) : {out}\n  tcp.return(%y)\n}}\n"
    )


def _operand(
    draw: random.Random, kept: list[str], reduced: list[str], windows: dict[str, str]
) -> list[tuple[str, ...]]:
    """What an operand is indexed by: some dims in any order, windows of some."""
    own = [d for d in (*kept, *reduced) if d not in windows.values() and draw.random() < 0.7] or [kept[-1]]
    draw.shuffle(own)
    return [(d, windows[d]) if d in windows else (d,) for d in own]
