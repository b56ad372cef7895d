"""Random contractions, and generic operations of that shape, with what may stand before and behind them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tcpx.payload.types import SCALARS, ScalarType

EXTENTS = ("2", "3", "5", "8", "16", "17", "33", "70", "130")
"""Around a vector, above a tile, above a block."""
RARE_EXTENTS = ("0", "1", "1024")
RANGES = ("", "", "", ": 1..", ": 0..40", " multiple_of 4", " multiple_of 16", ": 1..13", ": 16..4096 multiple_of 16")
"""What is declared of a symbol."""
DTYPES = (("f32", "f32", "f32"),) * 6 + (
    ("f64", "f64", "f64"),
    ("f16", "f16", "f32"),
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f16"),
    ("f32", "f16", "f32"),
    ("si8", "si8", "si32"),
    ("ui8", "si8", "si32"),
    ("si32", "si32", "si32"),
)
"""Those of the factors and of the sum."""
COMBINERS = ("tcp.add", "tcp.add", "tcp.add", "tcp.max", "tcp.min", "tcp.mul")
BODIES = ("tcp.mul", "tcp.mul", "tcp.sub", "tcp.add", "tcp.max")
FORMS = ("m,kn", "mk,kn", "mk,nk", "km,kn", "bmk,bkn", "bmk,bnk", "mk,k", "k,kn", "k,k", "hk,hk", "mkh,nkh", "mlk,lkn")
"""Factors as people write them; the others are drawn dim by dim."""
STATIC_PART = 0.5
GENERIC_PART = 0.3
PADDED_PART = 0.15


@dataclass(slots=True)
class Drawn:
    """A payload of one contraction, which is called `r`, and how it is to be compiled."""

    seed: int
    text: str
    target: str
    threads: int
    traits: frozenset[str]
    """What it is an example of."""


@dataclass(frozen=True, slots=True)
class _Value:
    name: str
    extents: tuple[str, ...]
    dtype: str

    @property
    def type(self) -> str:
        return f"tensor<{'x'.join([*self.extents, self.dtype])}>"


@dataclass(slots=True)
class _Text:
    """The lines of a function, its arguments and its symbols."""

    draw: random.Random
    lines: list[str] = field(default_factory=list[str])
    arguments: list[_Value] = field(default_factory=list[_Value])
    symbols: dict[str, str] = field(default_factory=dict[str, str])
    traits: set[str] = field(default_factory=set[str])
    count: int = 0

    def argument(self, extents: Sequence[str], dtype: str) -> _Value:
        made = _Value(f"a{len(self.arguments)}", tuple(extents), dtype)
        self.arguments.append(made)
        return made

    def op(self, opcode: str, operands: str, attributes: str, like: _Value, name: str = "") -> _Value:
        """One more line; `like` has the type of its result."""
        self.count += 1
        made = replace(like, name=name or f"t{self.count}")
        self.lines.append(f"  %{made.name} = {opcode}{operands and f'({operands})'}{attributes} : {made.type}")
        return made

    def unary(self, opcode: str, value: _Value, dtype: str = "") -> _Value:
        return self.op(opcode, f"%{value.name}", "", replace(value, dtype=dtype or value.dtype))

    def fill(self, like: _Value, number: int) -> _Value:
        shown = f"{number}.0" if _scalar(like.dtype).is_float else str(number)
        return self.op("tcp.fill", "", f" {{value = {shown}}}", like)

    def text(self, results: Sequence[_Value]) -> str:
        arguments = ", ".join(f"%{a.name}: {a.type}" for a in self.arguments)
        types = ", ".join(r.type for r in results)
        used = {s: r for s, r in self.symbols.items() if any(f"[{s}]" in a.extents for a in self.arguments)}
        declared = f" symbols [{', '.join(s + r for s, r in used.items())}]" if used else ""
        lines = "\n".join(self.lines)
        names = ", ".join(f"%{r.name}" for r in results)
        return f"func @f({arguments}) -> ({types}){declared} {{\n{lines}\n  tcp.return({names})\n}}\n"


def _scalar(dtype: str) -> ScalarType:
    return SCALARS[dtype]


def drawn(seed: int, target: str) -> Drawn:
    """The payload of a seed. The same seed gives the same one."""
    draw = random.Random(seed)
    text = _Text(draw)
    is_generic = draw.random() < GENERIC_PART
    lhs, rhs, out = _generic_maps(text) if is_generic else _maps(draw)
    extents = _extents(text, [*lhs, *rhs, *out])
    left, right, acc = draw.choice(DTYPES)
    if is_generic:
        left = right = acc
    inner = [_inner(text, dims, extents) for dims in (lhs, rhs)]  # before the extents are used
    x = _factor(text, lhs, extents, left, inner[0])
    y = _factor(text, rhs, extents, right, inner[1])
    result = _Value("r", tuple(extents[d] for d in out), acc)
    init = _init(text, result)
    if is_generic:
        made = _generic(text, (x, y), (lhs, rhs, out), result, init)
    else:
        maps = ", ".join(f"{side} = {_names(dims)}" for side, dims in (("lhs", lhs), ("rhs", rhs), ("out", out)))
        made = text.op("tcp.contract", _operands(x, y, init), f" {{{maps}}}", result, "r")
    results = _behind(text, made)
    threads = draw.choice((1, 2))
    return Drawn(seed, text.text(results), target, threads, frozenset(text.traits))


def _names(dims: str) -> str:
    return "[" + ", ".join(f'"{d}"' for d in dims) + "]"


def _operands(x: _Value, y: _Value, init: _Value | None) -> str:
    return f"%{x.name}, %{y.name}" + (f", init = %{init.name}" if init is not None else "")


# -- which dims, and how large ---------------------------------------------------------------------------------------


def _maps(draw: random.Random) -> tuple[str, str, str]:
    """Dims of the factors and of the result."""
    if draw.random() < 0.5:
        lhs, rhs = draw.choice(FORMS).split(",")
        shared = set(lhs) & set(rhs)
        summed = shared & set("kl") if draw.random() < 0.8 else shared
        out = [d for d in dict.fromkeys(lhs + rhs) if d not in summed]
        if draw.random() < 0.3:
            draw.shuffle(out)
        return lhs, rhs, "".join(out)
    kinds = [draw.choice(("both", "left", "right", "summed", "summed", "alone")) for _ in range(draw.randint(1, 5))]
    lhs, rhs, out = [], [], []
    for dim, kind in zip("abcde", kinds, strict=False):
        lhs += [dim] if kind != "right" else []
        rhs += [dim] if kind in ("both", "right", "summed") else []
        out += [dim] if kind in ("both", "left", "right") else []
    for dims in (lhs, rhs, out):
        draw.shuffle(dims)
    return "".join(lhs), "".join(rhs), "".join(out)


def _generic_maps(text: _Text) -> tuple[str, str, str]:
    """The same, and diagonals among them."""
    draw = text.draw
    lhs, rhs, out = _maps(draw)
    if lhs and draw.random() < 0.15:
        text.traits.add("diagonal")
        at = draw.randrange(len(lhs) + 1)
        lhs = lhs[:at] + draw.choice(lhs) + lhs[at:]
    return lhs, rhs, out


def _extents(text: _Text, dims: list[str]) -> dict[str, str]:
    draw, found = text.draw, {}
    for dim in dict.fromkeys(dims):
        if draw.random() < STATIC_PART:
            found[dim] = draw.choice(RARE_EXTENTS if draw.random() < 0.08 else EXTENTS)
        else:
            symbol = draw.choice([*text.symbols, dim.upper()]) if draw.random() < 0.15 else dim.upper()
            text.symbols.setdefault(symbol, draw.choice(RANGES))
            found[dim] = f"[{symbol}]"
    if any(e.startswith("[") for e in found.values()):
        text.traits.add("symbolic")
    if "0" in found.values():
        text.traits.add("empty")
    return found


# -- what stands before ----------------------------------------------------------------------------------------------


def _inner(text: _Text, dims: str, extents: dict[str, str]) -> list[str] | None:
    """The extents of an argument that padding makes a factor of, for some of them; `extents` are those behind it."""
    draw = text.draw
    if not dims or len(set(dims)) < len(dims) or draw.random() > PADDED_PART:
        return None
    text.traits.add("pad before")
    narrow = dict(extents)
    for dim in draw.sample(dims, min(len(dims), draw.choice((1, 1, 2)))):
        extent, more = extents[dim], draw.choice((1, 3, 15))
        if extent.isdigit():
            narrow[dim] = str(max(0, int(extent) - more))
        elif "+" not in extent:
            narrow[dim] = extent
            for other in (d for d, e in extents.items() if e == extent):
                extents[other] = f"[{extent[1:-1]} + {more}]"
                narrow[other] = extent if other == dim else extents[other]
    return [narrow[d] for d in dims]


def _factor(text: _Text, dims: str, extents: dict[str, str], dtype: str, inner: list[str] | None) -> _Value:
    """An argument, or what is made of one."""
    draw = text.draw
    shape = tuple(extents[d] for d in dims)
    wanted = _Value("", shape, dtype)
    if inner is not None:
        return text.op("tcp.pad", f"%{text.argument(inner, dtype).name}", _value_of(wanted, 0), wanted)
    kind = draw.choices(("argument", "elementwise", "cast", "transpose", "fill", "constant"), (10, 2, 1, 1, 1, 1))[0]
    text.traits.add(f"{kind} before")
    if kind == "elementwise":
        a, b = (text.argument(shape, dtype).name for _ in range(2))
        larger = text.op("tcp.max", f"%{a}, %{b}", "", wanted)
        return text.op("tcp.add", f"%{larger.name}, %{a}", "", wanted)
    if kind == "cast":
        return text.op("tcp.cast", f"%{text.argument(shape, 'si16').name}", "", wanted)
    if kind == "transpose" and len(shape) > 1:
        order = draw.sample(range(len(shape)), len(shape))
        source = ["" for _ in shape]
        for position, dim in enumerate(order):
            source[dim] = shape[position]
        return text.op("tcp.transpose", f"%{text.argument(source, dtype).name}", f" {{permutation = {order}}}", wanted)
    if kind == "constant" and all(extent.isdigit() for extent in shape):
        return text.op("tcp.const", "", _value_of(wanted, 2), wanted)
    if kind == "fill":
        return text.fill(_with_argument(text, wanted), 2)
    return text.argument(shape, dtype)


def _with_argument(text: _Text, like: _Value) -> _Value:
    """The same value, whose symbols an argument has."""
    known = {e for a in text.arguments for e in a.extents}
    if any(e.startswith("[") and e not in known for e in like.extents):
        text.argument([e.split(" + ")[0].rstrip("]") + "]" if "+" in e else e for e in like.extents], like.dtype)
    return like


def _value_of(like: _Value, number: int) -> str:
    return f" {{value = {number}.0}}" if _scalar(like.dtype).is_float else f" {{value = {number}}}"


def _init(text: _Text, result: _Value) -> _Value | None:
    """What the sum starts with."""
    kind = text.draw.choices(("none", "argument", "fill", "elementwise"), (12, 2, 2, 1))[0]
    text.traits.add(f"init {kind}")
    if kind == "none":
        return None
    if kind == "fill":
        return text.fill(_with_argument(text, result), text.draw.choice((0, 1)))
    made = text.argument(result.extents, result.dtype)
    return text.op("tcp.add", f"%{made.name}, %{made.name}", "", made) if kind == "elementwise" else made


# -- the operation, and what stands behind ---------------------------------------------------------------------------


def _generic(
    text: _Text, factors: tuple[_Value, _Value], maps: tuple[str, str, str], result: _Value, init: _Value | None
) -> _Value:
    """One with a body and a combiner of its own."""
    draw, (lhs, rhs, out) = text.draw, maps
    dims = list(dict.fromkeys(lhs + rhs + out))
    draw.shuffle(dims)
    kinds = ", ".join(f'["{d}", "{"parallel" if d in out else "reduction"}"]' for d in dims)
    lists = ", ".join(f"[{', '.join(m)}]" for m in maps)
    body, combiner = draw.choice(BODIES), draw.choice(COMBINERS)
    text.traits.update((f"combiner {combiner}", "generic"))
    accumulates = init is not None or set(dims) != set(out)
    t = result.dtype
    given = f' combiner = "{combiner}"' if accumulates else ""
    region = f"(%e0: {t}, %e1: {t}{f', %acc: {t}' if accumulates else ''}):\n    %p = {body}(%e0, %e1) : {t}\n"
    if accumulates:
        region += f"    %s = {combiner}(%acc, %p) : {t}\n    tcp.yield(%s)\n"
    else:
        region += "    tcp.yield(%p)\n"
    attributes = f" {{iterators = [{kinds}], maps = [{lists}]{given and ',' + given}}} ({{ {region}  }})"
    return text.op("tcp.generic", _operands(*factors, init), attributes, result, "r")


def _behind(text: _Text, made: _Value) -> list[_Value]:
    """The results of the function: the contraction, or what is made of it."""
    kind = text.draw.choices(("nothing", "bias", "chain", "cast", "two", "sum"), (8, 3, 2, 1, 1, 1))[0]
    text.traits.add(f"{kind} behind")
    if kind == "bias" and made.extents:
        bias = text.argument(made.extents[-1:], made.dtype)
        rows = text.op("tcp.broadcast", f"%{bias.name}", f" {{dims = [{len(made.extents) - 1}]}}", made)
        return [text.op("tcp.add", f"%{made.name}, %{rows.name}", "", made)]
    if kind == "chain":
        zero = text.fill(made, 0)
        more = text.op("tcp.add", f"%{made.name}, %{text.argument(made.extents, made.dtype).name}", "", made)
        return [text.op("tcp.max", f"%{more.name}, %{zero.name}", "", made)]
    if kind == "cast":
        return [text.unary("tcp.cast", made, "f64" if made.dtype != "f64" else "f32")]
    if kind == "two":
        return [text.op("tcp.mul", f"%{made.name}, %{made.name}", "", made), made]
    if kind == "sum" and made.extents:
        summed = replace(made, extents=made.extents[:-1])
        return [text.op("tcp.reduce_sum", f"%{made.name}", f" {{dims = [{len(made.extents) - 1}]}}", summed)]
    return [made]
