"""Parse tree -> statements and items of the syntax tree, with their comments."""

from __future__ import annotations

from collections.abc import Sequence as Items

from lark import Token, Tree

from tcpx.payload.diagnostics import Diagnostic, Location, ParseError
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.expressions import ExpressionBuilder, string_value, tree_of
from tcpx.transform.language.source import Source
from tcpx.transform.language.tokens import Comment
from tcpx.transform.language.trivia import END, Position, TriviaPool, merged

Kids = list[Tree[Token]]


def _start(tree: Tree[Token]) -> Position:
    return tree.meta.line, tree.meta.column


def _end(tree: Tree[Token]) -> Position:
    return tree.meta.end_line, tree.meta.end_column


def _trees(tree: Tree[Token], *rules: str) -> Kids:
    kids = [k for k in tree.children if not isinstance(k, Token)]
    return [k for k in kids if not rules or k.data in rules]


def _names(tree: Tree[Token]) -> tuple[str, ...]:
    return tuple(str(k) for k in tree.children if isinstance(k, Token) and k.type == "NAME")


def _string(tree: Tree[Token]) -> str:
    return next((string_value(k) for k in tree.children if isinstance(k, Token) and k.type == "STRING"), "")


def _starts(trees: Items[Tree[Token]], end: Position) -> list[Position]:
    """For each tree, where the code behind it starts."""
    return [*(_start(t) for t in trees[1:]), end] if trees else []


class Builder:
    """Builds the syntax tree of one source; comments are taken in the order of the text."""

    def __init__(self, source: Source, comments: Items[Comment]) -> None:
        self.source = source
        self.pool = TriviaPool(comments, source.lines)
        self.expressions = ExpressionBuilder(source)
        self.expression = self.expressions.expression

    def file(self, tree: Tree[Token]) -> ast.File:
        kids = _trees(tree)
        items = tuple(self.item(k, following) for k, following in zip(kids, _starts(kids, END), strict=True))
        return ast.File(items, self._comments_before(END), self.source.file)

    def _comments_before(self, place: Position) -> tuple[str, ...]:
        left = self.pool.rest_before(place)
        for comment in left:
            if comment.is_doc:
                raise ParseError(
                    Diagnostic(
                        "this `///` documents nothing",
                        schedule=self.source.at(comment.line, comment.column),
                        required="a statement behind it, or before it on its line",
                        fix="write `//` for a comment",
                    )
                )
        return tuple(c.text for c in left)

    # -- items ---------------------------------------------------------------------------------------------------

    def item(self, tree: Tree[Token], following: Position) -> ast.Item:
        location = self.source.of(tree)
        match str(tree.data):
            case "language":
                trivia = self.pool.take(_start(tree), _end(tree), following)
                return ast.Language(int(str(tree.children[1])), trivia=trivia, location=location)
            case "import":
                trivia = self.pool.take(_start(tree), _end(tree), following)
                names = _names(tree)
                return ast.Import(_string(tree), names[0] if names else "", trivia=trivia, location=location)
            case _:
                return self._sequence(tree, location)

    def _sequence(self, tree: Tree[Token], location: Location) -> ast.Sequence | ast.Schedule:
        (block,) = _trees(tree, "block")
        (params,) = _trees(tree, "params")
        before = self.pool.take(_start(tree), _start(tree), _start(tree))
        declared = self._params(params, _start(block))
        trivia = merged(before, self.pool.take(_start(tree), _start(block)))
        body = self.block(block)
        name = _names(tree)[0]
        if tree.data == "sequence":
            types = tuple(self.type(t) for t in _trees(_trees(tree, "results")[0], "type"))
            return ast.Sequence(name, declared, types, body, trivia=trivia, location=location)
        expects = _string(_trees(tree, "expects")[0])
        return ast.Schedule(name, declared, expects, body, trivia=trivia, location=location)

    def _params(self, tree: Tree[Token], end: Position) -> tuple[ast.Param, ...]:
        kids = _trees(tree)
        return tuple(self._param(k, f) for k, f in zip(kids, _starts(kids, end), strict=True))

    def _param(self, tree: Tree[Token], following: Position) -> ast.Param:
        trivia = self.pool.take(_start(tree), _end(tree), following)
        type_, default = _trees(tree)
        value = self.expression(default.children[0]) if default.children else None
        return ast.Param(_names(tree)[0], self.type(type_), value, trivia=trivia, location=self.source.of(tree))

    def type(self, tree: Tree[Token]) -> ast.TypeOf:
        arguments = tuple(self.type(k) for k in _trees(tree, "type"))
        return ast.TypeOf(_names(tree)[0], arguments, location=self.source.of(tree))

    # -- statements ----------------------------------------------------------------------------------------------

    def block(self, tree: Tree[Token]) -> ast.Block:
        kids = _trees(tree)
        statements = tuple(self.statement(k, f) for k, f in zip(kids, _starts(kids, _end(tree)), strict=True))
        comments = self._comments_before(_end(tree))
        return ast.Block(statements, comments, location=self.source.of(tree))

    def statement(self, tree: Tree[Token], following: Position) -> ast.Statement:
        blocks = _trees(tree, "block", "arm")
        if blocks or tree.data == "case":
            header = _start(blocks[0]) if blocks else _end(tree)
            trivia = self.pool.take(_start(tree), header)
            return self._compound(tree, trivia)
        trivia = self.pool.take(_start(tree), _end(tree), following)
        return self._simple(tree, trivia)

    def _simple(self, tree: Tree[Token], trivia: ast.Trivia) -> ast.Statement:
        location = self.source.of(tree)
        values = [self.expression(k) for k in _trees(tree) if k.data != "type"]
        match str(tree.data):
            case "let":
                return ast.Let(_names(tree), values[0], trivia=trivia, location=location)
            case "knob":
                type_ = self.type(_trees(tree, "type")[0])
                domain = values[1] if len(values) > 1 else None
                return ast.Knob(_names(tree)[0], type_, values[0], domain, trivia=trivia, location=location)
            case "require":
                return ast.Require(values[0], _string(tree), trivia=trivia, location=location)
            case "return":
                return ast.Return(tuple(values), trivia=trivia, location=location)
            case "do" | "optional" as word:
                return ast.Do(self._call(values[0]), word == "optional", trivia=trivia, location=location)
            case other:
                raise TypeError(f"the rule {other} is no statement")

    def _call(self, value: ast.Expression) -> ast.Call:
        if isinstance(value, ast.Call):
            return value
        raise ParseError(
            Diagnostic(
                "this is not a statement",
                schedule=value.location,
                required="a call, `let`, or another statement",
                found=value.location.text[value.location.column - 1 : value.location.end_column - 1],
            )
        )

    def _compound(self, tree: Tree[Token], trivia: ast.Trivia) -> ast.Statement:
        location = self.source.of(tree)
        match str(tree.data):
            case "for":
                _, _, _, items, body = tree.children
                value = self.expression(items)
                return ast.ForEach(_names(tree)[0], value, self.block(tree_of(body)), trivia=trivia, location=location)
            case "if":
                branches, orelse = self._branches(_trees(tree))
                return ast.If(branches, orelse, trivia=trivia, location=location)
            case "specialize":
                return self._specialize(tree, trivia)
            case "case":
                return self._case(tree, trivia)
            case "try":
                blocks = tuple(self.block(k) for k in _trees(tree, "block"))
                fails = _trees(tree, "fail")
                orelse = self._fail(fails[0]) if fails else None
                return ast.Try(blocks, orelse, trivia=trivia, location=location)
            case "tune":
                blocks = tuple(self.block(k) for k in _trees(tree, "block"))
                return ast.Tune(blocks, trivia=trivia, location=location)
            case other:
                raise TypeError(f"the rule {other} is no statement")

    def _branches(self, kids: Kids) -> tuple[tuple[ast.Branch, ...], ast.Block | None]:
        """Condition, block, condition, block, ... and perhaps a last block."""
        paired = len(kids) - len(kids) % 2
        branches = tuple(
            ast.Branch(self.expression(kids[k]), self.block(kids[k + 1]), location=self.source.of(kids[k]))
            for k in range(0, paired, 2)
        )
        return branches, self.block(kids[-1]) if paired < len(kids) else None

    def _specialize(self, tree: Tree[Token], trivia: ast.Trivia) -> ast.Specialize:
        target, *rest = _trees(tree)
        value = self.expression(target)
        branches, _ = self._branches(rest[:-1])
        orelse = self._block_or_fail(rest[-1])
        return ast.Specialize(value, branches, orelse, trivia=trivia, location=self.source.of(tree))

    def _case(self, tree: Tree[Token], trivia: ast.Trivia) -> ast.Case:
        subject, *rest = _trees(tree)
        value = self.expression(subject)
        arms = tuple(self._arm(k) for k in rest if k.data == "arm")
        last = rest[-1] if rest and rest[-1].data != "arm" else None
        orelse = self._block_or_fail(last) if last is not None else None
        return ast.Case(value, arms, orelse, trivia=trivia, location=self.source.of(tree))

    def _arm(self, tree: Tree[Token]) -> ast.Arm:
        pattern, where, block = _trees(tree)
        condition = self.expressions.where(where)
        made = self.expressions.pattern(pattern)
        return ast.Arm(made, condition, self.block(block), location=self.source.of(tree))

    def _block_or_fail(self, tree: Tree[Token]) -> ast.Block | ast.Fail:
        return self._fail(tree) if tree.data == "fail" else self.block(tree)

    def _fail(self, tree: Tree[Token]) -> ast.Fail:
        return ast.Fail(_string(tree), location=self.source.of(tree))
