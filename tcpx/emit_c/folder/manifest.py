"""`NAME.json`: what has to be known of a kernel to call it, as JSON. Sizes are written as in payloads."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Final

from tcpx.emit_c.folder.fields import Fields, unreadable
from tcpx.emit_c.printer.reserved import is_reserved
from tcpx.emit_c.signature import CLOCK_KINDS, STATEMENT, Argument, Clock, ConstantSlot, KernelSignature, Number
from tcpx.payload.diagnostics import Diagnostic, Direction, Kind, Location, ParseError
from tcpx.payload.sizes import Dim, Symbol, to_text
from tcpx.payload.text.size_text import parse_size
from tcpx.payload.types import SCALARS
from tcpx.payload.value_ranges import ORDERS, Declared
from tcpx.records import frozen
from tcpx.target import digest_of

FORMAT: Final = 1
"""The version of the layout: a folder of another one is refused."""
DIGEST: Final = "digest"
_PLACES: Final = ("line", "column", "end_line", "end_column")


@frozen
class Manifest:
    """A kernel without its C and its constants. `target` and `features` are what `load_target` takes, `numbers` those
    of the machine where the target was `native`; `targets` has the files that are for another target, by name;
    `digests` the SHA-256 of every other file of the folder."""

    signature: KernelSignature
    target: str
    features: tuple[str, ...]
    files: tuple[str, ...]
    """The C files, that of the kernel first."""
    targets: Mapping[str, str] = field(default_factory=dict[str, str])
    link: tuple[str, ...] = ()
    remarks: tuple[Diagnostic, ...] = ()
    tuned: str = ""
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    numbers: str = ""

    def text(self) -> str:
        """As JSON."""
        entries = {
            "format": FORMAT,
            **_of_signature(self.signature),
            "target": self.target,
            "features": self.features,
            **({"machine": digest_of(self.numbers), "machine_numbers": self.numbers} if self.numbers else {}),
            "files": self.files,
            "targets": dict(self.targets),
            "link": self.link,
            "remarks": [_of_diagnostic(remark) for remark in self.remarks],
            "tuned": self.tuned,
            "digests": dict(self.digests),
        }
        return json.dumps({**entries, DIGEST: _digest(entries)}, indent=1) + "\n"


def read_manifest(text: str, where: str) -> Manifest:
    """What a text says. Raises ArgumentError, which names the entry."""
    held = Fields.of_text(text, where)
    if held.number("format") != FORMAT:
        fix = "save the kernel again with this version"
        raise unreadable(where, f"a folder of format {FORMAT}", f"format {held.number('format')}", fix)
    targets, digests = held.fields("targets"), held.fields("digests")
    found = Manifest(
        _signature(held, where),
        held.text("target"),
        held.texts("features"),
        held.texts("files"),
        {name: targets.text(name) for name in targets.names},
        held.texts("link"),
        tuple(_diagnostic(remark) for remark in held.each("remarks")),
        held.text("tuned"),
        {name: digests.text(name) for name in digests.names},
        held.text("machine_numbers") if "machine_numbers" in held else "",
    )
    if held.text(DIGEST) != _digest({name: entry for name, entry in json.loads(text).items() if name != DIGEST}):
        raise unreadable(where, "the file as it was written", "another digest", "save the kernel again")
    return found


def _digest(entries: Mapping[str, object]) -> str:
    """Of the manifest itself: a signature that is not that of the C crashes."""
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()


def _of_signature(signature: KernelSignature) -> dict[str, object]:
    return {
        "name": signature.name,
        "c_name": signature.c_name,
        "threads": signature.threads,
        "symbols": [_of_symbol(symbol) for symbol in signature.symbols],
        "inputs": [_of_argument(argument) for argument in signature.inputs],
        "outputs": [_of_argument(argument) for argument in signature.outputs],
        "numbers": [{"name": n.name, "position": n.position, "symbol": n.symbol.name} for n in signature.numbers],
        "workspace_bytes": to_text(signature.workspace_bytes),
        "live_bytes": to_text(signature.live_bytes),
        "wide_sizes": [to_text(size) for size in signature.wide_sizes],
        "constants": [asdict(slot) for slot in signature.constants],
        "assertions": [_of_diagnostic(assertion) for assertion in signature.assertions],
        "functions": signature.functions,
        "clones": signature.clones,
        "clocks": [asdict(clock) for clock in signature.clocks],
        "times_name": signature.times_name,
        **({"numerics": signature.numerics} if signature.numerics else {}),
        **({"layouts": signature.layouts} if signature.layouts else {}),
    }


def _of_symbol(symbol: Symbol) -> dict[str, object]:
    upper = {} if symbol.upper is None else {"upper": symbol.upper}
    return {"name": symbol.name, "lower": symbol.lower, **upper, "multiple_of": symbol.multiple_of}


def _of_argument(argument: Argument) -> dict[str, object]:
    made: dict[str, object] = {
        "name": argument.name,
        "dtype": argument.dtype.name,
        "shape": [to_text(dim) for dim in argument.shape],
    }
    if argument.strides:
        made["strides"] = [symbol.name for symbol in argument.strides]
    if argument.range is not None:
        first, end, order = argument.range
        made["range"] = {"first": to_text(first), "end": to_text(end), "order": order}
    return made if argument.state is None else {**made, "state": argument.state}


def _of_diagnostic(diagnostic: Diagnostic) -> dict[str, object]:
    texts = {name: getattr(diagnostic, name) for name in ("message", "required", "found", "fix")}
    places = {name: getattr(diagnostic, name) for name in ("schedule", "payload")}
    return {
        **{name: text for name, text in texts.items() if text is not None},
        "kind": diagnostic.kind.name,
        **{name: asdict(place) for name, place in places.items() if place is not None},
        **({"hint": diagnostic.fix} if isinstance(diagnostic.fix, Direction) else {}),
        **({"cause": diagnostic.cause, "thousandths": round(1000 * diagnostic.factor)} if diagnostic.cause else {}),
        **(dict(zip(("function", "nest"), diagnostic.statement, strict=True)) if any(diagnostic.statement) else {}),
        "notes": diagnostic.notes,
        "calls": [{"name": name, "place": asdict(place)} for name, place in diagnostic.calls],
    }


def _signature(held: Fields, where: str) -> KernelSignature:
    symbols = {symbol.name: symbol for symbol in map(_symbol, held.each("symbols"))}

    def size(text: str) -> Dim:
        try:
            return parse_size(text, symbols, where)
        except ParseError as error:
            raise unreadable(where, "sizes over the symbols of the kernel", f"`{text}`") from error

    def argument(entry: Fields) -> Argument:
        dtype = SCALARS.get(entry.text("dtype"))
        if dtype is None:
            raise unreadable(where, f"one of the dtypes {', '.join(SCALARS)}", entry.text("dtype"))
        span: Declared | None = None
        if "range" in entry:
            range_ = entry.fields("range")
            order = tuple(word for word in range_.texts("order") if word in ORDERS)
            span = Declared(size(range_.text("first")), size(range_.text("end")), order)
        strides = tuple(map(Symbol, entry.texts("strides"))) if "strides" in entry else ()
        state = entry.number("state") if "state" in entry else None
        return Argument(entry.text("name"), dtype, tuple(map(size, entry.texts("shape"))), strides, span, state)

    def number(entry: Fields) -> Number:
        symbol = symbols.get(entry.text("symbol"))
        if symbol is None:
            raise unreadable(where, f"one of the symbols {', '.join(symbols)}", entry.text("symbol"))
        return Number(entry.text("name"), entry.number("position"), symbol)

    return KernelSignature(
        name=held.text("name"),
        c_name=_identifier(held, "c_name", where),
        inputs=tuple(map(argument, held.each("inputs"))),
        outputs=tuple(map(argument, held.each("outputs"))),
        symbols=tuple(symbols.values()),
        threads=held.number("threads"),
        workspace_bytes=size(held.text("workspace_bytes")),
        live_bytes=size(held.text("live_bytes")),
        constants=tuple(
            ConstantSlot(slot.text("name"), slot.number("offset"), slot.number("bytes"))
            for slot in held.each("constants")
        ),
        wide_sizes=tuple(map(size, held.texts("wide_sizes"))),
        assertions=tuple(map(_diagnostic, held.each("assertions"))),
        numbers=tuple(map(number, held.each("numbers"))),
        functions=held.number("functions"),
        clones=held.number("clones"),
        clocks=tuple(_clock(clock, where) for clock in held.each("clocks")),
        times_name=_identifier(held, "times_name", where) if held.text("times_name") else "",
        numerics=held.texts("numerics") if "numerics" in held else (),
        layouts=held.texts("layouts") if "layouts" in held else (),
    )


def _clock(held: Fields, where: str) -> Clock:
    """Folders of earlier versions have statements alone, without the functions inside."""
    kind = held.text("kind") if "kind" in held else STATEMENT
    if kind not in CLOCK_KINDS:
        raise unreadable(f"{where}, `clocks`", f"one of the kinds {', '.join(CLOCK_KINDS)}", kind)
    inside = held.texts("inside") if "inside" in held else ()
    return Clock(held.text("function"), held.text("operation"), held.text("callee"), kind, inside)


def _identifier(held: Fields, key: str, where: str) -> str:
    """A name of C, which files of the folder may have, too."""
    name = held.text(key)
    if re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) is None or is_reserved(name):
        raise unreadable(f"{where}, `{key}`", "a name that C may give a function", name)
    return name


def _symbol(entry: Fields) -> Symbol:
    upper = entry.number("upper") if "upper" in entry else None
    return Symbol(entry.text("name"), entry.number("lower"), upper, entry.number("multiple_of"))


def _diagnostic(entry: Fields) -> Diagnostic:
    kinds = Kind.__members__
    if entry.text("kind") not in kinds:
        raise unreadable("a remark", f"one of {', '.join(kinds)}", entry.text("kind"))
    texts = {name: entry.text(name) if name in entry else None for name in ("required", "found", "fix")}
    places = {name: _location(entry.fields(name)) if name in entry else None for name in ("schedule", "payload")}
    calls = tuple((call.text("name"), _location(call.fields("place"))) for call in entry.each("calls"))
    fix = Direction(entry.text("hint")) if "hint" in entry else texts["fix"]
    cause = entry.text("cause") if "cause" in entry else ""
    factor = entry.number("thousandths") / 1000 if cause else 0.0
    return Diagnostic(
        entry.text("message"),
        kinds[entry.text("kind")],
        places["schedule"],
        places["payload"],
        texts["required"],
        texts["found"],
        entry.texts("notes"),
        fix,
        calls,
        cause,
        factor,
        (entry.text("function"), entry.text("nest")) if "nest" in entry else ("", ""),
    )


def _location(entry: Fields) -> Location:
    line, column, end_line, end_column = (entry.number(name) for name in _PLACES)
    return Location(entry.text("file"), line, column, end_line, end_column, entry.text("text"))
