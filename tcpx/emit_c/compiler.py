"""Which C compiler there is, and running it."""

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from tcpx.payload.diagnostics import CompileError, Diagnostic
from tcpx.records import frozen

COMPILERS: Final = ("gcc", "cc", "clang")
_EXCERPT_LINES: Final = 20


@frozen
class Compiler:
    """A C compiler: the command, with any arguments $CC gives, and what it says about its version."""

    command: tuple[str, ...]
    version: str


def find_compiler(environment: Mapping[str, str] | None = None) -> Compiler:
    """The compiler named by $CC, else the first of `COMPILERS` that is installed. Raises CompileError."""
    known = os.environ if environment is None else environment
    wanted = _words(known.get("CC", ""))
    path = known.get("PATH")
    for command in [wanted] if wanted else [[name] for name in COMPILERS]:
        found = shutil.which(command[0], path=path)
        if found is not None:
            return _compiler((found, *command[1:]), os.stat(found).st_mtime_ns)
    raise CompileError(
        Diagnostic(
            "there is no C compiler",
            required=f"the compiler that $CC names: {wanted[0]}" if wanted else f"one of {', '.join(COMPILERS)}",
            found=f"none of that name in {path}",
            fix="install gcc (Debian: apt-get install gcc libc6-dev), or set CC to a C compiler",
        )
    )


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise CompileError(
            Diagnostic(
                "$CC cannot be split into words",
                required="a command in the syntax of a shell, with its quotes closed",
                found=f"{command}: {error}",
                fix="quote a path that has spaces: CC='\"/opt/my tools/gcc\" -O2'",
            )
        ) from error


@lru_cache(maxsize=16)
def _compiler(command: tuple[str, ...], modified: int) -> Compiler:
    """Asked once as long as the file is the same: `modified` is its time in nanoseconds."""
    del modified
    return Compiler(command, output_of([*command, "--version"]))


def output_of(command: Sequence[str], scratch: str = "") -> str:
    """The standard output of a command that succeeds. Messages are asked for in English. Its temporary files lie in
    `scratch`, if that is given: they go with it, however the command ends."""
    environment = {**os.environ, "LC_ALL": "C", **({"TMPDIR": scratch} if scratch else {})}
    shown = shlex.join(command)
    try:
        done = _run(command, environment)
    except OSError as error:
        raise CompileError(
            Diagnostic("the C compiler cannot be run", required=f"a program: {shown}", found=str(error))
        ) from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        more = [f".. and {len(lines) - _EXCERPT_LINES} more lines"] if len(lines) > _EXCERPT_LINES else []
        raise CompileError(
            Diagnostic(
                "the C compiler refused the code",
                required=f"success of: {shown}",
                found=f"exit status {done.returncode}",
                notes=(*lines[:_EXCERPT_LINES], *more),
            )
        )
    return done.stdout.decode(errors="replace")


def _run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    """As `subprocess.run`; what is interrupted ends with all that it started, and removes its files."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            _end(process)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a compiler: its driver removes the temporary files, but leaves the passes that it started running."""
    with suppress(OSError):  # a system without /proc, or a process that has just ended
        passes = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
        for child in map(int, passes.split()):
            os.kill(child, signal.SIGTERM)
    process.terminate()
    process.wait()
