"""Programs that are within 1.3 times of the best known form: `python -m benchmarks.slow_programs.fast_programs`.

Prints those with a remark, which is a false alarm. An entry of `fast_programs.yaml` has

* a `kind`, and a template of its `payload`: `${m}` is an extent, `${size_m}` the same in a size, `${t}` the dtype, and
  `${symbols}` declares symbols; and a `schedule`, unless it has the default one;
* what else computes it: expressions over `np` (NumPy) and over `torch` and `F` (PyTorch), with the result in `out`
  where they can, or the body of a C function, with `T` for the dtype;
* `programs`: the extents, symbolic where they begin with a capital letter, and the dtype; each with the time of the
  kernel over that of the fastest of these, which was measured once.

`--freeze FOLDER` measures them again, with PyTorch from the packages in FOLDER, and leaves out those above the limit.
"""

from __future__ import annotations

import argparse
import functools
import string
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from ctypes import CDLL, c_long, c_void_p
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np
import yaml

import tcpx
from benchmarks.slow_programs.programs import Array
from benchmarks.slow_programs.timing import seconds_of

TABLE: Final = Path(__file__).parent / "fast_programs.yaml"
LIMIT: Final = 1.3
FLAGS: Final = ("-O3", "-march=native", "-mprefer-vector-width=512", "-ffast-math", "-shared", "-fPIC", "-lm")
C_TYPES: Final = {
    "float32": "float",
    "float64": "double",
    "bool": "unsigned char",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


@dataclass(frozen=True, slots=True)
class FastProgram:
    """A program of the table: `texts` are what else computes it, by language."""

    name: str
    payload: str
    schedule: str | None
    extents: Mapping[str, int]
    symbols: tuple[str, ...]
    texts: Mapping[str, str]
    ratio: float

    @property
    def sizes(self) -> dict[str, int]:
        return {symbol: self.extents[symbol.lower()] for symbol in self.symbols}


def fast_programs() -> Iterator[FastProgram]:
    """The programs of the table, in its order."""
    for entry in yaml.safe_load(TABLE.read_text(encoding="utf-8"))["kinds"]:
        texts = {language: entry[language] for language in ("numpy", "torch", "c") if language in entry}
        for words, ratio in entry["programs"].items():
            *extents, dtype = words.split()
            given = dict(extent.split("=") for extent in extents)
            symbols = tuple(name for name in given if name.isupper())
            values = {name.lower(): int(value) for name, value in given.items()}
            written = {name.lower(): f"[{name}]" if name in symbols else value for name, value in given.items()}
            sizes = {f"size_{name.lower()}": name if name in symbols else value for name, value in given.items()}
            declared = f"symbols [{', '.join(f'{symbol}: 1..' for symbol in symbols)}]" if symbols else ""
            payload = string.Template(entry["payload"]).substitute(written, **sizes, t=dtype, symbols=declared)
            yield FastProgram(f"{entry['kind']} {words}", payload, entry.get("schedule"), values, symbols, texts, ratio)


def other_forms(program: FastProgram, given: Mapping[str, Array], result: Array) -> dict[str, Callable[[], object]]:
    """Calls that compute the same, by language. Raises what the texts raise."""
    calls: dict[str, Callable[[], object]] = {}
    if "numpy" in program.texts:
        calls["numpy"] = _expression(program.texts["numpy"], {"np": np, **given, "out": result})
    if "torch" in program.texts:
        torch = import_module("torch")

        torch.set_num_threads(1)
        tensors = {name: torch.from_numpy(array) for name, array in {**given, "out": result.copy()}.items()}
        names = {"torch": torch, "F": torch.nn.functional, "functools": functools, **tensors}
        calls["torch"] = _expression(program.texts["torch"], names)
    if "c" in program.texts:
        calls["c"] = _c_function(program, given, result)
    return calls


def _expression(text: str, names: Mapping[str, object]) -> Callable[[], object]:
    call: Callable[[], object] = eval(f"lambda: {text}", dict(names))  # noqa: S307 - expressions are in the table
    return call


def _c_function(program: FastProgram, given: Mapping[str, Array], result: Array) -> Callable[[], object]:
    arrays = {"out": result, **given}
    parameters = [
        f"{'' if name == 'out' else 'const '}{C_TYPES[array.dtype.name]} *restrict {name}"
        for name, array in arrays.items()
    ] + [f"long {name}" for name in program.extents]
    element = C_TYPES[next(iter(given.values())).dtype.name]
    source = f"#include <math.h>\n#include <stdint.h>\ntypedef {element} T;\n"
    source += f"void f({', '.join(parameters)}) {{\n{program.texts['c']}\n}}\n"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "f.c").write_text(source, encoding="utf-8")
        subprocess.run(["gcc", *FLAGS, "f.c", "-o", "f.so"], cwd=folder, check=True)
        function = CDLL(str(Path(folder, "f.so"))).f
    passed = [*(c_void_p(a.ctypes.data) for a in arrays.values()), *(c_long(n) for n in program.extents.values())]
    return lambda: function(*passed)


def measured(program: FastProgram, kernel: tcpx.Kernel, module: tcpx.Module) -> dict[str, float]:
    """Seconds by language, `tcpx` among them. Raises SystemExit where the results differ."""
    names = list(tcpx.argument_dtypes(module))
    given = dict(zip(names, tcpx.random_inputs(module, sizes=program.sizes), strict=True))
    bound = kernel.bind(*given.values())
    returned = bound()
    expected = np.array(returned[0] if isinstance(returned, tuple) else returned)
    result = np.zeros_like(expected)
    calls = other_forms(program, given, result)
    for language, call in calls.items():
        answer = call()
        found = result if answer is None or language == "c" else np.asarray(answer).reshape(expected.shape)
        if not np.allclose(found, expected, 1e-3, 1e-3):
            sys.exit(f"{program.name}: the result of {language} differs")
    return dict(zip(("tcpx", *calls), seconds_of([bound, *calls.values()]), strict=True))


def freeze(ratios: Mapping[str, float]) -> None:
    """Write the ratios into the table, without the programs above the limit."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    kind, kept = "", list[str]()
    for line in lines:
        if line.startswith("- kind: "):
            kind = line.removeprefix("- kind: ")
        words = line.strip().partition(":")[0]
        ratio = ratios.get(f"{kind} {words}")
        if ratio is None:
            kept.append(line)
        elif ratio <= LIMIT:
            kept.append(f"    {words}: {ratio:.2f}")
    TABLE.write_text("\n".join(kept) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slow_programs.fast_programs", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="*", help="a glob of names: 'softmax *'")
    parser.add_argument("--compile", action="store_true", help="compile, print nothing")
    parser.add_argument("--freeze", metavar="FOLDER", help="measure again, with PyTorch from the packages in FOLDER")
    options = parser.parse_args()
    if options.freeze is not None:
        sys.path.append(options.freeze)
    programs = [program for program in fast_programs() if fnmatch(program.name, options.pattern)]
    ratios: dict[str, float] = {}
    alarms = 0
    for program in programs:
        module = tcpx.parse(program.payload)
        schedule = None if program.schedule is None else tcpx.parse_schedule(program.schedule)
        if options.compile:
            tcpx.compile(module, schedule)
            continue
        if options.freeze is not None:
            kernel = tcpx.compile(module, schedule)
            seconds = measured(program, kernel, module)
            own = seconds.pop("tcpx")
            ratios[program.name] = own / min(seconds.values())
            others = ", ".join(f"{language} {s * 1e6:.1f}" for language, s in seconds.items())
            print(f"{program.name:36} {own * 1e6:8.1f} us, {others}: {ratios[program.name]:.2f}", flush=True)
        sizes = {symbol: program.extents[symbol.lower()] for symbol in program.symbols}
        remarks = tcpx.remarks_of(module, schedule, sizes=sizes)
        alarms += bool(remarks)
        for remark in remarks:
            print(f"{program.name}: {remark.message}", flush=True)
    if ratios:
        freeze(ratios)
    if not options.compile:
        print(f"{alarms} of {len(programs)} programs have a remark")


if __name__ == "__main__":
    main()
