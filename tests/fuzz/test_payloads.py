"""5,000 mutated payloads are read and verified: each is a payload that prints, or is refused with a place."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path
from shutil import copy

import pytest

from tcpx.api import load, parse
from tests.fuzz.mutation import mutated
from tests.fuzz.outcome import refused

ROOT = Path(__file__).parents[2]
CHUNKS, CHUNK = 20, 250
FILES = sorted([*(ROOT / "examples").rglob("*.tcp"), *(ROOT / "tests/payload/samples").glob("*.tcp")])
NESTS = sorted((ROOT / "tests/transform/golden").glob("*.tcp"))
"""Payloads as steps of a schedule leave them: loops, buffers and vectors of thousands of characters."""


WEIGHTS = ROOT / "examples/digits/weights.npz"
"""Constants are read from the folder of the payload."""


@cache
def source(path: Path) -> bytes:
    return path.read_bytes()


def read(path: Path, reached: Counter[str]) -> None:
    module = load(path)
    reached["read"] += 1
    printed = module.text()
    assert parse(printed, constants=module.constants).text() == printed


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_mutated_payloads(chunk: int, tmp_path: Path) -> None:
    reached: Counter[str] = Counter()
    file = tmp_path / "mutated.tcp"
    copy(WEIGHTS, tmp_path)
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        rng = random.Random(number)
        origin = NESTS[number // 16 % len(NESTS)] if number % 16 == 0 else FILES[number % len(FILES)]
        file.write_bytes(mutated(source(origin), rng))
        try:
            refused(lambda: read(file, reached))
        except BaseException as error:
            error.add_note(f"mutation {number} of {origin.name}")
            raise
    assert reached["read"] / CHUNK > 0.1, reached
