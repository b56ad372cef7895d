"""What an operation is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tcpx.payload.traits.trait import DeclaredValue, Trait, declared

if TYPE_CHECKING:
    from tcpx.payload.interfaces import Tileable
    from tcpx.payload.ir import Operation, Value


class Expansion(Trait["Tileable"]):
    """Simpler operations that compute the same."""

    __slots__ = ()
    op: Tileable

    @DeclaredValue
    def expands_first(self) -> bool:
        """Whether it is short for what it decomposes into: no step of a schedule sees it."""
        return False

    @DeclaredValue
    def reason_to_expand(self) -> str:
        """Why it is, where a change of the payload would leave an operation of its class."""
        return ""

    @declared
    def decompose(self, build: Callable[[Operation], Value]) -> Sequence[Value]:
        """Build simpler operations on tensors that compute the results, and return what replaces these; () where it is
        not made of any."""
        del build
        return ()

    @declared
    def expansion(self, build: Callable[[Operation], Value], args: Sequence[Value]) -> Value | None:
        """A lane-wise operation in terms of simpler ones, for targets without a row for it; None if it has none."""
        del build, args
        return None
