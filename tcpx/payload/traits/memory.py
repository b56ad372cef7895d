"""What an operation does to memory, before it is lowered to buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcpx.payload.ir import Operation
from tcpx.payload.memory_effects import Move
from tcpx.payload.sizes import Dim
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.trait import DeclaredValue, Trait, declared
from tcpx.payload.types import shape_of


class Memory(Trait[Operation]):
    """What is read and written, when, and what may share memory. The maps of a structured operation say it."""

    __slots__ = ()

    @DeclaredValue
    def has_side_effects(self) -> bool:
        """Whether it does more than give its results."""
        return False

    @DeclaredValue
    def is_hint(self) -> bool:
        """Whether its effect changes no values."""
        return False

    @DeclaredValue
    def computes_result(self) -> bool:
        """Whether elements of the result are computed, not only moved there."""
        return False

    @DeclaredValue
    def leaves_undefined(self) -> bool:
        """Whether no element of the result has a value yet."""
        return False

    @DeclaredValue
    def has_own_memory(self) -> bool:
        """Whether the result must not share memory with anything else."""
        return False

    @DeclaredValue
    def workspace(self) -> tuple[Dim, Dim]:
        """Bytes of workspace that the operation needs while it runs, and how many of them are live at once; its
        attribute `offset` says where."""
        return 0, 0

    @declared
    def moves(self) -> Sequence[Move]:
        """The operands whose elements the operation hands on, and where they go."""
        return ()

    @declared
    def part_read(self, index: int) -> Tile | None:
        """The part of operand `index`, a tensor, that is read; None if none of its elements are."""
        return Tile.full(shape_of(self.op.operands[index].type))

    @declared
    def in_step(self, index: int, number: int = 0) -> Tile | None:
        """The part of a result whose elements are written right after the ones of operand `index` at the same place
        are read, the last time; None if there is none."""
        del index, number
        return None

    @declared
    def gives_up(self) -> Mapping[int, int]:
        """The operands that nothing may read afterwards, each with the number of the result that takes their memory."""
        return {}

    @declared
    def overwritten_by(self, index: int) -> int | None:
        """The number of the result that may lie where operand `index` lies, if `in_step` says so; None for none."""
        return self.gives_up().get(index)
