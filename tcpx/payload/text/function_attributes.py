"""What a text may say of a function in braces."""

from difflib import get_close_matches
from typing import Final

from tcpx.payload.boundary_layouts import LAYOUTS
from tcpx.payload.contraction import CONTRACT, ROUNDING
from tcpx.payload.diagnostics import Direction
from tcpx.payload.ir import INOUT, NUMBERS, PROMISE, RESULT_NAMES, ROW, TARGET
from tcpx.payload.ops import call
from tcpx.payload.strided import STRIDED
from tcpx.payload.text.syntax import Node, Source, children, nodes, tokens
from tcpx.payload.value_ranges import RANGES

_LOWERED: Final = ("results", "remarks", "workspace", "workspace_live", "threads", ROUNDING, LAYOUTS)
"""What is noted on the way: results that are arguments, remarks, the plan of the memory, how sums are rounded, and the
orders of dims of arrays."""
_SAID: Final = (CONTRACT, PROMISE, TARGET, STRIDED, RANGES, INOUT, NUMBERS, RESULT_NAMES, ROW)
_SAID_OF_ROWS: Final = (call.IN_PLACE, call.ALIGNMENT, call.SCRATCH, call.CONTRACT)


def check_function_attributes(source: Source, given: Node | None) -> None:
    """Raise ParseError for an attribute of a function that nothing reads."""
    entries = {str(tokens(entry)[0]): entry for entry in children(given, "attribute")} if given is not None else {}
    said = (*_SAID, *_SAID_OF_ROWS) if ROW in entries else _SAID
    for name, entry in entries.items():
        if name not in (*said, *_LOWERED):
            near, value = get_close_matches(name, said, n=1), source.location(nodes(entry)[0]).span
            same = f"write {near[0]} = {value}" if near and value in ("true", "false") else None
            raise source.error(
                tokens(entry)[0],
                f"a function has no attribute `{name}`",
                required=" or ".join(f"`{each}`" for each in (*said, *_LOWERED)),
                found=f"`{name}`",
                fix=same or (Direction(f"did you mean `{near[0]}`?") if near else None),
            )
