"""The numbers of a machine: its caches, and what `tcpx calibrate` measured for a table."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Final

from tcpx.machine import CACHES, Machine
from tcpx.payload.text.file import is_file
from tcpx.target.errors import TargetError
from tcpx.target.recipe_costs import read_costs
from tcpx.target.table import Node, read_table

NUMBERS: Final = (*CACHES, "page", "l3_rate", "memory_rates", "parallel_threshold", "costs")
"""What of a table is the machine's."""
USUAL_PAGE: Final = 4096
"""Bytes of a page of memory where a table does not say."""
RATED_VECTORS: Final = 64
"""Vectors in the time of whose multiply-adds `memory_rates` counts bytes."""
MEASURED: Final = ("processor", "l3_rate", "memory_rates", "parallel_threshold", "costs")
"""What is in a calibration: a part of a table, and which processor it is for."""


def numbers_of(machine: Machine, table: str) -> str:
    """What a machine has in place of the numbers of a table of this name, as JSON; empty for nothing. Raises
    TargetError for a calibration that is damaged."""
    path = machine.calibration(table)
    measured = _read_calibration(path) if path is not None and is_file(path) else {}
    page = {"page": machine.page} if machine.page else {}
    found = {**dict(machine.caches), **page, **measured}
    return json.dumps(found, sort_keys=True) if found else ""


def memory_rates(node: Node) -> tuple[int, int]:
    """What one core and all of them read from memory. Raises TargetError."""
    found = tuple(entry.number() for entry in node.items())
    if len(found) != 2 or not 0 < found[0] <= found[1]:
        raise node.fail("two numbers above 0, that of all cores no less than that of one")
    return found


def digest_of(numbers: str) -> str:
    """A hash of numbers by which machines are told apart; empty for those of the table."""
    return sha256(numbers.encode()).hexdigest()[:8] if numbers else ""


def _read_calibration(path: Path) -> dict[str, object]:
    """What a calibration says that a table does. Raises TargetError."""
    try:
        fields = read_table(path).fields(MEASURED)
        found = {key: node for key, node in fields.items() if key in NUMBERS}
        for key, node in found.items():
            if key == "costs":
                read_costs(node, dict.fromkeys(CACHES, 0))
            elif key == "memory_rates":
                memory_rates(node)
            elif not node.number():
                raise node.fail("a number above 0")
    except TargetError as error:
        known = error.diagnostic
        raise TargetError(
            f"the calibration {path} is damaged",
            required=known.required or "",
            found=known.found or "",
            where=str(known.message),
            fix="`tcpx calibrate` measures again, `tcpx calibrate --remove` gives `native` the numbers of its table",
        ) from error
    return {key: node.value for key, node in found.items()}
