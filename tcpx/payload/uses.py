"""Ordered sets with membership and removal that do not walk them: the use list of a value, the copies of a handle."""

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, cast, overload

if TYPE_CHECKING:
    from tcpx.payload.ir import Operation

Use = tuple["Operation", int]
"""A user, and which of its operands it is."""
Item = TypeVar("Item", bound=Hashable)


class Ticketed(Sequence[Item], Generic[Item]):
    """Items in the order in which they were added.

    Every item keeps the ticket it got when it was added, so a removed one can be put back where it was.
    """

    __slots__ = ("_held", "_next", "_tickets")

    def __init__(self) -> None:
        self._held: list[tuple[int, Item]] = []
        self._tickets: dict[Item, int] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Item]:
        return iter([item for _, item in self._held])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(cast("Sequence[object]", other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __contains__(self, item: object) -> bool:
        return item in self._tickets

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [item for _, item in self._held[index]]
        return self._held[index][1]

    @property
    def has_repetitions(self) -> bool:
        """Whether an item is listed more than once."""
        return len(self._held) != len(self._tickets)

    def append(self, item: Item) -> None:
        """Add an item behind all others."""
        ticket = self._next
        self._next = ticket + 1
        self._tickets[item] = ticket
        self._held.append((ticket, item))

    def remove(self, item: Item) -> int:
        """Take an item away; returns its ticket. Raises KeyError if it is not there."""
        ticket = self._tickets.pop(item)
        del self._held[bisect_left(self._held, ticket, key=_ticket)]
        return ticket

    def put_back(self, item: Item, ticket: int) -> None:
        """Add a removed item where it was."""
        self._tickets[item] = ticket
        if not self._held or self._held[-1][0] < ticket:
            self._held.append((ticket, item))
        else:
            self._held.insert(bisect_left(self._held, ticket, key=_ticket), (ticket, item))

    def clear(self) -> None:
        """Take all items away."""
        self._held.clear()
        self._tickets.clear()


class Uses(Ticketed[Use]):
    """The uses of one value; `unverified` holds what was added since the verifier last looked."""

    __slots__ = ("unverified",)

    def __init__(self) -> None:
        super().__init__()
        self.unverified: list[Use] = []

    def append(self, item: Use) -> None:
        """Add a use behind all others."""
        super().append(item)
        self.unverified.append(item)


def _ticket(entry: tuple[int, Hashable]) -> int:
    return entry[0]
