"""The operators of ONNX that are known: one rule each, which says it in operations of the payload."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.schemas import Default, declare
from tcpx.frontends.onnx.values import Tensor
from tcpx.payload.ir import Value

Result = Value | Tensor
Rule = Callable[[Node], Result | Sequence[Result]]

RULES: Final[dict[str, Rule]] = {}
"""By operator; those of another domain than the default one by `DOMAIN.OPERATOR`."""
REFUSED: Final[dict[str, str]] = {}
"""Operators that no payload can state yet, and why."""
GROWING: Final[dict[str, tuple[int | None, Mapping[int, int]]]] = {}
"""Operators of which results are an operand with more behind it: the dim, None for that of `axis`, and the operands by
the result."""


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Declare the rule of operators."""

    def add(found: Rule) -> Rule:
        for operator in operators:
            RULES[operator] = found
        return found

    return add


def contributed(operator: str, operands: str, results: str, **attributes: Default) -> Callable[[Rule], Rule]:
    """Declare an operator that the package `onnx` does not know, and its rule. Operands and results are names with
    spaces between them, those in brackets may be left out. Attributes have a default, or are a type where they have
    to be there."""
    declare(operator, operands.split(), results.split(), attributes)
    return rule(operator)


def grows(operator: str, dim: int | None, operands: Mapping[int, int]) -> None:
    """Declare results of an operator that are an operand with more behind it along a dim, or along its axis, by their
    indices. Their rule says so by `Node.joined`."""
    GROWING[operator] = dim, operands


def refused(reason: str, *operators: str) -> None:
    """Declare operators that are not supported."""
    for operator in operators:
        REFUSED[operator] = reason
