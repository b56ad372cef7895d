"""The targets of the nets: installed ones, with rows of operations that `lower_to` may take."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from tcpx.payload.ir import Operation
from tcpx.payload.types import TensorType, dtype_of, shape_of
from tcpx.target import Target, load_target

SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
TYPES = {"f32": "float", "f64": "double"}
RANKS = (1, 2, 3)


@cache
def target_with_rows(name: str) -> Target:
    """An installed target with a row for each operation that `row_of` names."""
    rows = [_elementwise(op, dtype, rank) for op in SIGNS for dtype in TYPES for rank in RANKS]
    rows += [_matmul(dtype) for dtype in TYPES]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.yaml"
        path.write_text("\n".join([f"name: {name}", f"base: {name}.yaml", "kernels:", *rows]), encoding="utf-8")
        return load_target(path, allow_native=True)


def row_of(op: Operation) -> str | None:
    """The row that does what an operation does; None where there is none."""
    if len(op.results) != 1 or not isinstance(op.result.type, TensorType):
        return None
    name, dtype, rank = op.opcode.removeprefix("tcp."), dtype_of(op.result.type).name, len(shape_of(op.result.type))
    same = all(dtype_of(value.type).name == dtype for value in op.operands)
    if dtype not in TYPES or not same:
        return None
    if name in SIGNS and rank in RANKS:
        return f"{name}_{dtype}_{rank}"
    return f"matmul_{dtype}" if name == "matmul" else None


def _elementwise(op: str, dtype: str, rank: int) -> str:
    dims = [f"D{k}" for k in range(rank)]
    type_ = f"tensor<{''.join(f'[{d}]x' for d in dims)}{dtype}>"
    formal = f"{type_} strided" if rank > 1 else type_
    places = {
        name: " + ".join([*(f"i{k} * ({{{name}_stride{k}}})" for k in range(rank - 1)), f"i{rank - 1}"])
        for name in ("x", "y", "out")
    }
    loops = "".join(f"for (int64_t i{k} = 0; i{k} < {{{d}}}; i{k}++) " for k, d in enumerate(dims))
    element = {name: f"({{{name}}})[{place}]" for name, place in places.items()}
    return f"""\
  - semantics: |
      func @{op}_{dtype}_{rank}(%x: {formal}, %y: {formal}) -> {formal} symbols [{", ".join(dims)}] {{
        %r = tcp.{op}(%x, %y) : {type_}
        tcp.return(%r)
      }}
    c: |
      {loops}{element["out"]} = {element["x"]} {SIGNS[op]} {element["y"]};"""


def _matmul(dtype: str) -> str:
    return f"""\
  - semantics: |
      func @matmul_{dtype}(%x: tensor<[M]x[K]x{dtype}> strided, %y: tensor<[K]x[N]x{dtype}> strided,
          %z: tensor<[M]x[N]x{dtype}> strided) -> tensor<[M]x[N]x{dtype}> symbols [M, K, N] {{
        %r = tcp.matmul(%x, %y, init = %z) : tensor<[M]x[N]x{dtype}>
        tcp.return(%r)
      }}
    c: |
      {TYPES[dtype]} *c = {{z}};
      for (int64_t i = 0; i < {{M}}; i++)
        for (int64_t j = 0; j < {{N}}; j++)
          for (int64_t p = 0; p < {{K}}; p++)
            c[i * ({{z_stride0}}) + j] += ({{x}})[i * ({{x_stride0}}) + p] * ({{y}})[p * ({{y_stride0}}) + j];
    in_place: z"""
