"""Payload names become C identifiers: never a word of C, never the same for two values; comments stay comments."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tcpx
from tcpx.emit_c.kernel import build_kernel
from tcpx.emit_c.printer.names import Names, in_comment, mangle
from tcpx.emit_c.printer.reserved import RESERVED
from tcpx.payload.diagnostics import Location
from tests.emit_c.payloads import GENERIC, MEMORY, MEMORY_CONSTANTS, module, reference

HOSTILE = '*/ int main(void) { /* ??/ \\\n#error "x" // \u202e\N{SNOWMAN}\t%s'


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("fc1", "fc1"),
        ("fc1/m1~tail", "fc1_m1_tail"),
        ("int", "int_"),
        ("expf", "expf_"),
        ("memcpy", "memcpy_"),
        ("tcpx_size_min", "tcpx_size_min_"),
        ("__builtin_trap", "builtin_trap"),
        ("3d", "v3d"),
        ("", "v"),
        ("größe", "gr_e"),
        (HOSTILE, "int_main_void_error_x_s"),
    ],
)
def test_mangling(name: str, identifier: str) -> None:
    assert mangle(name) == identifier


@given(st.lists(st.text(max_size=80)))
def test_identifiers_are_valid_and_different(texts: list[str]) -> None:
    names = Names(RESERVED)
    made = [names.fresh(text) for text in texts]
    assert len(set(made)) == len(made)
    for name in made:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name)
        assert name not in RESERVED


@given(st.text())
def test_comments_cannot_be_left(text: str) -> None:
    shown = in_comment(text)
    assert shown.isascii()
    for forbidden in ("*/", "/*", "//", "??", "\\", "\n", "\r"):
        assert forbidden not in shown
    assert f"/* {shown} */".count("*/") == 1


def test_hostile_names_compile() -> None:
    constants = {"*/ w": MEMORY_CONSTANTS["w/1"], 'v"; #error': MEMORY_CONSTANTS["v"]}
    text = MEMORY.replace('"w/1"', '"*/ w"').replace('constant = "v"', 'constant = "v\\"; #error"')
    for name, hostile in {"x": "int", "r": "workspace", "mine": "memcpy", "near": "_exit", "c": "float/~"}.items():
        text = re.sub(rf"%{name}\b", f"%{hostile}", text)
    text = re.sub(r"\bM\b", "NULL", text)
    payload = module(text, constants=constants)
    func = payload.main
    for op in func.walk():
        op.schedule_location = Location(f"/tmp/x/{HOSTILE}.tcps", 7, 1)
    func.name = HOSTILE
    kernel = build_kernel(payload, GENERIC, threads=2)
    assert kernel.signature.c_name == "int_main_void_error_x_s"
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    np.testing.assert_array_equal(np.asarray(kernel(x)), reference(payload, x)[0])


def test_loops_say_which_line_of_the_schedule_made_them() -> None:
    payload = module(MEMORY, constants=MEMORY_CONSTANTS)
    loop = next(op for op in payload.main.walk() if op.name == "i")
    loop.schedule_location = Location("/home/user/schedules/digits.tcps", 12, 3)
    assert "/* i, parallel (digits.tcps:12) */" in build_kernel(payload, GENERIC).c_source


def test_a_function_keeps_a_short_name() -> None:
    """The end of a number in a template of the target, as in `1.0f`, is no word."""
    payload = module(MEMORY, constants=MEMORY_CONSTANTS)
    for name in ("f", "u", "L", "e5"):
        payload.main.name = name
        assert build_kernel(payload, GENERIC).signature.c_name == name


def test_sizes_that_are_called_like_arguments() -> None:
    """The sizes that are checked are those of the call."""
    text = """func @g(%x: tensor<[a]x[x]xf32>, %y: tensor<[x]x[y]xf32>) -> tensor<[a]x[y]xf32> symbols [a, x, y: 1..] {
      %z = tcp.matmul(%x, %y) : tensor<[a]x[y]xf32>
      tcp.return(%z)
    }"""
    x, y = np.ones((2, 3), np.float32), np.ones((3, 5), np.float32)
    np.testing.assert_array_equal(tcpx.compile(tcpx.parse(text))(x, y), np.full((2, 5), 3))
