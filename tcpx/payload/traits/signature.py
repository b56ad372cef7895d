"""What a class of operations declares of its form: operands, results, attributes, regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tcpx.records import frozen

if TYPE_CHECKING:
    from tcpx.payload.fields import AttributeField
    from tcpx.payload.ir import Operation


GIVEN: Final = "given"
"""The attribute that lists the operands, of those that may be left out and have names, that an operation has."""


@frozen
class Signature:
    """The form of the operations of a class. A class declares it by fields, and by class variables of these names."""

    operand_names: tuple[str, ...] = ()
    """Names of the positional operands, for navigation (`x.lhs`): the fields that are an `Operand`."""
    result_names: tuple[str, ...] = ()
    """Names of several results: the fields that are a `Result`."""
    optional_operand: str = ""
    """Name of an optional last operand (`init`): the field that is an `OptionalOperand`."""
    named_operands: tuple[str, ...] = ()
    """Names of operands that may be left out, each by itself (`bias`): the fields that are a `NamedOperand`."""
    attribute_names: tuple[str, ...] | None = None
    """What a text may say in braces: the keys of the fields that are attributes; None: anything."""
    common_attributes: tuple[str, ...] = ()
    """What it may say of any operation of the family."""
    attribute_fields: tuple[AttributeField[object], ...] = ()
    """The fields that are attributes."""
    flag_keys: tuple[str, ...] = ()
    """The keys of those that are true or false."""
    variadic: bool = False
    """Whether there may be more operands than these."""
    result_count: int | None = 1
    """Number of results; None: any number."""
    more_results: tuple[str, ...] = ()
    """The opcodes of operations that give what other systems return as further results."""
    region_count: int | None = 0
    """Number of regions; None: any number."""


def given_operands(op: Operation) -> tuple[str, ...]:
    """The names of the operands that an operation has of those that may be left out and have names, in their order."""
    names = op.signature.named_operands
    if not names:
        return ()
    given = op.attributes.get(GIVEN, ())
    return tuple(name for name in names if isinstance(given, tuple) and name in given)


def result_roles(op: Operation) -> tuple[str, ...]:
    """Names by which a schedule reaches the results where there are several; the only one is `result` and `out`."""
    if len(op.results) == 1:
        return ("result",)
    return op.signature.result_names or tuple(f"out{k}" for k in range(len(op.results)))
