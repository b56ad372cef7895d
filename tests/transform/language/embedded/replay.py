"""Records a parsed schedule again, statement by statement, through what Python offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import tcpx
from tcpx.installed import LIBRARY
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import CONSTANTS, FUNCTIONS
from tcpx.transform.language.embedded import Body
from tcpx.transform.language.parser import parse_schedule
from tcpx.transform.language.printed_expressions import print_expression, print_pattern

OPERATORS = {
    "+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__floordiv__", "**": "__pow__", "%": "__mod__", "<": "__lt__",
    "<=": "__le__", ">": "__gt__", ">=": "__ge__", "==": "__eq__", "!=": "__ne__",
}  # fmt: skip


def replayed(file: ast.File, schedule_path: Sequence[Path] = ()) -> tcpx.ScheduleFile:
    """The file, recorded; imports are also looked for in `schedule_path`."""
    made = tcpx.ScheduleFile(file.path, schedule_path)
    functions = functions_of(file, schedule_path)
    for item in file.items:
        match item:
            case ast.Import():
                made.imports(item.path, alias=item.alias)
            case ast.Sequence() | ast.Matcher():
                results = [str(r) for r in item.results]
                start = made.sequence if isinstance(item, ast.Sequence) else made.matcher
                with start(item.name, results=results, doc=item.trivia.doc) as s:
                    Replay(s, functions).all_of(item)
            case ast.Function():
                with made.function(item.name, result=str(item.result), doc=item.trivia.doc) as s:
                    replay = Replay(s, functions)
                    replay.params(item)
                    for statement in item.lets:
                        replay.statement(statement)
                    s.return_(replay.value(item.value))
            case ast.View():
                with made.view(item.name, doc=item.trivia.doc) as s:
                    replay = Replay(s, functions)
                    replay.params(item)
                    for statement in item.lets:
                        replay.statement(statement)
            case ast.Schedule():
                with made.schedule(item.name, expects=item.expects, doc=item.trivia.doc) as s:
                    Replay(s, functions).all_of(item)
            case _:
                continue
    return made


def written(pattern: ast.Pattern) -> str:
    """A pattern as Python writes it, without its glob."""
    return print_pattern(replace(pattern, glob=""))


def functions_of(file: ast.File, folders: Sequence[Path]) -> frozenset[str]:
    """What the functions of the file and of its imports are called there: their values are no steps."""
    found = {item.name for item in file.items if isinstance(item, ast.Function)}
    for item in file.items:
        if isinstance(item, ast.Import):
            there = [folder / item.path for folder in (*folders, LIBRARY) if (folder / item.path).is_file()]
            read = [parse_schedule(path.read_text(encoding="utf-8"), str(path)) for path in there[:1]]
            alias = item.alias or Path(item.path).stem
            found |= {f"{alias}.{f.name}" for tree in read for f in tree.items if isinstance(f, ast.Function)}
    return frozenset(found)


class Replay:
    """One body."""

    def __init__(self, s: Body, functions: frozenset[str] = frozenset()) -> None:
        self.s = s
        self.functions = functions
        self.known: dict[str, Any] = {}
        self.in_where = False

    def all_of(self, item: ast.Sequence | ast.Matcher | ast.Schedule) -> None:
        self.params(item)
        self.block(item.body)

    def params(self, item: ast.Function | ast.Sequence | ast.Matcher | ast.View | ast.Schedule) -> None:
        for p in item.params:
            default = None if p.default is None else self.value(p.default)
            self.known[p.name] = self.s.param(str(p.type), default, name=p.name, doc=p.trivia.doc)

    def block(self, block: ast.Block) -> None:
        for statement in block.statements:
            self.statement(statement)

    def inside(self, context: AbstractContextManager[None], body: ast.Block) -> None:
        with context:
            self.block(body)

    def statement(self, statement: ast.Statement) -> None:
        s = self.s
        match statement:
            case ast.Let():
                self.let(statement)
            case ast.Knob():
                default = self.value(statement.default)
                domain = None if statement.domain is None else self.value(statement.domain)
                limit = None if statement.limit is None else self.value(statement.limit)
                self.known[statement.name] = s.knob(
                    str(statement.type), default, domain, separate=statement.separate, name=statement.name,
                    up_to=limit, doc=statement.trivia.doc,
                )  # fmt: skip
            case ast.Require():
                s.require(self.value(statement.condition), statement.message)
            case ast.Do():
                step, positional, named = self.called(statement.call, s.optional if statement.optional else s)
                step(*positional, **named)
            case ast.Return():
                s.return_(*map(self.value, statement.values))
            case ast.ForEach():
                self.loop(statement)
            case ast.Try():
                self.inside(s.try_(), statement.alternatives[0])
                for body in statement.alternatives[1:]:
                    self.inside(s.else_(), body)
                self.orelse(statement.orelse)
            case ast.Tune():
                words = statement.words or ("",) * len(statement.alternatives)
                conditions = [None if c is None else self.value(c) for c in statement.conditions] or [None] * len(words)
                default = None if statement.default is None else self.value(statement.default)
                first = s.tune(statement.name, words[0], default=default, where=conditions[0])
                self.inside(first, statement.alternatives[0])
                for word, where, body in zip(words[1:], conditions[1:], statement.alternatives[1:], strict=True):
                    self.inside(s.or_tune(word, where=where), body)
            case ast.Versions():
                self.versions(statement)
            case _:
                self.branches(statement)

    def versions(self, statement: ast.Versions) -> None:
        target, items = self.value(statement.target), self.value(statement.items)
        if not statement.variable:
            self.inside(self.s.versions(target, by=self.value(statement.condition), at=items), statement.body)
            return

        def when(item: Any) -> Any:
            self.known[statement.variable] = item
            return self.value(statement.condition)

        with self.s.versions_for(target, statement.variable, items, when) as item:
            self.known[statement.variable] = item
            self.block(statement.body)

    def branches(self, statement: ast.If | ast.Case | ast.Specialize) -> None:
        s = self.s
        match statement:
            case ast.If():
                for k, branch in enumerate(statement.branches):
                    self.inside((s.elif_ if k else s.if_)(self.value(branch.condition)), branch.body)
            case ast.Specialize():
                first, *others = statement.branches
                subject = self.value(statement.target)
                self.inside(s.specialize_when(subject, self.value(first.condition)), first.body)
                for branch in others:
                    self.inside(s.else_when(self.value(branch.condition)), branch.body)
            case ast.Case():
                for k, arm in enumerate(statement.arms):
                    where = self.where(arm.where)
                    named = {"glob": arm.pattern.glob, "where": where}
                    subject = [] if k else [self.value(statement.subject)]
                    start: Any = s.or_case if k else s.case
                    self.inside(start(*subject, written(arm.pattern), **named), arm.body)
        self.orelse(statement.orelse)

    def orelse(self, orelse: ast.Block | ast.Fail | ast.Remark | None) -> None:
        if isinstance(orelse, ast.Fail):
            self.s.else_fail(orelse.message)
        elif isinstance(orelse, ast.Remark):
            self.s.else_remark(self.value(orelse.target))
        elif orelse is not None:
            self.inside(self.s.else_(), orelse)

    def let(self, statement: ast.Let) -> None:
        names, value = statement.names, statement.value
        is_function = isinstance(value, ast.Call) and print_expression(value.function) in self.functions
        if isinstance(value, ast.Call) and self.is_step(value) and not is_function:
            made = self.call(value, self.s.named(*names, optional=statement.optional))
        else:
            made = self.s.let(self.value(value), name=names[0], doc=statement.trivia.doc)
        for name, one in zip(names, made if len(names) > 1 else [made], strict=True):
            self.known[name] = one

    def loop(self, statement: ast.ForEach) -> None:
        names = statement.variables
        for made in self.s.each(self.value(statement.items), *names):
            self.known.update(zip(names, made if len(names) > 1 else [made], strict=True))
            self.block(statement.body)

    def is_step(self, call: ast.Call) -> bool:
        function = call.function
        if isinstance(function, ast.Name):
            return function.name not in FUNCTIONS
        return isinstance(function, ast.Attribute) and isinstance(function.base, ast.Name) and (
            function.base.name not in (*self.known, "it", "target")
        )  # fmt: skip

    def call(self, call: ast.Call, steps: Any) -> Any:
        step, positional, named = self.called(call, steps)
        return step(*positional, **named)

    def called(self, call: ast.Call, steps: Any) -> tuple[Any, list[Any], Mapping[str, Any]]:
        function: Any = call.function
        step: Any = steps
        if isinstance(function, ast.Attribute):
            step = (
                getattr(step, getattr(function.base, "name", "")) if self.is_step(call) else self.value(function.base)
            )
        positional = [self.value(a.value) for a in call.arguments if not a.name]
        named: Mapping[str, Any] = {
            f"{a.name}_" if a.name in ("for", "as", "in") else a.name: self.value(a.value)
            for a in call.arguments
            if a.name
        }
        return getattr(step, function.name), positional, named

    def where(self, node: ast.Expression | None) -> Any:
        """A condition: its bare names are what is asked of the candidate."""
        self.in_where = True
        made = None if node is None else self.value(node)
        self.in_where = False
        return made

    def value(self, node: ast.Expression) -> Any:
        s = self.s
        match node:
            case ast.Literal():
                return node.value
            case ast.Name():
                if node.name in self.known:
                    return self.known[node.name]
                if node.name == "it":
                    return s.it
                if node.name in CONSTANTS:
                    return getattr(s, node.name)
                return s.dim(node.name) if self.in_where else node.name
            case ast.ListOf():
                return [self.value(item) for item in node.items]
            case ast.MapOf():
                pairs = [(self.value(k), self.value(v)) for k, v in node.entries]
                once = len({id(k) if not isinstance(k, str) else k for k, _ in pairs}) == len(pairs)
                return dict(pairs) if once else pairs
            case ast.Unary(operator="not"):
                return ~self.value(node.operand)
            case ast.Unary():
                return -self.value(node.operand)
            case ast.Attribute():
                base = self.value(node.base)  # a bare name, elsewhere than in a `where`, is a schedule that is imported
                return getattr(s.dim(base) if isinstance(base, str) else base, node.name)
            case ast.Call():
                return self.call(node, s)
            case _:
                return self.composed(node)

    def composed(self, node: ast.Binary | ast.Padded | ast.Range | ast.Conditional | ast.Selection | ast.Match) -> Any:
        s = self.s
        match node:
            case ast.Binary(operator="and"):
                return s.and_(self.value(node.lhs), self.value(node.rhs))
            case ast.Binary(operator="or"):
                return s.or_(self.value(node.lhs), self.value(node.rhs))
            case ast.Binary():
                lhs, rhs = self.value(node.lhs), self.value(node.rhs)
                if isinstance(lhs, str) and node.operator in "/%":
                    lhs = s.dim(lhs)
                if isinstance(lhs, int | float | str) and not isinstance(rhs, int | float | str):
                    return getattr(rhs, REFLECTED[node.operator])(lhs)
                return getattr(lhs, OPERATORS[node.operator])(rhs)
            case ast.Padded():
                assert isinstance(node.digit, ast.Name)
                return s.dim(node.digit.name).padded_to(self.value(node.to))
            case ast.Range():
                return s.range(self.value(node.lower), self.value(node.upper))
            case ast.Conditional():
                return s.if_else(self.value(node.condition), self.value(node.then), self.value(node.orelse))
            case ast.Selection():
                return self.value(node.base).inside(self.value(node.scope))
            case ast.Match():
                where = self.where(node.where)
                start = getattr(s, f"match_{node.cardinality}")
                return start(written(node.pattern), self.value(node.scope), glob=node.pattern.glob, where=where)


REFLECTED = {o: f"__r{name[2:]}" for o, name in OPERATORS.items() if o in ("+", "-", "*", "/", "**", "%")}
