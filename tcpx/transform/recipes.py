"""What a stage does to operations, by class: a table that other packages add to."""

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from tcpx.payload.ir import Operation, OpT

RunT = TypeVar("RunT")


class Recipes(Generic[RunT]):
    """The recipes of one stage, functions of a run of it and an operation. That of the nearest class counts: the
    operation's own, then those it inherits from. One that returns False leaves the operation to the next."""

    def __init__(self) -> None:
        self._recipes: dict[type[Operation], Callable[[RunT, Operation], bool | None]] = {}

    def add(self, recipe: Callable[[RunT, OpT], bool | None], *classes: type[OpT]) -> None:
        """Let operations of these classes, and of those derived from them, be done so."""
        for op_class in classes:
            self._recipes[op_class] = cast("Callable[[RunT, Operation], bool | None]", recipe)

    def apply(self, run: RunT, op: Operation) -> bool:
        """Do what the nearest recipe says; False if there is none."""
        for op_class in type(op).__mro__:
            recipe = self._recipes.get(op_class)
            if recipe is not None and recipe(run, op) is not False:
                return True
        return False
