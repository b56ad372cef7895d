"""The C of instruction rows and of the helpers that they use, as syntax trees.

Only what the tables are written in: expressions, declarations, `if`, `for` and `return`. Directives of the preprocessor
and inline assembly, which hold no instruction there, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tcpx.records import frozen
from tcpx.target.errors import TargetError

_SKIPPED: Final = re.compile(r'/\*.*?\*/|^\s*#.*?$|__asm__\s*\([^;]*\);|"[^"]*"', re.DOTALL | re.MULTILINE)
_TOKEN: Final = re.compile(
    r"\s*(0[xX][0-9a-fA-F.]+(?:[pP][+-]?\d+)?[fFuUlL]*|\d[\d.]*(?:[eE][+-]?\d+)?[fFuUlL]*|[A-Za-z_]\w*"
    r"|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|.)",
    re.DOTALL,
)
_TYPE: Final = re.compile(
    r"const|void|float|double|int|long|unsigned|_Bool|u?int\d+_t|u?intptr_t|size_t|__m\d+[id]?|__mmask\d+|__v\d+\w\w|(?:bf|f|si|ui|i)\d+x\d+"
)
_BINARY: Final = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_ASSIGNMENTS: Final = ("=", "+=", "-=", "*=", "&=", "|=", "^=", "<<=", ">>=")


@frozen
class Tree:
    """An expression or a statement: `kind` says which, `text` its name, operator, type or number."""

    kind: str
    text: str = ""
    parts: tuple[Tree, ...] = ()


NOTHING: Final = Tree("nothing")


@frozen
class Helper:
    """A definition: the names and types of its parameters, and its body."""

    parameters: tuple[tuple[str, str], ...]
    body: Tree


def expression_of(text: str) -> Tree:
    """The tree of the C of a row, which may end in several statements. Raises TargetError."""
    reader = _Reader(text)
    found = [reader.statement(ends=False)]
    while reader.see():
        found.append(reader.statement(ends=False))
    return found[0] if len(found) == 1 else Tree("block", "", tuple(found))


def helper_of(text: str) -> Helper | None:
    """The definition of a function; None for one of a type."""
    reader = _Reader(text)
    while reader.see() and reader.see() != "(":
        reader.at += 1
    if not reader.see():
        return None
    reader.take("(")
    parameters: list[tuple[str, str]] = []
    while reader.see() != ")":
        type_ = reader.type_name()
        parameters.append((reader.next(), type_))
        reader.skip(",")
    reader.take(")")
    return Helper(tuple(parameters), reader.statement()) if reader.see() == "{" else None


class _Reader:
    """Recursive descent."""

    def __init__(self, text: str) -> None:
        plain = _SKIPPED.sub(" ", text)
        self.tokens: Sequence[str] = [token for token in _TOKEN.findall(plain) if not token.isspace()]
        self.at = 0

    def see(self) -> str:
        """The next token, empty behind the last one."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.see()
        self.at += 1
        return token

    def skip(self, token: str) -> bool:
        found = self.see() == token
        self.at += found
        return found

    def take(self, token: str) -> None:
        if not self.skip(token):
            read = " ".join(self.tokens[max(0, self.at - 8) : self.at])
            raise TargetError(
                "the C of a row is not understood", required=f"`{token}` behind `{read}`", found=self.see() or "the end"
            )

    def is_type(self, ahead: int = 0) -> bool:
        at = self.at + ahead
        return at < len(self.tokens) and _TYPE.fullmatch(self.tokens[at]) is not None

    def type_name(self) -> str:
        words = [self.next()]
        while self.is_type() or self.see() == "*":
            words.append(self.next())
        return " ".join(word for word in words if word != "const")

    def statement(self, ends: bool = True) -> Tree:
        """`ends`: whether a `;` has to be behind it."""
        if self.skip("{"):
            found: list[Tree] = []
            while not self.skip("}"):
                found.append(self.statement())
            return Tree("block", "", tuple(found))
        match self.see():
            case "if":
                return self._if(ends)
            case "for":
                return self._for(ends)
            case "return":
                self.at += 1
                value = NOTHING if self.see() == ";" else self.expression()
                found_ = Tree("return", "", (value,))
            case ";":
                found_ = NOTHING
            case _:
                found_ = self._declaration() if self.is_type() else self._sequence()
        if ends or self.see():
            self.take(";")
        return found_

    def _if(self, ends: bool) -> Tree:
        self.at += 1
        self.take("(")
        condition = self.expression()
        self.take(")")
        then = self.statement(ends)
        return Tree("if", "", (condition, then, self.statement(ends) if self.skip("else") else NOTHING))

    def _for(self, ends: bool) -> Tree:
        self.at += 1
        self.take("(")
        start = self.statement()
        condition = NOTHING if self.see() == ";" else self.expression()
        self.take(";")
        step = NOTHING if self.see() == ")" else self._sequence()
        self.take(")")
        return Tree("for", "", (start, condition, step, self.statement(ends)))

    def _declaration(self) -> Tree:
        type_, found = self.type_name(), list[Tree]()
        while True:
            name = self.next()
            is_array = self.skip("[")
            if is_array:
                self.expression()
                self.take("]")
            value = NOTHING
            if self.skip("="):
                value = self._braces(type_) if self.see() == "{" else self.expression()
            found.append(Tree("array" if is_array else "variable", name, (Tree("type", type_), value)))
            if not self.skip(","):
                return Tree("block", "", tuple(found))

    def _sequence(self) -> Tree:
        found = [self.expression()]
        while self.skip(","):
            found.append(self.expression())
        return found[0] if len(found) == 1 else Tree("block", "", tuple(found))

    def expression(self) -> Tree:
        left = self._conditional()
        if self.see() in _ASSIGNMENTS:
            operator = self.next()
            return Tree("assign", operator[:-1], (left, self.expression()))
        return left

    def _conditional(self) -> Tree:
        condition = self._binary(0)
        if not self.skip("?"):
            return condition
        then = self.expression()
        self.take(":")
        return Tree("choice", "", (condition, then, self._conditional()))

    def _binary(self, level: int) -> Tree:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while self.see() in _BINARY[level]:
            left = Tree("operator", self.next(), (left, self._binary(level + 1)))
        return left

    def _unary(self) -> Tree:
        if self.see() in ("-", "~", "!", "*", "&", "+", "++", "--"):
            operator = self.next()
            return Tree("unary", operator, (self._unary(),))
        if self.see() == "sizeof":
            self.at += 1
            self._unary()
            return Tree("number", "1")
        if self.see() == "(" and self.is_type(1):
            self.at += 1
            type_ = self.type_name()
            self.take(")")
            return self._braces(type_) if self.see() == "{" else Tree("cast", type_, (self._unary(),))
        return self._postfix()

    def _braces(self, type_: str) -> Tree:
        self.take("{")
        found: list[Tree] = []
        while not self.skip("}"):
            found.append(self.expression())
            self.skip(",")
        return Tree("lanes", type_, tuple(found))

    def _postfix(self) -> Tree:
        found = self._primary()
        while self.see() in ("[", "(", "++", "--"):
            match self.next():
                case "[":
                    found = Tree("element", "", (found, self.expression()))
                    self.take("]")
                case "(":
                    arguments: list[Tree] = []
                    while not self.skip(")"):
                        arguments.append(self.expression())
                        self.skip(",")
                    found = Tree("call", found.text, tuple(arguments))
                case operator:
                    found = Tree("unary", operator, (found,))
        return found

    def _primary(self) -> Tree:
        if self.skip("("):
            found = self.expression()
            self.take(")")
            return found
        token = self.next()
        return Tree("number" if token[:1].isdigit() else "name", token)
