"""What a text should have said: for errors, and where a text leaves something out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcpx.payload.indexing_maps import map_dim
from tcpx.payload.sizes import Dim
from tcpx.payload.traits.trait import Trait, declared
from tcpx.payload.types import Type, dtype_of, like, shape_of

if TYPE_CHECKING:
    from tcpx.payload.diagnostics import VerifyError
    from tcpx.payload.interfaces import Structured
    from tcpx.payload.ir import Operation


class ToWrite(Trait["Operation"]):
    """What follows from the operands, and what attributes most probably are."""

    __slots__ = ()

    @declared
    def usual_types(self) -> list[Type] | None:
        """The types of the results that the operands give; None where they leave them open."""
        from tcpx.payload.interfaces import Structured  # an operation, which traits are of: late to break the cycle

        return types_by_maps(self.op) if isinstance(self.op, Structured) else None

    @declared
    def usual_attribute(self, key: str) -> str:
        """What the attribute `key` most probably should be; nothing where that is not known."""
        del key
        return ""


def types_by_maps(op: Structured) -> list[Type] | None:
    """The types of the results where their shapes follow from the inputs, with the dtype of the first input."""
    known: dict[str, Dim] = {}
    for indexing_map, value in zip(op.maps(), op.inputs, strict=True):
        known |= dict(zip(filter(None, map(map_dim, indexing_map)), shape_of(value.type), strict=False))
    maps = [[map_dim(expression) or "" for expression in result_map] for result_map in op.result_maps()]
    if not op.inputs or not all(name in known for names in maps for name in names):
        return None
    first = op.inputs[0].type
    return [like(first, tuple(known[name] for name in names), dtype_of(first)) for names in maps]


def wrong_attribute(op: Operation, key: str, required: str, right: str = "") -> VerifyError:
    """The error for an attribute that is missing or of another kind; `right` is a value that would do."""
    from tcpx.payload.text.printer import attribute_text  # the printer reads the IR: late to break the cycle

    value = op.attributes.get(key)
    return op.error(
        f"the attribute `{key}` is {'missing' if value is None else 'of another kind'}",
        required=required,
        found=f"no `{key}`" if value is None else f"{key} = {attribute_text(value)}",
        fix=f"{{{key} = {right}}}" if right else None,
    )
