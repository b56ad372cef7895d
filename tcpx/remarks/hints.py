"""What repairs a slow statement: text that can be written as it stands, where such text is known."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Self

from tcpx.payload.diagnostics import Location
from tcpx.payload.ir import Operation
from tcpx.payload.short_operands import operand_text, short_operands
from tcpx.payload.text.printer import attribute_text
from tcpx.payload.types import Type
from tcpx.records import frozen
from tcpx.transform.language import syntax as ast

ROUNDS: Final = "the result may round differently"


@frozen
class PayloadEdit:
    """`lines` in the place of operations of a payload, where `at` stands."""

    replaced: tuple[Operation, ...]
    at: Operation
    lines: tuple[str, ...]


@frozen
class Hint:
    """`fix` is text to write, or a Direction; `place` is the statement of the schedule that it changes, `notes` say
    what else it changes. `payload` is the change of the payload, `schedule` the syntax tree of the changed schedule;
    neither where the text is a direction. `is_default` says that no schedule is to be given."""

    fix: str
    place: Location | None = None
    notes: tuple[str, ...] = ()
    payload: PayloadEdit | None = None
    schedule: ast.File | None = None
    is_default: bool = False
    is_removal: bool = False
    """Whether it removes what the cause names: where the kernel is then no faster, the cause was none."""

    @property
    def key(self) -> tuple[str, Location | None, PayloadEdit | None]:
        """Equal for hints that change the same."""
        return self.fix, self.place, self.payload

    @property
    def replaced_at(self) -> Location | None:
        """Where the statement of the payload stands in whose place the text is to be written; None for another text."""
        return (
            self.payload.at.location if self.payload is not None and self.payload.at in self.payload.replaced else None
        )

    def on(self, op: Operation) -> Self:
        """The same, as the lines below the first one of the text in place of an operation."""
        _, *lines = self.fix.splitlines()
        return replace(self, payload=PayloadEdit((op,), op, tuple(lines)))


def in_place(lines: Sequence[str], note: str = "") -> Hint:
    """Lines to write in place of a statement of the payload."""
    text = "\n".join(("in place of this statement of the payload write:", *lines))
    return Hint(text, notes=(note,) if note else ())


def operand_texts(op: Operation) -> dict[int, str]:
    """The operands of an operation as they are written, by their numbers."""
    short = short_operands(op)
    return {k: operand_text(short.get(k, value)) for k, value in enumerate(op.operands)}


def statement(name: str, op: Operation, operands: Iterable[str], *types: Type) -> str:
    """The statement of an operation with other operands and types."""
    attributes = ", ".join(f"{key} = {attribute_text(value)}" for key, value in op.attributes.items())
    extra = f" {{{attributes}}}" if attributes else ""
    return f"%{name} = {op.opcode}({', '.join(operands)}){extra} : {', '.join(map(str, types))}"


def lines_of(place: Location | None) -> range:
    """The lines of a statement."""
    return range(place.line, max(place.end_line, place.line) + 1) if place is not None else range(0)


def lines_named(lines: Iterable[int]) -> str:
    """`line 4`, `lines 4 to 6 and 9`."""
    spans: list[list[int]] = []
    for line in sorted(lines):
        if spans and spans[-1][-1] == line - 1:
            spans[-1].append(line)
        else:
            spans.append([line])
    texts = [f"{span[0]} to {span[-1]}" if len(span) > 1 else f"{span[0]}" for span in spans]
    return f"line{'s' if sum(map(len, spans)) > 1 else ''} {listed(texts)}"


def listed(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
