"""The page of attention: its schedule, statement by statement, with the loop nest after each."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import tcpx

EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "attention"
TARGET: Final = "x86_avx512"

_HEAD: Final = """\
# Attention, step by step

<!-- Made by `make docs` from examples/attention; do not edit. -->

This page computes `softmax(scale * q k^T) v` for H heads, M queries and N keys, all three known only at run time.
Written as below, it stores N scores per query, twice. The schedule derives the form that processes one block of keys at
a time (Milakov and Gimelshein, 2018; Dao et al., 2022). The loop over blocks carries the running maximum of the scores,
the sum of the exponentials, and the sum of the values weighted by them; when the maximum rises, it rescales both sums.
No transform knows attention: `fuse_dependent` asks each operation between the maximum and the sums how its result
changes with the maximum ([ADR 0030](adr/0030-changes-of-running-results.md)), and refuses one whose change is neither a
factor nor a summand.

The default schedule does the same for any attention that it recognizes, with other shapes, masks and dtypes
(`schedules/lib/attention.tcps`). This page follows [examples/attention](../examples/attention) for {target}. After each
statement of the derivation, and after each group of later statements, it shows the resulting loop nest. `tcpx explain`
also shows the payload.

## The payload

```
{payload}
```

"""


def attention_page() -> str:
    """The text of the page. If one line makes several steps, it shows the nest after the last one."""
    module = tcpx.load(EXAMPLE / "attention.tcp")
    schedule = EXAMPLE / "attention.tcps"
    lines = schedule.read_text(encoding="utf-8").splitlines()
    explanation = tcpx.explain(module, tcpx.load_schedule(schedule), target=TARGET)
    shown: dict[int, str] = {}
    for step in explanation.steps:
        place = step.location
        if step.loops is not None and place is not None and Path(place.file).name == schedule.name:
            shown[step.calls[-1][1].line if step.calls else place.line] = str(step.loops)
    parts = [_HEAD.format(target=TARGET, payload=_code(EXAMPLE / "attention.tcp"))]
    for first, *rest in _sections(lines):
        if lines[first - 1].strip().startswith("//"):
            parts.append(f"## {lines[first - 1].strip()[3:].removesuffix('.')}\n")
        statements = [n for n in (first, *rest) if lines[n - 1].strip() and not lines[n - 1].strip().startswith("//")]
        is_derived = first < _registers_from(lines)
        for n in statements:
            text = lines[n - 1].strip().split("  //")[0].rstrip()
            if is_derived and n in shown:
                parts.append(f"`{text}`\n\n```\n{shown[n].rstrip()}\n```\n")
        last = [n for n in statements if n in shown]
        if not is_derived and last:
            code = "\n".join(lines[n - 1][2:] for n in statements)
            parts.append(f"```tcps\n{code}\n```\n\ngives\n\n```\n{shown[last[-1]].rstrip()}\n```\n")
    return "\n".join(parts)


def _sections(lines: list[str]) -> list[list[int]]:
    """The line numbers of the schedule, in groups separated by empty lines."""
    start = next(n for n, line in enumerate(lines, 1) if line.startswith("schedule"))
    groups: list[list[int]] = [[]]
    for n in range(start + 1, len(lines)):
        if lines[n - 1].strip():
            groups[-1].append(n)
        elif groups[-1]:
            groups.append([])
    return [group for group in groups if group]


def _registers_from(lines: list[str]) -> int:
    """The first line about the computation of a block in registers."""
    return next(n for n, line in enumerate(lines, 1) if "The scores of a block" in line)


def _code(path: Path) -> str:
    return path.read_text(encoding="utf-8").rstrip()
