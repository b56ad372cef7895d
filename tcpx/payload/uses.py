"""The use list of a value: ordered, with membership and removal that do not walk it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from tcpx.payload.ir import Operation

Use = tuple["Operation", int]
"""A user, and which of its operands it is."""


class Uses(Sequence[Use]):
    """The uses of one value in the order in which they were added.

    Every use keeps the ticket it got when it was added, so a removed one can be put back where it was. `unverified`
    holds what was added since the verifier last looked.
    """

    __slots__ = ("_held", "_next", "_tickets", "unverified")

    def __init__(self) -> None:
        self._held: list[tuple[int, Use]] = []
        self._tickets: dict[Use, int] = {}
        self._next = 0
        self.unverified: list[Use] = []

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Use]:
        return iter([use for _, use in self._held])

    def __contains__(self, use: object) -> bool:
        return use in self._tickets

    @overload
    def __getitem__(self, index: int) -> Use: ...
    @overload
    def __getitem__(self, index: slice) -> list[Use]: ...
    def __getitem__(self, index: int | slice) -> Use | list[Use]:
        if isinstance(index, slice):
            return [use for _, use in self._held[index]]
        return self._held[index][1]

    @property
    def has_repetitions(self) -> bool:
        """Whether a use is listed more than once, which breaks a rule of the IR."""
        return len(self._held) != len(self._tickets)

    def append(self, use: Use) -> None:
        """Add a use behind all others."""
        self.put_back(use, self._next)
        self._next += 1
        self.unverified.append(use)

    def remove(self, use: Use) -> int:
        """Take a use away; returns its ticket. Raises KeyError if it is not there."""
        ticket = self._tickets.pop(use)
        del self._held[bisect_left(self._held, ticket, key=_ticket)]
        return ticket

    def put_back(self, use: Use, ticket: int) -> None:
        """Add a removed use where it was."""
        self._tickets[use] = ticket
        if not self._held or self._held[-1][0] < ticket:
            self._held.append((ticket, use))
        else:
            self._held.insert(bisect_left(self._held, ticket, key=_ticket), (ticket, use))

    def clear(self) -> None:
        """Take all uses away."""
        self._held.clear()
        self._tickets.clear()


def _ticket(entry: tuple[int, Use]) -> int:
    return entry[0]
