"""The line of Python that records something, and the names that its result is assigned to there."""

from __future__ import annotations

import dis
from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import CodeType

from tcpx.payload.diagnostics import Location
from tcpx.payload.python_lines import frame_outside, location_of, location_outside

_RECORDING = __name__.rpartition(".")[0]
_SKIPPED = frozenset(("EXTENDED_ARG", "CACHE", "COPY"))


class Use(Enum):
    """What the calling line does with the value it gets."""

    ASSIGNED = "assigned to names"
    DISCARDED = "not used"
    LOOPED = "gone through by `for`"
    OTHER = "part of something else"


@dataclass(frozen=True, slots=True)
class Caller:
    """A place outside this package. `names` are those assigned to, or the variables of a `for`."""

    location: Location
    use: Use
    names: tuple[str, ...]
    unpacked: bool


def here() -> Location:
    """The innermost line of Python outside this package."""
    return location_outside(_RECORDING)


def caller() -> Caller:
    """`here`, and what becomes of the value that is being made."""
    frame = frame_outside(_RECORDING)
    code = frame.f_code
    offsets, instructions = _instructions(code)
    position = bisect_right(offsets, frame.f_lasti)
    current = instructions[position - 1].opname
    names, unpacked = _targets(instructions[position : position + 300])
    if current == "FOR_ITER":
        use = Use.LOOPED
    elif names:
        use = Use.ASSIGNED
    else:
        use = Use.DISCARDED if _is_discarded(instructions[position : position + 1]) else Use.OTHER
    return Caller(location_of(frame), use, names, unpacked)


@lru_cache(maxsize=256)
def _instructions(code: CodeType) -> tuple[list[int], list[dis.Instruction]]:
    instructions = [i for i in dis.get_instructions(code) if i.opname not in _SKIPPED]
    return [i.offset for i in instructions], instructions


def _targets(following: list[dis.Instruction]) -> tuple[tuple[str, ...], bool]:
    """The names that the next instructions store into, and whether they are taken out of a tuple."""
    if not following:
        return (), False
    unpacked = following[0].opname == "UNPACK_SEQUENCE"
    count = int(following[0].arg or 0) if unpacked else 1
    names: list[str] = []
    for instruction in following[1:] if unpacked else following:
        stored = _stored(instruction)
        if not stored or len(names) >= count:
            break
        names += stored
    return (tuple(names), unpacked) if len(names) == count else ((), False)


def _stored(instruction: dis.Instruction) -> list[str]:
    match instruction.opname, instruction.argval:
        case "STORE_FAST" | "STORE_NAME" | "STORE_GLOBAL" | "STORE_DEREF", str(name):
            return [name]
        case "STORE_FAST_STORE_FAST", (str(first), str(second)):
            return [first, second]
        case "STORE_FAST_LOAD_FAST", (str(first), _):
            return [first]
        case _:
            return []


def _is_discarded(following: list[dis.Instruction]) -> bool:
    """A statement of its own, in a file or at the prompt."""
    return any(i.opname in ("POP_TOP", "PRINT_EXPR") or i.argrepr == "INTRINSIC_PRINT" for i in following)
