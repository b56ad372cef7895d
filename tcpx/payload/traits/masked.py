"""Reduction dims that are computed under a mask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from tcpx.payload.contexts import is_less_equal_at
from tcpx.payload.ir import VALID
from tcpx.payload.sizes import Dim, Size, Symbol, Var, as_dim
from tcpx.payload.traits.to_write import wrong_attribute
from tcpx.payload.traits.trait import Trait

if TYPE_CHECKING:
    from tcpx.payload.interfaces import Structured


class Masked(Trait["Structured"]):
    """Iterations of reduction dims that are padding: they are computed, of whatever is there, and hand the accumulators
    on. The attribute `valid` says how many are none."""

    __slots__ = ()

    @classmethod
    def of(cls, op: Structured) -> Self | None:
        """The trait of an operation with such iterations."""
        return cls(op) if VALID in op.attributes and cls(op).valid else None

    @property
    def valid(self) -> Mapping[str, Dim]:
        """Of each reduction dim that is computed under a mask, how many iterations are no padding."""
        held, found = self.op.attributes.get(VALID, ()), dict[str, Dim]()
        for entry in held if isinstance(held, tuple) else (None,):
            match entry:
                case (str() as name, (int() | Size() | Symbol() | Var()) as count) if not isinstance(count, bool):
                    found[name] = as_dim(count)
                case _:
                    raise wrong_attribute(
                        self.op, VALID, 'reduction dims, each with how much is no padding: [["k", 5]]'
                    )
        return found

    def counted(self) -> tuple[Dim, ...]:
        """How many iterations of each dim are no padding."""
        valid, op = self.valid, self.op
        return tuple(valid.get(it.name, extent) for it, extent in zip(op.iterators(), op.domain(), strict=True))

    def mask(self, valid: Mapping[str, Dim]) -> None:
        """Let a detached operation compute its reduction dims under a mask where fewer iterations count than there
        are."""
        op = self.op
        extents = dict(zip((it.name for it in op.iterators()), op.domain(), strict=True))
        short = [(name, count) for name, count in valid.items() if not is_less_equal_at(op, extents[name], count)]
        op.attributes.pop(VALID, None)
        if short:
            op.attributes[VALID] = tuple(short)
