"""Records: frozen dataclasses with slots, which types, attributes, syntax trees and configurations are."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

RecordT = TypeVar("RecordT")


@dataclass_transform(frozen_default=True)
def frozen(record: type[RecordT]) -> type[RecordT]:
    """`dataclass(frozen=True, slots=True)`."""
    return dataclass(frozen=True, slots=True)(record)
