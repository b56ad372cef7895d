"""What a class of operations says of its dims."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcpx.payload.ir import Operation


def fixed_dims(op: Operation | type[Operation]) -> tuple[str, ...]:
    """The names of its dims, where the class chooses them (`fixed_dims`)."""
    return getattr(op, "fixed_dims", ())


def has_numbered_dims(op: Operation | type[Operation]) -> bool:
    """Whether its dims are d0, d1, .., unless the payload names them (`has_numbered_dims`). If a class declares neither
    this nor `fixed_dims`, the payload always names them."""
    return getattr(op, "has_numbered_dims", False)


def by_dims(op: Operation | type[Operation]) -> tuple[str, ...]:
    """Attributes with an entry for each dim of its first operand (`by_dims`)."""
    return getattr(op, "by_dims", ())


def of_dims(op: Operation | type[Operation]) -> tuple[str, ...]:
    """Attributes that name dims of its first operand by their positions (`of_dims`)."""
    return getattr(op, "of_dims", ())
