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
    body = f"{NAMES}clone(b)\nlet e = match one max in b\nlet i = tile(e, [d0: 2])\nrequire e == (y in b) and e != y"
    done = check(THREE, body)
    assert steps_of(done.module) == {"main": [], "layer": [], "product": [], "layer.1": [2]}
    before = f"{NAMES}let e = match one max in b\nclone(b)\nlet i = tile(e, [d0: 2])"
    assert steps_of(check(THREE, before).module) == steps_of(done.module)
    both = f"{NAMES}clone(b)\nlet e = match one max in [b, c]\nlet i = tile(e, [d0: 2])"
    both = both.replace("clone(b)", 'let c = match one "c" in root\nclone(b)')
    assert steps_of(check(THREE, both).module) == {"main": [], "layer": [2], "product": [], "layer.1": [2]}
    check(THREE, f"{NAMES}clone(b)\nlet all = match some op in b\nrequire len(all) == 3")


def test_a_path_of_calls() -> None:
    """What the copy calls is copied where it is cloned again; inside the call, it is that copy."""
    done = check(THREE, f"{NAMES}clone(b)\nclone(p in b)\nlet i = tile(mm in b, [m: 2])")
    assert steps_of(done.module) == {"main": [], "layer": [], "product": [], "layer.1": [], "product.1": [2]}
    shared = check(THREE, f"{NAMES}clone(b)\nlet i = tile(mm in b, [m: 2])")
    assert steps_of(shared.module)["product"] == [2]


DEEP = """\
func @main(%x: tensor<[M]x5xf32>, %w: tensor<5x5xf32>) -> tensor<[M]x5xf32> symbols [M: 0..] {
  %a = tcp.call @block(%x, %w) : tensor<[M]x5xf32>
  %b = tcp.call @block(%a, %w) : tensor<[M]x5xf32>
  tcp.return(%b)
}
func @block(%x: tensor<[R]x5xf32>, %w: tensor<5x5xf32>) -> tensor<[R]x5xf32> symbols [R] {
  %p = tcp.call @layer(%x, %w) : tensor<[R]x5xf32>
  %q = tcp.call @layer(%p, %w) : tensor<[R]x5xf32>
  tcp.return(%q)
}
func @layer(%x: tensor<[B]x5xf32>, %w: tensor<5x5xf32>) -> tensor<[B]x5xf32> symbols [B] {
  %mm = tcp.matmul(%x, %w) : tensor<[B]x5xf32>
  %t = tcp.call @last(%mm) : tensor<[B]x5xf32>
  tcp.return(%t)
}
func @last(%x: tensor<[B]x5xf32>) -> tensor<[B]x5xf32> symbols [B] {
  %y = tcp.max(%x, %x) : tensor<[B]x5xf32>
  tcp.return(%y)
}
"""
CALLS = "".join(f'let {name} = match one "{name}" in root\n' for name in ("a", "b", "p", "q", "mm", "t", "y"))
TWO_CLONES = f"{CALLS}clone(b)\nlet e = q in b\nclone(e)\n"
LEFT: dict[str, list[object]] = {"main": [], "block": [], "layer": [], "last": [], "block.1": [], "layer.1": []}


@pytest.mark.parametrize(
    "body",
    [
        "let i = tile(mm in e, [m: 2])",
        "let i = tile(mm in (q in b), [m: 2])",
        "let f = match one matmul in e\nlet i = tile(f, [m: 2])",
        "for f in match some contract in e { let i = tile(f, [m: 2]) }",
        "let f, u, v = match one { f = matmul(u, v) } in e\nlet i = tile(f, [m: 2])",
        "let k = match one call in e\nfor f in match some op in e where it.is_a(matmul) { let i = tile(f, [m: 2]) }",
        "let k, f = match one same in e\nlet i = tile(f, [m: 2])\n}\nmatcher same(m: op<contract>) -> op<contract> {\n"
        "require m.is_a(matmul)\nreturn m",
    ],
)
def test_one_copy_two_calls_deep(body: str) -> None:
    """Of two calls of a block with two calls each, one: the path is that of the handle, not of the call it names."""
    done = check(DEEP, TWO_CLONES + body)
    assert steps_of(done.module) == LEFT | {"layer.1": [2]}
    early = f"{CALLS}let e = q in b\nclone(b)\nclone(e)\n{body}"
    assert steps_of(check(DEEP, early).module) == LEFT | {"layer.1": [2]}


def test_one_copy_three_calls_deep() -> None:
    body = f"{TWO_CLONES}let k = t in e\nclone(k)\nlet i = tile(y in k, [d0: 3])\nlet j = tile(y, [d1: 2])"
    done = check(DEEP, body)
    assert steps_of(done.module) == LEFT | {"last": [2], "last.1": [3, 2]}
    assert {f.name: [c.name for c in f.callers()] for f in done.module.funcs.values() if "." in f.name} == {
        "block.1": ["b"], "layer.1": ["q"], "last.1": ["t"],
    }  # fmt: skip
    again = tcpx.parse(done.module.text())
    assert again.text() == done.module.text()


def test_a_path_is_one_path() -> None:
    """What both calls lead to, though on different ways, is not on the path through both."""
    body = f"{CALLS}clone(b)\nlet e = q in b\nclone(e)\nlet left = mm in (p in b)\nrequire left != (mm in e)\n"
    check(DEEP, f"{body}require left == (mm in (q in a)) and left == (mm in p) and (mm in q) == mm")
    check(DEEP, f"{body}let all = match some op in e\nrequire len(all) == 3 and all == [mm in e, y, t in e]")


def test_a_call_that_is_not_on_the_path() -> None:
    found = refusal(DEEP, f"{CALLS}let e = p in (t in b)")
    assert (found.message, found.required, found.found, found.fix) == (
        "no copy of %p is inside %t in %b",
        "a loop or group round it, or a call on the way to it",
        "%p in @block, called by %a in @main, %b in @main",
        None,
    )
    found = refusal(DEEP, f"{CALLS}let e = y in (match one max in t)")
    assert (found.message, found.fix) == ("no copy of %y is inside %y in %t", "write `y in t`")


def test_what_was_inlined_is_still_that_of_the_call() -> None:
    """Handles that a match in a call gave live on where the call does not, also where it is one of several."""
    found = f"{CALLS}let f = match one matmul in (q in b)\n"
    tiled = "let i = tile(f, [m: 2])"
    assert steps_of(check(DEEP, f"{found}clone(b)\ninline(q in b)\n{tiled}").module) == {
        "main": [], "block": [], "layer": [], "last": [], "block.1": [2],
    }  # fmt: skip
    done = check(DEEP, f"{found}clone(b)\ninline(q in b)\ninline(b)\n{tiled}")
    assert steps_of(done.module) == {"main": [2], "block": [], "layer": [], "last": []}
    done = check(DEEP, f"{TWO_CLONES}let f = match one matmul in e\ninline(e)\n{tiled}")
    assert steps_of(done.module) == {"main": [], "block": [], "layer": [], "last": [], "block.1": [2]}


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
    body = f"{NAMES}clone(b)\nlet i = tile(y in b, [d0: 2], parallel: true)"
    counted(THREE, body, threads, functions=3, clones=1)
    body = f"{TWO_CLONES}clone(t in e)\nlet i = tile(mm in e, [m: 2], parallel: true)\nlet j = tile(y in e, [d0: 3])"
    counted(DEEP, body, threads, functions=6, clones=3)


def counted(text: str, body: str, threads: int, functions: int, clones: int) -> None:
    """The kernel has that many functions, and computes what the payload says."""
    module, schedule = tcpx.parse(text), f"language 1\nschedule s(root: func) {{\n{body}\n}}"
    kernel = tcpx.compile(module, tcpx.parse_schedule(schedule), threads=threads)
    report = kernel.report()
    assert (report.functions, report.clones) == (functions, clones)
    assert f"functions   {functions}, {clones} of them clones" in str(report)
    for m in (0, 1, 7):
        arrays = tcpx.random_inputs(module, m, sizes={"M": m})
        np.testing.assert_allclose(
            *(np.asarray(held, np.float64) for held in (kernel(*arrays), tcpx.evaluate(module, *arrays))),
            rtol=1e-4,
            atol=1e-4,
        )
