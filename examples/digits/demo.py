"""Classify handwritten digits with a compiled kernel, check it against the oracle and time it beside NumPy.

Run `make demo`. Exits with 1 if fewer than 97 % of the held-out rows are right or the kernel is off by more than 1e-5.
"""

from __future__ import annotations

import os

THREADS = 1
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(THREADS)  # read once, when NumPy is imported

import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from statistics import median  # noqa: E402

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402

import tcpx  # noqa: E402

FloatArray = npt.NDArray[np.float32]
Forward = Callable[[FloatArray], FloatArray]

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
C_FILE = ROOT / "build" / "demo" / "digits.c"

PIXEL_MAX = 16
HELD_OUT_EVERY = 5  # the rows train.py left out
LEAST_ACCURACY = 0.97
LARGEST_DIFFERENCE = 1e-5
BATCHES = (1, 64, 1024)
ROUNDS = 151
SAMPLE_SECONDS = 2e-4  # a sample repeats the call until it takes about this long: short beside a turn of the scheduler


def numpy_forward(weights: dict[str, FloatArray]) -> Forward:
    """The same perceptron written in NumPy, f32 throughout."""

    def forward(x: FloatArray) -> FloatArray:
        h = np.maximum(x @ weights["w1"] + weights["b1"], 0)
        h = np.maximum(h @ weights["w2"] + weights["b2"], 0)
        z = h @ weights["w3"] + weights["b3"]
        powers = np.exp(z - z.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    return forward


def seconds_per_call(forward: Forward, x: FloatArray, repeat: int) -> float:
    """Mean wall time of `repeat` calls in a row."""
    start = time.perf_counter()
    for _ in range(repeat):
        forward(x)
    return (time.perf_counter() - start) / repeat


def median_times(forwards: dict[str, Forward], x: FloatArray) -> dict[str, float]:
    """Median seconds per call of each function.

    They take turns, the one that goes first in each round too, so that all see the same machine. Where others use it,
    most samples are not interrupted, for they are short, and the median is one of those.
    """
    repeats: dict[str, int] = {}
    for name, forward in forwards.items():
        seconds_per_call(forward, x, 3)  # warm
        shortest = min(seconds_per_call(forward, x, 1) for _ in range(5))
        repeats[name] = max(1, round(SAMPLE_SECONDS / shortest))
    samples: dict[str, list[float]] = {name: [] for name in forwards}
    order = list(forwards)
    for _ in range(ROUNDS):
        for name in order:
            samples[name].append(seconds_per_call(forwards[name], x, repeats[name]))
        order.reverse()
    return {name: median(taken) for name, taken in samples.items()}


def main() -> int:
    """Compile, check, time; returns the exit status."""
    data = np.load(FOLDER / "digits.npz")
    images = (data["images"] / np.float32(PIXEL_MAX)).astype(np.float32)
    x = np.ascontiguousarray(images[::HELD_OUT_EVERY])
    labels = data["labels"][::HELD_OUT_EVERY]

    module = tcpx.load(FOLDER / "digits.tcp")
    schedule = tcpx.load_schedule(ROOT / "schedules" / "digits.tcps")
    kernel = tcpx.compile(module, schedule, target="native", threads=THREADS)
    C_FILE.parent.mkdir(parents=True, exist_ok=True)
    C_FILE.write_text(kernel.c_source, encoding="utf-8")

    def compiled(batch: FloatArray) -> FloatArray:
        return np.asarray(kernel(batch), dtype=np.float32)

    y = compiled(x)
    oracle = np.asarray(tcpx.evaluate(module, x), dtype=np.float32)
    accuracy = float(np.mean(np.argmax(y, axis=1) == labels))
    difference = float(np.max(np.abs(y - oracle)))
    print(f"accuracy               {accuracy:.2%} of {len(labels)} held-out images")
    print(f"largest difference     {difference:.1e} from the reference evaluator")

    forwards: dict[str, Forward] = {"tcpx": compiled, "numpy": numpy_forward(dict(np.load(FOLDER / "weights.npz")))}
    print(f"\nmedian time per batch, {THREADS} thread each, {ROUNDS} alternating rounds")
    print(f"{'B':>6} {'tcpx':>12} {'NumPy ' + np.__version__:>14} {'NumPy / tcpx':>14}")
    for batch in BATCHES:
        times = median_times(forwards, np.ascontiguousarray(images[:batch]))
        ours, theirs = times["tcpx"], times["numpy"]
        print(f"{batch:>6} {ours * 1e6:>9.1f} us {theirs * 1e6:>11.1f} us {theirs / ours:>13.2f}x")
    print(f"\nthe C source           {C_FILE}")

    # written so that NaN fails
    passed = accuracy >= LEAST_ACCURACY and difference <= LARGEST_DIFFERENCE
    if not passed:
        required = f"accuracy >= {LEAST_ACCURACY:.0%}, difference <= {LARGEST_DIFFERENCE:.0e}"
        print(f"FAILED: required {required}", file=sys.stderr)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
