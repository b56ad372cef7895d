"""Attributes from syntax."""

import json
from math import isinf

from lark import Token

from tcpx.limits import UINT64_MAX
from tcpx.payload.diagnostics import Direction
from tcpx.payload.ir import Attribute
from tcpx.payload.sizes import Var
from tcpx.payload.text.dims import DimReader
from tcpx.payload.text.scope import DIM_ATTRIBUTES, Scope, suggestion
from tcpx.payload.text.syntax import Node, children, nodes, tokens
from tcpx.payload.types import SCALARS

WORDS: dict[str, Attribute] = {"true": True, "false": False, "inf": float("inf"), "nan": float("nan"), **SCALARS}


class AttributeReader(DimReader):
    """Reads attribute values."""

    def attributes(self, node: Node | None, scope: Scope) -> dict[str, Attribute]:
        """`{key = value, ...}`; nothing where there is no such clause."""
        found: dict[str, Attribute] = {}
        for entry in children(node, "attribute") if node is not None else ():
            key = tokens(entry)[0]
            if key in found:
                raise self.source.error(key, f"the attribute `{key}` is given twice", required="each key once")
            if key == "maps":
                self._require_unquoted(nodes(entry)[0])
            inside = scope.for_maps() if key in DIM_ATTRIBUTES else scope
            found[str(key)] = self.attribute(nodes(entry)[0], inside)
        return found

    def _require_unquoted(self, node: Node) -> None:
        """A map lists indices: expressions over dims."""
        if any(tree.data == "string" for tree in node.iter_subtrees()):
            written = self.source.location(node).span
            raise self.source.error(
                node,
                "names in maps are unquoted",
                required="an index for each dim, over names of dims",
                found=written,
                fix=f"write {written.replace(chr(34), '')}"
                if node.data == "list"
                else Direction("list the dims of each operand, then those of the result: maps = [[i, j], [i, j]]"),
            )

    def attribute(self, node: Node, scope: Scope) -> Attribute:
        """One value."""
        match node.data:
            case "string":
                return self.string(tokens(node)[0])
            case "number":
                return self.whole_number(tokens(node)[0], UINT64_MAX)
            case "float":
                return self.float_number(tokens(node)[0])
            case "negative_float":
                return -self.float_number(tokens(node)[0])
            case "list":
                with self.nested(node):
                    return tuple(self.attribute(n, scope) for n in nodes(node))
            case "tile":
                return self.tile(node, scope)
            case "condition":
                return self.condition(node, scope)
            case "index_variable":
                lower, upper = (self.dim(n, scope) for n in nodes(node))
                return Var(tokens(node)[0][1:], lower, upper)
            case _:
                word = None if scope.dims_are_free else _word(node)
                if word is None and node.data == "named":
                    self._require_known(tokens(node)[0], scope)
                return self.dim(node, scope) if word is None else word

    def _require_known(self, token: Token, scope: Scope) -> None:
        """A bare word in an attribute is a size; names, such as those of dims, are quoted."""
        if scope.symbol(token) is None:
            raise self.source.error(
                token,
                f"unknown word `{token}` in an attribute",
                required="a number, a quoted name, a size of the function, a dtype, true, false, inf or nan",
                found=f"`{token}`",
                fix=suggestion(token, scope.symbol_names())
                or Direction(f'quote a name: "{token}"; declare a size: symbols [{token}]'),
            )

    def float_number(self, token: Token) -> float:
        """The value of a float."""
        value = float(token)
        if isinf(value):
            raise self.source.error(
                token, "the number is too large", required="a number below 1.8e308", found=str(token), fix="write inf"
            )
        return value

    def string(self, token: Token) -> str:
        """A quoted string, with the escapes of JSON."""
        try:
            text = str(json.loads(token, strict=False))
        except json.JSONDecodeError:
            raise self.source.error(
                token, "the string has an unknown escape", required=r"\" \\ \n \t \r \b \f \/ \uXXXX", found=str(token)
            ) from None
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise self.source.error(
                token, "the string holds half of a character", required=r"both halves, \uD83D\uDE00", found=str(token)
            )
        return text


def _word(node: Node) -> Attribute | None:
    """The value a bare word stands for: a bool, a dtype, an infinity or NaN."""
    match node.data:
        case "named":
            return WORDS.get(tokens(node)[0])
        case "negation" if nodes(node)[0].data == "named" and tokens(nodes(node)[0])[0] == "inf":
            return float("-inf")
        case _:
            return None
