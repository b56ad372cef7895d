"""A model that prunes before the C compiler runs: vectors that an innermost loop carries have to fit the registers."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LOOP = re.compile(r"^\s*for \(.*\{\s*$")
_CARRIED = re.compile(r"^\s*(\w+) = (.*);$")
_VECTOR = re.compile(r"^\s*(__m\d+i?d?|[a-z]+\d+x\d+) (\w+)\b")
SLACK = 2.0
"""Somewhat more than there are registers may still be worth it; at twice as many, each iteration spills half."""


def refusal_of(c_source: str, registers: int) -> str | None:
    """Why a kernel cannot be fast: accumulators in memory. None where nothing says so."""
    most = max(carried_vectors(c_source), default=0)
    if most <= SLACK * registers:
        return None
    return f"register pressure: a loop carries {most} vectors, there are {registers} registers"


def carried_vectors(c_source: str) -> Iterator[int]:
    """For every loop without loops inside: how many vectors of its surroundings it changes."""
    vectors: set[str] = set()
    carried: set[str] = set()
    inside = False
    for line in c_source.splitlines():
        declared = _VECTOR.match(line)
        if declared is not None:
            vectors.add(declared[2])
        if _LOOP.match(line):
            inside = True
            carried.clear()
        elif inside and line.strip() == "}":
            yield len(carried)
            inside = False
        elif inside:
            changed = _CARRIED.match(line)
            if changed is not None and changed[1] in vectors and re.search(rf"\b{changed[1]}\b", changed[2]):
                carried.add(changed[1])
