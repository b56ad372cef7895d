"""The notebooks of `examples/`: their cells in order, with what Jupyter would show of each."""

from __future__ import annotations

import ast
import json
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.rglob("*.ipynb"))
SHOW = "show"


def script(cells: list[str]) -> str:
    """The cells as one program, in which an expression at the end of a cell is shown. They are Python alone, without
    magics, so that the test needs no Jupyter."""
    statements: list[ast.stmt] = []
    for cell in cells:
        *others, last = ast.parse(cell).body
        if isinstance(last, ast.Expr):
            last = ast.Expr(ast.Call(ast.Name(SHOW), [last.value], []))
        statements += [*others, last]
    return ast.unparse(ast.Module(statements, []))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.usefixtures("known_limits")
def test_notebooks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []

    def show(value: object) -> None:
        assert len(repr(value)) < 1_000
        html = getattr(value, "_repr_html_", lambda: "")()
        assert len(html.encode()) <= 200_000
        shown.append(len(html))

    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    program = tmp_path / "program.py"
    program.write_text(script(["".join(c["source"]) for c in cells if c["cell_type"] == "code"]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(program), {SHOW: show})
    assert sum(size > 0 for size in shown) >= 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in content["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["execution_count"], cell["outputs"]) == (None, [])
