"""Whole models beside other runtimes, in turn, each result checked before it is timed: python -m benchmarks.models

The models are exported from PyTorch (`benchmarks/torch_models.py`) to .bench/models; tcpx, ONNX Runtime, OpenVINO,
JAX, IREE and TVM read the ONNX file, PyTorch runs its own program. Batch 1; one row for each size.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

import tcpx
from benchmarks.beside import Beside
from benchmarks.registry import ENVIRONMENTS, ROOT, launches, peers
from benchmarks.slow_cells import cells_of, report
from tcpx.cli.measuring import add_ledger, add_measuring, plan_of, threads_of
from tcpx.measure.output import write_results
from tcpx.measure.protocol import Input, Task
from tcpx.measure.rows import Row
from tcpx.measure.session import Session
from tcpx.measure.table import table

SIZES: Final[Mapping[str, Sequence[int]]] = {
    "minilm": (16, 128, 512),
    "bert": (128,),
    "distilbert": (128,),
    "gpt2": (128,),
    "gpt2_decode": (512,),
    "llama": (128,),
    "encoder": (128,),
    "encoder_sequence_first": (128,),
    "block": (128,),
    "attention": (128, 512, 2048, 8192),
    "attention_causal": (128, 512, 2048, 8192),
    "attention_6x48": (100,),
    "attention_6x48_causal": (100,),
}
"""The sizes of each model: lengths of sequences, with the token of a step of decoding."""
STEPS: Final = ("gpt2_decode",)
"""Models that hand on caches: tcpx writes what is new into them, the others make new ones."""
PEERS: Final = ("onnxruntime", "openvino", "torch", "torch_compiled", "jax", "iree", "tvm")
TIMES: Final = 16.0
"""How much farther a result may be from that in float64 than PyTorch's in float32 is."""


def main() -> int:
    """Measure the models that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL[/SIZE]", help=f"of {', '.join(SIZES)}; default: all")
    parser.add_argument("-s", "--schedule", metavar="SCHEDULE", help="for tcpx; default: the default schedule")
    add_measuring(parser)
    add_ledger(parser)
    parser.add_argument("--check", action="store_true", help="with --against: exit status 1 if something is slower")
    options = parser.parse_args()
    try:
        models, beside = wanted(options.models), Beside.of(options)
    except tcpx.ArgumentError as error:
        print(error.diagnostic.render(), file=sys.stderr)
        return 2
    chosen = [name for name, spec in peers().items() if name in PEERS and spec.is_set_up]
    plan, rows = plan_of(options), list[Row]()
    started = [*launches(options.peers.split(",") if options.peers else chosen), *beside.launches]
    for cpus in threads_of(options):
        with Session(started, cpus, plan=plan) as session:
            for model, sizes in models.items():
                folder = exported(model, sizes)
                read = tcpx.onnx.load(folder / "model.onnx", state=model in STEPS)
                text, *_ = tcpx.onnx.write(read, folder)
                payload = text.read_text(encoding="utf-8")
                for size in sizes:
                    made = _measured(session, read, payload, folder, f"{model}/{size}", options.schedule, beside)
                    print(table(made, head=not rows), flush=True)
                    rows += made
            finished = session.finished()
            rows[len(rows) - len(session.rows) :] = finished
    for path in write_results(rows, options.output):
        print(f"wrote {path}")
    print(report(cells_of(rows)))
    is_worse = beside.finish(rows)
    return 1 if is_worse and options.check else 0


def exported(model: str, sizes: Sequence[int]) -> Path:
    """The folder of a model, written by PyTorch unless it is there."""
    folder = ENVIRONMENTS / "models" / model
    if not all((folder / f"{size}.npz").is_file() for size in sizes):
        torch = str(peers()["torch"].interpreter)
        command = [torch, "-W", "ignore", "-m", "benchmarks.torch_models", model, str(folder), *map(str, sizes)]
        subprocess.run(command, cwd=ROOT, check=True)
    return folder


def wanted(words: Sequence[str]) -> Mapping[str, Sequence[int]]:
    """The sizes of each model that is named. Raises ArgumentError."""
    found: dict[str, list[int]] = {}
    for word in words or SIZES:
        name, _, size = word.partition("/")
        if name not in SIZES or (size and not size.isdecimal()):
            required = f"one of {', '.join(SIZES)}, or one with a size, such as minilm/64"
            raise tcpx.ArgumentError(tcpx.Diagnostic("there is no such model", required=required, found=word))
        found.setdefault(name, []).extend([int(size)] if size else SIZES[name])
    return found


def _measured(
    session: Session,
    model: tcpx.onnx.Model,
    payload: str,
    folder: Path,
    name: str,
    schedule: str | None,
    beside: Beside,
) -> Sequence[Row]:
    main = model.module.main
    used = {main.args[k].name for k in main.numbers}
    names = [port.name for port in model.inputs if port.argument not in used]
    with np.load(folder / f"{name.rpartition('/')[2]}.npz") as held:
        given = {key: held[f"arr_{k}"] for k, key in enumerate(names)}
        expected, off = held["expected"], float(held["off"])
    arrays = {f"model.{key}": array for key, array in given.items()} | _arguments(model, given)

    def distance(found: np.ndarray, dtype: str) -> float:
        del dtype
        return float(np.abs(found - expected).max()) / (TIMES * off) if found.shape == expected.shape else float("inf")

    with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as place:
        for key, array in arrays.items():
            np.save(Path(place, f"{key}.npy"), array)
        task = Task(
            name=name,
            kind="model",
            threads=len(session.cpus),
            folder=place,
            inputs=tuple(Input(key, str(array.dtype)) for key, array in arrays.items()),
            attributes={
                "onnx": str(folder / "model.onnx"),
                "program": str(folder / f"{name.rpartition('/')[2]}.pt2"),
                "names": {f"model.{key}": key for key in given},
            },
            payload=payload,
            payload_folder=str(folder),
            schedule=Path(schedule).read_text(encoding="utf-8") if schedule else None,
        )
        rows = session.measure(task, check=distance)
        beside.note(session, task, rows, distance)
        return rows


def _arguments(model: tcpx.onnx.Model, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arguments of tcpx. A cache that it changes has room behind what is used; how much that is comes first."""
    main = model.module.main
    caches = {main.args[k].name for k in main.states}
    found, used = dict[str, np.ndarray](), 0
    for port in reversed(model.inputs):
        array = given.get(port.name, np.asarray(used))
        if port.argument in caches:
            used = array.shape[-2]
            array = np.concatenate([array, np.zeros_like(array)], -2)
        found[port.argument] = array
    return found


if __name__ == "__main__":
    sys.exit(main())
