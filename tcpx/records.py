"""Records: frozen dataclasses with slots, which types, attributes, syntax trees and configurations are."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

RecordT = TypeVar("RecordT")


@dataclass_transform(frozen_default=True)
def frozen(record: type[RecordT]) -> type[RecordT]:
    """`dataclass(frozen=True, slots=True)`."""
    return dataclass(frozen=True, slots=True)(record)


@dataclass_transform(frozen_default=True)
def frozen_for_checkers(record: type[RecordT]) -> type[RecordT]:
    """The same for records that are made by the million: only type checkers see that a field is set, and the record is
    made in a quarter of the time."""
    return dataclass(slots=True, unsafe_hash="__hash__" not in vars(record))(record)


@dataclass_transform(frozen_default=True, eq_default=False)
def frozen_as_compared_by_base(record: type[RecordT]) -> type[RecordT]:
    """The same for records that a base class compares and hashes."""
    return dataclass(slots=True, eq=False)(record)
