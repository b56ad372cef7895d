"""Schedules with values for several sizes: one frozen version for each, chosen when the kernel runs."""

from collections.abc import Mapping, Sequence
from math import isqrt
from pathlib import Path

from tcpx.api import apply_schedule, program_or_default
from tcpx.frozen import Frozen, freeze
from tcpx.installed import LIBRARY
from tcpx.interp import ParamValue
from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import Module
from tcpx.source import emit
from tcpx.target import Target, load_target
from tcpx.transform.language.embedded import Schedulable
from tcpx.transform.language.formatter import format_schedule
from tcpx.transform.language.loader import program_of_text

Sizes = Mapping[str, int]
Bounds = tuple[tuple[str, int], ...]
"""Symbols, and what each is at most."""


def freeze_dispatch(
    module: Module,
    schedule: Schedulable | None,
    versions: Sequence[tuple[Sizes, Mapping[str, ParamValue]]],
    *,
    target: str | Target = "native",
    threads: int = 1,
    provenance: Mapping[str, str] | None = None,
    folder: str | Path = ".",
) -> str:
    """The text of a schedule that has a version for each of these sizes, with the params that go with them.

    Other sizes get the version of the nearest: the border between two is their geometric mean. Raises what `freeze`
    raises, and ArgumentError for sizes that nothing tells apart, and for a symbol that is the extent of no operation.
    """
    chosen = load_target(target)
    program = program_or_default(schedule)
    cases = _cases([dict(sizes) for sizes, _ in versions])
    suffixes = ["".join(f"_{name}{size}" for name, size in sorted(sizes.items())) for sizes, _ in versions]
    parts: list[Frozen] = []
    for (_, params), suffix in zip(versions, suffixes, strict=True):
        freeze(module, program, params=params, target=chosen, threads=threads, folder=folder)
        run = apply_schedule(module, program, params=params, target=chosen, threads=threads)
        parts.append(Frozen(program, run.knobs, Path(folder), suffix))
    name = next(iter(program.main.schedules.values())).name
    asked = {symbol: _extent(module, symbol) for bounds, _ in cases for symbol, _ in bounds}
    lines = [f"// {key}: {' '.join(text.split())}" for key, text in (provenance or {}).items()]
    lines += [parts[0].text_of_sequences(), *(part.text_of_sequences(with_language=False) for part in parts[1:])]
    lines += ["/// One version for each of the sizes it was tuned for.", parts[0].head(name)]
    lines.append("  let everything = match some op in root")
    lines += [f'  let of_{symbol} = match one op in root where name == "{op}"' for symbol, (op, _) in asked.items()]
    for k, (bounds, version) in enumerate(cases):
        condition = " and ".join(f"size(of_{symbol}.{asked[symbol][1]}) <= {bound}" for symbol, bound in bounds)
        start = f"  {'else ' if k else 'specialize everything '}{f'when {condition} ' if bounds else ''}"
        lines.append(f"{start}{{ {name}{suffixes[version]}(root) }}")
    text = format_schedule("\n".join([*lines, "}", ""]))
    made = program_of_text(text, str(Path(folder, "<dispatch>")), [LIBRARY], folder)
    emit(module, made, target=chosen, threads=threads)
    return text


def _cases(sizes: Sequence[Sizes]) -> list[tuple[Bounds, int]]:
    """What is asked, in order, and the number of the version for it; the last one asks nothing."""
    names = sorted({name for held in sizes for name in held})
    found = _split(list(range(len(sizes))), sizes, names) if len(sizes) > 1 else []
    if not found or len(found) != len(sizes):
        raise ArgumentError(
            Diagnostic(
                "these sizes make no versions",
                required="two or more, no two of them equal, each with a value for every symbol",
                found="; ".join(", ".join(f"{name}={size}" for name, size in held.items()) for held in sizes) or "none",
            )
        )
    return found


def _split(numbers: Sequence[int], sizes: Sequence[Sizes], names: Sequence[str]) -> list[tuple[Bounds, int]]:
    if not names:
        return [((), numbers[0])]
    name, *rest = names
    values = sorted({sizes[number].get(name, 0) for number in numbers})
    found: list[tuple[Bounds, int]] = []
    for k, value in enumerate(values):
        inner = _split([number for number in numbers if sizes[number].get(name, 0) == value], sizes, rest)
        if k + 1 < len(values):
            border = max(value, isqrt(value * values[k + 1]))
            inner = [(((name, border), *bounds), number) for bounds, number in inner]
        found += inner
    return found


def _extent(module: Module, symbol: str) -> tuple[str, str]:
    """The name of an operation and of a dim of it whose extent is the symbol."""
    ops = list(module.main.walk())
    names = [op.name for op in ops]
    for op in ops:
        if isinstance(op, Tileable) and names.count(op.name) == 1:
            for it, extent in zip(op.iterators(), op.domain(), strict=True):
                if str(extent) == symbol:
                    return op.name, it.name
    raise ArgumentError(
        Diagnostic(
            f"a schedule cannot ask for the size `{symbol}`",
            required="an operation with a name of its own and a dim of this extent",
            found=f"none in @{module.main.name}",
        )
    )
