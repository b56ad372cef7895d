"""Rows whose semantics is an operation on tensors: micro-kernels in C, instructions on tiles."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from glob import glob
from pathlib import Path

from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import ROW, FuncOp
from tcpx.payload.ops.call import ALIGNMENT, CONTRACT, CONTRACTS, IN_PLACE, NONEMPTY, SCRATCH, place_of_result
from tcpx.payload.strided import strided_positions
from tcpx.payload.text.parser import parse
from tcpx.payload.types import TensorType, shape_of
from tcpx.records import frozen
from tcpx.target.rows import PLACEHOLDER
from tcpx.target.table import Node

_KEYS = ("semantics", "c", "in_place", "alignment", "scratch", "set_up", "tear_down", "requires", "link", "contract")


@frozen
class KernelRow:
    """A micro-kernel, or an instruction on tiles: a C statement that does what an operation on tensors does.

    `semantics` is the text of a function of one structured operation and `tcp.return`. Its symbols are sizes that the C
    is given. `in_place` is the argument in whose memory the result is written; any other result overlaps no
    argument, and is written whole. `alignment` has the bytes that first elements are aligned to, by placeholder;
    `scratch` bytes are memory for the C to work in. `set_up` and `tear_down` are statements that each thread runs
    before its first and after its last call in a loop nest. `link` are words for the linker: libraries by their paths,
    and flags. `contract` are words of `CONTRACTS`, what a function of a library takes less than any C would.

    Placeholders of `c`, each an argument in C: `{a}`, the address of the first element of argument or result `out`;
    `{a_stride0}`, ..: the distances, in elements, of all dims but the innermost of what is `strided`, anything else has
    no gaps; `{K}`, the size of a symbol; `{scratch}`.
    """

    name: str
    semantics: str
    c: str
    in_place: str | None = None
    alignment: Mapping[str, int] = field(default_factory=dict[str, int])
    scratch: int = 0
    set_up: str = ""
    tear_down: str = ""
    requires: str | None = None
    link: tuple[str, ...] = ()
    contract: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    text: str = ""
    """`function` as payload text."""

    def function(self) -> FuncOp:
        """The semantics as a function of its own, with what calls have to know. Raises ParseError, VerifyError."""
        module = parse(self.semantics, f"the row {self.name}")
        func = module.main
        module.remove(func)
        names = [value.name for value in func.args]
        func.attributes[ROW] = self.name
        if self.in_place is not None:
            func.attributes[IN_PLACE] = names.index(self.in_place)
        if self.alignment:
            func.attributes[ALIGNMENT] = tuple(self.alignment.get(name, 0) for name in (*names, OUT))
        if self.scratch:
            func.attributes[SCRATCH] = self.scratch
        if self.contract:
            func.attributes[CONTRACT] = self.contract
        return func


OUT, SCRATCH_PLACE = "out", "scratch"


def places_of(func: FuncOp) -> list[str]:
    """The placeholders of the addresses that a row takes: arguments, a result with memory of its own, scratch."""
    names = [value.name for value in func.args]
    own = [OUT] if place_of_result(func) is None else []
    return [*names, *own, *([SCRATCH_PLACE] if SCRATCH in func.attributes else [])]


def placeholders_of(func: FuncOp) -> list[str]:
    """All placeholders of the template of a row with these semantics."""
    values = [*func.args, *func.returned]
    names = [*(value.name for value in func.args), OUT]
    strided = [k for k in strided_positions(func) if k < len(func.args) or place_of_result(func) is None]
    strides = [f"{names[k]}_stride{dim}" for k in strided for dim in range(len(shape_of(values[k].type)) - 1)]
    return [*places_of(func), *strides, *(symbol.name for symbol in func.symbols)]


def read_kernel(node: Node, helpers_of: Callable[[str], tuple[str, ...]], folder: Path) -> KernelRow:
    """The row that an entry of a table in a folder describes. Raises TargetError."""
    fields = node.fields(_KEYS)
    if "semantics" not in fields or "c" not in fields:
        raise node.fail("a row with at least the keys semantics and c", found=", ".join(fields) or "no keys")
    texts = {key: fields[key].text() for key in ("c", "in_place", "set_up", "tear_down", "requires") if key in fields}
    code = "\n".join(texts.get(key, "") for key in ("c", "set_up", "tear_down"))
    aligned = fields["alignment"].fields() if "alignment" in fields else {}
    semantics = fields["semantics"].text()
    try:
        func = KernelRow("", semantics, "").function()
    except TcpxError as error:
        known = error.diagnostic
        shown = f"{known.message}{f': {known.found}' if known.found else ''}"
        raise fields["semantics"].fail("a function as payload text", found=shown, fix=known.fix) from error
    _check_semantics(func, fields["semantics"])
    if texts.get("in_place") not in (None, *(v.name for v in func.args if v.type == func.returned[0].type)):
        raise fields["in_place"].fail(f"an argument of the type of the result, {func.returned[0].type}")
    row = KernelRow(
        func.name,
        semantics,
        texts["c"],
        texts.get("in_place"),
        {key: entry.number() for key, entry in aligned.items()},
        fields["scratch"].number() if "scratch" in fields else 0,
        texts.get("set_up", ""),
        texts.get("tear_down", ""),
        texts.get("requires"),
        tuple(_linked(word, folder) for word in fields["link"].items()) if "link" in fields else (),
        fields["contract"].texts() if "contract" in fields else (),
        helpers_of(code),
    )
    for word in row.contract:
        if word not in CONTRACTS:
            raise fields["contract"].fail(f"words among {', '.join(CONTRACTS)}", found=word)
    if NONEMPTY in row.contract and row.in_place is None:
        raise fields["contract"].fail(f"{NONEMPTY} for a row that adds to its result, {IN_PLACE}", found="another row")
    func = row.function()
    for key, value in row.alignment.items():
        if key not in places_of(func) or value not in (1, 2, 4, 8, 16, 32, 64):
            required = f"1, 2, 4 .. 64 bytes for one of {', '.join(places_of(func))}"
            raise aligned[key].fail(required, found=f"{key}: {value}")
    wanted = placeholders_of(func)
    if set(PLACEHOLDER.findall(row.c)) != set(wanted):
        raise fields["c"].fail(f"the placeholders {', '.join(f'{{{name}}}' for name in wanted)} in the template")
    return replace(row, text=func.text())


def _linked(word: Node, folder: Path) -> str:
    """A flag as it is; a library by its absolute path: one beside the table, or where Python finds packages."""
    text = word.text()
    if text.startswith("-"):
        return text
    found = [path for at in (folder, *sys.path) for path in sorted(glob(str(Path(at).absolute() / text)))]
    if not found or not text:
        raise word.fail("a flag of the linker, or the path of a library, with `*` for any text", found=f"no {text}")
    return found[0]


def _check_semantics(func: FuncOp, node: Node) -> None:
    """The semantics is one structured operation with one result, of all arguments, each once."""
    op = func.body.ops[0]
    is_one = len(func.body.ops) == 2 and isinstance(op, Structured) and func.returned == op.results
    if not is_one or len(op.results) != 1 or sorted(map(id, op.operands)) != sorted(map(id, func.args)):
        found = ", ".join(f"{inner.opcode}({', '.join(v.name for v in inner.operands)})" for inner in func.body.ops)
        raise node.fail("one structured operation on all arguments, each once, and its result returned", found=found)
    for value in (*func.args, *op.results):
        if not isinstance(value.type, TensorType):
            raise node.fail("arguments that are tensors", found=repr(value))
    taken = {"out", "scratch"} & {value.name for value in func.args}
    if taken:
        raise node.fail("arguments with other names than the placeholders out and scratch", found=", ".join(taken))
