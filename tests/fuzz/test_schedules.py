"""5,000 mutated schedules are read, checked and run over the digits payload: each runs, or is refused with a place."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache, partial
from pathlib import Path

import pytest

from tcpx.api import apply_schedule, check, load, load_schedule, parse
from tcpx.payload.ir import Module
from tests.fuzz.mutation import mutated
from tests.fuzz.outcome import refused
from tests.replay.cases import CONVOLUTIONAL, NETWORK

ROOT = Path(__file__).parents[2]
CHUNKS, CHUNK = 20, 250
PRODUCT = 'schedule s(root: func) {{\n  let mm = match one matmul "fc3" in root\n  {}\n}}\n'
CALLS = {
    "gemm": PRODUCT.format("packed_gemm(mm, epilogue(mm))"),
    "batch_gemm": PRODUCT.format("batch_gemm(mm, epilogue(mm))"),
    "panel_gemm": PRODUCT.format("large_gemm(mm, epilogue(mm))"),
    "narrow_gemm": PRODUCT.format("product(mm)"),
    "small_gemm": 'schedule s(root: func) {\n  let mm = match one "fc3" in root\n  direct_gemm(mm, epilogue(mm))\n}\n',
    "gemv": 'schedule s(root: func) {\n  let mm = match one matmul "fc3" in root\n  stream_gemm(mm, epilogue(mm))\n}\n',
    "split_k": 'schedule s(root: func) {\n  let mm = match one "fc3" in root\n  split_gemm(mm, epilogue(mm))\n}\n',
    "contractions": PRODUCT.format("with_epilogue(mm)"),
    "shared_dims": PRODUCT.format("let turned = transpose_result(mm, [n])\n  transpose_blocks(turned)"),
    "movement": PRODUCT.format("let turned = transpose_result(mm, [n])\n  transposed(turned)"),
    "windows": "schedule s(root: func) {\n  for x in match any generic in root where it.is_a(of_windows) "
    "{ windows(x) }\n}\n",
    "convolutions": "schedule s(root: func) {\n  for x in match any generic in root where it.is_a(dense) "
    "{ by_role(x) }\n}\n",
    "winograd": "schedule s(root: func) {\n  for x in match any generic in root where it.is_a(convolutions.dense) "
    "{ filtered(x) }\n}\n",
    "elementwise": "schedule s(root: func) {\n  for ops in clusters(match any max in root) { nest(ops) }\n}\n",
    "gathered": "schedule s(root: func) {\n  for ops in clusters(match any max in root) "
    "{ optional nest(ops, []) }\n}\n",
    "attention": "schedule s(root: func) {\n  attention(root)\n}\n",
    "convolutional": "schedule s(root: func) {\n  channels_innermost(root)\n}\n",
    "transformer": "schedule s(root: func) {\n  transformer(root)\n}\n",
    "sorting": "schedule s(root: func) {\n  composite(match one softmax in root, root)\n}\n",
    "rows": "schedule s(root: func) {\n  decompose(match one softmax in root)\n"
    "  for parts in row_clusters(match any op in root) { any_rows(outermost(parts), innermost(parts)) }\n}\n",
}
"""A schedule behind each library file, so that its sequences run."""
SAMPLES = sorted((ROOT / "tests/fuzz/samples").glob("*.tcps"))
FILES = sorted((ROOT / "schedules").rglob("*.tcps"))


@cache
def digits() -> Module:
    return load(ROOT / "examples/digits/digits.tcp")


@cache
def network() -> Module:
    return parse(NETWORK)


@cache
def source(path: Path) -> bytes:
    return path.read_bytes() + CALLS.get(path.stem, "").encode()


def put(path: Path, data: bytes, folder: Path) -> Path:
    """Write a file as it stands in its folder: beside those it imports, but for the library's, which is found."""
    for sibling in () if path.parent == ROOT / "schedules" else path.parent.glob("*.tcps"):
        (folder / sibling.name).write_bytes(sibling.read_bytes())
    file = folder / path.name
    file.write_bytes(data)
    return file


def run(path: Path, reached: Counter[str]) -> None:
    program = load_schedule(path)
    reached["read"] += 1
    found = check(program)
    assert all(diagnostic.schedule is not None for diagnostic in found)
    reached["checked"] += not any(diagnostic.is_error for diagnostic in found)
    apply_schedule(network() if path.stem in CONVOLUTIONAL else digits(), program, target="x86_avx2")
    reached["run"] += 1


@pytest.mark.parametrize("path", [*SAMPLES, *FILES], ids=lambda path: path.stem)
def test_sources_run(path: Path, tmp_path: Path) -> None:
    run(put(path, source(path), tmp_path), Counter())


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_mutated_schedules(chunk: int, tmp_path: Path) -> None:
    reached: Counter[str] = Counter()
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        rng = random.Random(number)
        origin = FILES[number // 8 % len(FILES)] if number % 8 == 0 else SAMPLES[number % len(SAMPLES)]
        file = put(origin, mutated(source(origin), rng), tmp_path)
        try:
            refused(partial(run, file, reached))
        except BaseException as error:
            error.add_note(f"mutation {number} of {origin.name}")
            raise
    shares = {stage: reached[stage] / CHUNK for stage in ("read", "checked", "run")}
    assert shares["read"] > 0.25, shares
    assert shares["checked"] > 0.1, shares
    assert shares["run"] > 0.06, shares
