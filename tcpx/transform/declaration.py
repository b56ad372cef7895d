"""How a transform is declared: once, for the engine, the checker, the reference page and the search space.

    @register
    class Unroll(Transform):
        '''Replace a loop by copies of its body. ...reference page, with a before -> after example...'''

        name = "unroll"
        category = Category.LOOPS
        parameters = (
            Parameter("loop", LOOP, doc="the loop to unroll"),
            Parameter("factor", INT, default=None, doc="copies per iteration; all of them if not given"),
        )
        results = (Result.LOOP,)

        def apply(self, ctx: TransformContext, args: Arguments) -> Results:
            loop, factor = args.loop("loop"), args.optional_int("factor")
            ...
            return (unrolled,)

`apply` is called once per copy of its handles, with concrete operations; all calls of a statement are one transaction.
It returns one operation or value per declared result (`LOOPS`: one per entry of its map).
"""

import importlib
import pkgutil
import sys
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from threading import RLock
from typing import ClassVar, TypeVar

from tcpx.payload.diagnostics import Diagnostic, Direction, ScheduleError
from tcpx.payload.ir import Operation, Value
from tcpx.records import frozen
from tcpx.suggestions import did_you_mean
from tcpx.transform.arguments import (
    Arguments,
    ArgumentValue,
    Digit,
    DimSizes,
    DimStep,
    OperandRef,
    TransformContext,
    ValueRef,
    value_of,
)

__all__ = [
    "BOOL", "DIM", "DIMS", "DIM_SIZES", "DIM_STEPS", "DTYPE", "FLOAT", "FUNC", "INT", "INTS", "LAYOUT", "LOOP", "LOOPS",
    "NAME", "OP", "OPS", "OP_OR_LOOP", "PREDICATE", "REQUIRED", "SIZE", "STRING", "VALUE",
    "ArgumentValue", "Arguments", "Category", "Digit", "DimSizes", "DimStep", "OperandRef", "Parameter",
    "ParameterKind", "ParameterType", "Required", "Result", "Results", "Transform", "TransformContext", "ValueRef",
    "enum", "find", "is_own", "known_transform", "op_of", "plugin_notes", "plugin_problems", "register", "transforms",
    "value_of",
]  # fmt: skip


class ParameterKind(Enum):
    """What a parameter takes; the value is its name in the language."""

    OP = "op"
    LOOP = "loop"
    OP_OR_LOOP = "op or loop"
    OPS = "list of op"
    LOOPS = "list of loop"
    VALUE = "value"
    FUNC = "func"
    DIM = "dim"
    DIMS = "list of dim"
    DIM_SIZES = "map from dim to size"
    DIM_STEPS = "map from dims to sizes"
    LAYOUT = "layout"
    INT = "int"
    INTS = "list of int"
    SIZE = "size"
    FLOAT = "float"
    BOOL = "bool"
    STRING = "string"
    NAME = "name"
    ENUM = "word"
    DTYPE = "dtype"
    PREDICATE = "condition"


@frozen
class ParameterType:
    """A kind, restricted to one class of the operation tree or to a choice of words where that applies."""

    kind: ParameterKind
    op_class: str = ""
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.op_class:
            return f"{self.kind.value}<{self.op_class}>"
        return " | ".join(self.choices) if self.choices else self.kind.value


OP = ParameterType(ParameterKind.OP)
LOOP = ParameterType(ParameterKind.LOOP)
OP_OR_LOOP = ParameterType(ParameterKind.OP_OR_LOOP)
"""Also a function: anything that can be walked."""
OPS = ParameterType(ParameterKind.OPS)
LOOPS = ParameterType(ParameterKind.LOOPS)
VALUE = ParameterType(ParameterKind.VALUE)
FUNC = ParameterType(ParameterKind.FUNC)
DIM = ParameterType(ParameterKind.DIM)
"""A dim of the first op: a bare name, never a variable."""
DIMS = ParameterType(ParameterKind.DIMS)
DIM_SIZES = ParameterType(ParameterKind.DIM_SIZES)
DIM_STEPS = ParameterType(ParameterKind.DIM_STEPS)
"""The same where a dim may stand several times."""
LAYOUT = ParameterType(ParameterKind.LAYOUT)
INT = ParameterType(ParameterKind.INT)
INTS = ParameterType(ParameterKind.INTS)
SIZE = ParameterType(ParameterKind.SIZE)
FLOAT = ParameterType(ParameterKind.FLOAT)
BOOL = ParameterType(ParameterKind.BOOL)
STRING = ParameterType(ParameterKind.STRING)
NAME = ParameterType(ParameterKind.NAME)
"""A bare name that is no variable: a class of the operation tree, an instruction row."""
DTYPE = ParameterType(ParameterKind.DTYPE)
PREDICATE = ParameterType(ParameterKind.PREDICATE)


def op_of(op_class: str) -> ParameterType:
    """`op<contract>`: an op of this class of the operation tree, or below it."""
    return ParameterType(ParameterKind.OP, op_class=op_class)


def enum(*choices: str) -> ParameterType:
    """One of these bare words."""
    return ParameterType(ParameterKind.ENUM, choices=choices)


class Required(Enum):
    """The default of a parameter that has none."""

    REQUIRED = "required"


REQUIRED = Required.REQUIRED


@frozen
class Parameter:
    """One parameter. A default of None means that it may be absent."""

    name: str
    type: ParameterType
    default: Required | int | float | bool | str | tuple[str, ...] | None = REQUIRED
    doc: str = ""

    @property
    def is_required(self) -> bool:
        return isinstance(self.default, Required)

    def __str__(self) -> str:
        """As it stands in a signature: `tail: none | pad = none`."""
        if self.is_required or self.default is None:
            return f"{self.name}{'?' if self.default is None else ''}: {self.type}"
        shown = str(self.default).lower() if isinstance(self.default, bool) else str(self.default)
        return f"{self.name}: {self.type} = {shown}"


class Result(Enum):
    """What a transform returns. LOOPS is one loop per entry of its first DIM_SIZES (or DIMS) argument, TARGET an
    operation or a loop, as the target is."""

    LOOP = "loop"
    LOOPS = "loops"
    OP = "op"
    TARGET = "target"
    VALUE = "value"


Results = tuple[Operation | Value, ...]


class Category(Enum):
    """The rows of the vocabulary table."""

    OPERATION_TREE = "operation tree"
    TILING = "tiling"
    FUSION = "fusion"
    LOOPS = "loops"
    LAYOUT_AND_MEMORY = "layout and memory"
    VECTOR = "vector"
    TYPES = "types"
    GROUPS_AND_CALLS = "groups and calls"
    CLEANUP_AND_LOWERING = "cleanup and lowering"
    INSPECTION = "inspection"


class Transform:
    """Base of all transforms; the docstring of a subclass is its reference page."""

    name: ClassVar[str]
    category: ClassVar[Category]
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    results: ClassVar[tuple[Result, ...]] = ()
    mutates: ClassVar[bool] = True
    """False: inspection, which need not change the payload. A step of another transform that changes nothing is an
    error unless the schedule says `optional`."""
    ends: ClassVar[tuple[str, ...]] = ()
    """Parameters whose handles end with the step, because what they denote is gone in every case."""
    marks: ClassVar[bool] = True
    """False: inspection, annotation and cleanup, which do not make an op `scheduled`."""
    needs_count: ClassVar[bool] = True
    """Whether a loop that it takes has to have a number of iterations: what it does to the loop would change how often
    one on a condition runs."""

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        """Do it to one copy, through `ctx.rewriter`. Raise `ctx.fail(...)` where a precondition is not met."""
        raise ctx.fail(
            f"the transform `{self.name}` has no effect", found="no `apply`", required="a class that defines `apply`"
        )

    @classmethod
    def parameter(cls, name: str) -> Parameter | None:
        return next((p for p in cls.parameters if p.name == name), None)

    @classmethod
    def signature(cls) -> str:
        """`tile(target: op, sizes: map from dim to size, parallel: bool = false) -> loops`."""
        results = ", ".join(r.value for r in cls.results)
        head = f"{cls.name}({', '.join(map(str, cls.parameters))})"
        return f"{head} -> {results}" if results else head


TransformT = TypeVar("TransformT", bound=type[Transform])
_REGISTRY: dict[str, type[Transform]] = {}
_LOADED: list[str] = []
_PROBLEMS: list[Diagnostic] = []
_LOADING = RLock()


def register(cls: TransformT) -> TransformT:
    """Class decorator: make a transform known by its name. Raises ScheduleError for a declaration that is not whole,
    and for a name that is taken."""
    _check_declaration(cls)
    known = _REGISTRY.get(cls.name) or _own(cls.name, cls.__module__)
    if known is not None and known is not cls:
        raise ScheduleError(
            Diagnostic(
                f"two transforms are called `{cls.name}`",
                required="a name that is free",
                found=f"`{cls.name}` in {known.__module__} and in {cls.__module__}",
                fix=Direction("give the new one another name"),
            )
        )
    _REGISTRY[cls.name] = cls
    return cls


def _check_declaration(cls: type[Transform]) -> None:
    where = f"{cls.__module__}.{cls.__qualname__}"
    name: object = getattr(cls, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise _incomplete(
            f"the transform {where} has no name", '`name = "word"`', "none" if name is None else str(name)
        )
    if not isinstance(getattr(cls, "category", None), Category):
        raise _incomplete(f"the transform `{name}` has no category", "`category = Category.LOOPS` or another", "none")
    if not cls.__doc__ and sys.flags.optimize < 2:  # `python -OO` leaves docstrings out
        raise _incomplete(f"the transform `{name}` is not documented", "a docstring, its reference page", "none")
    names = [p.name for p in cls.parameters]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise _incomplete(
            f"the transform `{name}` has two parameters of one name", "different names", f"`{twice}` twice"
        )


def _incomplete(message: str, required: str, found: str) -> ScheduleError:
    return ScheduleError(Diagnostic(message, required=required, found=found))


@cache
def _own_names() -> frozenset[str]:
    """The files of `tcpx/transform/ops/`: each is called like the transform in it."""
    return frozenset(found.name for found in pkgutil.iter_modules([str(Path(__file__).with_name("ops"))]))


def _own(name: str, importing: str = "") -> type[Transform] | None:
    """The transform of tcpx of this name, whose file is imported unless it is the one that is `importing`."""
    module = f"tcpx.transform.ops.{name}"
    if name not in _own_names() or module == importing:
        return None
    importlib.import_module(module)
    return _REGISTRY[name]


def is_own(name: str) -> bool:
    """Whether a transform that comes with tcpx has this name; nothing is imported."""
    return name in _own_names()


def foreign_transforms() -> tuple[type[Transform], ...]:
    """The transforms that are known and do not come with tcpx."""
    return tuple(held for name, held in _REGISTRY.items() if name not in _own_names())


def known_transform(name: str) -> type[Transform] | None:
    """The transform of this name; None if there is none. Of those of tcpx only its file is imported, the plugins only
    where it is not one of them."""
    with _LOADING:
        return _REGISTRY.get(name) or _own(name) or transforms().get(name)


def transforms() -> Mapping[str, type[Transform]]:
    """All transforms by name, sorted. On the first call, the files of `tcpx/transform/ops/` are imported, then the
    plugins of other packages; those that cannot be used are in `plugin_problems`."""
    with _LOADING:
        if not _LOADED:
            _LOADED.append(__name__)
            for name in sorted(_own_names()):
                _own(name)
            from tcpx.transform.plugins import load_plugins  # imported here: plugins.py imports this file

            _PROBLEMS.extend(load_plugins(_REGISTRY))
        return dict(sorted(_REGISTRY.items()))


def plugin_problems() -> tuple[Diagnostic, ...]:
    """Why transforms of installed packages cannot be used; () if all can."""
    transforms()
    return tuple(_PROBLEMS)


def plugin_notes() -> tuple[str, ...]:
    """For an error about an unknown name: it may be one of a package that failed to load."""
    return tuple(f"{d.message}: {d.found}" for d in plugin_problems())


def find(name: str) -> type[Transform]:
    """The transform of this name; a ScheduleError offers the nearest one."""
    known = known_transform(name)
    if known is None:
        raise ScheduleError(
            Diagnostic(
                f"there is no transform `{name}`",
                required="the name of a transform",
                found=name,
                notes=plugin_notes(),
                fix=did_you_mean(name, transforms()),
            )
        )
    return known
