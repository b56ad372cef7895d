"""A C compiler that plants faults in the kernels it is given: they are told by a loop of a certain step in the C."""

from __future__ import annotations

import sys
from pathlib import Path

COMPILER = """\
#!{python}
import subprocess, sys
FAULTS = {faults!r}
words = list(sys.argv[1:])
sources = [word for word in words if word.endswith(".c")]
for source in sources:
    text = open(source).read()
    for mark, fault in FAULTS.items():
        if mark in text:
            head, brace, tail = text.rpartition("return 0;")
            text = head + fault + brace + tail
    if "refuse_this" in text:
        sys.exit("planted: refused")
    if sources and words:
        open(source, "w").write(text)
sys.exit(subprocess.run(["gcc", *words]).returncode)
"""
CRASH = "__builtin_trap(); "
HANG = "for (volatile int hang = 1; hang;) {} "
WRONG = "((volatile float *)(void *)out)[1] += 1.0f; "
HUNGRY = "for (;;) { volatile char *eaten = __builtin_malloc(1 << 24); eaten[0] = 1; } "
REFUSED = "refuse_this "


def planting_compiler(path: Path, faults: dict[int, str]) -> str:
    """A compiler for $CC that plants a fault where a loop has a step."""
    marks = {f" += {step})": fault for step, fault in faults.items()}
    path.write_text(COMPILER.format(python=sys.executable, faults=marks), encoding="utf-8")
    path.chmod(0o755)
    return str(path)
