"""What instructions take on this processor, beside what the file of its core says.

    python -m benchmarks.instruction_costs            # all classes, as a table
    python -m benchmarks.instruction_costs fma div    # those with one of these words in their name

`latency` is that of an instruction that waits for the one before. `alone` are the cycles of an independent one, and the
other columns those of a pair with an instruction whose ports are known: where both need the same ports, their cycles
add up. What differs from the file by more than a tenth is marked. The instructions are in `instruction_costs.yaml`.
"""

import ctypes
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

import tcpx
from benchmarks.why_loops import CLOCK, CYCLES
from tcpx.costs.ports import cycles_by_port
from tcpx.emit_c.driver import build_library
from tcpx.records import frozen
from tcpx.target.cores import Core, core_named

FILE: Final = Path(__file__).with_suffix(".yaml")
CHAINS: Final = 12
"""Independent instructions."""
PROBES: Final = ("fma", "add_f", "shuffle", "max_i")
WIDTHS: Final = {64: "", 128: "xmm", 256: "ymm", 512: "zmm"}
GENERAL: Final = ("eax", "ecx", "edx", "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d", "ebx")
_WHOLE: Final = re.compile(r"[yz]mm(\d+)")
"""Names of registers that the compiler knows by that of their lowest part."""
SAMPLES: Final = 40
NEAR: Final = 0.1
BODY: Final = """
double measure_{number}(int64_t rounds) {{
  static char memory[4096] __attribute__((aligned(64)));
  const double start = tcpx_seconds();
  for (int64_t k = 0; k < rounds; k++)
    __asm__ volatile(".rept 8\\n\\t{text}\\n\\t.endr" :: "D"(memory)
      : "memory", {clobbers});
  return (tcpx_seconds() - start) / (8.0 * (double)rounds);
}}
"""


@frozen
class Row:
    """An instruction of a class on vectors of so many bits, and what leads from its result to its operand."""

    name: str
    bits: int
    text: str
    back: str
    back_class: str


def rows() -> Iterator[Row]:
    """All instructions."""
    table: Mapping[str, Mapping[str | int, str]] = yaml.safe_load(FILE.read_text())
    for name, texts in table.items():
        for key, text in texts.items():
            if key not in ("back", "class"):
                for bits in str(key).split():
                    yield Row(name, int(bits), text, texts.get("back", ""), texts.get("class", ""))


def filled(text: str, bits: int, number: int) -> str:
    """An instruction with the registers of a chain."""
    kind, half = WIDTHS[bits], WIDTHS[max(128, bits // 2)]
    plain = text.format(
        d=f"%{kind}{number}",
        h=f"%{half}{number}",
        x=f"%xmm{number}",
        y=f"%ymm{number}",
        s=f"%{kind}14",
        t=f"%{kind}15",
        r=f"%{GENERAL[number % len(GENERAL)]}",
        k=f"%k{2 + number % 5}",
        m=f"{64 * number}(%rdi)",
    )
    return re.sub(r"([%{}])", r"%\1", plain)


def _function(number: int, texts: Sequence[str]) -> str:
    written = {
        _WHOLE.sub(r"xmm\1", name).removesuffix("d") for name in re.findall(r"%%([a-z]+\d*[a-z]*)", " ".join(texts))
    }
    clobbers = ", ".join(f'"{name}"' for name in sorted(written - {"rdi"}))
    return BODY.format(number=number, text="\\n\\t".join(texts), clobbers=clobbers)


def programs(row: Row, probes: Sequence[Row], registers: int) -> list[list[str]]:
    """The bodies to time: a chain, independent instructions, and those among each probe."""
    first = 16 if registers > 16 else 7
    chain = [filled(row.text, row.bits, 0), *([filled(row.back, row.bits, 0)] if row.back else [])]
    alone = [filled(row.text, row.bits, k) for k in range(CHAINS)]
    found = [chain, alone]
    for probe in probes:
        other = [filled(probe.text, probe.bits, first + k) for k in range(min(CHAINS, first))]
        found.append([text for pair in zip(alone, other, strict=False) for text in pair])
    return found


def measured(row: Row, probes: Sequence[Row], target: tcpx.Target) -> list[float]:
    """The latency, and the cycles of an instruction alone and beside each probe."""
    bodies = programs(row, probes, target.vector_registers)
    code = CLOCK + CYCLES + "".join(_function(k, body) for k, body in enumerate(bodies))
    library = ctypes.CDLL(str(build_library(code, target, 1, "instruction")))
    functions = [library.tcpx_cycle, *(library[f"measure_{k}"] for k in range(len(bodies)))]
    for function in functions:
        function.restype = ctypes.c_double
    best = [1.0] * len(functions)
    rounds = ctypes.c_int64(400)
    for _ in range(SAMPLES):
        best = [min(known, function(rounds)) for known, function in zip(best, functions, strict=True)]
    cycle, chain, alone, *pairs = best
    count = min(CHAINS, 16 if target.vector_registers > 16 else 7)
    return [chain / cycle, alone / cycle / CHAINS, *(taken / cycle / count for taken in pairs)]


def predicted(core: Core, row: Row, probes: Sequence[Row]) -> list[float]:
    """The same as the file of the core says."""
    back = core.cost(row.back_class, row.bits).latency if row.back else 0.0
    found = [core.cost(row.name, row.bits).latency + back]
    for probe in (None, *probes):
        pressure: dict[frozenset[str], float] = {}
        places = 0
        for name, bits in ((row.name, row.bits), *([(probe.name, max(128, row.bits))] if probe else [])):
            cost = core.cost(name, bits)
            places += cost.places
            for use in cost.uses:
                pressure[use.ports] = pressure.get(use.ports, 0.0) + use.cycles
        found.append(max(*cycles_by_port(pressure).values(), places / core.width))
    return found


def main(words: Sequence[str]) -> None:
    """Print the table."""
    target = tcpx.load_target("native")
    core = core_named(target.core)
    table = list(rows())
    print(f"{core.title}: cycles, file / measured")
    print(f"{'':26}" + "".join(f"{name:>16}" for name in ("latency", "alone", *PROBES)))
    for row in table:
        if row.bits > target.vector_bits or (words and not any(word in row.name for word in words)):
            continue
        probes = [next(r for r in table if r.name == name and r.bits == max(128, row.bits)) for name in PROBES]
        pairs = list(zip(predicted(core, row, probes), measured(row, probes, target), strict=True))
        cells = (f"{a:6.2f} /{b:6.2f}{' ' if abs(a - b) <= NEAR * b else '!'}" for a, b in pairs)
        print(f"{row.name:22}{row.bits:4}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
