"""Instruction rows: what a target can do, as data. A row has scalar semantics and a C template.
Rows whose semantics is an operation on tensors are in `kernels.py`.

Placeholders of a template. {a} {b} {c} and {v} are replaced by C names, literals, calls or parenthesised expressions
and may occur several times, so they must be free of side effects; {p} {n} {s} {lane} may be any expression.

    {a} {b} {c}  operands          {p}  pointer to the scalar element type     {n}    lanes to access (int64)
    {v}          stored value      {s}  distance in elements (int64)           {lane} lane number, a constant
    {lanes}      lane numbers, constants
    {f}          first lane to access (int64), in 0..lanes; {p} points to its element, and the lanes are {f}..{f} + {n}
    {e}          how many elements there are, {s} apart (int64)               {x}    lanes for which there is none

`{n}` may lie outside 0..lanes: at most 0 means no lane, at least `lanes` means all.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from tcpx.records import brief, frozen
from tcpx.target.errors import TargetError

DTYPE_BITS: Mapping[str, int] = MappingProxyType(
    {
        "f64": 64,
        "f32": 32,
        "f16": 16,
        "bf16": 16,
        "si8": 8,
        "si16": 16,
        "si32": 32,
        "si64": 64,
        "ui8": 8,
        "ui16": 16,
        "ui32": 32,
        "ui64": 64,
        "i1": 8,
        "index": 64,
    }
)
"""Bits of one element in memory; i1 is one byte, 0 or 1."""

IN_ORDER = "in_order"
"""The condition that the next iteration of a loop waits for the result: it has no branch that may be mispredicted."""
EVERY_SECOND = "every_second"
"""The condition that elements are two apart: vectors are loaded and shuffled. Such a row has no placeholder {s}."""
CONDITIONS = ("a_not_nan", "b_not_nan", IN_ORDER, EVERY_SECOND)
"""Facts about operands that make a cheaper row right, and about where it stands, that make another one cheaper."""


class LaneType(NamedTuple):
    """`f32x16`: 16 lanes of f32. One lane is a scalar, written `f32`."""

    dtype: str
    lanes: int

    def __str__(self) -> str:
        return self.dtype if self.lanes == 1 else f"{self.dtype}x{self.lanes}"


_LANE_TYPE = re.compile(rf"({'|'.join(DTYPE_BITS)})(?:x([1-9][0-9]*))?")


@lru_cache(maxsize=1024)
def parse_lane_type(text: str) -> LaneType:
    """`f32x16` -> LaneType("f32", 16); `f32` -> LaneType("f32", 1). Raises TargetError."""
    match = _LANE_TYPE.fullmatch(text.strip())
    if match is None:
        raise TargetError("not a lane type", required="a dtype and a lane count, as in f32x16 or si8", found=repr(text))
    return LaneType(match.group(1), int(match.group(2) or 1))


@frozen
class Kind:
    """What all rows of a kind have in common."""

    placeholders: tuple[str, ...]
    has_semantics: bool = False
    has_result: bool = True


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "compute": Kind((), has_semantics=True),
        "dot": Kind((), has_semantics=True),
        "splat": Kind(("a",)),
        "zero": Kind(()),
        "load": Kind(("p",)),
        "store": Kind(("p", "v"), has_result=False),
        "masked_load": Kind(("p", "n")),
        "masked_load_from": Kind(("p", "f", "n")),
        "masked_store": Kind(("p", "n", "v"), has_result=False),
        "strided_load": Kind(("p", "s")),
        "masked_strided_load": Kind(("p", "s", "n")),
        "masked_strided_load_from": Kind(("p", "s", "f", "n")),
        "lane_mask": Kind(("n",)),
        "lane_mask_from": Kind(("f", "n")),
        "gather": Kind(("p", "s", "e", "a", "x")),
        "stream_store": Kind(("p", "v"), has_result=False),
        "stream_fence": Kind((), has_result=False),
        "lead": Kind(("p",)),
        "extract": Kind(("a", "lane")),
        "insert": Kind(("a", "b", "lane")),
        "shuffle": Kind(("a", "b")),
        "permute": Kind(("a", "b", "lanes")),
        "horizontal_add": Kind(("a",)),
        "horizontal_max": Kind(("a",)),
        "horizontal_min": Kind(("a",)),
        "prefetch_read": Kind(("p",), has_result=False),
        "prefetch_write": Kind(("p",), has_result=False),
    }
)
"""Kinds of rows. A row without a result is a C statement (to be ended by `;`), any other an expression.

Lane i of a `gather` is the element {p}[{a}[i] * {s}] if 0 <= {a}[i] < {e}; else nothing is read, and it is {x}[i].
Lanes {f} to {f} + {n} of a `lane_mask_from` are true, of a `lane_mask` the first {n}. A load `from` reads these lanes,
the first of them at {p}; the others are 0.
A `splat` repeats a scalar, or a group of a few lanes, over all lanes. A `shuffle` takes some lanes of two vectors, a
`permute` any lanes: {lanes} are numbers of lanes of both, one behind the other. A `lead` is the number of elements from
{p} on that lie before the next cache line."""

PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


@frozen
class InstructionRow:
    """One instruction of a target, or a short sequence that acts as one.

    `operands` and `result` are lane types; of a store, the operand is the stored value. `semantics` is in normal form.
    `requires` is a feature of the target, `condition` one of CONDITIONS, `alignment` the bytes {p} must be aligned to
    (0: the element's own). A row that `is_slow` is the last choice: an operation that can be expanded into other
    operations is. `helpers` are names of C definitions the template needs, in order of definition. Lane i of a
    `shuffle` is lane `lanes[i]` of the lanes of both operands, one behind the other. `is_installed` says that a table
    of the package has it.
    """

    name: str
    kind: str
    result: LaneType | None
    operands: tuple[LaneType, ...]
    semantics: str | None
    c: str
    requires: str | None = None
    condition: str | None = None
    alignment: int = 0
    helpers: tuple[str, ...] = ()
    lanes: tuple[int, ...] = ()
    is_slow: bool = False
    is_installed: bool = True

    def __repr__(self) -> str:
        return brief("InstructionRow", self.name, self.c)

    @property
    def purpose(self) -> tuple[object, ...]:
        """What a row is looked for by. Of two rows with one purpose the first is taken, or the one that is fast."""
        return self.kind, self.semantics, self.result, self.operands, self.lanes, self.condition

    def hides(self, later: "InstructionRow") -> bool:
        """Whether a later row with the same purpose is never taken beside this one."""
        is_there = self.requires is None or self.requires == later.requires
        return is_there and (self.condition is not None or not self.is_slow or later.is_slow)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The placeholders `render` must be given."""
        kind = KINDS[self.kind]
        if kind.has_semantics:
            return ("a", "b", "c")[: len(self.operands)]
        return tuple(name for name in kind.placeholders if name != "s" or self.condition != EVERY_SECOND)

    def render(self, **arguments: str) -> str:
        """The C text with every placeholder replaced. Raises TargetError if the arguments are not the placeholders."""
        if set(arguments) != set(self.placeholders):
            raise TargetError(
                f"row {self.name} is rendered with other arguments than its placeholders",
                required=", ".join(self.placeholders) or "no arguments",
                found=", ".join(arguments) or "no arguments",
            )
        return PLACEHOLDER.sub(lambda match: arguments[match.group(1)], self.c)

    @property
    def signature(self) -> str:
        """`f32x16, f32x16 -> f32x16`."""
        return f"{', '.join(str(t) for t in self.operands)} -> {self.result or ''}".strip()
