"""Transforms, schedules and emission ask operations, and list no classes of them (ADR 0019)."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import tcpx
from tcpx.payload.ir import Operation

ROOT = Path(__file__).parents[1]
FILES = sorted(p for folder in ("transform", "interp", "emit_c") for p in (ROOT / "tcpx" / folder).rglob("*.py"))
STRUCTURE = {"tcp.return", "tcp.yield", "tcp.assert", "tcp.group", "tcp.call"}
"""Functions, branches and groups end in, consist of or call these: transforms work on them, as on loops and subsets."""
MADE_IN: dict[str, tuple[str, ...]] = {
    "vector.": ("transform/vectorization.py", "transform/vectors/", "transform/bufferization/"),
    "buffer.": ("transform/bufferization/", "transform/unrolling.py", "transform/vectors/"),
}
"""The files whose stages make operations of a dialect below tensors: they, and emission behind them, may name these."""


def classes_tested(path: Path) -> Iterator[tuple[int, type[Operation]]]:
    """The classes of operations that a file asks for, by `isinstance`, `issubclass`, `case` or `type(..) is`."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    module, tree = importlib.import_module(name), ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kind]):
                asked: list[ast.expr] = [kind]
            case ast.MatchClass(cls=kind):
                asked = [kind]
            case ast.Compare(left=ast.Call(func=ast.Name(id="type")), comparators=kinds):
                asked = kinds
            case _:
                continue
        for part in (
            inner for kind in asked for inner in ast.walk(kind) if isinstance(inner, ast.Name | ast.Attribute)
        ):
            found = getattr(module, part.id, None) if isinstance(part, ast.Name) else None
            if isinstance(found, type) and issubclass(found, Operation):
                yield node.lineno, found


def opcodes_compared(path: Path) -> Iterator[tuple[int, str]]:
    """The opcodes that a file compares with."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Compare | ast.Match):
            continue
        parts: list[ast.AST] = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.subject]
        parts += [c.pattern for c in node.cases] if isinstance(node, ast.Match) else []
        inner = [i for part in parts for i in ast.walk(part)]
        if any(isinstance(i, ast.Attribute) and i.attr == "opcode" for i in inner):
            for i in inner:
                if isinstance(i, ast.Constant) and isinstance(i.value, str):
                    yield node.lineno, i.value


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT / "tcpx")))
def test_no_class_is_asked_for(path: Path) -> None:
    here = path.relative_to(ROOT / "tcpx").as_posix()
    for line, cls in classes_tested(path):
        opcode = cls.opcode
        assert not opcode.startswith("tcp.") or opcode in STRUCTURE, f"{path}:{line} asks for {cls.__name__}"
        for dialect, places in MADE_IN.items():
            is_place = here.startswith((*places, "emit_c/"))
            assert not opcode.startswith(dialect) or is_place, f"{path}:{line} asks for {cls.__name__} ({opcode})"
    for line, opcode in opcodes_compared(path):
        assert opcode.rpartition(".")[0] not in ("tcp", "vector", "buffer"), f"{path}:{line} compares with {opcode}"


MAKERS = (
    "transform/new.py",
    "transform/vectorization.py",
    "transform/bufferization/lowering.py",
    "transform/vectors/lowering.py",
    "transform/vectors/selection.py",
    "transform/vectors/named_rows.py",
)
"""The operations that transforms make, and the tables of recipes."""
GENERAL = {"tcp.generic"}
"""What a transform makes of an operation whose class does not hold what it has become."""


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT / "tcpx")))
def test_operations_on_tensors_are_made_in_one_place(path: Path) -> None:
    if path.relative_to(ROOT / "tcpx").as_posix() in MAKERS:
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tcpx.payload.ops"):
            held = importlib.import_module(node.module or "")
            for name in (alias.name for alias in node.names):
                opcode = getattr(getattr(held, name), "opcode", "")
                allowed = not opcode.startswith("tcp.") or opcode in STRUCTURE | GENERAL
                assert allowed, f"{path}:{node.lineno} names {name}: make it by tcpx.transform.new"


def test_no_flag_is_a_class_by_another_name() -> None:
    opcodes = tcpx.ops()
    for cls in {base for op in opcodes.values() for base in op.__mro__}:
        flags = [name for name in vars(cls) if f"tcp.{name.removeprefix('is_')}" in opcodes and name.startswith("is_")]
        assert flags == [], cls


def test_the_tests_see_what_they_look_for(tmp_path: Path) -> None:
    assert any(
        cls.opcode == "gml_st.for" or cls.opcode.startswith("gml_st.") for p in FILES for _, cls in classes_tested(p)
    )
    sample = tmp_path / "sample.py"
    sample.write_text('def f(op):\n    return op.opcode == "tcp.pad" or op.opcode in ("tcp.fill", "tcp.add")\n')
    assert [opcode for _, opcode in opcodes_compared(sample)] == ["tcp.pad", "tcp.fill", "tcp.add"]
