"""The table of operations and what can be done with them: every operation of a payload, by its declaration.

A cell is filled, or `op_table.txt` gives the reason why it is empty. A new operation is in the table by itself; what
has no iterations, a constant and an index, is no row of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.api import CompileRequest, lowered
from tcpx.payload.diagnostics import Kind, TcpxError
from tcpx.payload.interfaces import IteratorKind, Tileable
from tcpx.payload.ir import Module, Operation, parent_op
from tcpx.payload.ops.composite import Composite
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.vector import Insert, Write
from tcpx.payload.text.parser import parse
from tcpx.payload.types import ScalarType, VectorType, shape_of
from tcpx.target import load_target
from tests.guard_pages import run_guarded
from tests.nets.cases import Trial, check_module, compare, trials_of
from tests.nets.payloads import WITHOUT_VALUE, RandomPayload
from tests.nets.session import schedule_text
from tests.nets.structures import class_of, payload_classes, uses_of

REASONS = Path(__file__).with_name("op_table.txt")
SAMPLES = 200
"""Payloads drawn for an operation; a cell is filled if one of them fills it."""
SAMPLES_OF_DTYPES = 400
"""The same of one choice of dtypes."""
SAMPLES_IN_VECTORS = 12
"""Of these, how many are lowered for each target to see whether they are computed in vectors."""
WIDE_TARGETS = ("x86_avx2", "x86_avx512")
MOST_EMPTY = 2
"""Cells of an operation that may be empty."""
MOST_OF_COLUMN = 0.08
"""The part of a column that may be empty."""
NEIGHBOUR = ("tcp.add", "tcp.cast", "tcp.max", "tcp.exp", "tcp.transpose")


Dtypes = tuple[ScalarType, ...]
"""Of operands and results; none for any."""


class EmptyCellError(Exception):
    """The operation cannot be used so, in this payload."""


def reasons() -> Mapping[tuple[str, str], str]:
    """The reasons of empty cells."""
    lines = [line for line in REASONS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    parts = [line.partition(": ") for line in lines]
    return {(cell.split(" ", 1)[0], cell.split(" ", 1)[1]): reason for cell, _, reason in parts}


def dims(op: Operation, symbolic: bool = False) -> list[str]:
    """The parallel dims of an operation, all of them where there are none; or those of these that are symbolic."""
    if not isinstance(op, Tileable):
        raise EmptyCellError("it has no dims")
    its = [*zip(op.iterators(), op.domain(), strict=True)]
    among = [pair for pair in its if pair[0].kind is IteratorKind.PARALLEL] or its
    found = [it.name for it, extent in among if not (symbolic and isinstance(extent, int))]
    if not found:
        raise EmptyCellError("it has no such dim")
    return found


def _match(op: Operation, name: str = "x") -> str:
    return f'let {name} = match one "{op.name}" in root'


def tile_odd(op: Operation) -> list[str]:
    """Tiles of 3, by which no extent is divisible at all sizes."""
    return [_match(op), f"let i = tile(x, [{dims(op)[0]}: 3])"]


def symbolic(op: Operation) -> list[str]:
    """A symbolic dim in two levels."""
    dim = dims(op, symbolic=True)[0]
    return [_match(op), f"let i = tile(x, [{dim}: 5])", f"let j = tile(x, [{dim}: 2], tail: peel)"]


def fuse_as_producer(op: Operation) -> list[str]:
    """Into the loop of an operation that reads it."""
    readers = [u for value in op.results for u in value.users if isinstance(u, Tileable) and not u.is_terminator]
    if not readers:
        raise EmptyCellError("nothing with dims reads it")
    return [_match(op), _match(readers[0], "y"), f"let i = tile(y, [{dims(readers[0])[0]}: 3])", "fuse(x, into: i)"]


def fuse_as_consumer(op: Operation) -> list[str]:
    """Into the loop of an operation that it reads."""
    made = [v.defining_op for v in op.operands]
    producers = [p for p in made if isinstance(p, Tileable)]
    if not producers:
        raise EmptyCellError("it reads nothing with dims")
    first = producers[0]
    return [_match(op), _match(first, "y"), f"let i = tile(y, [{dims(first)[0]}: 3])", "fuse(x, into: i)"]


def vectorize(op: Operation) -> list[str]:
    """On full tiles of every parallel dim, and of every symbolic one; of a composite, the last of its parts."""
    if not isinstance(op, Tileable):
        raise EmptyCellError("it has no dims")
    if isinstance(op, Composite):
        made = [f"d{k}" for k in range(len(shape_of(op.result.type)))]
        sizes, loops = ", ".join(f"{d}: 4" for d in made), ", ".join(f"i{k}x" for k in range(len(made)))
        if not made:
            raise EmptyCellError("its result has no dim")
        return [_match(op), "let y = decompose(x)", f"let {loops} = tile(y, [{sizes}], tail: pad)", "vectorize(i0x)"]
    wanted = [
        it.name
        for it, extent in zip(op.iterators(), op.domain(), strict=True)
        if it.kind is IteratorKind.PARALLEL or not isinstance(extent, int)
    ]
    if not wanted:
        raise EmptyCellError("it has no such dim")
    order = sorted(wanted, key=lambda d: op.iterator(d).is_reduction)
    loops = [f"i{k}x" for k in range(len(order))]
    sizes = ", ".join(f"{d}: 4" for d in order)
    return [_match(op), f"let {', '.join(loops)} = tile(x, [{sizes}], tail: pad)", f"vectorize({loops[0]})"]


COLUMNS: Mapping[str, Callable[[Operation], list[str]] | None] = {
    "evaluate": None,
    "default schedule": None,
    "tile odd": tile_odd,
    "fuse as producer": fuse_as_producer,
    "fuse as consumer": fuse_as_consumer,
    "vectorize": vectorize,
    "symbolic": symbolic,
    "2 threads": None,
}
LONG = ("vectorize", "2 threads")
"""The columns of a test of their own, which is long."""
OPCODES = sorted(
    opcode for opcode, kind in payload_classes().items() if opcode not in WITHOUT_VALUE and issubclass(kind, Tileable)
)


@lru_cache(SAMPLES)
def sample(opcode: str, seed: int, dtypes: Dtypes = ()) -> tuple[Module, list[Trial]] | None:
    """A payload that has the operation, with others before and behind it; None if the seed gives none."""
    made = RandomPayload(seed, most=6, opcodes=(opcode, opcode, *NEIGHBOUR), dtypes=dtypes).make()
    module = parse(made.text(), constants=made.constants)  # with places that errors show
    if not any(op.opcode == opcode for op in module.main.body.ops):
        return None
    trials = trials_of(module, seed)
    return (module, trials) if len(trials) >= 2 else None


def samples(opcode: str, dtypes: Dtypes = ()) -> Iterator[tuple[Module, list[Trial]]]:
    """The payloads of an operation, of some dtypes or of any."""
    for seed in range(SAMPLES_OF_DTYPES if dtypes else SAMPLES):
        made = sample(opcode, seed, dtypes)
        if made is not None:
            yield made


def fill(column: str, opcode: str, module: Module, trials: list[Trial], in_lanes: bool = True) -> None:
    """Do it, and check the numbers, and that all is computed in lanes. Raises EmptyCellError or a TcpxError where it
    cannot be done."""
    match column:
        case "evaluate":
            check_module(module, trials)
        case "default schedule" | "2 threads":
            kernel = tcpx.compile(module, target="generic", threads=2 if column == "2 threads" else 1, name="cell")
            for trial in trials[:2]:
                compare(run_guarded(kernel, *trial.arguments), trial)
        case _:
            op, statements = _statements(column, opcode, module)
            text = schedule_text(statements)
            run = tcpx.apply_schedule(module, tcpx.parse_schedule(text), target=load_target("x86_avx512"))
            check_module(run.module, trials)
            if column == "vectorize" and in_lanes:
                check_lanes(op, module, text)


def check_lanes(op: Operation, module: Module, schedule: str) -> None:
    """What an operation becomes has no single lanes: none is put into a vector, and no loop has only scalars to write.
    A composite is lowered by the default schedule: its parts are no loop of its own. Raises EmptyCellError."""
    program = None if isinstance(op, Composite) else tcpx.parse_schedule(schedule)
    for target in WIDE_TARGETS:
        made = lowered(CompileRequest(module, program), load_target(target), threads=1).module
        parts = [inner for inner in made.walk() if inner.location == op.location]
        alone = [part for part in parts if isinstance(part, Write) and isinstance(part.value.type, ScalarType)]
        loops = [parent_op(part) for part in alone]
        if any(isinstance(part, Insert) for part in parts) or any(isinstance(x, Loop) and _is_scalar(x) for x in loops):
            raise EmptyCellError(f"lanes of {op.results[0].type} are computed one by one for {target}")


def _is_scalar(loop: Loop) -> bool:
    """Whether a loop has no vectors, in it or in loops in it."""
    return not any(isinstance(value.type, VectorType) for op in loop.walk() for value in op.results)


def _statements(column: str, opcode: str, module: Module) -> tuple[Operation, list[str]]:
    """The schedule of a cell, for the first of the operations that has what the column needs."""
    statements = COLUMNS[column]
    missing = EmptyCellError("no payload has the operation")
    for op in module.main.body.ops:
        if statements is not None and op.opcode == opcode:
            try:
                return op, statements(op)
            except EmptyCellError as error:
                missing = error
    raise missing


def fills(column: str, opcode: str, dtypes: Dtypes = ()) -> str | None:
    """None if one of the payloads fills the cell; else why the last one does not. Of some dtypes, None also if none of
    these could."""
    reason = "" if dtypes else "no payload has the operation"
    most = SAMPLES_IN_VECTORS if column == "vectorize" and not dtypes else None
    for module, trials in islice(samples(opcode, dtypes), most):
        try:
            fill(column, opcode, module, trials, in_lanes=not dtypes)
        except EmptyCellError as error:
            reason = reason if dtypes else str(error)
        except TcpxError as error:
            if error.diagnostic.kind is Kind.INTERNAL:
                raise
            reason = error.diagnostic.message
        else:
            return None
    return reason or None


def check_cell(opcode: str, column: str) -> None:
    """A cell is filled, or it has a reason that is not stale."""
    empty, reason = fills(column, opcode), reasons().get((opcode, column))
    assert empty is None or reason, f"{opcode}, {column}: {empty}; fill it, or write the reason into {REASONS.name}"
    assert empty is not None or not reason, f"{opcode}, {column} is filled: its line in {REASONS.name} is stale"


@pytest.mark.parametrize("opcode", OPCODES)
def test_row(opcode: str) -> None:
    """The other cells of one operation."""
    for column in COLUMNS:
        if column not in LONG:
            check_cell(opcode, column)


@pytest.mark.parametrize("opcode", OPCODES)
@pytest.mark.parametrize("column", LONG)
def test_cell(column: str, opcode: str) -> None:
    """A cell that takes longer: lowered for two targets, or compiled once more."""
    check_cell(opcode, column)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("opcode", OPCODES)
def test_every_dtype(opcode: str) -> None:
    """Each cell of an operation is right in all dtypes that it declares; not each has an instruction for all lanes."""
    known = reasons()
    for dtypes in uses_of(class_of(opcode))[1]:
        for column in COLUMNS:
            empty = fills(column, opcode, dtypes)
            shown = " ".join(map(str, dtypes))
            assert empty is None or (opcode, column) in known, f"{opcode} of {shown}, {column}: {empty}"


def test_few_cells_are_empty() -> None:
    """Of each operation and of each column."""
    cells = list(reasons())
    assert {o: n for o, n in Counter(opcode for opcode, _ in cells).items() if n > MOST_EMPTY} == {}
    most = MOST_OF_COLUMN * len(OPCODES)
    assert {c: n for c, n in Counter(column for _, column in cells).items() if n > most} == {}


def test_reasons_are_of_cells() -> None:
    """No reason is given for an operation or a column that does not exist."""
    stray = [cell for cell in reasons() if cell[0] not in OPCODES or cell[1] not in COLUMNS]
    assert not stray


def test_numbers_are_drawn() -> None:
    """The generator knows how to use every operation, and draws numbers that tell a wrong result."""
    for opcode in OPCODES:
        if opcode not in {cell[0] for cell in reasons() if cell[1] == "evaluate"}:
            module, trials = next(samples(opcode))
            assert any(np.size(e.value) for t in trials for e in t.expected), module.text()
