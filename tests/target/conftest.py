"""All rows of a target as one C file: one function a row, behind one entry that takes the row's number (ENTRY).

Value rows read `count` operands from the arrays a, b, c and write `count` results to `out`; extract and insert do so
for every lane of `tested_lanes`; `lead` is given the address of each element of `a`. Memory rows access `a` (loads) or
`out` (stores) once, with the lane count `n` and the stride `s`; a gather of `n` elements reads its places from `b`, and
what other lanes are from `c`.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import numpy.typing as npt
import pytest

from tcpx.installed import TABLES
from tcpx.processor import cpu_flags
from tcpx.target import InstructionRow, LaneType, Target, available_targets, load_target
from tcpx.target.table import read_table
from tests.optional_tools import CLANG, GCC, require_cpu_of

Array = npt.NDArray[Any]

PARAMETERS = "const void *a, const void *b, const void *c, void *out, int64_t count, int64_t n, int64_t s"
ENTRY = f"void run_row(int64_t row, {PARAMETERS})"
MEMORY_KINDS = (
    "load",
    "masked_load",
    "masked_load_from",
    "strided_load",
    "masked_strided_load",
    "lane_mask",
    "lane_mask_from",
    "gather",
    "store",
    "masked_store",
    "stream_store",
)

POINTED_AT = "float"
"""The C type of what a row that makes a number of an address is given the address of."""


def read_value(target: Target, type_: LaneType, name: str, source: str) -> str:
    """C that declares `name` and reads it from element i of the array `source`."""
    element, c_type = target.c_type(type_.dtype), target.c_type(*type_)
    place = f"(const {element} *){source} + i * {type_.lanes}"
    if type_.lanes == 1:
        return f"{c_type} {name} = *({place});"
    if type_.dtype == "i1":
        return f"{c_type} {name} = {target.row(f'load_{type_}').render(p=place)};"
    return f"{c_type} {name} = {{0}}; __builtin_memcpy(&{name}, {place}, {type_.lanes} * sizeof({element}));"


def write_value(target: Target, type_: LaneType, value: str, position: str) -> str:
    """C that writes `value` to element `position` of the array out."""
    element, c_type = target.c_type(type_.dtype), target.c_type(*type_)
    place = f"({element} *)out + ({position}) * {type_.lanes}"
    if type_.lanes == 1:
        return f"*({place}) = {value};"
    if type_.dtype == "i1":
        return f"{{ {c_type} r = {value}; {target.row(f'store_{type_}').render(p=place, v='r')}; }}"
    return f"{{ {c_type} r = {value}; __builtin_memcpy({place}, &r, {type_.lanes} * sizeof({element})); }}"


def memory_body(target: Target, row: InstructionRow) -> list[str]:
    """C statements of a row that accesses memory once."""
    type_ = row.result or row.operands[0]
    element = target.c_type(type_.dtype)
    given = {"n": "n", "s": "s", "f": "s", "v": "x", "e": "n", "a": "x", "x": "y"}
    given |= {"p": f"({'' if row.result is None else 'const '}{element} *)m"}
    used = {key: given[key] for key in row.placeholders}
    if row.kind == "gather":
        places, rest = read_value(target, row.operands[0], "x", "b"), read_value(target, type_, "y", "c")
        read = write_value(target, type_, row.render(**used), "0")
        return [f"const {element} *m = a;", "int64_t i = 0;", places, rest, read]
    if "p" not in row.placeholders and row.result is not None:
        return [write_value(target, type_, row.render(**used), "0")]
    if row.result is not None:
        return [f"const {element} *m = a;", write_value(target, type_, row.render(**used), "0")]
    return [f"{element} *m = out;", "int64_t i = 0;", read_value(target, type_, "x", "a"), f"{row.render(**used)};"]


def tested_lanes(lanes: int) -> list[int]:
    """The lanes that rows of a single lane are tried on: the ends of the register and of its 16-byte parts."""
    return sorted({0, 1, lanes // 4 - 1, lanes // 4, lanes // 2 - 1, lanes // 2, lanes - 1} - {-1})


def value_body(target: Target, row: InstructionRow) -> list[str]:
    """C statements of a row on values, in a loop over the arrays."""
    lines = [read_value(target, t, f"x{k}", "abc"[k]) for k, t in enumerate(row.operands)]
    names = {"abc"[k]: f"x{k}" for k in range(len(row.operands))}
    if "p" in row.placeholders:
        names["p"] = f"((const {'char' if row.result is None else POINTED_AT} *)a + i)"
    result = row.result
    if result is None:
        return ["for (int64_t i = 0; i < count; i++) {", f"{row.render(**names)};", "}"]
    if "lane" in row.placeholders:
        lanes = tested_lanes(row.operands[0].lanes)
        for k, lane in enumerate(lanes):
            text = row.render(**names, lane=str(lane))
            lines.append(write_value(target, result, text, f"i * {len(lanes)} + {k}"))
    else:
        lines.append(write_value(target, result, row.render(**names), "i"))
    return ["for (int64_t i = 0; i < count; i++) {", *lines, "}"]


def c_source(target: Target) -> str:
    """The C file with a function for every row of the target."""
    lines = [*(f"#include <{h}>" for h in target.headers), *target.helper_code(target.rows)]
    for number, row in enumerate(target.rows):
        body = memory_body(target, row) if row.kind in MEMORY_KINDS else value_body(target, row)
        unused = "(void)a, (void)b, (void)c, (void)out, (void)count, (void)n, (void)s;"
        lines += [f"static void row_{number}({PARAMETERS}) {{ /* {row.name} */", unused, *body, "}"]
    lines += [f"static void (*const rows[])({PARAMETERS}) = {{", *(f"row_{k}," for k in range(len(target.rows))), "};"]
    lines += [f"{ENTRY};", f"{ENTRY} {{ rows[row](a, b, c, out, count, n, s); }}"]
    return "\n".join(lines) + "\n"


def build(compiler: str, target: Target, folder: Path) -> Path:
    """The shared object of `c_source` by this compiler; any warning is an error. `folder` keeps it by its content."""
    text, version = c_source(target), subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
    command = [compiler, *target.flags, "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    key = hashlib.sha256("\0".join([text, *command, str(version)]).encode()).hexdigest()[:16]
    stem = f"{target.name}_{compiler}_{key}"
    source, library, partial = folder / f"{stem}.c", folder / f"{stem}.so", folder / f"{stem}.partial"
    with (folder / f"{stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker builds, the others wait
        if not library.exists():
            source.write_text(text, encoding="utf-8")
            arguments = [*command, "-o", str(partial), str(source), "-lm"]
            done = subprocess.run(arguments, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stderr[:4000]}"
            partial.rename(library)
    return library


@dataclass(frozen=True, slots=True)
class RowLibrary:
    """The built rows of one target; `lanes` are the lanes that rows of a single lane are tried on."""

    target: Target
    run: Callable[..., None]
    lanes: Callable[[int], list[int]] = tested_lanes

    def number(self, row: InstructionRow) -> int:
        """The row's number in the library."""
        return self.target.rows.index(row)


@cache
def foreign() -> Any:
    """cffi with the declarations these tests use."""
    ffi = cffi.FFI()
    ffi.cdef(f"{ENTRY}; int mprotect(void *address, size_t length, int protection);")
    return ffi


ROWS_OF_THEIR_OWN = [name for name in available_targets() if "base" not in read_table(TABLES / f"{name}.yaml").fields()]


@pytest.fixture(scope="session", params=ROWS_OF_THEIR_OWN)
def target(request: pytest.FixtureRequest) -> Target:
    """Every installed target that has rows of its own, with all its features."""
    return load_target(request.param)


@pytest.fixture(scope="session")
def build_folder(request: pytest.FixtureRequest) -> Path:
    """Where built rows are kept from run to run."""
    return Path(request.config.cache.mkdir("target_rows"))


def usable_target(target: Target) -> Target:
    """The target less the features this CPU lacks; skips where the CPU does not run it at all."""
    require_cpu_of(target)
    return load_target(target.name, tuple(f for f in target.features if f in cpu_flags()))


BUILT_BY = [pytest.param("gcc", marks=GCC.needed), pytest.param("clang", marks=[pytest.mark.slow, CLANG.needed])]


@pytest.fixture(scope="session", params=BUILT_BY)
def rows(request: pytest.FixtureRequest, target: Target, build_folder: Path) -> RowLibrary:
    """The rows of the target as built by the compiler."""
    usable = usable_target(target)
    library = foreign().dlopen(str(build(request.param, usable, build_folder)))
    return RowLibrary(usable, library.run_row)


@pytest.fixture
def clang_library(target: Target, build_folder: Path) -> Path:
    """The rows of the target, built by clang."""
    return build("clang", target, build_folder)


@dataclass(frozen=True, slots=True)
class GuardedMemory:
    """Bytes that end at a page which may not be touched."""

    bytes: npt.NDArray[np.uint8]
    address: int

    @property
    def end(self) -> int:
        """The address of the forbidden page."""
        return self.address + self.bytes.size


@pytest.fixture(scope="session")
def guarded() -> GuardedMemory:
    """Two readable pages between two without any access."""
    page = os.sysconf("SC_PAGESIZE")
    memory = mmap.mmap(-1, 4 * page)
    ffi = foreign()
    address = int(ffi.cast("intptr_t", ffi.from_buffer(memory)))
    for start in (address, address + 3 * page):
        assert ffi.dlopen(None).mprotect(ffi.cast("void *", start), page, 0) == 0
    return GuardedMemory(np.frombuffer(memory, np.uint8, 2 * page, page), address + page)
