"""The reference of the transforms: every example runs, and docs/transforms.md is what the declarations say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tcpx
from tcpx.transform.declaration import Transform, transforms
from tcpx.transform.reference import example_of, reference

ROOT = Path(__file__).parents[2]
TARGET = tcpx.load_target(Path(__file__).with_name("example_target.yaml"), allow_native=True)
"""x86_avx512, with the row that the example of `lower_to` names."""
BUILT_IN = [t for t in transforms().values() if t.__module__.startswith("tcpx.transform.ops.")]


def matches(wanted: str, found: str) -> bool:
    """Equal up to blanks and line breaks; `...` stands for anything."""
    pieces = [r"\s*".join(re.escape(word) for word in piece.split()) for piece in wanted.split("...")]
    return re.fullmatch(r"\s*" + r".*".join(rf"{p}\s*" for p in pieces), found, re.DOTALL) is not None


@pytest.mark.parametrize("transform", BUILT_IN, ids=lambda t: t.name)
def test_example(transform: type[Transform]) -> None:
    example = example_of(transform)
    assert example is not None, "before:, statement: and after: or output:"
    body = f"{example.bindings()}\n{example.statement}"
    schedule = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{body}\n}}")
    run = tcpx.apply_schedule(tcpx.parse(example.before), schedule, target=TARGET, threads=2)
    found = "\n".join(map(str, run.trace.output)) if example.is_output else run.module.text()
    assert matches(example.after, found), found
    assert transform.name in example.statement


def test_what_matches() -> None:
    assert matches("a (b,\n  c) ... e", "a (b, c) d d\n e\n")
    assert not matches("a ... e", "a b c")
    assert not matches("a.c", "abc")


def test_reference_is_current() -> None:
    text = (ROOT / "docs" / "transforms.md").read_text(encoding="utf-8")
    assert text == reference(), "run `make docs`"
