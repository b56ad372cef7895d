"""Products that add to a given value: by the default schedule and by each sequence of the library, on every target."""

from __future__ import annotations

import numpy as np

import tcpx
from tcpx.target import Target
from tests.guard_pages import run_guarded

PRODUCT = """\
func @{name}(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>, %c: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32>
    symbols [M, N, K] {{
  {start}
  %mm = tcp.matmul(%x, %w, init = {init}) : tensor<[M]x[N]xf32>
  {end}
}}
"""
TYPE = "tensor<[M]x[N]xf32>"
STARTS = {
    "given": ("", "%c"),
    "filled": (f"%z = tcp.fill {{value = 2.0}} : {TYPE}", "%z"),
    "computed": (f"%z = tcp.max(%c, %c) : {TYPE}", "%z"),
    "product": (f"%z = tcp.matmul(%x, %w) : {TYPE}", "%z"),
}
ENDS = {
    "plain": "tcp.return(%mm)",
    "added": f"%r = tcp.add(%mm, {{init}}) : {TYPE}\n  tcp.return(%r)",
}
SEQUENCES = {
    "gemm": ("packed_gemm",),
    "panel_gemm": ("panel_gemm", "column_panel_gemm", "tile_gemm"),
    "small_gemm": ("direct_gemm",),
    "gemv": ("stream_gemm",),
}
SIZES = ((0, 4, 3), (4, 0, 3), (3, 5, 0), (5, 7, 3), (13, 70, 33))


def schedule(file: str, sequence: str) -> str:
    use = f"for mm in match any matmul in root {{ lib.{sequence}(mm, epilogue(mm)) }}"
    return f'language 1\nimport "lib/{file}.tcps" as lib\nschedule main(root: func) {{\n  {use}\n}}'


def requests() -> dict[str, tcpx.CompileRequest]:
    """Every start and end by the default schedule; a given one by each sequence."""
    made: dict[str, tcpx.CompileRequest] = {}
    for start, (text, init) in STARTS.items():
        for end, last in ENDS.items():
            payload = PRODUCT.format(name=f"{start}_{end}", start=text, init=init, end=last.format(init=init))
            made[f"{start} {end}"] = tcpx.CompileRequest(tcpx.parse(payload))
            for file, names in SEQUENCES.items() if start == "given" else ():
                for name in names:
                    named = tcpx.parse(payload.replace("@", f"@{name}_"))
                    chosen = tcpx.parse_schedule(schedule(file, name))
                    made[f"{start} {end} {name}"] = tcpx.CompileRequest(named, chosen)
    return made


def test_products(target: Target) -> None:
    asked = requests()
    kernels = tcpx.compile_many(list(asked.values()), target=target)
    random = np.random.default_rng(3)
    for (name, request), kernel in zip(asked.items(), kernels, strict=True):
        for m, n, k in SIZES:
            given = [random.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n))]
            (found,) = run_guarded(kernel, *given)
            wanted = tcpx.evaluate(request.module, *given)
            np.testing.assert_array_equal(found, wanted, err_msg=f"{name}, {m} x {n} x {k}")
