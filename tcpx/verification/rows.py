"""Does the C of a row do what its semantics say."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tcpx.api import compile, parse_schedule
from tcpx.emit_c.driver import build_library
from tcpx.payload.diagnostics import Diagnostic, Kind, TcpxError
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Module, Operation, Value
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.strided import STRIDED, strided_positions
from tcpx.payload.text.parser import parse
from tcpx.payload.types import TensorType, dtype_of, shape_of
from tcpx.target import InstructionRow, KernelRow, Target
from tcpx.target.kernels import OUT
from tcpx.transform import new
from tcpx.transform.editing import builder_at
from tcpx.verification.numbers import cases_of, compare
from tcpx.verification.sizes import adversarial_sizes
from tcpx.verification.vector_rows.process import wrong_rows
from tcpx.verification.vector_rows.source import c_source

MARGIN = 5
"""Elements between the rows of an array that is strided."""


def verify_rows(target: Target, *, sanitize: bool = True, seed: int = 0) -> tuple[Diagnostic, ...]:
    """Run the C of each row of a target, and compare it with its semantics; the result has an error for each wrong row.

    A row whose semantics is an operation is compared with the evaluator: at the ends of the ranges of its sizes and
    between, on random numbers, infinities and NaN, with gaps between rows that may have them. Under the sanitizers, the
    default, what its C reads and writes elsewhere is an error as well. A row of vectors is run on special values,
    random bits and moderate numbers, and for every number of lanes on memory that ends at a page without access; not
    those that a table has from its base or from another table of the package. Raises CompileError, and TargetError
    where this CPU cannot run code for the target.
    """
    target.require_cpu()
    found = (_verify_row(row, target, sanitize, seed) for row in target.kernels.values())
    of_operations = tuple(diagnostic for diagnostic in found if diagnostic is not None)
    return of_operations + tuple(_verify_vector_rows(target.own_rows, target))


def _verify_vector_rows(rows: Sequence[InstructionRow], target: Target) -> Iterator[Diagnostic]:
    if not rows:
        return
    library = build_library(c_source(target, rows), target, 1, "rows")
    wrong = wrong_rows(library, rows, dict(target.tolerances))
    for row in rows:
        if row.name in wrong:
            yield Diagnostic(
                f"the C of the row {row.name} does not do what its semantics say",
                required=f"{row.semantics or row.kind}: {row.signature}",
                found=wrong[row.name],
            )


def _verify_row(row: KernelRow, target: Target, sanitize: bool, seed: int) -> Diagnostic | None:
    module, op = _payload(row)
    schedule = f'language 2\nschedule s(root: func) {{ lower_to(match one "{op.name}" in root, {row.name}) }}'
    kernel = compile(module, parse_schedule(schedule), target=target, sanitize=sanitize)
    strided = strided_positions(module.main)
    ends = {symbol: (symbol.upper, symbol.upper - 1) for symbol in module.main.symbols if symbol.upper is not None}
    for case in cases_of(module, adversarial_sizes(module.main, ends), seed, drawn=True):
        try:
            result = _apart(np.zeros_like(case.expected[0])) if len(module.main.args) in strided else None
            made = kernel(*map(_apart, case.arrays), out=result)
        except TcpxError as error:
            message = f"the row {row.name}, at {case}: {error.diagnostic.message}"
            return replace(error.diagnostic, message=message, kind=Kind.DEFINITE)
        mismatch = compare(case, made if isinstance(made, tuple) else (made,))
        if mismatch is not None:
            return Diagnostic(
                f"the C of the row {row.name} does not do what its semantics say",
                required=" ".join(op.text().split()),
                found=str(mismatch),
            )
    return None


def _payload(row: KernelRow) -> tuple[Module, Operation]:
    """The semantics as a payload, and its operation; what has to be aligned is copied to memory of the kernel. A result
    lies like what it is written over."""
    module = parse(row.semantics)
    func = module.main
    module.remove(func)
    func.name = "semantics"
    module.add(func)
    count, positions = len(func.args), strided_positions(func)
    if row.in_place is not None:
        positions = tuple(k for k in positions if k < count)
        positions += (count,) if row.in_place in [func.args[k].name for k in positions] else ()
        func.attributes[STRIDED] = positions
    rewriter, (op, end) = Rewriter(module), func.body.ops

    def copied(value: Value, before: Operation) -> Value:
        """The sums over a dim of one element: not computed in place of what is summed."""
        build = builder_at(rewriter, before, value.name)
        wide = TensorType((1, *shape_of(value.type)), dtype_of(value.type))
        return build(new.reduce_sum(build(new.broadcast(value, range(1, len(wide.shape)), wide)), value.type, (0,)))

    for index, value in enumerate(list(op.operands)):
        if row.alignment.get(value.name, 0) > 1:
            rewriter.set_operand(op, index, copied(value, op))
    if row.alignment.get(row.in_place or OUT, 0) > 1:
        rewriter.set_operand(end, 0, copied(op.result, end))
    return module, op


def _apart(array: Array) -> Array:
    """The same array with gaps between its rows."""
    if array.ndim < 2:
        return array
    wide = np.zeros((*array.shape[:-1], array.shape[-1] + MARGIN), array.dtype)
    wide[..., : array.shape[-1]] = array
    return wide[..., : array.shape[-1]]
