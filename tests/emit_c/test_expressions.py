"""Sizes in C: random expressions against `evaluate`, and where their named constants stand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tcpx.emit_c.binding import Library
from tcpx.emit_c.driver import build_library
from tcpx.emit_c.kernel import KernelRequest, build_many
from tcpx.emit_c.printer.expressions import SizePrinter
from tcpx.emit_c.printer.file import PrintRequest, print_file
from tcpx.emit_c.printer.names import Names
from tcpx.emit_c.printer.scopes import Scope
from tcpx.payload.constants import Constants
from tcpx.payload.ir import FuncOp
from tcpx.payload.sizes import Dim, FloorDiv, Symbol, ceildiv, evaluate, floordiv, maximum, minimum, mod
from tests.emit_c.payloads import GENERIC, module

SYMBOLS = (Symbol("A", 0), Symbol("B", 1, 40), Symbol("C", 0, 12, multiple_of=4))
EXPRESSIONS = 150


def random_size(source: random.Random, depth: int = 0) -> Dim:
    if depth == 3 or source.random() < 0.2:
        return source.choice([source.randint(-9, 9), *(s.size() for s in SYMBOLS)])
    a, b = random_size(source, depth + 1), random_size(source, depth + 1)
    divisor = source.choice([source.randint(1, 9), SYMBOLS[1].size(), SYMBOLS[2] + 1])
    match source.randrange(8):
        case 0:
            return floordiv(a, divisor)
        case 1:
            return ceildiv(a, divisor)
        case 2:
            return mod(a, divisor)
        case 3:
            return minimum(a, b)
        case 4:
            return maximum(a, b, source.randint(-3, 3))
        case 5:
            return a - b
        case 6:
            return a * source.choice([-3, -1, 2, b])
        case _:
            return a + b


def test_random_sizes() -> None:
    source = random.Random(0)
    sizes = [random_size(source) for _ in range(EXPRESSIONS)]
    requests: list[PrintRequest] = []
    for k, size in enumerate(sizes):
        func = FuncOp(f"f{k}", [], SYMBOLS)
        func.attributes["workspace"] = size
        requests.append(PrintRequest(func, Constants(), func.name))
    printed = print_file(requests, GENERIC, 1)
    library = Library(build_library(printed.source, GENERIC, 1), printed.kernels)
    for values in [(0, 1, 0), (1, 1, 4), (7, 3, 8), (100, 40, 12), (13, 17, 4)]:
        known = dict(zip("ABC", values, strict=True))
        for size, kernel in zip(sizes, printed.kernels, strict=True):
            assert np.uint64(library.workspace_bytes(kernel, values)).astype(np.int64) == evaluate(size, known), str(
                size
            )


@pytest.mark.parametrize("values", [(-1, 1, 0), (0, 0, 0), (0, 41, 0), (0, 1, 16), (0, 1, 2), (1 << 48, 1, 0)])
def test_sizes_out_of_range_have_no_workspace(values: tuple[int, int, int]) -> None:
    printed = print_file([PrintRequest(FuncOp("f", [], SYMBOLS), Constants(), "f")], GENERIC, 1)
    library = Library(build_library(printed.source, GENERIC, 1), printed.kernels)
    assert library.workspace_bytes(printed.kernels[0], (0, 1, 0)) == 0
    assert library.workspace_bytes(printed.kernels[0], values) == 2**64 - 1


def source_of(body: str, symbols: str = "[M, N]") -> str:
    text = f"""
    func @f(%x: buffer<[M]x[N]xf32, strides [N, 1], space argument>,
            %r: buffer<[M]x[N]xf32, strides [N, 1], space result>) symbols {symbols} {{results = 1}} {{
      {body}
      tcp.return
    }}
    """
    return build_many([KernelRequest(module(text))], GENERIC)[0].c_source


COPY_ELEMENT = """
%v = vector.read(%x) tile [%i, OFFSET] [1, 1] drop [0, 1] {row = "load_f32"} : f32
vector.write(%v, %r) tile [%i, OFFSET] [1, 1] drop [0, 1] {row = "store_f32"}
"""


def test_a_size_is_computed_once_where_all_it_needs_is_known() -> None:
    offset = "min(%i, N - 1)"
    loops = f"gml_st.for %i in 0 to M {{ gml_st.for %j in 0 to N {{ {COPY_ELEMENT.replace('OFFSET', offset)} }} }}"
    lines = [line.strip() for line in source_of(loops).splitlines()]
    outer, inner = lines.index("for (int64_t i = 0; i < M; i++) {"), lines.index("for (int64_t j = 0; j < N; j++) {")
    assert outer < lines.index("const int64_t x_row = i * N;") < inner
    assert outer < lines.index("const int64_t i_size = tcpx_size_min(i, N - 1);") < inner
    assert sum("= tcpx_size_min(" in line for line in lines) == 1


def test_a_division_is_safe_where_its_divisor_is_not_known_to_be_positive() -> None:
    """What is computed outside of a loop or branch may not rely on what holds inside."""
    text = "gml_st.for %i in 0 to M { gml_st.for %j in 0 to N { ELEMENT } }"
    element = COPY_ELEMENT.replace("OFFSET", "mod(M, N)")
    for symbols in ("[M, N]", "[M, N: 1..]"):
        lines = [line.strip() for line in source_of(text.replace("ELEMENT", element), symbols).splitlines()]
        assert "const int64_t size = tcpx_size_max(1, N);" in lines
        assert lines.index("const int64_t rest = tcpx_size_mod(M, size);") > lines.index(
            "const int64_t size = tcpx_size_max(1, N);"
        )


def test_division_of_what_may_be_negative_rounds_down() -> None:
    text = f"gml_st.for %i in 0 to M {{ {COPY_ELEMENT.replace('OFFSET', 'mod(%i - 5, 3)')} }}"
    assert "tcpx_size_mod(i - 5, 3)" in source_of(text)


def test_a_loop_that_runs_once_is_a_block() -> None:
    text = "gml_st.for %i in 3 to 5 step 4 { gml_st.for %j in 0 to N { ELEMENT } }"
    source = source_of(text.replace("ELEMENT", COPY_ELEMENT.replace("OFFSET", "%j")), "[M: 4.., N]")
    assert "/* i, once */\n  {\n    const int64_t i = 3;" in source


def test_a_quotient_of_a_branch_is_not_shared_with_others() -> None:
    """Where the numerator may be negative, the `/` of C rounds to the wrong side."""
    scope = Scope()
    scope.names["N"] = "N"
    printer = SizePrinter(Names())
    for symbol in (Symbol("N", 10), Symbol("N"), Symbol("N", 10)):
        printer.text(FloorDiv(symbol - 10, 4).size(), scope)
    assert [line.text for line in scope.lines()] == [
        "const int64_t index_ = (N - 10) / 4;",
        "const int64_t index_2 = tcpx_size_floordiv(N - 10, 4);",
    ]
