"""The body of a schedule or sequence, as Python records it: statements, blocks, matches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from tcpx.payload.diagnostics import Location
from tcpx.plurals import counted
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.checker.expressions import check_expression
from tcpx.transform.language.checker.patterns import check_type
from tcpx.transform.language.embedded.places import Caller, Use, caller, here
from tcpx.transform.language.embedded.recorder import PENDING, BlockContext, raise_problems
from tcpx.transform.language.embedded.steps import Steps
from tcpx.transform.language.embedded.types import pattern_of, type_of
from tcpx.transform.language.embedded.values import Argument, Dim, Value, any_free, checked_name, refused, tree_of
from tcpx.transform.language.printer import print_statement
from tcpx.transform.language.views import view_of

StatementT = TypeVar("StatementT", bound=ast.Statement)
StatementOf = Callable[[ast.Block], ast.Statement]


class Body(Steps):
    """Records one sequence or schedule; `with file.sequence(..) as s:` gives it.

    Its attributes are what the language offers: every transform with the parameters it declares, functions, the
    sequences of the file, imports by their alias, `threads`, dtypes. Statements whose words Python keeps for itself
    end in `_`. Names are those that the source text assigns to, and have to be said where
    there is none; where one is taken already, it gets a number.
    """

    # -- declarations and simple statements --------------------------------------------------------------------------

    def param(self, type: str, default: Argument | None = None, *, name: str = "", doc: str = "") -> Value:
        """A parameter, by its type in the language: `"op<contract>"`. Parameters come first."""
        place, recorder = caller(), self._recorder
        if recorder.blocks[0] or len(recorder.blocks) > 1:
            raise refused("a parameter stands before the statements", "`param` first", "a statement before it")
        value = tree_of(default, place.location) if default is not None else None
        (chosen,) = _names(name, place, "parameter")
        declared = type_of(type, place.location)
        param = ast.Param(chosen, declared, value, trivia=ast.Trivia(doc), location=place.location)
        if value is not None:
            check_expression(value, recorder.scope)
        view = view_of(declared, recorder.scope.unit)
        recorder.scope.bind(chosen, check_type(declared, recorder.scope), place.location, view=view)
        raise_problems(recorder.scope.problems)
        recorder.params.append(param)
        return recorder.named(chosen, place.location)

    def knob(
        self,
        type: str,
        default: Argument,
        domain: Argument | None = None,
        *,
        up_to: Argument | None = None,
        separate: bool = False,
        name: str = "",
        doc: str = "",
    ) -> Value:
        """A knob of the search space; its name is part of the interface and is taken as it is."""
        place, recorder = caller(), self._recorder
        where = place.location
        (chosen,) = _names(name, place, "knob")
        within = tree_of(domain, where) if domain is not None else None
        value, trivia = tree_of(default, where), ast.Trivia(doc)
        limit = tree_of(up_to, where) if up_to is not None else None
        declared = type_of(type, where)
        recorder.record(ast.Knob(chosen, declared, value, within, separate, limit, trivia=trivia, location=where))
        return recorder.named(chosen, where)

    def let(self, value: Argument, *, name: str = "", doc: str = "") -> Value:
        """Bind a value. What is assigned to a Python name directly is bound without it."""
        place = caller()
        return self._recorder.let(tree_of(value, place.location), _names(name, place, "`let`"), place.location, doc)

    def require(self, condition: Argument, message: str = "") -> None:
        """A silenceable failure if the condition does not hold."""
        where = here()
        self._recorder.record(ast.Require(tree_of(condition, where), message, location=where))

    def return_(self, *values: Argument) -> None:
        """The results of a sequence."""
        where = here()
        self._recorder.record(ast.Return(tuple(tree_of(v, where) for v in values), location=where))

    @property
    def optional(self) -> Steps:
        """`s.optional.fuse(..)`: leave the step out if it cannot be done or changes nothing."""
        return Steps(self._recorder, is_optional=True)

    def named(self, *names: str, optional: bool = False) -> Steps:
        """`s.named("jr", "ir").tile(..)`: the names of the results, where Python does not assign them."""
        return Steps(self._recorder, names, optional)

    # -- expressions -------------------------------------------------------------------------------------------------

    @property
    def it(self) -> Value:
        """The candidate, in a `where`."""
        return Value(self._recorder, ast.Name("it", location=here()), is_free=True)

    def bound(self, name: str) -> Value:
        """What a pattern as written names, in its `where` and in the arm of a `case` that it begins: `s.bound("b")`."""
        return Value(self._recorder, ast.Name(name, location=here()), is_free=True)

    def dim(self, name: str) -> Dim:
        """A dim in a layout: `s.dim("k") // 4`, `s.dim("k").padded_to(16)`."""
        return Dim(self._recorder, ast.Name(name, location=here()), is_free=True)

    def match_one(self, op_class: str, scope: Value, *, glob: str = "", where: Argument | None = None) -> Value:
        """The one operation of a class (or loop, or what a matcher matches) whose name the glob fits, or that fits a
        pattern as written: `y, b = s.match_one("{ y = add(_, broadcast(b)) }", root)`."""
        return self._match("one", op_class, scope, glob, where)

    def match_some(self, op_class: str, scope: Value, *, glob: str = "", where: Argument | None = None) -> Value:
        """All of them, at least one: `for mm in s.match_some("contract", root):`."""
        return self._match("some", op_class, scope, glob, where)

    def match_any(self, op_class: str, scope: Value, *, glob: str = "", where: Argument | None = None) -> Value:
        """All of them, maybe none."""
        return self._match("any", op_class, scope, glob, where)

    def _match(self, cardinality: str, op_class: str, scope: Value, glob: str, where: Argument | None) -> Value:
        place = caller()
        at = place.location
        condition = tree_of(where, at) if where is not None else None
        pattern = pattern_of(op_class, glob, at)
        node = ast.Match(cardinality, pattern, tree_of(scope, at), condition, location=at)
        return self._recorder.made(node, place, any_free([scope]))

    def range(self, lower: Argument, upper: Argument) -> Value:
        """`lower..upper`, both ends included."""
        return self._made(ast.Range, lower, upper)

    def each(self, items: Argument, *names: str) -> Iterator[Value]:
        """`for a, b in s.each(pairs, "a", "b"):`, a loop whose variables are named here and not by the source text."""
        where = here()
        if not names:
            raise refused("this loop has no variable", "a name for each", "none", 'write `s.each(.., "x")`')
        wanted = tuple(checked_name(name, where) for name in names)
        return self._recorder.for_each(tree_of(items, where), where, wanted, len(wanted) > 1)

    def if_else(self, condition: Argument, then: Argument, orelse: Argument) -> Value:
        """The conditional expression `then if condition else orelse`."""
        return self._made(ast.Conditional, condition, then, orelse)

    def and_(self, first: Argument, *others: Argument) -> Value:
        """All of the conditions hold; `a & b` is the same."""
        return self._joined("and", first, others, caller())

    def or_(self, first: Argument, *others: Argument) -> Value:
        """One of the conditions holds; `a | b` is the same."""
        return self._joined("or", first, others, caller())

    def not_(self, condition: Argument) -> Value:
        """The condition does not hold; `~a` is the same."""
        return self._made(partial(ast.Unary, "not"), condition)

    def _made(self, node_of: Callable[..., ast.Expression], *parts: Argument) -> Value:
        place = caller()
        node = node_of(*(tree_of(part, place.location) for part in parts), location=place.location)
        return self._recorder.made(node, place, any_free(parts))

    def _joined(self, operator: str, first: Argument, others: Sequence[Argument], place: Caller) -> Value:
        node = tree_of(first, place.location)
        for other in others:
            node = ast.Binary(operator, node, tree_of(other, place.location), location=place.location)
        return self._recorder.made(node, place, any_free([first, *others]))

    # -- blocks ------------------------------------------------------------------------------------------------------

    def if_(self, condition: Argument) -> BlockContext:
        """`with s.if_(..):`, then perhaps `elif_` and `else_`."""
        where = here()
        decided = tree_of(condition, where)
        return self._block(lambda body: ast.If((ast.Branch(decided, body, location=where),), None, location=where))

    def elif_(self, condition: Argument) -> BlockContext:
        """The next branch of `if_`."""
        return self._branch(self._last(ast.If, "elif_", "`if_`"), condition)

    def try_(self) -> BlockContext:
        """`with s.try_():`, then perhaps `else_` as often as needed, and `else_fail`."""
        where = here()
        return self._block(lambda body: ast.Try((body,), None, location=where))

    def tune(
        self, name: str = "", word: str = "", *, default: Argument | None = None, where: Argument | None = None
    ) -> BlockContext:
        """`with s.tune():`, then `or_tune`: the choice is a knob. `s.tune("recipe", "direct")` gives the knob a name
        and this alternative a word; `default` is that of the one taken where nothing tunes."""
        at = here()
        chosen = tree_of(default, at) if default is not None else None
        words = (word,) if name else ()
        conditions = (tree_of(where, at) if where is not None else None,) if name else ()
        return self._block(lambda body: ast.Tune((body,), name, chosen, words, conditions, location=at))

    def or_tune(self, word: str = "", *, where: Argument | None = None) -> BlockContext:
        """The next alternative of `tune`."""
        at, last = here(), self._last(ast.Tune, "or_tune", "`tune`")
        words = (*last.words, *((word,) if last.name else ()))
        condition = tree_of(where, at) if where is not None else None
        conditions = (*last.conditions, *((condition,) if last.name else ()))
        return self._continued(
            last,
            lambda body: replace(last, alternatives=(*last.alternatives, body), words=words, conditions=conditions),
            at,
        )

    def specialize_when(self, target: Argument, condition: Argument) -> BlockContext:
        """Run-time versions of an op or a list; then `else_when`, and `else_` or `else_fail`."""
        where = here()
        subject, decided = tree_of(target, where), tree_of(condition, where)
        return self._block(
            lambda body: ast.Specialize(subject, (ast.Branch(decided, body, location=where),), PENDING, location=where)
        )

    def versions(self, target: Argument, *, by: Argument, at: Argument) -> BlockContext:
        """`versions x by size(x.m) at [48, 256] { }`: one version for each limit, and one for what is larger."""
        where = here()
        subject, size, limits = (tree_of(part, where) for part in (target, by, at))
        return self._block(lambda body: ast.Versions(subject, limits, size, body, location=where))

    def versions_for(
        self, target: Argument, name: str, items: Argument, when: Callable[[Value], Argument]
    ) -> AbstractContextManager[Value]:
        """`versions x for name in items when c { }`: `with s.versions_for(x, "way", ways, lambda way: ..) as way:`."""
        where, recorder = here(), self._recorder
        subject, listed = tree_of(target, where), tree_of(items, where)
        variable = recorder.free_name(checked_name(name, where))
        value = Value(recorder, ast.Name(variable, location=where))
        decided = tree_of(when(value), where)

        def made(body: ast.Block) -> ast.Versions:
            return ast.Versions(subject, listed, decided, body, variable, location=where)

        recorder.check_header(made(_empty(where)))
        block = BlockContext(recorder, lambda body: recorder.add(made(body)), where, (variable,))

        @contextmanager
        def opened() -> Generator[Value]:
            with block:
                yield recorder.named(variable, where)

        return opened()

    def else_when(self, condition: Argument) -> BlockContext:
        """The next version of `specialize_when`."""
        return self._branch(self._last(ast.Specialize, "else_when", "`specialize_when`"), condition)

    def _branch(self, last: ast.If | ast.Specialize, condition: Argument) -> BlockContext:
        where = here()
        branch = ast.Branch(tree_of(condition, where), _empty(where), location=where)
        return self._continued(
            last, lambda body: replace(last, branches=(*last.branches, replace(branch, body=body))), where
        )

    def case(
        self, subject: Value, op_class: str = "", *, glob: str = "", where: Argument | None = None
    ) -> BlockContext:
        """The first arm of a `case`; then `or_case`, and perhaps `else_` or `else_fail`."""
        at = here()
        arm = _arm(op_class, glob, where, at)
        value = tree_of(subject, at)
        names = arm.pattern.names
        return self._block(lambda body: ast.Case(value, (replace(arm, body=body),), None, location=at), names)

    def or_case(self, op_class: str = "", *, glob: str = "", where: Argument | None = None) -> BlockContext:
        """The next arm of `case`."""
        at, last = here(), self._last(ast.Case, "or_case", "`case`")
        arm = _arm(op_class, glob, where, at)
        names = arm.pattern.names
        return self._continued(last, lambda body: replace(last, arms=(*last.arms, replace(arm, body=body))), at, names)

    def else_(self) -> BlockContext:
        """The last block of `if_`, `case` or `specialize_when`; the next one of `try_`."""
        where = here()
        last = self._open_end("else_")
        if isinstance(last, ast.Try):
            return self._continued(last, lambda body: replace(last, alternatives=(*last.alternatives, body)), where)
        return self._continued(last, lambda body: replace(last, orelse=body), where)

    def else_fail(self, message: str) -> None:
        """In the place of the last block of `case`, `try_` or `specialize_when`: fail with a message."""
        where = here()
        last = self._open_end("else_fail")
        if isinstance(last, ast.If):
            raise refused("`if_` has no `else_fail`", "`with s.else_():`", "`else_fail`", where=where)
        self._recorder.blocks[-1][-1] = replace(last, orelse=ast.Fail(message, location=where))

    def else_remark(self, target: Argument) -> None:
        """In the place of the last block of `try_`: what `target` denotes stays as it is, and a remark says why."""
        where, last = here(), self._last(ast.Try, "else_remark", "`try_`")
        end = ast.Remark(tree_of(target, where), location=where)
        self._recorder.blocks[-1][-1] = replace(last, orelse=end)

    def _block(self, statement_of: StatementOf, names: tuple[str, ...] = ()) -> BlockContext:
        where, recorder = here(), self._recorder
        recorder.check_header(statement_of(_empty(where)))
        return BlockContext(recorder, lambda body: recorder.add(statement_of(body)), where, names)

    def _continued(
        self, last: ast.Statement, longer: StatementOf, where: Location, names: tuple[str, ...] = ()
    ) -> BlockContext:
        recorder = self._recorder
        recorder.check_header(longer(_empty(where)), again=True)

        def finish(body: ast.Block) -> None:
            recorder.blocks[-1][-1] = longer(body)

        return BlockContext(recorder, finish, where, names)

    def _last(self, kind: type[StatementT], what: str, behind: str) -> StatementT:
        last = self._recorder.last()
        if isinstance(last, kind):
            return last
        raise refused(f"`{what}` continues nothing", f"{behind} directly before it", _before(last))

    def _open_end(self, what: str) -> ast.If | ast.Case | ast.Try | ast.Specialize:
        last = self._recorder.last()
        if isinstance(last, ast.If | ast.Case | ast.Try | ast.Specialize) and last.orelse in (None, PENDING):
            return last
        raise refused(
            f"`{what}` continues nothing",
            "`if_`, `case`, `try_` or `specialize_when` directly before it, without a last block",
            _before(last),
        )


def _before(last: ast.Statement | None) -> str:
    return f"`{print_statement(last).splitlines()[0]}` before it" if last is not None else "nothing before it"


def _empty(where: Location) -> ast.Block:
    return ast.Block((), location=where)


def _arm(op_class: str, glob: str, where: Argument | None, at: Location) -> ast.Arm:
    condition = tree_of(where, at) if where is not None else None
    return ast.Arm(pattern_of(op_class, glob, at), condition, _empty(at), location=at)


def _names(name: str, place: Caller, what: str) -> tuple[str, ...]:
    """The name said, or the one that Python assigns to."""
    names = (name,) if name else place.names if place.use is Use.ASSIGNED else ()
    if not names or (len(names) > 1 and what != "`let`"):
        is_unknown = place.use is Use.UNKNOWN
        found = "no source text of this line" if is_unknown else counted(len(names), "name")
        fix = 'say it: `name=".."`' if is_unknown else None
        raise refused(f"this {what} has no name", "an assignment to one name, or `name=`", found, fix)
    return names if what == "`let`" else tuple(checked_name(n, place.location) for n in names)
