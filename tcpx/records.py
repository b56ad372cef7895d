"""Records: frozen dataclasses with slots, which types, attributes, syntax trees and configurations are."""

from dataclasses import dataclass
from typing import Final, TypeVar, dataclass_transform

RecordT = TypeVar("RecordT")
LONGEST_REPR: Final = 180
"""Characters: what a shell prints of an object fits on two lines."""


def brief(kind: str, *parts: object) -> str:
    """The `repr` of an object that has too much in it to be printed whole: `<Trace of 12 steps>`. Only so much of each
    part is turned into text as is printed."""
    text = f"<{' '.join([kind, *(str(part) for part in parts if part != '')])}"
    return f"{text[:LONGEST_REPR]} ..>" if len(text) > LONGEST_REPR else f"{text}>"


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
