"""What a node has to have by its operator, and what a rule has to have looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx

from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.schemas import fits, with_defaults
from tcpx.frontends.onnx.table import Result

WITHOUT_EFFECT: Final = frozenset(
    (
        *("then_branch", "else_branch", "saturate", "round_mode", "storage_order", "count_include_pad"),
        *("seed", "ratio", "momentum", "noop_with_empty_axes"),
    )
)
"""Attributes that are not looked at where they change nothing: of branches that are not taken, of dtypes that payloads
do not have, of results that are not asked for, of windows without padding, of a model that does not train, of axes
that are given."""


def check_node(node: Node, schema: onnx.defs.OpSchema) -> None:
    """The counts and attributes that the operator declares."""
    if not schema.min_input <= len(node.inputs) <= schema.max_input:
        raise node.error(
            "another number of operands", f"{schema.min_input} to {schema.max_input}", str(len(node.inputs))
        )
    if not schema.min_output <= len(node.outputs) <= schema.max_output:
        raise node.error(
            "another number of results", f"{schema.min_output} to {schema.max_output}", str(len(node.outputs))
        )
    for key in node.attributes:
        if key not in schema.attributes:
            raise node.error(
                f"there is no attribute `{key}` in opset {node.version}",
                f"one of {', '.join(schema.attributes) or 'none'}",
                key,
            )
        kind = fits(schema, key, node.attributes[key])
        if kind is not None:
            found = type(node.attributes[key]).__name__
            raise node.error(f"the attribute `{key}` is of another kind", kind, found)
    for key, declared in schema.attributes.items():
        if declared.required and key not in node.attributes:
            raise node.error(f"the attribute `{key}` is missing", f"`{key}`", ", ".join(node.attributes) or "none")


def check_whole(node: Node, schema: onnx.defs.OpSchema, results: Sequence[Result]) -> None:
    """Raise Unsupported for results that a rule leaves out, and for attributes that it has not looked at."""
    for index in range(len(results), len(node.outputs)):
        if node.outputs[index]:
            raise Unsupported(f"result {index}, `{node.outputs[index]}`")
    usual = with_defaults(schema, {})
    for key, held in node.attributes.items():
        if key not in node.read and key not in WITHOUT_EFFECT and held != usual.get(key):
            raise Unsupported(f"the attribute `{key}`")
