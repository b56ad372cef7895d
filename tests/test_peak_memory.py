"""How much memory a compilation takes: the weights twice, and what Python and the compiler's tables take."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

LAYERS, WIDTH = 12, 2048
"""192 MiB of f32: three times that and what Python takes would be above the bound."""
REST = 400 << 20
PROGRAM = """
import re, sys
from pathlib import Path
from tcpx.cli import main
status = main(sys.argv[1:])
print("peak", re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
sys.exit(status)
"""


def test_a_model_takes_its_weights_twice(tmp_path: Path) -> None:
    """Read, compiled and kept; then, touched, found by its content."""
    draws, names = np.random.default_rng(0), [f"h{k}" for k in range(LAYERS)]
    weights = [draws.standard_normal((WIDTH, WIDTH), np.float32).tobytes() for _ in names]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [x, f"w{k}"], [y]) for k, (x, y) in enumerate(pairwise(["x", *names]))],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", WIDTH])],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, ["N", WIDTH])],
        [helper.make_tensor(f"w{k}", TensorProto.FLOAT, (WIDTH, WIDTH), w, raw=True) for k, w in enumerate(weights)],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    environment = {**os.environ, "TCPX_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", PROGRAM, "run", str(path), "--random", "0", "--size", "N=1"]
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        peak = int(done.stdout.split("peak ")[1]) << 10
        assert peak < 2 * sum(map(len, weights)) + REST, f"{peak >> 20} MiB"
        path.touch()
