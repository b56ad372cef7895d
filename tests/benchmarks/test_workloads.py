"""Workloads as YAML: all that are there load, parse and say what they do; what is wrong is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

import tcpx
from benchmarks.expressions import value_of
from benchmarks.random_shapes import FILE, LARGEST, MOST_OPERATIONS, random_shapes
from benchmarks.reference import reference
from benchmarks.tasks import expression_of, network_of
from benchmarks.workloads import Workload, default_files, load_group_bars, load_workloads, select
from tcpx.measure import kernel_peer
from tcpx.measure.protocol import Task, UnsupportedError

WORKLOADS = {workload.name: workload for workload in load_workloads(default_files())}
SMALL = """\
workloads:
  - name: small/{m}x{n}x{k}
    kind: product
    shapes: [{m: 5, n: 7, k: 3}, {m: 1, n: 2, k: 3}]
    payload: |
      func @matmul(%x: tensor<${m}x${k}x${T}>, %w: tensor<${k}x${n}x${T}>) -> tensor<${m}x${n}x${T}> {
        %mm = tcp.matmul(%x, %w) : tensor<${m}x${n}x${T}>
        tcp.return(%mm)
      }
    types: {T: f32}
    inputs: {x: "${T} m k", w: "${T} k n"}
    operations: 2 * m * n * k
    bytes: 4 * (m * k + k * n + m * n)
    peak: fma_f32
    bars: [{fraction: 0.5, threads: 2}, {workload: "small/{m}x{n}x{k}", at_least: 1}]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "workloads.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shapes_of_an_entry(tmp_path: Path) -> None:
    first, second = load_workloads([written(tmp_path, SMALL)])
    assert (first.name, second.name) == ("small/5x7x3", "small/1x2x3")
    assert {name: (made.dtype, made.shape) for name, made in first.inputs.items()} == {
        "x": ("f32", (5, 3)),
        "w": ("f32", (3, 7)),
    }
    assert (first.work.operations, first.work.bytes, first.work.peak) == (210, 4 * (15 + 21 + 35), "fma_f32")
    assert [str(bar) for bar in first.bars] == ["fraction >= 0.5", "workload small/5x7x3 >= 1"]
    assert "tensor<5x3xf32>" in first.payload


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("    peak: fma_f32\n", "", "no peak"),
        ("    kind: product\n", "    kind: product\n    colour: red\n", "`colour`"),
        ("operations: 2 * m", "operations: 2 ** m", "'2 ** m"),
        ("operations: 2 * m", "operations: 2 * q", "'q'"),
        ("operations: 2 * m", "operations: print(m)", "print(m)"),
        ('x: "${T} m k"', 'x: "f23 m k"', "f23"),
        ("types: {T: f32}", "types: {}", "T"),
        ("{fraction: 0.5, threads: 2}", "{fast: true}", "fast"),
        ("small/{m}x{n}x{k}\n    kind", "small\n    kind", "one that is there twice"),
        ("    payload: |", "    payload_file: absent.tcp\n    schedule: |", "absent.tcp"),
        ("workloads:", "work:", "dict"),
        ("workloads:", "workloads: [", "while parsing"),
    ],
)
def test_what_is_wrong_is_refused(old: str, new: str, found: str, tmp_path: Path) -> None:
    assert old in SMALL
    with pytest.raises(tcpx.ArgumentError, match="cannot read the workloads of") as caught:
        load_workloads([written(tmp_path, SMALL.replace(old, new, 1))])
    assert found in str(caught.value.diagnostic.found)
    assert caught.value.diagnostic.required is not None


def test_arithmetic() -> None:
    assert value_of("2 * (m + 3) // 4 - 1", {"m": 5}) == 3
    assert value_of(7, {}) == 7
    with pytest.raises(ValueError, match="required arithmetic"):
        value_of("2 +", {})


def test_selection_by_glob() -> None:
    known = list(WORKLOADS.values())
    assert select(known, []) == known
    assert [workload.name for workload in select(known, ["gemm/25*", "mlp/*"])] == ["gemm/256", "mlp/256x1024"]
    with pytest.raises(tcpx.ArgumentError, match="no workload is called nope"):
        select(known, ["nope"])


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_payload_is_one(name: str, tmp_path: Path) -> None:
    workload = WORKLOADS[name]
    folder = workload.payload_folder or tmp_path
    constants = {name: np.zeros(made.shape, np.float32) for name, made in workload.inputs.items() if made.constant}
    if workload.payload_folder is None:
        np.savez(tmp_path / "weights.npz", allow_pickle=False, **constants)
    module = tcpx.parse(workload.payload, name, folder)
    given = {name: made for name, made in workload.inputs.items() if not made.constant}
    assert list(tcpx.argument_dtypes(module)) == list(given)
    assert workload.schedule is None or tcpx.parse_schedule(workload.schedule)


def small(template: str, sizes: dict[str, int], folder: Path) -> Workload:
    """The workload of the files whose name is this template, on other sizes."""
    entries = [entry for path in default_files() for entry in yaml.safe_load(path.read_text())["workloads"]]
    entry = next(entry for entry in entries if entry["name"] == template)
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({"workloads": [entry]}))
    return load_workloads([path], [sizes])[0]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gemm/{m}x{n}x{k}", {"m": 5, "n": 7, "k": 9}),
        ("gemm_symbolic/{m}x{n}x{k}", {"m": 5, "n": 7, "k": 9}),
        ("linear/relu/{m}x{n}x{k}", {"m": 5, "n": 7, "k": 9}),
        ("linear/gelu/{m}x{n}x{k}", {"m": 5, "n": 7, "k": 9}),
        ("linear/gelu_fast/{m}x{n}x{k}", {"m": 5, "n": 7, "k": 9}),
        ("gemm_strided/1024", {"m": 5, "n": 7, "k": 9}),
        ("batch/{b}x{m}x{k}x{n}", {"b": 2, "m": 3, "n": 4, "k": 5}),
        ("batch_rhs_transposed/{b}x{m}x{k}x{n}", {"b": 2, "m": 3, "n": 4, "k": 5}),
        ("batch_lhs_transposed/{b}x{m}x{k}x{n}", {"b": 2, "m": 3, "n": 4, "k": 5}),
        ("softmax/{m}x{n}", {"m": 3, "n": 37}),
        ("reduce/argmax_1/{m}x{n}", {"m": 5, "n": 37}),
        ("elementwise/where/{n}", {"n": 77}),
        ("transpose/ui8/{n}", {"n": 37}),
        ("gather/rows/{n}", {"n": 9, "v": 5, "d": 3}),
        ("window/max_pool/{h}x{c}", {"h": 56, "c": 3}),
        ("block/mlp/{m}x{d}x{h}", {"m": 3, "d": 9, "h": 13}),
    ],
)
def test_tcpx_gives_what_the_reference_says(name: str, sizes: dict[str, int], tmp_path: Path) -> None:
    compare(small(name, sizes, tmp_path), tmp_path)


def test_strided_inputs_lie_apart_and_only_tcpx_takes_them(tmp_path: Path) -> None:
    workload = small("gemm_strided/1024", {"m": 5, "n": 7, "k": 9}, tmp_path)
    arrays = workload.arrays()
    task = Task.from_json(workload.task(tmp_path, 1, arrays).to_json())
    for name, array in task.arrays().items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.strides[0] > array.shape[1] * array.itemsize
    with pytest.raises(UnsupportedError, match="no strided operands"):
        network_of(task)


def compare(workload: Workload, folder: Path) -> None:
    arrays = workload.arrays()
    task = Task.from_json(workload.task(folder, 1, arrays).to_json())
    prepared = kernel_peer.prepare(task)
    found = prepared.as_array(prepared.run())
    expected = reference(workload, arrays)
    dtype = prepared.dtype or found.dtype.name
    assert expected.distance(found, dtype) <= 1
    wrong = found.copy()
    wrong[(0,) * wrong.ndim] += 1 if wrong.dtype.kind in "iu" else 0.01 * abs(wrong).max()
    assert expected.distance(wrong, dtype) > 1
    assert expected.distance(found[1:], dtype) == float("inf")


@pytest.mark.parametrize("name", ["digits/64", "mlp/256x1024", "gemm_u8s8/1024", "min_plus/512"])
def test_the_other_kinds(name: str, tmp_path: Path) -> None:
    compare(WORKLOADS[name], tmp_path)


def test_an_expression_in_the_language_of_a_peer(tmp_path: Path) -> None:
    workload = small("transpose/f32/{n}", {"n": 5}, tmp_path)
    task = workload.task(tmp_path, 1, workload.arrays())
    x = task.arrays()["x"]
    np.testing.assert_array_equal(expression_of(task, "numpy", np=np)(x), x.T)
    with pytest.raises(UnsupportedError, match="no expression: not written here"):
        expression_of(task, "jax", np=np)
    with pytest.raises(UnsupportedError, match="no expression"):
        network_of(task)


def test_what_tcpx_refuses_is_unsupported(tmp_path: Path) -> None:
    workload = WORKLOADS["gemm/3x5x7"]
    task = workload.task(tmp_path, 1, workload.arrays()).to_json() | {"payload": "func"}
    with pytest.raises(UnsupportedError):
        kernel_peer.prepare(Task.from_json(task))


def test_random_shapes_are_the_same_for_a_seed_and_not_too_large() -> None:
    shapes = random_shapes(7)
    assert shapes == random_shapes(7)
    assert shapes != random_shapes(8)
    assert len(shapes) == 50
    for shape in shapes:
        assert all(1 <= size <= LARGEST for size in shape.values())
        assert 2 * shape["m"] * shape["n"] * shape["k"] <= MOST_OPERATIONS
    made = load_workloads([FILE], shapes)
    assert made[0].work.operations == 2 * shapes[0]["m"] * shapes[0]["n"] * shapes[0]["k"]
    assert [group.workloads for group in load_group_bars([FILE])] == ["random/*"]
