"""Operations that are written by their parts become what they are."""

from __future__ import annotations

import ast
from functools import cache
from math import inf, nan
from typing import Final

from tcpx.payload.ir import Attribute, Operation, Value, operation_classes
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.types import TensorType, dtype_of
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.absorption import absorb
from tcpx.transform.editing import erase_dead, first_change, replace_with, source_name
from tcpx.transform.formulas import EPSILON, Formula, Found, calls, formula, functions_of, matches

ALIKE: Final = (
    ("exp(x - max(x)) / sum(exp(x - max(x)))", "softmax(dim=dim)"),
    ("x - max(x) - log(sum(exp(x - max(x))))", "log_softmax(dim=dim)"),
    ("(x - mean(x)) / sqrt(mean((x - mean(x))**2) + e)", "layer_norm(dims=dims, epsilon=e)"),
    ("x / sqrt(mean(x**2) + e)", "rms_norm(dims=dims, epsilon=e)"),
    ("1 / (1 + exp(-x))", "sigmoid()"),
)
"""Formulas with what they compute, for NaN and infinities too."""
UNDEFINED_AT_MINUS_INFINITY: Final = (
    ("x * (1 + erf(x / sqrt(2))) / 2", "gelu()"),
    ("x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2", 'gelu(approximate="tanh")'),
    ("x * sigmoid(x)", "silu()"),
    ("x / (1 + exp(-x))", "silu()"),
)
"""The same, but that the formula is an infinity times 0 at -inf: NaN, where the operation has a limit."""


@frozen
class Line:
    """One line of the tables."""

    formula: Formula
    opcode: str
    attributes: tuple[tuple[str, str], ...]
    """By name: a number, a text, or the letter that stands for it."""
    is_undefined: bool
    """Whether the formula gives NaN at -inf."""

    def made(self, found: Found) -> Operation:
        """The operation that the formula is."""
        dims = found.dims or ()
        known: dict[str, Attribute] = {"dims": dims, "dim": dims[0] if len(dims) == 1 else dims, "e": found.number}
        attributes = {name: known.get(word, word) for name, word in self.attributes}
        x = found.letters["x"]
        return operation_classes()[self.opcode]([x], [x.type], attributes)


@cache
def lines() -> tuple[Line, ...]:
    """The tables."""
    found: list[Line] = []
    for table in (ALIKE, UNDEFINED_AT_MINUS_INFINITY):
        for text, wanted in table:
            call = ast.parse(wanted, mode="eval").body
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                raise ValueError(f"no operation: {wanted}")
            words = {
                str(k.arg): k.value.id if isinstance(k.value, ast.Name) else str(ast.literal_eval(k.value))
                for k in call.keywords
            }
            opcode = f"tcp.{call.func.id}"
            found.append(Line(formula(text), opcode, tuple(words.items()), table is UNDEFINED_AT_MINUS_INFINITY))
    return tuple(found)


def recognize(rewriter: Rewriter, root: Operation) -> None:
    """Replace operations under `root` that are the last part of one of the tables."""
    present = {name for op in root.walk() for name in functions_of(op.opcode)}
    present |= {name for line in lines() if calls(line.formula) <= present for name in functions_of(line.opcode)}
    possible = [line for line in lines() if calls(line.formula) <= present]
    for op in list(root.walk()) if possible else []:
        if op.parent is None or not _is_candidate(op):
            continue
        for line in possible:
            found = next((found for found in matches(line.formula, op.results[0]) if _is_whole(op, found)), None)
            if found is not None:
                _replace(rewriter, op, line, found)
                break
    absorb(rewriter, root)


def _is_candidate(op: Operation) -> bool:
    """Whether an operation gives a tensor of floats that are not rounded in its parts."""
    if len(op.results) != 1 or not isinstance(op.results[0].type, TensorType):
        return False
    return dtype_of(op.results[0].type) in EPSILON


def _is_whole(op: Operation, found: Found) -> bool:
    """Whether nothing else uses the parts, and what they read is the same where the last one stands."""
    inside, here = found.parts | {op}, InsertPoint.before(op)
    parts = [part for part in found.parts if part is not op]
    is_here = all(part.parent is op.parent and first_change(part, here) is None for part in parts)
    used = all(user in inside for part in parts for result in part.results for user in result.users)
    return is_here and used and found.number >= 0


def _replace(rewriter: Rewriter, op: Operation, line: Line, found: Found) -> None:
    made, type_ = line.made(found), op.results[0].type
    made.stand_for(op)
    old = list(op.operands)
    if line.is_undefined:
        x = found.letters["x"]

        def put(part: Operation) -> Value:
            part.stand_for(op)
            return rewriter.insert(part, InsertPoint.before(op), source_name(op)).results[0]

        is_least = put(new.equal(x, put(new.fill(-inf, type_))))
        made = new.select(is_least, put(new.fill(nan, type_)), put(made))
        made.stand_for(op)
    replace_with(rewriter, op, made)
    erase_dead(rewriter, old)
