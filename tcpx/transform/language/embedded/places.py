"""The line of Python that records something, and the names that its result is assigned to there.

The names are read from the source text. Where there is none, as in code that `exec` was given, they have to be said.
"""

from __future__ import annotations

import ast
import builtins
import linecache
from collections.abc import Callable
from enum import Enum
from functools import lru_cache

from tcpx.payload.diagnostics import Location
from tcpx.payload.python_lines import Span, frame_outside, location_of, location_outside, source_lines, span_of
from tcpx.records import frozen

_RECORDING = __name__.rpartition(".")[0]
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Use(Enum):
    """What the calling line does with the value it gets."""

    ASSIGNED = "assigned to names"
    DISCARDED = "not used"
    LOOPED = "gone through by `for`"
    OTHER = "part of something else"
    UNKNOWN = "there is no source text that says it"


@frozen
class Caller:
    """A place outside this package. `names` are those assigned to, or the variables of a `for`."""

    location: Location
    use: Use
    names: tuple[str, ...] = ()
    unpacked: bool = False


def here() -> Location:
    """The innermost line of Python outside this package."""
    return location_outside(_RECORDING)


def caller() -> Caller:
    """`here`, and what becomes of the value that is being made."""
    return _caller(_use)


def looper() -> Caller:
    """`here`, where a value is gone through: `LOOPED` with the variables of a `for` or of a comprehension."""
    return _caller(_loop)


def _caller(role: Role) -> Caller:
    frame = frame_outside(_RECORDING)
    code, location, span = frame.f_code, location_of(frame), span_of(frame)
    linecache.checkcache(code.co_filename)
    source = _source("".join(source_lines(frame)))
    node = source.at(span) if source is not None and span is not None else None
    if source is None or node is None:
        return Caller(location, Use.UNKNOWN)
    use, target = role(source, node)
    names, unpacked = _names(target)
    if not set(names) <= {*code.co_varnames, *code.co_cellvars, *code.co_freevars, *code.co_names}:
        return Caller(location, Use.UNKNOWN)  # the text has changed since it was compiled
    return Caller(location, use if names or use is not Use.ASSIGNED else Use.OTHER, names, unpacked)


class _Source:
    """The nodes of a text of Python, by their places."""

    def __init__(self, tree: ast.Module) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self._spans: dict[Span, ast.AST] = {}
        self._ends: dict[tuple[int, int], ast.AST] = {}
        for node in ast.walk(tree):
            self.parents.update((child, node) for child in ast.iter_child_nodes(node))
            if isinstance(node, ast.expr | ast.stmt):
                end = node.end_lineno or 0, node.end_col_offset or 0
                self._spans[Span(node.lineno, node.col_offset, *end)] = node
                if isinstance(node, ast.Call | ast.Attribute):
                    self._ends[end] = node

    def at(self, span: Span) -> ast.AST | None:
        """The innermost node of a span. Python lets a call of a method begin at the line of the method's name."""
        return self._spans.get(span) or self._ends.get((span.end_line, span.end_column))


@lru_cache(maxsize=16)
def _source(text: str) -> _Source | None:
    try:
        return _Source(ast.parse(text)) if text else None
    except (SyntaxError, ValueError):
        return None  # a text that Python did not read itself, such as a template


Role = Callable[[_Source, ast.AST], tuple[Use, ast.expr | None]]
"""What is done with the value of a node, and the target it goes to."""


def _use(source: _Source, node: ast.AST) -> tuple[Use, ast.expr | None]:
    parent = source.parents.get(node)
    match parent:
        case _ if isinstance(node, ast.AugAssign):
            return Use.ASSIGNED, node.target
        case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
            return Use.ASSIGNED, target
        case ast.IfExp(test=test) if test is not node:
            return _use(source, parent)
        case ast.Tuple(elts=elements):
            use, target = _use(source, parent)
            if isinstance(target, ast.Tuple | ast.List) and len(target.elts) == len(elements):
                return use, target.elts[[e is node for e in elements].index(True)]
            return Use.OTHER, None
        case ast.Expr():
            return Use.DISCARDED, None
        case _:
            return Use.OTHER, None


def _loop(source: _Source, node: ast.AST) -> tuple[Use, ast.expr | None]:
    """The place of a loop is that of the value that it goes through, or of the whole of it before Python 3.13."""
    loop = source.parents.get(node)
    if isinstance(node, ast.For):
        loop = node
    elif isinstance(node, _COMPREHENSIONS) and len(node.generators) == 1:
        loop = node.generators[0]
    elif not isinstance(loop, ast.For | ast.comprehension) or loop.iter is not node:
        return Use.OTHER, None
    match loop.iter:
        case ast.Call(func=ast.Name(id=name)) if hasattr(builtins, name):
            return Use.OTHER, None  # `list(x)` goes through it
        case _:
            return Use.LOOPED, loop.target


def _names(target: ast.expr | None) -> tuple[tuple[str, ...], bool]:
    """The names of a target, and whether they are taken out of a tuple."""
    elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    names = tuple(element.id for element in elements if isinstance(element, ast.Name))
    return (names, elements != [target]) if len(names) == len(elements) else ((), False)
