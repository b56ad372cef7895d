"""The greatest error of each real function, dtype and target, as docs/accuracy.md has it.

make accuracy                    # at the samples of CI
make accuracy ARGS='exp sin'     # and of these at every pattern of f32, some minutes each
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

from tcpx.payload.types import SCALARS, ScalarType, bf16, f16, f32, f64
from tests.payload.real_functions import (
    FUNCTIONS,
    TARGETS,
    UNARY,
    Worst,
    alone,
    pairs,
    patterns,
    sampled,
    worst,
)

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
SAMPLED, ALL = "sampled", "all"
DTYPES = (f32, f64, f16, bf16)
Key = tuple[ScalarType, str, str, str]
"""The dtype, at what, the operation, the target."""
STALE = 0.1
"""So much less than the page says is not what it says."""
MANY_PAIRS = 1 << 20
SEEDS = 20
HEAD = """# The accuracy of real functions

<!-- Made by `make accuracy`; do not edit. -->

The greatest error that was measured, in units in the last place of the result, by dtype and target. Of f32 it is that
of every 997th bit pattern and of those next to where ways of computing change, and *all*: of all 2^32 of them, of `pow`
and `atan2` of 120 million pairs; what has a dash there was not measured with the code as it is. Of f16 and bf16 it is
that of all patterns, of f64 that of some numbers of every size, of `pow` and `atan2` that of 240,000 pairs. `make test`
measures the samples again, `make conformance` all patterns: no error may be greater than what stands here. What is
promised is in [payload.md](payload.md#numbers): 4 units of f32, of f64 2 or 4. `tcp.exp {accuracy = "fast"}` is no row.
"""


def recorded() -> Mapping[Key, float]:
    """What the page says."""
    found: dict[Key, float] = {}
    dtype, columns = f32, list[tuple[str, str]]()
    for line in PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else ():
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("## "):
            dtype = SCALARS[line.removeprefix("## ")]
        elif line.startswith("| function"):
            columns = [(ALL if cell.endswith(ALL) else SAMPLED, cell.split(",")[0]) for cell in cells]
        elif line.startswith("| ") and not name.startswith("-"):
            numbers = zip(columns, cells, strict=True)
            found |= {(dtype, at, name, target): float(cell) for (at, target), cell in numbers if cell != "-"}
    return found


def page(errors: Mapping[Key, float]) -> str:
    """The page that says this."""
    lines = [HEAD]
    for dtype in DTYPES:
        columns = [(at, target) for at in (SAMPLED, ALL)[: 2 if dtype == f32 else 1] for target in TARGETS]
        heads = [target if at == SAMPLED else f"{target}, all" for at, target in columns]
        lines += [f"## {dtype}\n", f"| function | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        for function in FUNCTIONS:
            numbers = [errors.get((dtype, at, function.opcode, target)) for at, target in columns]
            cells = ["-" if number is None else f"{number:.2f}" for number in numbers]
            lines.append(f"| {function.opcode} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def differences(found: Mapping[tuple[str, str], Worst], dtype: ScalarType, at: str) -> list[str]:
    """Where errors are greater than the page says, or it says more than the samples have."""
    known = recorded()
    told: list[str] = []
    for (opcode, target), error in found.items():
        says = known.get((dtype, at, opcode, target))
        if says is None and at == ALL:
            continue
        is_less = says is not None and error.ulps <= says + 0.005
        if not is_less or (at == SAMPLED and says is not None and error.ulps < says - STALE):
            told.append(
                f"{opcode} of {dtype} on {target}: {error.ulps:.3f} ulp at {error.at}, and {PAGE.name} says {says}; "
                f"run `make accuracy`, and say in {PAGE.name} what changed"
            )
    return told


def main(names: Sequence[str]) -> None:
    """Measure, and write the page; what was measured at all patterns stays if the samples say the same as before."""
    before = recorded()
    made: dict[Key, float] = {}
    for dtype in DTYPES:
        made |= {(dtype, SAMPLED, *key): round(error.ulps, 2) for key, error in sampled(dtype, TARGETS).items()}
    kept = {key: n for key, n in before.items() if key[1] == ALL and made[f32, SAMPLED, *key[2:]] == before.get(
        (f32, SAMPLED, *key[2:]))}  # fmt: skip
    PAGE.write_text(page({**made, **kept}), encoding="utf-8")
    for name in names:
        functions = tuple(function for function in FUNCTIONS if function.opcode == name)
        blocks = alone(patterns(f32))
        if functions[0] not in UNARY:
            blocks = (pair for seed in range(SEEDS) for pair in pairs(f32, MANY_PAIRS, seed))
        errors = worst(functions, f32, blocks, TARGETS)
        assert all(isfinite(error.ulps) for error in errors.values())
        found = {(f32, ALL, *key): round(error.ulps, 2) for key, error in errors.items()}
        PAGE.write_text(page({**recorded(), **found}), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
