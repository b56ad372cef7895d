"""Attributes from syntax."""

from __future__ import annotations

import json

from lark import Token

from tcpx.payload.ir import Attribute
from tcpx.payload.text.dims import DimReader
from tcpx.payload.text.scope import DIM_ATTRIBUTES, Scope
from tcpx.payload.text.syntax import Node, children, nodes, tokens
from tcpx.payload.types import SCALARS

_WORDS: dict[str, Attribute] = {"true": True, "false": False, "inf": float("inf"), "nan": float("nan"), **SCALARS}


class AttributeReader(DimReader):
    """Reads attribute values."""

    def attributes(self, node: Node | None, scope: Scope) -> dict[str, Attribute]:
        """`{key = value, ...}`; nothing where there is no such clause."""
        found: dict[str, Attribute] = {}
        for entry in children(node, "attribute") if node is not None else ():
            key = tokens(entry)[0]
            if key in found:
                raise self.source.error(key, f"the attribute `{key}` is given twice", required="each key once")
            inside = scope.for_maps() if key in DIM_ATTRIBUTES else scope
            found[str(key)] = self.attribute(nodes(entry)[0], inside)
        return found

    def attribute(self, node: Node, scope: Scope) -> Attribute:
        """One value."""
        match node.data:
            case "string":
                return self.string(tokens(node)[0])
            case "float":
                return float(tokens(node)[0])
            case "negative_float":
                return -float(tokens(node)[0])
            case "list":
                return tuple(self.attribute(n, scope) for n in nodes(node))
            case "tile":
                return self.tile(node, scope)
            case "condition":
                return self.condition(node, scope)
            case _:
                word = None if scope.dims_are_free else _word(node)
                return self.dim(node, scope) if word is None else word

    def string(self, token: Token) -> str:
        """A quoted string, with the escapes of JSON."""
        try:
            return str(json.loads(token, strict=False))
        except json.JSONDecodeError as error:
            raise self.source.error(
                token, "the string has an unknown escape", required=r"\" \\ \n \t \r \b \f \/ \uXXXX", found=str(token)
            ) from error


def _word(node: Node) -> Attribute | None:
    """The value a bare word stands for: a bool, a dtype, an infinity or NaN."""
    match node.data:
        case "named":
            return _WORDS.get(tokens(node)[0])
        case "negation" if nodes(node)[0].data == "named" and tokens(nodes(node)[0])[0] == "inf":
            return float("-inf")
        case _:
            return None
