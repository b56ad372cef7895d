"""How long a payload of the size of a model takes to become C, in fresh processes and without the C compiler.

A perceptron: layers `y = max(x @ W_k + b_k, 0)`, no two with a matrix of one shape, over a symbolic number of rows,
under the default schedule.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from math import log
from time import perf_counter
from typing import Final

import tcpx
from benchmarks.bars import Bar, Verdict
from tcpx.api import CompileRequest, lowered
from tcpx.payload.collector import collector_paused
from tcpx.source import source_of
from tcpx.target import load_target

TARGET: Final = "x86_avx512"
MOST_SECONDS: Final = {10: 3.0, 100: 10.0, 1000: 60.0}
"""By number of layers."""


def perceptron(layers: int) -> str:
    """The payload of a perceptron. Equal parts would be scheduled once: the step between columns changes every 97."""
    columns = [32, *(32 + (37 + k // 97) * k % 97 for k in range(1, layers + 1))]
    arguments = [f"%x: tensor<[M]x{columns[0]}xf32>"]
    body: list[str] = []
    last = "x"
    for k in range(layers):
        type_ = f"tensor<[M]x{columns[k + 1]}xf32>"
        arguments += [f"%w{k}: tensor<{columns[k]}x{columns[k + 1]}xf32>", f"%b{k}: tensor<{columns[k + 1]}xf32>"]
        body += [
            f"  %mm{k} = tcp.matmul(%{last}, %w{k}) : {type_}",
            f"  %rows{k} = tcp.broadcast(%b{k}) {{dims = [1]}} : {type_}",
            f"  %sum{k} = tcp.add(%mm{k}, %rows{k}) : {type_}",
            f"  %zero{k} = tcp.fill {{value = 0.0}} : {type_}",
            f"  %y{k} = tcp.max(%sum{k}, %zero{k}) : {type_}",
        ]
        last = f"y{k}"
    head = f"func @perceptron({', '.join(arguments)}) -> tensor<[M]x{columns[-1]}xf32> symbols [M] {{"
    return "\n".join([head, *body, f"  tcp.return(%{last})", "}"])


def model_bars() -> Iterator[Verdict]:
    """The time for each number of layers beside its bar, and the work that was done."""
    before: tuple[int, float] | None = None
    for layers, most in MOST_SECONDS.items():
        command = [sys.executable, "-m", "benchmarks.model_times", str(layers)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        seconds = float(found.pop("seconds"))
        note = ", ".join(f"{count} {what}" for what, count in found.items())
        if before is not None:
            power = log(seconds / before[1]) / log(layers / before[0])
            note = f"{note}; grows by the power {power:.2f}"
        before = layers, seconds
        yield Verdict(f"C of a perceptron of {layers} layers", 1, Bar("seconds", most), seconds, note)


@collector_paused()
def _measured(layers: int) -> dict[str, float]:
    """As `tcpx.emit` does it, in one pause of the collector."""
    target, module = load_target(TARGET), tcpx.parse(perceptron(layers))
    started = perf_counter()
    run = lowered(CompileRequest(module), target, 1)
    source = source_of(run.module, target, 1)
    return {
        "seconds": perf_counter() - started,
        "steps": len(run.trace.entries),
        "operations and uses visited": run.rewriter.visited,
        "bytes of C": len(source.c_source),
    }


if __name__ == "__main__":
    print(json.dumps(_measured(int(sys.argv[1]))))
