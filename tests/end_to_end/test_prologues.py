"""What leads to a factor alone, by the default schedule: weights that are dequantized where they are read or packed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tcpx
from tcpx.target import Target
from tests.guard_pages import run_guarded

FORMS = ("mk,kn->mn", "mk,nk->mn", "km,kn->mn", "bmk,bkn->bmn", "bmk,bnk->bmn", "k,kn->n", "k,nk->n", "bk,bkn->bn")
SIZES = ((0, 3, 5), (1, 17, 9), (4, 65, 33), (7, 0, 3), (7, 40, 18), (13, 70, 130), (70, 33, 49))
CHAINS = {
    "scaled": "%d = tcp.mul(%wf, %sb)",
    "shifted and scaled": "%z = tcp.sub(%wf, %sb)\n  %d = tcp.mul(%z, %sb)",
}


def payload(spec: str, chain: str, dtype: str) -> str:
    """A product with weights of the dtype, each column of which has a scale (or each row, where they are `nk`)."""
    left, right, out = spec.replace("->", ",").split(",")
    shapes = {name: "x".join(f"[{d.upper()}]" for d in dims) for name, dims in (("x", left), ("w", right), ("y", out))}
    symbols = ", ".join(f"{d.upper()}: 0.." for d in dict.fromkeys(left + right))
    names = {dims: ", ".join(f'"{d}"' for d in dims) for dims in (left, right, out)}
    made = f"tensor<{shapes['w']}xf32>"
    code = CHAINS[chain].replace("\n", f" : {made}\n")
    function = "".join(c if c.isalnum() else "_" for c in f"{spec}_{chain}_{dtype}")
    return f"""func @{function}(%x: tensor<{shapes["x"]}xf32>, %w: tensor<{shapes["w"]}x{dtype}>, %s: tensor<[N]xf32>) -> tensor<{shapes["y"]}xf32> symbols [{symbols}] {{
  %wf = tcp.cast(%w) : {made}
  %sb = tcp.broadcast(%s) {{dims = [{right.index("n")}]}} : {made}
  {code} : {made}
  %mm = tcp.contract(%x, %d) {{lhs = [{names[left]}], rhs = [{names[right]}], out = [{names[out]}]}} : tensor<{shapes["y"]}xf32>
  %y = tcp.max(%mm, %mm) : tensor<{shapes["y"]}xf32>
  tcp.return(%y)
}}
"""  # noqa: E501


def arrays(spec: str, sizes: dict[str, int], dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Small integers, so that every order of additions gives the same."""
    left, right, _ = spec.replace("->", ",").split(",")
    random = np.random.default_rng(sum(sizes.values()))
    x = random.integers(-3, 4, [sizes[d] for d in left]).astype(np.float32)
    w = random.integers(-3, 4, [sizes[d] for d in right]).astype({"si8": np.int8, "f16": np.float16}[dtype])
    return x, w, random.integers(-2, 3, sizes["n"]).astype(np.float32)


def cases() -> Iterator[tuple[str, str, str]]:
    for k, spec in enumerate(FORMS):
        yield spec, list(CHAINS)[k % 2], ("si8", "f16")[k // 2 % 2]


@pytest.mark.parametrize("threads", [1, 2])
def test_weights_that_are_dequantized(target: Target, threads: int) -> None:
    requests = [tcpx.CompileRequest(tcpx.parse(payload(*case))) for case in cases()]
    kernels = tcpx.compile_many(requests, target=target, threads=threads)
    for (spec, chain, dtype), kernel in zip(cases(), kernels, strict=True):
        for m, k, n in SIZES:
            x, w, s = arrays(spec, {"b": 3, "m": m, "k": k, "n": n}, dtype)
            (found,) = run_guarded(kernel, x, w, s)
            shape = [-1 if d == "n" else 1 for d in spec.replace("->", ",").split(",")[1]]
            wide, scale = w.astype(np.float32), s.reshape(shape)
            made = wide * scale if chain == "scaled" else (wide - scale) * scale
            np.testing.assert_array_equal(found, np.einsum(spec, x, made), err_msg=f"{spec} {chain} {m} {k} {n}")


def test_few_rows_read_weights_as_they_are_stored() -> None:
    """There is no array of dequantized weights: the workspace does not grow with them."""
    text = payload("mk,kn->mn", "scaled", "si8")
    sized = (
        text.replace("[M]", "4")
        .replace("[K]", "1024")
        .replace("[N]", "1024")
        .replace("symbols [M: 0.., K: 0.., N: 0..] ", "")
    )
    source = tcpx.emit(tcpx.parse(sized), target="x86_avx512").c_source
    assert "malloc" not in source
    assert "_mm512_cvtepi8_epi32" in source


PAIRS = (  # factors that the sums do not hold, or no vector of the target has
    *(
        ("si32", "f32", "f32"),
        ("f32", "f32", "si32"),
        ("i1", "f32", "f32"),
        ("i1", "si8", "si32"),
        ("si32", "si8", "f64"),
    ),
    ("f64", "f32", "f32"),
)


@pytest.mark.parametrize("rows", [4, 33])
@pytest.mark.parametrize("batch", ["", "3x"])
def test_any_pair_of_dtypes_has_a_schedule(target: Target, rows: int, batch: str) -> None:
    dims = (
        ('["b", "m", "k"]', '["b", "k", "n"]', '["b", "m", "n"]')
        if batch
        else ('["m", "k"]', '["k", "n"]', '["m", "n"]')
    )
    requests: list[tcpx.CompileRequest] = []
    for lhs, rhs, out in PAIRS:
        type_ = f"tensor<{batch}{rows}x20x{out}>"
        text = f"""func @{lhs}_{rhs}_{out}(%x: tensor<{batch}{rows}x30x{lhs}>, %w: tensor<{batch}30x20x{rhs}>) -> {type_} {{
  %mm = tcp.contract(%x, %w) {{lhs = {dims[0]}, rhs = {dims[1]}, out = {dims[2]}}} : {type_}
  tcp.return(%mm)
}}
"""  # noqa: E501
        requests.append(tcpx.CompileRequest(tcpx.parse(text)))
    random = np.random.default_rng(2)
    shapes = ([3] if batch else []) + [rows, 30], ([3] if batch else []) + [30, 20]
    numpy = {"si32": np.int32, "f32": np.float32, "i1": np.bool_, "si8": np.int8, "f64": np.float64}
    for (lhs, rhs, _), request, kernel in zip(PAIRS, requests, tcpx.compile_many(requests, target=target), strict=True):
        x, w = (random.integers(0, 4, s).astype(numpy[d]) for s, d in zip(shapes, (lhs, rhs), strict=True))
        (found,) = run_guarded(kernel, x, w)
        np.testing.assert_array_equal(found, tcpx.evaluate(request.module, x, w), err_msg=f"{lhs} {rhs}")


def test_narrow_constants_of_batches(target: Target) -> None:
    text = """func @f(%x: tensor<3x[M]x16xf16>) -> tensor<3x[M]x32xf32> symbols [M] {
  %w = tcp.const {constant = "w"} : tensor<3x16x32xf16>
  %y = tcp.contract(%x, %w) {lhs = ["b", "m", "k"], rhs = ["b", "k", "n"], out = ["b", "m", "n"]} : tensor<3x[M]x32xf32>
  tcp.return(%y)
}
"""
    random = np.random.default_rng(4)
    w = random.integers(-3, 4, (3, 16, 32)).astype(np.float16)
    kernel = tcpx.compile(tcpx.parse(text, constants={"w": w}), target=target)
    for m in (1, 9):
        x = random.integers(-3, 4, (3, m, 16)).astype(np.float16)
        (found,) = run_guarded(kernel, x)
        np.testing.assert_array_equal(found, x.astype(np.float32) @ w.astype(np.float32))


@pytest.mark.parametrize("made", ["mul(%f, %w)", "add(%w, %f)", "add(%f, %f)"])
def test_a_factor_made_of_a_number(target: Target, made: str) -> None:
    text = f"""func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, K, N] {{
  %f = tcp.fill {{value = 2.0}} : tensor<[K]x[N]xf32>
  %d = tcp.{made} : tensor<[K]x[N]xf32>
  %y = tcp.matmul(%x, %d) : tensor<[M]x[N]xf32>
  tcp.return(%y)
}}
"""
    module = tcpx.parse(text)
    kernel = tcpx.compile(module, target=target)
    random = np.random.default_rng(6)
    for m, k, n in ((4, 30, 17), (20, 9, 33)):
        x, w = (random.integers(-3, 4, s).astype(np.float32) for s in ((m, k), (k, n)))
        (found,) = run_guarded(kernel, x, w)
        np.testing.assert_array_equal(found, tcpx.evaluate(module, x, w))


@pytest.mark.parametrize("shape", [(9, 15, 31), (9, 16, 32), (9, 64, 31)])
def test_threads_share_the_columns_of_a_constant(target: Target, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    text = f"""func @f(%x: tensor<{m}x{k}xf32>) -> tensor<{m}x{n}xf32> {{
  %w = tcp.const {{constant = "w"}} : tensor<{k}x{n}xf32>
  %y = tcp.matmul(%x, %w) : tensor<{m}x{n}xf32>
  tcp.return(%y)
}}
"""
    random = np.random.default_rng(k)
    x, w = (random.integers(-3, 4, s).astype(np.float32) for s in ((m, k), (k, n)))
    (found,) = run_guarded(tcpx.compile(tcpx.parse(text, constants={"w": w}), target=target, threads=2), x)
    np.testing.assert_array_equal(found, x @ w)
