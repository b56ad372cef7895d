"""clone: one call is scheduled in another way than the others; what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.ops.gml_st import Loop
from tests.transform.payloads import check, refusal

THREE = """\
func @main(%x: tensor<[M]x5xf32>, %w: tensor<5x5xf32>) -> tensor<[M]x5xf32> symbols [M: 0..] {
  %a = tcp.call @layer(%x, %w) : tensor<[M]x5xf32>
  %b = tcp.call @layer(%a, %w) : tensor<[M]x5xf32>
  %c = tcp.call @layer(%b, %w) : tensor<[M]x5xf32>
  tcp.return(%c)
}
func @layer(%x: tensor<[R]x5xf32>, %w: tensor<5x5xf32>) -> tensor<[R]x5xf32> symbols [R] {
  %p = tcp.call @product(%x, %w) : tensor<[R]x5xf32>
  %y = tcp.max(%p, %x) : tensor<[R]x5xf32>
  tcp.return(%y)
}
func @product(%x: tensor<[B]x5xf32>, %w: tensor<5x5xf32>) -> tensor<[B]x5xf32> symbols [B] {
  %mm = tcp.matmul(%x, %w) : tensor<[B]x5xf32>
  tcp.return(%mm)
}
"""
NAMES = "".join(f'let {name} = match one "{name}" in root\n' for name in ("b", "p", "y", "mm"))


def steps_of(module: tcpx.Module) -> dict[str, list[object]]:
    """The steps of the loops in each function."""
    return {name: [op.var.step for op in func.walk() if isinstance(op, Loop)] for name, func in module.funcs.items()}


def test_a_call_in_another_way() -> None:
    body = f"{NAMES}clone(b)\nlet i = tile(y, [d0: 2])\nlet j = tile(y in b, [d1: 3])"
    done = check(THREE, body)
    assert steps_of(done.module) == {"main": [], "layer": [2], "product": [], "layer.1": [2, 3]}


def test_match_in_a_call() -> None:
    body = f"{NAMES}clone(b)\nlet e = match one max in b\nlet i = tile(e in b, [d0: 2])\nrequire e == y"
    done = check(THREE, body)
    assert steps_of(done.module) == {"main": [], "layer": [], "product": [], "layer.1": [2]}
    check(THREE, f"{NAMES}clone(b)\nlet all = match some op in b\nrequire len(all) == 3")


def test_a_path_of_calls() -> None:
    """What the copy calls is copied where it is cloned again; inside the call, it is that copy."""
    done = check(THREE, f"{NAMES}clone(b)\nclone(p in b)\nlet i = tile(mm in b, [m: 2])")
    assert steps_of(done.module) == {"main": [], "layer": [], "product": [], "layer.1": [], "product.1": [2]}
    shared = check(THREE, f"{NAMES}clone(b)\nlet i = tile(mm in b, [m: 2])")
    assert steps_of(shared.module)["product"] == [2]


def test_refusals_leave_the_payload_as_it_was() -> None:
    found = refusal(THREE, f"{NAMES}clone(p)")
    assert found.message == "%p runs no function on tensors that other calls run"
    assert (found.required, found.found) == ("a function with two calls or more", "no other call of @product")
    found = refusal(THREE, f"{NAMES}bufferize(root)\nclone(b)")
    assert found.message == "%b runs no function on tensors that other calls run"
    check(THREE, f'{NAMES}try {{ clone(b)\nrequire 1 == 2 "no" }} else {{ }}\nlet i = tile(y, [d0: 2])')


def test_sizes_that_are_numbers_at_the_call() -> None:
    fixed = THREE.replace(
        "tcp.return(%c)", "%f = tcp.call @layer(%w, %w) : tensor<5x5xf32>\n  tcp.return(%c, %f)"
    ).replace(") -> tensor<[M]x5xf32> symbols [M: 0..]", ") -> (tensor<[M]x5xf32>, tensor<5x5xf32>) symbols [M: 0..]")
    done = check(fixed, f'{NAMES}let f = match one "f" in root\nclone(f)\nclone(p in f)\nlet i = tile(mm in f, [m: 2])')
    assert steps_of(done.module) == {"main": [], "layer": [], "product": [], "layer.1": [], "product.1": [2]}
    assert (done.module.funcs["layer.1"].symbols, done.module.funcs["product.1"].symbols) == ((), ())


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_counts_them(threads: int) -> None:
    schedule = (
        f"language 1\nschedule s(root: func) {{\n{NAMES}clone(b)\nlet i = tile(y in b, [d0: 2], parallel: true)\n}}"
    )
    module = tcpx.parse(THREE)
    kernel = tcpx.compile(module, tcpx.parse_schedule(schedule), threads=threads)
    report = kernel.report()
    assert (report.functions, report.clones) == (3, 1)
    assert "functions   3, 1 of them clones" in str(report)
    for m in (0, 1, 7):
        arrays = tcpx.random_inputs(module, m, sizes={"M": m})
        np.testing.assert_allclose(
            *(np.asarray(held, np.float64) for held in (kernel(*arrays), tcpx.evaluate(module, *arrays))),
            rtol=1e-4,
            atol=1e-4,
        )
