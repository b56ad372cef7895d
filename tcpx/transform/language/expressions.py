"""Parse tree -> expressions of the syntax tree."""

from __future__ import annotations

from math import isinf

from lark import Token, Tree

from tcpx.limits import DEEPEST_NESTING, INT64_MAX
from tcpx.payload.diagnostics import Diagnostic, Direction, Location, ParseError
from tcpx.transform.language.source import Source
from tcpx.transform.language.syntax import (
    Argument,
    Attribute,
    Binary,
    Call,
    Conditional,
    Equation,
    Expression,
    ListOf,
    Literal,
    MapOf,
    Match,
    Name,
    Operand,
    Padded,
    Pattern,
    Range,
    Selection,
    Shape,
    Unary,
)

Branch = Tree[Token] | Token
_CHAINED = frozenset(("or", "and", "sum", "product"))
_LONGEST_SHOWN = 40
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n", "\\t": "\t"}


def tree_of(node: Branch) -> Tree[Token]:
    if isinstance(node, Token):
        raise TypeError(f"a token {node.type} where a rule was expected")
    return node


def string_value(token: Branch) -> str:
    """The text between the quotes, escapes replaced."""
    raw, out, k = str(token)[1:-1], "", 0
    while k < len(raw):
        width = 2 if raw[k] == "\\" else 1
        piece = raw[k : k + width]
        out += _ESCAPES.get(piece, piece)
        k += width
    return out


class ExpressionBuilder:
    """Builds expressions of one source."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._depth = 0

    def nested(self, tree: Tree[Token]) -> ExpressionBuilder:
        """Building what is inside a block, bracket or operator, to the end of the `with` it stands in; a located error
        where that is too deep."""
        if self._depth >= DEEPEST_NESTING:
            raise ParseError(
                Diagnostic(
                    f"the text is nested more than {DEEPEST_NESTING} deep here",
                    schedule=self.source.of(tree),
                    required=f"at most {DEEPEST_NESTING} blocks, lists, calls, operators and signs within one another",
                    found=f"{self._depth + 1} of them",
                    fix=Direction("name a part with `let`, or make it a sequence"),
                )
            )
        self._depth += 1
        return self

    def __enter__(self) -> None:
        """`nested` went in."""

    def __exit__(self, *_: object) -> None:
        self._depth -= 1

    def expression(self, node: Branch) -> Expression:
        """The expression of a rule; a chain `a + b - c` is no deeper than its terms."""
        tree = tree_of(node)
        chain: list[Tree[Token]] = []
        while tree.data in _CHAINED:
            chain.append(tree)
            tree = tree_of(tree.children[0])
        with self.nested(tree):
            made = self._expression(tree)
            for link in reversed(chain):
                _, operator, rhs = link.children
                made = Binary(str(operator), made, self.expression(rhs), location=self.source.of(link))
        return made

    def _expression(self, tree: Tree[Token]) -> Expression:
        location = self.source.of(tree)
        kids = tree.children
        match str(tree.data):
            case "name":
                return Name(str(kids[0]), location=location)
            case "int":
                return Literal(self.whole_number(kids[0]), location=location)
            case "float":
                return Literal(self._float(kids[0]), location=location)
            case "string":
                return Literal(string_value(kids[0]), location=location)
            case "true" | "false" as word:
                return Literal(word == "true", location=location)
            case "list":
                return self._list(tree)
            case "match":
                return self._match(tree)
            case "call":
                arguments = tuple(self._argument(tree_of(k)) for k in kids[1:])
                return Call(self.expression(kids[0]), arguments, location=location)
            case "attribute":
                return Attribute(self.expression(kids[0]), str(kids[1]), location=location)
            case _:
                return self._operator(tree, location)

    def _operator(self, tree: Tree[Token], location: Location) -> Expression:
        kids = tree.children
        match str(tree.data):
            case "negative":
                return Unary("-", self.expression(kids[-1]), location=location)
            case "not":
                return Unary("not", self.expression(kids[-1]), location=location)
            case "power":
                base, _, exponent = kids
                return Binary("**", self.expression(base), self.expression(exponent), location=location)
            case "comparison":
                return self._comparison(tree)
            case "conditional":
                then, condition, orelse = (self.expression(k) for k in kids if not isinstance(k, Token))
                return Conditional(condition, then, orelse, location=location)
            case "range":
                lower, upper = (self.expression(k) for k in kids if not isinstance(k, Token))
                return Range(lower, upper, location=location)
            case "selection":
                base, scope = (self.expression(k) for k in kids if not isinstance(k, Token))
                return Selection(base, scope, location=location)
            case other:
                raise TypeError(f"the rule {other} is no expression")

    def whole_number(self, token: Branch) -> int:
        """The value of digits; what C cannot hold is a located error."""
        digits = str(token).lstrip("0") or "0"
        if len(digits) > len(str(INT64_MAX)) or int(digits) > INT64_MAX:
            found = digits if len(digits) < _LONGEST_SHOWN else f"a number of {len(digits)} digits"
            raise self._error("the number is too large", token, "an integer, at most 2**63 - 1", found)
        return int(digits)

    def _float(self, token: Branch) -> float:
        value = float(str(token))
        if isinf(value):
            raise self._error("the number is too large", token, "a number below 1.8e308", str(token))
        return value

    def _error(self, message: str, where: Branch, required: str, found: str) -> ParseError:
        return ParseError(Diagnostic(message, schedule=self.source.of(where), required=required, found=found))

    def _comparison(self, tree: Tree[Token]) -> Expression:
        lhs, rhs = (k for k in tree.children if not isinstance(k, Token))
        operator = next((str(k) for k in tree.children if isinstance(k, Token)), "")
        return Binary(operator, self.expression(lhs), self.expression(rhs), location=self.source.of(tree))

    def _argument(self, tree: Tree[Token]) -> Argument:
        first = tree.children[0]
        name = str(first) if isinstance(first, Token) else ""
        return Argument(name, self.expression(tree.children[-1]), location=self.source.of(tree))

    def _list(self, tree: Tree[Token]) -> Expression:
        location = self.source.of(tree)
        kids = [tree_of(k) for k in tree.children]
        entries = [k for k in kids if k.data == "entry"]
        if entries and len(entries) != len(kids):
            raise ParseError(
                Diagnostic(
                    "a list and a map are mixed",
                    schedule=location,
                    required="`key: value` in every place, or in none",
                    found=f"{len(entries)} of {len(kids)} with a key",
                )
            )
        if entries:
            pairs = [(self.expression(k.children[0]), self.expression(k.children[1])) for k in kids]
            return MapOf(tuple(pairs), location=location)
        return ListOf(tuple(self._element(k) for k in kids), location=location)

    def _element(self, tree: Tree[Token]) -> Expression:
        if tree.data != "padded":
            return self.expression(tree)
        digit, to = (self.expression(k) for k in tree.children if not isinstance(k, Token))
        return Padded(digit, to, location=self.source.of(tree))

    def _match(self, tree: Tree[Token]) -> Match:
        _, cardinality, pattern, _, scope, where = tree.children
        return Match(
            str(cardinality),
            self.pattern(tree_of(pattern)),
            self.expression(scope),
            self.where(tree_of(where)),
            location=self.source.of(tree),
        )

    def pattern(self, tree: Tree[Token]) -> Pattern:
        """A class and a glob, or equations."""
        equations = tuple(self._equation(k) for k in tree.children if isinstance(k, Tree))
        if equations:
            return Pattern(equations[-1].shape.op_class, "", equations, location=self.source.of(tree))
        tokens = [k for k in tree.children if isinstance(k, Token)]
        name = ".".join(str(t) for t in tokens if t.type == "NAME")
        glob = next((string_value(t) for t in tokens if t.type == "STRING"), "")
        return Pattern(name, glob, location=self.source.of(tree))

    def _equation(self, tree: Tree[Token]) -> Equation:
        name = str(tree.children[0]) if isinstance(tree.children[0], Token) else ""
        return Equation(name, self._shape(tree_of(tree.children[-1])), location=self.source.of(tree))

    def _shape(self, tree: Tree[Token]) -> Shape:
        name = ".".join(str(k) for k in tree.children if isinstance(k, Token))
        inside = [k for k in tree.children if isinstance(k, Tree)]
        location = self.source.of(tree)
        if inside and inside[0].data == "any_operands":
            return Shape(name, (), True, location=location)
        with self.nested(tree):
            return Shape(name, tuple(self._operand(k) for k in inside), location=location)

    def _operand(self, tree: Tree[Token]) -> Operand:
        role = str(tree.children[0]) if isinstance(tree.children[0], Token) else ""
        value, location = tree_of(tree.children[-1]), self.source.of(tree)
        if value.data == "shape":
            return Operand(role, self._shape(value), location=location)
        return Operand(role, self._leaf(value), location=location)

    def _leaf(self, tree: Tree[Token]) -> Name | Literal:
        *sign, token = tree.children
        location = self.source.of(tree)
        match token:
            case Token(type="NAME"):
                return Name(str(token), location=location)
            case Token(type="TRUE" | "FALSE"):
                return Literal(str(token) == "true", location=location)
            case _:
                number = self._float(token) if "." in str(token) else self.whole_number(token)
                return Literal(-number if sign else number, location=location)

    def where(self, tree: Tree[Token]) -> Expression | None:
        """The condition of an optional `where`."""
        return self.expression(tree.children[-1]) if tree.children else None
