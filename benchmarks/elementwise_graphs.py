"""How long thousands of elementwise operations take to become a library, with the C compiler, in fresh processes and
with an empty cache: chains, and random graphs of which each operation reads two of the 40 before it.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from time import perf_counter
from typing import Final

import tcpx
from benchmarks.bars import Bar, Verdict

OPERATIONS: Final = 3000
MOST_SECONDS: Final = 25.0
REACH: Final = {"chain": 1, "random": 40}
"""How far behind itself an operation reads, by kind of graph."""
SEEDS: Final = (1, 2)
TYPE: Final = "tensor<[N]xf32>"


def graph(kind: str, operations: int, seed: int) -> str:
    """The payload. In a chain the second operand is an argument; what nothing reads at the end of a graph is joined."""
    draw, reach = random.Random(seed), REACH[kind]
    names = ["x", "y"]
    body: list[str] = []
    for k in range(operations):
        left = draw.choice(names[-reach:])
        right = draw.choice(names[:2] if kind == "chain" else names[-reach:])
        body.append(f"  %v{k} = tcp.{draw.choice(['add', 'sub', 'mul', 'max', 'min'])}(%{left}, %{right}) : {TYPE}")
        names.append(f"v{k}")
    last = names[-1]
    for k, name in enumerate(names[-reach:-1]):
        body.append(f"  %joined{k} = tcp.max(%{last}, %{name}) : {TYPE}")
        last = f"joined{k}"
    head = f"func @graph(%x: {TYPE}, %y: {TYPE}) -> {TYPE} symbols [N] {{"
    return "\n".join([head, *body, f"  tcp.return(%{last})", "}"])


def graph_bars() -> Iterator[Verdict]:
    """The time of each graph beside the bar."""
    for kind in REACH:
        for seed in SEEDS:
            found = _in_a_process(kind, seed)
            yield Verdict(f"library of a {kind} of {OPERATIONS}, seed {seed}", 1, Bar("seconds", MOST_SECONDS), found)


def _in_a_process(kind: str, seed: int) -> float:
    command = [sys.executable, "-m", "benchmarks.elementwise_graphs", kind, str(seed)]
    with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as folder:
        environment = {**os.environ, "TCPX_CACHE_DIR": folder}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


if __name__ == "__main__":
    module = tcpx.parse(graph(sys.argv[1], OPERATIONS, int(sys.argv[2])))
    started = perf_counter()
    tcpx.compile(module)
    print(perf_counter() - started)
