"""The rows of each installed target, built by a compiler without a warning."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tcpx.installed import TABLES
from tcpx.processor import cpu_flags
from tcpx.target import Target, available_targets, load_target
from tcpx.target.table import read_table
from tcpx.verification.vector_rows.library import RowLibrary
from tcpx.verification.vector_rows.source import c_source
from tests.optional_tools import CLANG, GCC, require_cpu_of


def build(compiler: str, target: Target, folder: Path) -> Path:
    """The shared object of `c_source` by this compiler; any warning is an error. `folder` keeps it by its content."""
    text = c_source(target, target.rows)
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
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
class BuiltRows:
    """All rows of a target."""

    target: Target
    library: RowLibrary


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
def rows(request: pytest.FixtureRequest, target: Target, build_folder: Path) -> BuiltRows:
    """The rows of the target as built by the compiler."""
    usable = usable_target(target)
    path = build(request.param, usable, build_folder)
    return BuiltRows(usable, RowLibrary(path, usable.rows, dict(usable.tolerances)))


@pytest.fixture
def clang_library(target: Target, build_folder: Path) -> Path:
    """The rows of the target, built by clang."""
    return build("clang", target, build_folder)
