"""Workloads, from YAML: what is computed, by tcpx and by the peers, on which sizes, and the bars it must reach.

A file has `workloads`, a list, and may have `templates` for YAML's own `<<: *name`, and `geometric_means`, a list of
bars of several workloads (benchmarks/bars.py). An entry:

    name        `gemm/{m}`: the sizes may stand in it
    kind        what peers go by: product, mlp, min_plus, expression (benchmarks/tasks.py)
    attributes  of the kind: lhs_transposed, rhs_transposed, bias, activation, layers, last; `tolerance`, what the
                result may be off beyond rounding. Of an expression: numpy, jax, torch, and `reference` if that is not
                NumPy's; `roundings` of a result of its
                own size, or of the `magnitude` if that is larger, that may separate it from float64
    sizes       {m: 256, ..}, or `shapes`: a list of them, one workload each
    inputs      {x: "f32 m k strided", w: "f32 k n constant", ix: "si64 n below v"}: dtype, dims; `constant` may be
                prepared in advance, the rows of `strided` are a block of a wider array, indices are `below` a bound
    payload     text, with ${m} for sizes, or `payload_file`; `types` are further names for ${..}
    schedule    text, or `schedule_file`; the default schedule where there is none
    constants_file  .npz with the values of constant inputs; random ones where there is none
    target      `native` where none is given
    operations, bytes, peak   arithmetic in sizes: what a call must do, and the limit that counts for the operations
    bars        see benchmarks/bars.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from string import Template
from typing import Any, Final

import ml_dtypes
import numpy as np
import yaml

import tcpx
from benchmarks.bars import Bar, GroupBar, bar_of, group_bar_of
from benchmarks.expressions import value_of
from tcpx.measure.protocol import Input, Task
from tcpx.measure.roofline import Work

FOLDER: Final = Path(__file__).parent / "workloads"
REQUIRED: Final = {"name", "kind", "inputs", "operations", "bytes", "peak"}
OPTIONAL: Final = {
    *("attributes", "sizes", "shapes", "payload", "payload_file", "schedule", "schedule_file", "constants_file"),
    *("types", "target", "bars"),
}
DTYPES: Final = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "ui8": np.dtype(np.uint8),
    "si8": np.dtype(np.int8),
    "si64": np.dtype(np.int64),
}
CONSTANTS: Final = "weights.npz"


@dataclass(frozen=True, slots=True)
class ArrayInput:
    """One input: its dtype and shape, whether it is constant, whether its rows lie apart."""

    dtype: str
    shape: tuple[int, ...]
    constant: bool
    strided: bool
    below: int | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload of fixed sizes."""

    name: str
    kind: str
    sizes: Mapping[str, int]
    inputs: Mapping[str, ArrayInput]
    payload: str
    payload_folder: Path | None
    schedule: str | None
    work: Work
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants_file: Path | None = None
    target: str = "native"
    bars: tuple[Bar, ...] = ()

    def arrays(self, seed: int = 0) -> dict[str, np.ndarray]:
        """The inputs: random, floats standard normal, integers of their whole range; constants from their file."""
        random = np.random.default_rng([seed, *self.sizes.values()])
        held: dict[str, np.ndarray] = {}
        if self.constants_file is not None:
            with np.load(self.constants_file) as file:
                held = {name: file[name] for name in file.files}
        return {name: held[name] if name in held else _drawn(made, random) for name, made in self.inputs.items()}

    def task(self, folder: Path, threads: int, arrays: Mapping[str, np.ndarray]) -> Task:
        """The task for peers; its arrays are written to the folder."""
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array.view(np.uint16) if array.dtype == DTYPES["bf16"] else array)
        constants = {name: arrays[name] for name, made in self.inputs.items() if made.constant}
        if constants and self.payload_folder is None:
            np.savez(folder / CONSTANTS, **constants)
        return Task(
            name=self.name,
            kind=self.kind,
            threads=threads,
            folder=str(folder),
            inputs=tuple(Input(name, made.dtype, made.constant, made.strided) for name, made in self.inputs.items()),
            sizes=dict(self.sizes),
            attributes=dict(self.attributes),
            payload=self.payload,
            payload_folder=str(self.payload_folder or folder),
            schedule=self.schedule,
            target=self.target,
        )


def default_files() -> list[Path]:
    """The files of `benchmarks/workloads/`."""
    return sorted(FOLDER.glob("*.yaml"))


def load_workloads(files: Iterable[Path], shapes: Sequence[dict[str, int]] | None = None) -> list[Workload]:
    """The workloads of these files; of `shapes`, where given, instead of those of the file. Raises ArgumentError."""
    found: dict[str, Workload] = {}
    for path in files:
        for entry in _held(path)["workloads"]:
            for workload in _entry(path, entry if shapes is None else {**entry, "shapes": shapes}):
                if workload.name in found:
                    raise _refused(path, workload.name, "a name that is free", "one that is there twice")
                found[workload.name] = workload
    return list(found.values())


def load_group_bars(files: Iterable[Path]) -> list[GroupBar]:
    """The bars of several workloads together. Raises ArgumentError."""
    try:
        return [group_bar_of(given) for path in files for given in _held(path).get("geometric_means", ())]
    except ValueError as error:
        raise _refused(Path("geometric_means"), "", "bars", str(error)) from error


def select(workloads: Sequence[Workload], globs: Sequence[str]) -> list[Workload]:
    """The workloads that one of the globs names (`gemm/*`), all if there are none. Raises ArgumentError."""
    for glob in globs:
        if not any(fnmatch(workload.name, glob) for workload in workloads):
            raise tcpx.ArgumentError(
                tcpx.Diagnostic(
                    f"no workload is called {glob}",
                    required=", ".join(sorted({f"{workload.name.split('/')[0]}/*" for workload in workloads})),
                    found=glob,
                    fix="`tcpx bench --list` shows the names",
                )
            )
    return [w for w in workloads if not globs or any(fnmatch(w.name, glob) for glob in globs)]


def _held(path: Path) -> dict[str, Any]:
    try:
        held = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise _refused(path, "", "a YAML file", str(error)) from error
    if not isinstance(held, dict) or not isinstance(held.get("workloads"), list):
        raise _refused(path, "", "a mapping with a list of `workloads`", type(held).__name__)
    return held


def _entry(path: Path, entry: dict[str, Any]) -> list[Workload]:
    """The workloads of one entry: one per shape."""
    name = str(entry.get("name", "an entry without a name"))
    missing, unknown = REQUIRED - set(entry), set(entry) - REQUIRED - OPTIONAL
    if missing or unknown:
        found = [*(f"no {key}" for key in sorted(missing)), *(f"`{key}`" for key in sorted(unknown))]
        raise _refused(
            path, name, f"{', '.join(sorted(REQUIRED))}; maybe {', '.join(sorted(OPTIONAL))}", ", ".join(found)
        )
    try:
        return [_workload(path, entry, sizes) for sizes in entry.get("shapes", [entry.get("sizes", {})])]
    except (KeyError, ValueError, OSError) as error:
        raise _refused(path, name, "sizes, expressions and files that are there", str(error)) from error


def _workload(path: Path, entry: dict[str, Any], sizes: dict[str, int]) -> Workload:
    words = {**sizes, **entry.get("types", {})}
    payload, payload_folder = entry.get("payload", ""), None
    if "payload_file" in entry:
        file = path.parent / entry["payload_file"]
        payload, payload_folder = file.read_text(encoding="utf-8"), file.parent.resolve()
    schedule = entry.get("schedule")
    if "schedule_file" in entry:
        schedule = (path.parent / entry["schedule_file"]).read_text(encoding="utf-8")
    constants = entry.get("constants_file")
    return Workload(
        name=entry["name"].format(**sizes),
        kind=entry["kind"],
        sizes=sizes,
        inputs={name: _input(Template(text).substitute(words), sizes) for name, text in entry["inputs"].items()},
        payload=Template(payload).substitute(words),
        payload_folder=payload_folder,
        schedule=schedule,
        work=Work(value_of(entry["operations"], sizes), value_of(entry["bytes"], sizes), entry["peak"]),
        attributes=entry.get("attributes", {}),
        constants_file=(path.parent / constants).resolve() if constants else None,
        target=entry.get("target", "native"),
        bars=tuple(bar_of(bar, sizes) for bar in entry.get("bars", ())),
    )


def _input(text: str, sizes: Mapping[str, int]) -> ArrayInput:
    """`f32 m k constant`."""
    dtype, *words = text.split()
    if dtype not in DTYPES:
        raise ValueError(f"required a dtype of {', '.join(DTYPES)}, found {dtype!r}")
    words, _, bound = (" ".join(words)).partition("below")
    dims = [word for word in words.split() if word not in ("constant", "strided")]
    below = int(value_of(bound.strip(), sizes)) if bound else None
    shape = tuple(int(value_of(word, sizes)) for word in dims)
    return ArrayInput(dtype, shape, "constant" in words, "strided" in words, below)


def _drawn(made: ArrayInput, random: np.random.Generator) -> np.ndarray:
    dtype = DTYPES[made.dtype]
    if made.below is not None:
        return random.integers(0, made.below, made.shape, dtype=dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, made.shape, dtype=dtype, endpoint=True)
    return random.standard_normal(made.shape).astype(dtype)


def _refused(path: Path, name: str, required: str, found: str) -> tcpx.ArgumentError:
    where = f"{path}: {name}" if name else str(path)
    return tcpx.ArgumentError(tcpx.Diagnostic(f"cannot read the workloads of {where}", required=required, found=found))
