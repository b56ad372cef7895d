"""What an operation declares in its class: operands and attributes, each a field that reads it from an operation.

class Softmax(Composite):
    operand = Operand()
    dim = IntAttribute()

`op.operand` is a value, `op.dim` an int; what is missing or of another kind is an error that says what to write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast, overload

from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.sizes import Dim, Size, Symbol, Var, as_dim
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.signature import given_operands

if TYPE_CHECKING:
    from tcpx.payload.ir import Attribute, Operation, Value

T = TypeVar("T")


class Field(ABC, Generic[T]):
    """What a class declares and its operations have; read from an operation as an attribute of its name."""

    def __set_name__(self, owner: type[Operation], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, op: None, owner: type[Operation]) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type[Operation]) -> T: ...
    def __get__(self, op: Operation | None, owner: type[Operation]) -> Self | T:
        return self if op is None else self.of(op)

    @abstractmethod
    def of(self, op: Operation) -> T:
        """What an operation has."""


class Operand(Field["Value"]):
    """A positional operand. A schedule reaches it by the name of the field, `x.lhs`."""

    def of(self, op: Operation) -> Value:
        return op.operands[op.signature.operand_names.index(self.name)]


class Result(Field["Value"]):
    """One of several results. A schedule reaches it by the name of the field, `x.indices`."""

    def of(self, op: Operation) -> Value:
        return op.results[op.signature.result_names.index(self.name)]


class OptionalOperand(Field["Value | None"]):
    """A last operand that may be left out; a text calls it by its name, `init = %z`. An operation with several results
    has one for each, `init = (%y, %z)`, or none; this is the first of them."""

    def of(self, op: Operation) -> Value | None:
        return op.inits[0] if op.inits else None


class NamedOperand(Field["Value | None"]):
    """An operand that may be left out, one of several: a text calls it by its name, `bias = %b`, behind the others."""

    def of(self, op: Operation) -> Value | None:
        given = given_operands(op)
        return op.operands[len(op.signature.operand_names) + given.index(self.name)] if self.name in given else None


class AttributeField(Field[T]):
    """An attribute of one kind. `key` is its name in the text, where that is not the name of the field.

    Without a `default` it has to be there. An error shows `example`, or what `ToWrite.usual_attribute` gives.
    """

    required = ""

    def __init__(self, key: str = "", default: T | None = None, example: str = "") -> None:
        self.key, self.default, self.example = key, default, example

    def __set_name__(self, owner: type[Operation], name: str) -> None:
        super().__set_name__(owner, name)
        self.key = self.key or name

    def of(self, op: Operation) -> T:
        """What the attribute of an operation says. Raises VerifyError if it is missing or of another kind."""
        attribute = op.attributes.get(self.key)
        value = self.default if attribute is None else self.read(attribute)
        if value is None:
            raise self.error(op)
        return value

    def error(self, op: Operation) -> VerifyError:
        """That the attribute is missing or of another kind, and what to write for it and for others that are."""
        others = [(f.key, f.usual(op)) for f in op.signature.attribute_fields if f is not self and f.is_wrong(op)]
        example = "".join([self.usual(op), *(f", {key} = {value}" for key, value in others if value)])
        from tcpx.payload.traits.to_write import wrong_attribute  # traits know fields: late to break the cycle

        return wrong_attribute(op, self.key, self.required, example if self.usual(op) else "")

    def usual(self, op: Operation) -> str:
        """What the attribute most probably should be."""
        from tcpx.payload.traits.to_write import ToWrite  # traits know fields: late to break the cycle

        return ToWrite(op).usual_attribute(self.key) or self.example

    def is_wrong(self, op: Operation) -> bool:
        """Whether the attribute is missing or of another kind."""
        attribute = op.attributes.get(self.key)
        return (self.default if attribute is None else self.read(attribute)) is None

    @abstractmethod
    def read(self, attribute: Attribute) -> T | None:
        """What an attribute says; None if it is of another kind."""


class IntAttribute(AttributeField[int]):
    required = "an int"

    def read(self, attribute: Attribute) -> int | None:
        return attribute if isinstance(attribute, int) and not isinstance(attribute, bool) else None


class NumberAttribute(AttributeField["int | float"]):
    required = "a number"

    def read(self, attribute: Attribute) -> int | float | None:
        return attribute if isinstance(attribute, int | float) else None


class NumberOrSizeAttribute(AttributeField["float | Dim"]):
    required = "a number or a size"

    def read(self, attribute: Attribute) -> float | Dim | None:
        return (
            as_dim(attribute)
            if isinstance(attribute, Size | Symbol | Var)
            else (attribute if isinstance(attribute, int | float) else None)
        )


class TextAttribute(AttributeField[str]):
    required = "a text"

    def read(self, attribute: Attribute) -> str | None:
        return attribute if isinstance(attribute, str) else None


class FlagAttribute(AttributeField[bool]):
    """True or false. An operation leaves out one that is false."""

    required = "true, or false, which is the same as left out"

    def __init__(self, key: str = "") -> None:
        super().__init__(key, default=False, example="true")

    def usual(self, op: Operation) -> str:
        return "false" if op.attributes.get(self.key) in (0, "", "false", "False", "0") else super().usual(op)

    def read(self, attribute: Attribute) -> bool | None:
        return attribute if isinstance(attribute, bool) else None


class ChoiceAttribute(AttributeField[str]):
    """One of a few words; the first stands for absence."""

    def __init__(self, *choices: str, key: str = "") -> None:
        super().__init__(key, default=choices[0], example=f'"{choices[-1]}"')
        self.choices = choices
        self.required = " | ".join(choices)

    def read(self, attribute: Attribute) -> str | None:
        return attribute if isinstance(attribute, str) and attribute in self.choices else None


class ElementsAttribute(AttributeField[tuple[T, ...]]):
    """A list of elements of one kind."""

    def __init__(
        self, kind: type[T], required: str, key: str = "", example: str = "", default: tuple[T, ...] | None = None
    ) -> None:
        super().__init__(key, default, example)
        self.kind, self.required = kind, required

    def read(self, attribute: Attribute) -> tuple[T, ...] | None:
        if not isinstance(attribute, tuple):
            return None
        for entry in attribute:
            if isinstance(entry, bool) or not isinstance(entry, self.kind):
                return None
        return cast("tuple[T, ...]", attribute)


class PositionsAttribute(ElementsAttribute[int]):
    """A position of a dim, or a list of them."""

    def __init__(self, key: str = "", example: str = "") -> None:
        super().__init__(int, "an int, or a list of ints", key, example)

    def read(self, attribute: Attribute) -> tuple[int, ...] | None:
        return super().read(attribute if isinstance(attribute, tuple) else (attribute,))


class DimAttribute(AttributeField[Dim]):
    required = "an expression of sizes and loop variables"

    def read(self, attribute: Attribute) -> Dim | None:
        if isinstance(attribute, int | Size | Symbol | Var) and not isinstance(attribute, bool):
            return as_dim(attribute)
        return None


class DimsAttribute(AttributeField[tuple[Dim, ...]]):
    """A list of expressions of sizes, loop variables and dims; left out, none."""

    required = "a list of sizes"

    def __init__(self, key: str = "", example: str = "") -> None:
        super().__init__(key, default=(), example=example)

    def read(self, attribute: Attribute) -> tuple[Dim, ...] | None:
        if not isinstance(attribute, tuple):
            return None
        dims = [as_dim(e) for e in attribute if isinstance(e, int | Size | Symbol | Var) and not isinstance(e, bool)]
        return tuple(dims) if len(dims) == len(attribute) else None


class SubsetAttribute(AttributeField[Tile]):
    required = "tile [offsets] [sizes]"

    def error(self, op: Operation) -> VerifyError:
        return op.error("the subset is missing", required=self.required, found="no tile")

    def read(self, attribute: Attribute) -> Tile | None:
        return attribute if isinstance(attribute, Tile) else None


class PredicateAttribute(AttributeField[Predicate]):
    required = "a condition"

    def read(self, attribute: Attribute) -> Predicate | None:
        return attribute if isinstance(attribute, Predicate) else None


class VariableAttribute(AttributeField[Var]):
    required = "a loop variable with its range"

    def read(self, attribute: Attribute) -> Var | None:
        return attribute if isinstance(attribute, Var) else None
