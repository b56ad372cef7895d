"""packed_gemm on relu(x @ w + b) with symbolic sizes: the payload after every statement, as golden files."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from tcpx.interp import TraceEntry
from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.text.parser import parse
from tests.transform.payloads import MM, RELU, Sizes, check_same, run

FOLDER = Path(__file__).parent
STATEMENTS = (
    "let jc = tile(mm, [n: 64])",
    "let pc = tile(mm, [k: 8])",
    "let ic = tile(mm, [m: mb], parallel: true)",
    "let jr, ir = tile(mm, [n: nr, m: mr], tail: pad)",
    "let bp = pack(mm.rhs, [k, n], at: pc, parallel: true)",
    "let ap = pack(mm.lhs, [m, k pad 16], at: ic)",
    "fuse(mm.start, into: ir)",
    "fuse(last, into: ir)",
    "let kk = tile(mm, [k: 1])",
    "vectorize(ir)",
    "hoist_accumulator(mm, out_of: kk)",
    "prefetch(mm.out, at: ir, for: write)",
    "lower_vectors(ir)",
)
NAMES = tuple(f"{number:02}_{s.rpartition('= ')[2].partition('(')[0]}" for number, s in enumerate(STATEMENTS, 1))
PREPARATION = (
    MM
    + """let last = match one "r" in root
let mr = 3
let nr = 2 * lanes(dtype(mm.acc))
let mc = 4 * mr
let steps = threads * max(1, ceildiv(size(mm.m), threads * mc))
let mb = max(mr, align_up(ceildiv(size(mm.m), steps), mr))
"""
)
SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "K": k, "N": n} for m, k, n in ((0, 5, 3), (5, 0, 3), (3, 5, 0), (1, 1, 1), (13, 17, 33), (30, 8, 65))
)


@lru_cache(maxsize=1)
def texts() -> tuple[str, ...]:
    """The payload after each statement."""
    module = parse(RELU)
    found: list[str] = []

    def on_step(entry: TraceEntry) -> None:
        assert entry.statement == STATEMENTS[len(found)]
        found.append(module.text())

    run(module, PREPARATION + "\n".join(STATEMENTS), on_step)
    return tuple(found)


@pytest.mark.parametrize("step", range(len(STATEMENTS)), ids=NAMES)
def test_golden(step: int, update_golden: bool) -> None:
    path, text = FOLDER / f"{NAMES[step]}.tcp", texts()[step]
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path.name} is missing: run pytest --update-golden"
    assert text == path.read_text(encoding="utf-8"), "read the difference, then run pytest --update-golden"


@pytest.mark.parametrize("step", range(len(STATEMENTS)), ids=NAMES)
def test_every_step_computes_the_same(step: int) -> None:
    check_same(RELU, parse(texts()[step]), SIZES)


def test_no_golden_file_is_left_over() -> None:
    assert sorted(p.stem for p in FOLDER.glob("*.tcp")) == sorted(NAMES)


def test_pack_needs_its_loop() -> None:
    with pytest.raises(TcpxError, match="is not in the loop"):
        run(RELU, PREPARATION + 'let jc = tile(match one "r" in root, [d1: 64])\nlet b = pack(mm.rhs, [k, n], at: jc)')
