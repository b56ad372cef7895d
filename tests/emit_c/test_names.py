"""Payload names become C identifiers: never a word of C, never the same for two values; comments stay comments."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tcpx
from tcpx.emit_c.kernel import build_kernel
from tcpx.emit_c.printer.names import LONGEST_SHARED, Names, in_comment, mangle, mangle_external
from tcpx.emit_c.printer.reserved import RESERVED
from tcpx.payload.diagnostics import Location
from tests.emit_c.payloads import GENERIC, MEMORY, MEMORY_CONSTANTS, module, reference

HOSTILE = '*/ int main(void) { /* ??/ \\\n#error "x" // \u202e\N{SNOWMAN}\t%s'


def test_a_variable_has_the_last_words_of_a_path() -> None:
    """Each within 32 characters before its number. Functions, which others call, are not cut."""
    path = "model/encoder/stages.2/layers.1/layer/convolution/Conv_output_0"
    names = Names()
    assert names.fresh(path) == "layer_convolution_Conv_output_0"
    assert names.fresh(path) == "layer_convolution_Conv_output_0_2"
    assert names.fresh(mangle("stages/" + path), longest=LONGEST_SHARED) == mangle("stages/" + path)
    assert names.fresh("q" * 40) == "q" * 32


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


COLLIDING = """func @f(
    %x: tensor<[N]x4xf32>, %w: tensor<[file]x4xf32>, %v: index as [value], %number_0: index as [EDOM]
) -> tensor<[N]x4xf32> symbols [N: 1.., file: 1.., value: 0..9, EDOM] {
  tcp.assert {any = [N + value <= 99], message = "@WRITE@ too much @NAME@"}
  %c = tcp.const {constant = "c"} : tensor<4xf32>
  %b = tcp.broadcast(%c) {dims = [1]} : tensor<[N]x4xf32>
  %y = tcp.add(%x, %b) : tensor<[N]x4xf32>
  tcp.return(%y)
}"""
KERNELS = (
    "CONSTANTS TCPX_CONSTANTS main int NULL EDOM FILE TIME_UTC malloc select random clock_gettime include h stdio k n "
    "file value inputs code workspace array stop tcpx_run 3d größe"
).split()


def test_kernels_of_any_name_have_a_program(tmp_path: Path) -> None:
    """Neither macros nor functions of headers, nor what the program itself calls something, are in the way."""
    payload = module(COLLIDING, constants={"c": np.arange(4, dtype=np.float32)})
    for name in KERNELS:
        made = tcpx.emit(payload, target="generic", name=name).write(tmp_path / name)
        command = ["gcc", "-std=gnu11", "-fsyntax-only", "-Wall", "-Werror", "-Wno-unused-function", "main.c"]
        subprocess.run(command, cwd=made, check=True)
    subprocess.run("gcc -w *.c -lm -o program", cwd=tmp_path / "CONSTANTS", shell=True, check=True)
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    arrays = [f"{name}={tmp_path / 'x.npy'}" for name in "xw"]
    subprocess.run(["./program", *arrays, "v=3", "number_0=5"], cwd=tmp_path / "CONSTANTS", check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "CONSTANTS" / "out.npy"), np.ones((2, 4)) + np.arange(4))


HEADERS = "".join(f"#include <{name}.h>\n" for name in "errno stddef stdint stdio stdlib string time".split())


def test_what_headers_of_programs_declare_is_taken() -> None:
    """Macros are no names at all; what is declared is none of a kernel: as some other function, gcc refuses it."""

    def gcc(text: str, *flags: str) -> subprocess.CompletedProcess[str]:
        command = ["gcc", "-std=gnu11", "-x", "c", *flags, "-"]
        environment = {**os.environ, "LC_ALL": "C"}
        return subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)

    macros = set(re.findall(r"^#define ([A-Za-z]\w*)", gcc(HEADERS, "-E", "-dM").stdout, re.MULTILINE))
    assert len(macros) > 200
    assert [word for word in sorted(macros) if mangle(word) == word] == []
    words = sorted(set(re.findall(r"\b[A-Za-z]\w*", gcc(HEADERS, "-E", "-P").stdout)))
    free = [word for word in words if mangle_external(word) == word]
    declared = "".join(f"struct tcpx_odd {word}(struct tcpx_odd, short);\n" for word in free)
    result = gcc(f"{HEADERS}struct tcpx_odd {{ int x; }};\n{declared}", "-fsyntax-only", "-fno-diagnostics-show-caret")
    assert result.returncode == 0, result.stderr
