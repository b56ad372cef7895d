"""The operators of ONNX that are known: one rule each, which says it in operations of the payload."""

from collections.abc import Callable, Sequence
from typing import Final

from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.values import Tensor
from tcpx.payload.ir import Value

Result = Value | Tensor
Rule = Callable[[Node], Result | Sequence[Result]]

RULES: Final[dict[str, Rule]] = {}
"""By operator of the default domain."""
REFUSED: Final[dict[str, str]] = {}
"""Operators that no payload can state yet, and why."""


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Declare the rule of operators."""

    def declare(found: Rule) -> Rule:
        for operator in operators:
            RULES[operator] = found
        return found

    return declare


def refused(reason: str, *operators: str) -> None:
    """Declare operators that are not supported."""
    for operator in operators:
        REFUSED[operator] = reason
