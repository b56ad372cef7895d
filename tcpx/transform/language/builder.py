"""Parse tree -> statements and items of the syntax tree, with their docs."""

from collections.abc import Sequence as Items

from lark import Token, Tree

from tcpx.payload.diagnostics import Diagnostic, Direction, Location, ParseError
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.expressions import ExpressionBuilder, string_value
from tcpx.transform.language.hints import FOREIGN_WORDS
from tcpx.transform.language.source import Source
from tcpx.transform.language.tokens import Comment
from tcpx.transform.language.trivia import END, DocPool, Position, joined

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


def _has(tree: Tree[Token], kind: str) -> bool:
    return any(isinstance(k, Token) and k.type == kind for k in tree.children)


def _string(tree: Tree[Token]) -> str:
    return next((string_value(k) for k in tree.children if isinstance(k, Token) and k.type == "STRING"), "")


def _starts(trees: Items[Tree[Token]], end: Position) -> list[Position]:
    """For each tree, where the code behind it starts."""
    return [*(_start(t) for t in trees[1:]), end] if trees else []


class Builder:
    """Builds the syntax tree of one source; docs are taken in the order of the text."""

    def __init__(self, source: Source, comments: Items[Comment]) -> None:
        self.source = source
        self.docs = DocPool(comments)
        self._divisions = [self.source.at(c.line, c.column, c.line, c.end_column) for c in comments if c.divides]
        self.expressions = ExpressionBuilder(source)
        self.expression = self.expressions.expression

    def file(self, tree: Tree[Token]) -> ast.File:
        kids = _trees(tree)
        items = tuple(self.item(k, following) for k, following in zip(kids, _starts(kids, END), strict=True))
        self._check_no_doc_before(END)
        return ast.File(items, self.source.file, tuple(self._divisions))

    def _check_no_doc_before(self, place: Position) -> None:
        """Docs at the end of a block or file, which nothing took."""
        left = self.docs.first_before(place)
        if left is not None:
            raise ParseError(
                Diagnostic(
                    "this `///` documents nothing",
                    schedule=self.source.at(left.line, left.column),
                    required="a statement behind it, or before it on its line",
                    found=left.text,
                    fix="write `//` for a comment",
                )
            )

    # -- items ---------------------------------------------------------------------------------------------------

    def item(self, tree: Tree[Token], following: Position) -> ast.Item:
        location = self.source.of(tree)
        match str(tree.data):
            case "language":
                trivia = self._trivia(tree, following)
                version = self.expressions.whole_number(tree.children[1])
                return ast.Language(version, trivia=trivia, location=location)
            case "import":
                trivia = self._trivia(tree, following)
                names = _names(tree)
                return ast.Import(_string(tree), names[0] if names else "", trivia=trivia, location=location)
            case "function":
                return self._function(tree, following)
            case "view":
                return self._view(tree, following)
            case _:
                return self._sequence(tree, following, location)

    def _trivia(self, tree: Tree[Token], following: Position) -> ast.Trivia:
        """The docs of a node without blocks."""
        end = _end(tree)
        return ast.Trivia(joined(self.docs.before(end), self.docs.behind(end, following)))

    def _docs_of_block(self, block: Tree[Token]) -> str:
        """The docs in front of a block and directly behind its brace: they belong to what the block is part of."""
        inside = [tree for tree in _trees(block) if tree.data != "where"]
        first = _start(inside[0]) if inside else _end(block)
        return joined(self.docs.before(_start(block)), self.docs.behind(_start(block), first))

    def _function(self, tree: Tree[Token], following: Position) -> ast.Function:
        params, result, value = _trees(tree)
        before = self.docs.before(_start(tree))
        declared = self._params(params, _start(result))
        trivia = ast.Trivia(joined(before, self.docs.before(_end(tree)), self.docs.behind(_end(tree), following)))
        name, type_ = _names(tree)[0], self.type(result)
        lets, made = self._body_of_function(value) if value.data == "block" else ((), self.expression(value))
        return ast.Function(name, declared, type_, made, lets, trivia=trivia, location=self.source.of(tree))

    def _view(self, tree: Tree[Token], following: Position) -> ast.View:
        params, block = _trees(tree)
        before = self.docs.before(_start(tree))
        declared = self._params(params, _start(block))
        trivia = ast.Trivia(joined(before, self._docs_of_block(block), self.docs.behind(_end(tree), following)))
        body = self.block(block).statements
        lets = tuple(s for s in body if isinstance(s, ast.Let) and len(s.names) == 1 and not s.optional)
        if len(lets) < max(1, len(body)):
            strange = next((s.location for s in body if s not in lets), self.source.of(block))
            raise ParseError(
                Diagnostic(
                    "a view only names parts of an operation",
                    schedule=strange,
                    required="`let role = ..` for each of them",
                    found=strange.span,
                )
            )
        return ast.View(_names(tree)[0], declared, lets, trivia=trivia, location=self.source.of(tree))

    def _body_of_function(self, tree: Tree[Token]) -> tuple[tuple[ast.Let, ...], ast.Expression]:
        block = self.block(tree)
        *before, last = block.statements or (None,)
        lets = tuple(statement for statement in before if isinstance(statement, ast.Let) and len(statement.names) == 1)
        if isinstance(last, ast.Return) and len(last.values) == 1 and len(lets) == len(before):
            return lets, last.values[0]
        strange = next((s for s in before if s not in lets), last)
        raise ParseError(
            Diagnostic(
                "a function only binds names and returns a value",
                schedule=strange.location if strange is not None else block.location,
                required="`let name = ..`, and one `return` of one value at the end",
                found=(strange.location if strange is not None else block.location).span,
                fix=Direction("declare it as a sequence: `sequence name(..) -> (..) { .. }`"),
            )
        )

    def _sequence(
        self, tree: Tree[Token], following: Position, location: Location
    ) -> ast.Matcher | ast.Sequence | ast.Schedule:
        (block,) = _trees(tree, "block")
        (params,) = _trees(tree, "params")
        before = self.docs.before(_start(tree))
        declared = self._params(params, _start(block))
        trivia = ast.Trivia(joined(before, self._docs_of_block(block), self.docs.behind(_end(tree), following)))
        body = self.block(block)
        name = _names(tree)[0]
        if tree.data in ("matcher", "sequence"):
            types = tuple(self.type(t) for t in _trees(_trees(tree, "results")[0], "type"))
            kind = ast.Matcher if tree.data == "matcher" else ast.Sequence
            return kind(name, declared, types, body, trivia=trivia, location=location)
        (expected,) = _trees(tree, "expects")
        expects = _string(expected)
        if expected.children and not expects:
            raise ParseError(
                Diagnostic(
                    "`expects` says no payload",
                    schedule=location,
                    required="a payload beside the schedule, or a signature such as `(tensor<[B]x64xf32>) -> ...`",
                    found='""',
                )
            )
        return ast.Schedule(name, declared, expects, body, trivia=trivia, location=location)

    def _params(self, tree: Tree[Token], end: Position) -> tuple[ast.Param, ...]:
        kids = _trees(tree)
        return tuple(self._param(k, f) for k, f in zip(kids, _starts(kids, end), strict=True))

    def _param(self, tree: Tree[Token], following: Position) -> ast.Param:
        trivia = self._trivia(tree, following)
        type_, default = _trees(tree)
        value = self.expression(default.children[0]) if default.children else None
        return ast.Param(_names(tree)[0], self.type(type_), value, trivia=trivia, location=self.source.of(tree))

    def type(self, tree: Tree[Token]) -> ast.TypeOf:
        with self.expressions.nested(tree):
            arguments = tuple(self.type(k) for k in _trees(tree, "type"))
        return ast.TypeOf(".".join(_names(tree)), arguments, location=self.source.of(tree))

    # -- statements ----------------------------------------------------------------------------------------------

    def block(self, tree: Tree[Token]) -> ast.Block:
        kids = _trees(tree)
        with self.expressions.nested(tree):
            statements = tuple(self.statement(k, f) for k, f in zip(kids, _starts(kids, _end(tree)), strict=True))
        self._check_no_doc_before(_end(tree))
        return ast.Block(statements, location=self.source.of(tree))

    def statement(self, tree: Tree[Token], following: Position) -> ast.Statement:
        blocks = _trees(tree, "block", "arm", "option")
        if blocks or tree.data == "case":
            header = self._docs_of_block(blocks[0]) if blocks else self.docs.before(_end(tree))
            return self._compound(tree, ast.Trivia(joined(header, self.docs.behind(_end(tree), following))))
        return self._simple(tree, self._trivia(tree, following))

    def _simple(self, tree: Tree[Token], trivia: ast.Trivia) -> ast.Statement:
        location = self.source.of(tree)
        values = [self.expression(k) for k in _trees(tree) if k.data != "type"]
        match str(tree.data):
            case "let":
                is_optional = _has(tree, "OPTIONAL")
                value = self._call(values[0]) if is_optional else values[0]
                return ast.Let(_names(tree), value, is_optional, trivia=trivia, location=location)
            case "knob":
                type_ = self.type(_trees(tree, "type")[0])
                default, domain, limit = [*values, None, None][:3]
                if default is None:
                    raise TypeError("required a default")
                name, separate = _names(tree)[0], _has(tree, "SEPARATE")
                return ast.Knob(name, type_, default, domain, separate, limit, trivia=trivia, location=location)
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
        found = value.location.text[value.location.column - 1 : value.location.end_column - 1]
        raise ParseError(
            Diagnostic(
                "this is not a statement",
                schedule=value.location,
                required="a call, `let`, or another statement",
                found=found,
                fix=FOREIGN_WORDS.get(found),
            )
        )

    def _compound(self, tree: Tree[Token], trivia: ast.Trivia) -> ast.Statement:
        location = self.source.of(tree)
        match str(tree.data):
            case "for":
                items, body = _trees(tree)
                value = self.expression(items)
                return ast.ForEach(_names(tree), value, self.block(body), trivia=trivia, location=location)
            case "if":
                branches, orelse = self._branches(_trees(tree))
                return ast.If(branches, orelse, trivia=trivia, location=location)
            case "specialize":
                return self._specialize(tree, trivia)
            case "versions":
                return self._versions(tree, trivia)
            case "case":
                return self._case(tree, trivia)
            case "try":
                blocks = tuple(self.block(k) for k in _trees(tree, "block"))
                return ast.Try(blocks, self._end_of_try(tree), trivia=trivia, location=location)
            case "tune":
                return self._tune(tree, trivia)
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

    def _versions(self, tree: Tree[Token], trivia: ast.Trivia) -> ast.Versions:
        target, *parts, block = _trees(tree)
        value, first, second = self.expression(target), *map(self.expression, parts)
        names = _names(tree)
        items, condition = (first, second) if names else (second, first)
        variable = names[0] if names else ""
        location = self.source.of(tree)
        return ast.Versions(value, items, condition, self.block(block), variable, trivia=trivia, location=location)

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

    def _tune(self, tree: Tree[Token], trivia: ast.Trivia) -> ast.Tune:
        location = self.source.of(tree)
        options = _trees(tree, "option")
        if not options:
            blocks = tuple(self.block(k) for k in _trees(tree, "block"))
            return ast.Tune(blocks, trivia=trivia, location=location)
        first, *_ = _trees(tree)
        default = self.expression(first) if first.data != "option" else None
        words, conditions, blocks = zip(*map(self._option, options), strict=True)
        return ast.Tune(blocks, _names(tree)[0], default, words, conditions, trivia=trivia, location=location)

    def _option(self, tree: Tree[Token]) -> tuple[str, ast.Expression | None, ast.Block]:
        where, block = _trees(tree)
        return _names(tree)[0], self.expressions.where(where), self.block(block)

    def _block_or_fail(self, tree: Tree[Token]) -> ast.Block | ast.Fail:
        return self._fail(tree) if tree.data == "fail" else self.block(tree)

    def _end_of_try(self, tree: Tree[Token]) -> ast.Fail | ast.Remark | None:
        for last in _trees(tree, "fail"):
            return self._fail(last)
        for last in _trees(tree, "remark"):
            return ast.Remark(self.expression(_trees(last)[0]), location=self.source.of(last))
        return None

    def _fail(self, tree: Tree[Token]) -> ast.Fail:
        return ast.Fail(_string(tree), location=self.source.of(tree))
