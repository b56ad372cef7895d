"""Between what the elements of integers lie."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tcpx.payload.ir import Operation, Value
from tcpx.payload.sizes import Dim
from tcpx.payload.traits.trait import Trait, declared

Range = tuple[Dim, Dim]
"""Numbers from the first on to just below the second."""


class Ranges(Trait[Operation]):
    """What is known of integers that an operation gives; `of` tells it of other values."""

    __slots__ = ()

    @declared
    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        """Between what the elements of an integer result are known to lie, the last excluded. None: anywhere."""
        del number, of
        return None

    @declared
    def argument_range(self, argument: Value, of: Callable[[Value], Range | None]) -> Range | None:
        """The same of an argument of a region."""
        del argument, of
        return None

    @declared
    def result_order(self, number: int, of: Callable[[Value], Collection[str]]) -> Collection[str]:
        """What is known of the elements of a result beside their range: `value_ranges.ORDERS`."""
        del number, of
        return ()
