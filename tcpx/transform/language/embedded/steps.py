"""What can be called: transforms, sequences, functions, each with the signature and page of its declaration."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from keyword import iskeyword
from typing import cast

from tcpx.payload.diagnostics import Location, ScheduleError
from tcpx.transform.declaration import ParameterKind, Required, transforms
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import Callee, FunctionCallee, SequenceCallee, find_callee
from tcpx.transform.language.builtins import CONSTANTS, FUNCTIONS, Function
from tcpx.transform.language.checker.calls import result_types
from tcpx.transform.language.checker.scope import Problems
from tcpx.transform.language.embedded.places import Use, caller, here
from tcpx.transform.language.embedded.recorder import Recorder, raise_problems
from tcpx.transform.language.embedded.values import Argument, Value, any_free, tree_of, word_of
from tcpx.transform.language.kinds import MAPS

_WORDS = frozenset((ParameterKind.ENUM, ParameterKind.NAME, ParameterKind.DIM, ParameterKind.DTYPE))
_LISTS_OF_WORDS = frozenset((ParameterKind.DIMS, ParameterKind.LAYOUT))
_WORD_TYPES = frozenset(("dim", "dtype"))


class UnknownNameError(ScheduleError, AttributeError):
    """A name that the schedule language does not have, asked for as an attribute."""


class Steps:
    """What a schedule can call, by name: `s.tile(..)`, `s.size(..)`, a sequence, the constants `s.threads`, `s.f32`.

    A name that Python keeps for itself ends in `_`: `s.prefetch(mm.out, at=ir, for_="write")`.
    """

    def __init__(self, recorder: Recorder, names: tuple[str, ...] = (), is_optional: bool = False) -> None:
        self._recorder = recorder
        self._names = names
        self._is_optional = is_optional

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        word, where = _without_underscore(name), here()
        if word in self._recorder.unit.imports:
            return Library(self._recorder, word, self._names, self._is_optional)
        if word in CONSTANTS:
            return Value(self._recorder, ast.Name(word, location=where))
        return Step(self._recorder, ast.Name(word, location=where), self._names, self._is_optional)

    def __dir__(self) -> list[str]:
        names = [*transforms(), *FUNCTIONS, *self._recorder.unit.sequences, *self._recorder.unit.imports, *CONSTANTS]
        return sorted({*super().__dir__(), *(f"{n}_" if iskeyword(n) else n for n in names)})


class Library(Value):
    """An imported file: its sequences by name."""

    def __init__(self, recorder: Recorder, alias: str, names: tuple[str, ...] = (), is_optional: bool = False) -> None:
        super().__init__(recorder, ast.Name(alias, location=here()))
        self._names = names
        self._is_optional = is_optional

    def recording(self) -> Recorder:
        """Where its sequences are called."""
        return self._recorder

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        function = ast.Attribute(tree_of(self, here()), _without_underscore(name), location=here())
        return Step(self.recording(), function, self._names, self._is_optional)


class Step(Value):
    """Something that can be called by this schedule."""

    def __init__(
        self, recorder: Recorder, function: ast.Name | ast.Attribute, names: tuple[str, ...], is_optional: bool
    ) -> None:
        super().__init__(recorder, function)
        try:
            self._callee = find_callee(function, recorder.unit)
        except ScheduleError as error:
            raise UnknownNameError(error.diagnostic) from None
        self._names = names
        self._is_optional = is_optional
        self.__name__ = function.name
        self.__doc__ = _page(self._callee)
        self.__signature__ = _signature(self._callee)

    def __call__(self, *arguments: Argument, **named: Argument) -> Value:
        """Record a step, or make an expression where the callee is a function."""
        place, function = caller(), tree_of(self, self.node_.location)
        for value in (*arguments, *named.values()):
            if isinstance(value, Value):
                value.require_of(self._recorder)
        given = [("", a) for a in arguments] + [(_without_underscore(n), a) for n, a in named.items()]
        trees = tuple(
            ast.Argument(name, self._argument(k, name, value, place.location), location=place.location)
            for k, (name, value) in enumerate(given)
        )
        call = ast.Call(replace(function, location=place.location), trees, location=place.location)
        recorder = self._recorder
        scope = recorder.scope.inner()
        scope.problems = Problems()
        types = result_types(call, scope, self._is_optional)
        raise_problems(scope.problems)
        if types is None:
            return recorder.made(call, place, any_free([value for _, value in given]))
        names = self._names or place.names
        if (place.use is Use.DISCARDED and not self._names) or (not types and not names):
            recorder.record(ast.Do(call, self._is_optional, location=place.location))
            return Value(recorder, call)
        wanted = names or tuple(t.value for t in types)
        return recorder.let(call, wanted, place.location, unpacked=place.unpacked, optional=self._is_optional)

    def _argument(self, position: int, name: str, value: object, where: Location) -> ast.Expression:
        callee = self._callee
        if isinstance(callee, type):
            parameter = callee.parameter(name) if name else next(iter(callee.parameters[position : position + 1]), None)
            return tree_of(value, where) if parameter is None else _by_kind(parameter.type.kind, value, where)
        params = _declared(callee)
        if name or position < len(params):
            type_ = params.get(name) if name else list(params.values())[position]
            if type_ in _WORD_TYPES:
                return word_of(value, where)
        return tree_of(value, where)


def _by_kind(kind: ParameterKind, value: object, where: Location) -> ast.Expression:
    if kind in _WORDS and not (kind is ParameterKind.NAME and isinstance(value, str) and not value.isidentifier()):
        return word_of(value, where)
    if kind in _LISTS_OF_WORDS and isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return ast.ListOf(tuple(word_of(item, where) for item in items), location=where)
    if kind in MAPS and isinstance(value, list | tuple):
        pairs = cast("list[tuple[object, object]]", value)
        entries = tuple((word_of(key, where), tree_of(size, where)) for key, size in pairs)
        return ast.MapOf(entries, location=where)
    return tree_of(value, where)


def _without_underscore(name: str) -> str:
    """`for_` is `for`: Python keeps the word for itself."""
    return name[:-1] if name.endswith("_") and iskeyword(name[:-1]) else name


def _item(callee: SequenceCallee | FunctionCallee) -> ast.Sequence | ast.Function:
    return callee.sequence if isinstance(callee, SequenceCallee) else callee.function


def _declared(callee: Callee) -> Mapping[str, str]:
    """Parameter name -> type of what is declared in the language."""
    if isinstance(callee, Function | type):
        return {}
    return {p.name: p.type.name for p in _item(callee).params}


def _page(callee: Callee) -> str:
    if isinstance(callee, Function):
        return callee.doc
    return inspect.cleandoc(callee.__doc__ or "") if isinstance(callee, type) else _item(callee).trivia.doc


def _signature(callee: Callee) -> inspect.Signature:
    """The declared parameters; one without a default behind one with a default must be given by name."""
    if isinstance(callee, type):
        rows = [(p.name, str(p.type), p.default) for p in callee.parameters]
    elif isinstance(callee, Function):
        rows = [(name, "", Required.REQUIRED) for name in callee.params]
    else:
        rows = [(p.name, str(p.type), p.default or Required.REQUIRED) for p in _item(callee).params]
    parameters: list[inspect.Parameter] = []
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for name, type_, default in rows:
        shown = inspect.Parameter.empty if isinstance(default, Required) else default
        if shown is inspect.Parameter.empty and parameters and parameters[-1].default is not inspect.Parameter.empty:
            kind = inspect.Parameter.KEYWORD_ONLY
        python_name = f"{name}_" if iskeyword(name) else name
        annotation = type_ or inspect.Parameter.empty
        parameters.append(inspect.Parameter(python_name, kind, default=shown, annotation=annotation))
    return inspect.Signature(parameters)
