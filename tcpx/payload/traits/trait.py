"""A trait: what belongs together of the answers of an operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar, overload

if TYPE_CHECKING:
    from tcpx.payload.ir import Operation


class _Asked(Protocol):
    @property
    def op(self) -> Operation: ...


T = TypeVar("T")
P = ParamSpec("P")
OpT = TypeVar("OpT", bound="Operation")
TraitT = TypeVar("TraitT", bound=_Asked)

DECLARED: Final[dict[str, str]] = {}
"""The methods that a class of operations may declare for its traits, each with the trait; no field has their names."""


class Trait(Generic[OpT]):
    """An operation, asked about one thing. `Trait(op)` asks one that is known to have the trait; `of` in a trait gives
    None for one that has not.

    A class of operations declares an answer under the name that it has here, by a method, a property, a constant or a
    field. So the base of all operations has none of these names.
    """

    __slots__ = ("op",)

    def __init__(self, op: OpT) -> None:
        self.op: OpT = op


def declared(method: Callable[Concatenate[TraitT, P], T]) -> Callable[Concatenate[TraitT, P], T]:
    """A method of a trait that a class of operations may declare; this is the answer for one that does not."""
    name = method.__name__
    declares: dict[type, bool] = {}
    DECLARED[name] = method.__qualname__.split(".", maxsplit=1)[0]

    @wraps(method)
    def answer(trait: TraitT, *args: P.args, **kwargs: P.kwargs) -> T:
        kind = type(trait.op)
        if kind not in declares:
            declares[kind] = hasattr(kind, name)
        return getattr(trait.op, name)(*args, **kwargs) if declares[kind] else method(trait, *args, **kwargs)

    return answer


class DeclaredValue(Generic[TraitT, T]):
    """A value of a trait that a class of operations may declare, by a constant, a property or a field; `default` gives
    it for one that does not."""

    def __init__(self, default: Callable[[TraitT], T]) -> None:
        self.default, self.name = default, default.__name__
        self.declares: dict[type, bool] = {}
        self.__doc__ = default.__doc__

    @overload
    def __get__(self, trait: None, owner: type[TraitT]) -> Self: ...
    @overload
    def __get__(self, trait: TraitT, owner: type[TraitT]) -> T: ...
    def __get__(self, trait: TraitT | None, owner: type[TraitT]) -> Self | T:
        if trait is None:
            return self
        kind = type(trait.op)
        if kind not in self.declares:
            self.declares[kind] = hasattr(kind, self.name)
        return getattr(trait.op, self.name) if self.declares[kind] else self.default(trait)
