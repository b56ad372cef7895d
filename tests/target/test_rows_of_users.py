"""Rows that a user's table adds: run beside their semantics, and refused where an earlier row hides them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.cli import main
from tcpx.verification.vector_rows.process import _run

TABLE = """
name: mine
base: generic.yaml
helpers:
  - define:
      my_zero: "static inline f32x4 my_zero(f32x4 x) { (void)x; f32x4 r = {0}; return r; }"
      my_log: |
        static inline f32x4 my_log(f32x4 x) { for (int k = 0; k < 4; k++) x[k] = log10f(x[k]); return x; }
      my_whole: |
        static inline f32x4 my_whole(const float *p, int64_t n) {
          f32x4 r; __builtin_memcpy(&r, p, 16); for (int64_t k = 0; k < 4; k++) if (k >= n) r[k] = 0; return r; }
      my_lanes: |
        static inline f32x4 my_lanes(const float *p, int64_t n) {
          f32x4 r = {0}; for (int64_t k = 0; k < 4 && k <= n; k++) r[k] = p[k]; return r; }
      my_store: |
        static inline void my_store(float *p, int64_t n, f32x4 v) { (void)n; __builtin_memcpy(p, &v, 16); }
rows:
"""
RIGHT = '  - {name: log_f32x4, type: "f32x4 -> f32x4", semantics: log10(a), c: "my_log({a})"}\n'
FREE = "condition: a_not_nan"
"""Rows of the base have no condition: these are others."""
WRONG = {
    "tanh": (
        'type: "f32x4 -> f32x4", semantics: tanh(a), c: "my_zero({a})"',
        "tanh(a): f32x4 -> f32x4",
        "0.0 instead of ",
    ),
    "sub": (
        f'{FREE}, type: "f32x4, f32x4 -> f32x4", semantics: a - b, c: "{{b}} - {{a}}"',
        "a - b: f32x4, f32x4 -> f32x4",
        " instead of ",
    ),
    "types": (
        'type: "f32x4, f64 -> f32x4", semantics: a * cast(b), c: "{a} + (float){b}"',
        "a * cast(b): f32x4, f64 -> f32x4",
        "",
    ),
    "first": (
        f'{FREE}, kind: extract, type: "f32x4 -> f32", c: "{{a}}[0 * {{lane}}]"',
        "extract: f32x4 -> f32",
        " instead of ",
    ),
    "sums": (
        f'{FREE}, kind: horizontal_add, type: "f32x4 -> f32", c: "{{a}}[0]"',
        "horizontal_add: f32x4 -> f32",
        " instead of ",
    ),
    "whole": (
        f'{FREE}, kind: masked_load, type: "-> f32x4", c: "my_whole({{p}}, {{n}})"',
        "masked_load: -> f32x4",
        "the end of the process by SIGSEGV",
    ),
    "more": (
        'condition: b_not_nan, kind: masked_load, type: "-> f32x4", c: "my_lanes({p} - 1, {n})"',
        "masked_load: -> f32x4",
        " instead of ",
    ),
    "stores": (
        f'{FREE}, kind: masked_store, type: "f32x4 ->", c: "my_store({{p}}, {{n}}, {{v}})"',
        "masked_store: f32x4 ->",
        "the end of the process by SIGSEGV",
    ),
}
"""Name -> the rest of the row, what is required, what is found."""


def table(folder: Path, rows: str) -> tcpx.Target:
    path = folder / "mine.yaml"
    path.write_text(TABLE + rows, encoding="utf-8")
    return tcpx.load_target(path, allow_native=True)


def test_wrong_rows_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where they end the process, and those after them."""
    rows = RIGHT + "".join(f"  - {{name: {name}, {rest}}}\n" for name, (rest, _, _) in WRONG.items())
    target = table(tmp_path, rows)
    assert [row.name for row in target.own_rows] == ["log_f32x4", *WRONG]
    found = tcpx.verify_rows(target)
    assert [d.message for d in found] == [
        f"the C of the row {name} does not do what its semantics say" for name in WRONG
    ]
    for diagnostic, (_, required, wrong) in zip(found, WRONG.values(), strict=True):
        assert diagnostic.required == required
        assert wrong in (diagnostic.found or "")
    assert main(["check", str(tmp_path / "mine.yaml"), "--allow-native"]) == 1
    assert f"{len(WRONG)} problem(s)" in capsys.readouterr().err


def test_right_rows_are_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = table(tmp_path, RIGHT)
    assert tcpx.verify_rows(target) == ()
    assert main(["check", str(tmp_path / "mine.yaml"), "--allow-native"]) == 0
    assert "well formed; 1 row(s) do what their semantics say" in capsys.readouterr().out
    kernel = tcpx.compile(
        tcpx.parse(
            "func @f(%x: tensor<7xf32>) -> tensor<7xf32> {\n%y = tcp.log10(%x) : tensor<7xf32>\ntcp.return(%y)\n}"
        ),
        target=target,
    )
    assert "my_log(" in kernel.c_source
    x = np.array([1, 10, 100, 0.5, 3, np.inf, np.nan], np.float32)
    np.testing.assert_allclose(np.asarray(kernel(x), np.float32), np.log10(x), rtol=3e-7)


def test_rows_name_every_function_of_payloads(tmp_path: Path) -> None:
    """Of one argument and of two, with the C of the library; one with the C of its inverse is found."""
    form = '  - {{name: my_{0}, type: "f64{1} -> f64", semantics: "{0}({2})", c: "{3}({4})"}}\n'
    rows = [
        form.format("atan2", ", f64", "a, b", "atan2", "{a}, {b}"),
        form.format("asinh", "", "a", "asinh", "{a}"),
        form.format("acos", "", "a", "asin", "{a}"),
    ]
    target = table(tmp_path, f"{''.join(rows)}tolerances: {{atan2: 1, asinh: 2, acos: 1}}\n")
    assert [d.message for d in tcpx.verify_rows(target)] == [
        "the C of the row my_acos does not do what its semantics say"
    ]
    text = "func @f(%y: f64, %x: f64) -> f64 {\n%a = tcp.atan2(%y, %x) : f64\ntcp.return(%a)\n}"
    kernel = tcpx.compile(tcpx.parse(text), target=target)
    assert "= atan2(" in kernel.c_source
    assert kernel(np.array(-0.0), np.array(-1.0)) == -np.pi


@pytest.mark.parametrize(
    ("row", "hidden"),
    [
        ('{name: mine, type: "f32, f32 -> f32", semantics: a+b, c: "{b}+{a}"}', "mine, after add_f32 of the base"),
        ('{name: mine, kind: load, type: "-> f32x4", c: "*(f32x4 *){p}"}', "mine, after load_f32x4 of the base"),
        ('{name: mine, type: "f32x4 -> f32x4", semantics: log10(a), c: "my_log({a})"}', "mine, after log_f32x4"),
    ],
)  # fmt: skip
def test_a_row_that_is_never_taken_is_refused(tmp_path: Path, row: str, hidden: str) -> None:
    with pytest.raises(tcpx.TargetError, match="malformed target table") as caught:
        table(tmp_path, f"{RIGHT}  - {row}\n")
    assert caught.value.diagnostic.found == hidden
    assert caught.value.diagnostic.fix == "leave mine out"


def test_a_fast_row_comes_before_a_slow_one(tmp_path: Path) -> None:
    """`tcpx_exp` of the base is the last choice."""
    slow = next(row for row in tcpx.load_target("generic").rows if row.is_slow and row.kind == "compute")
    form = f'  - {{name: mine, type: "{slow.signature}", semantics: "{slow.semantics}", c: "{slow.c}"'
    assert table(tmp_path, f"{form}}}\n").find("compute", slow.semantics, slow.result, slow.operands) is not None
    with pytest.raises(tcpx.TargetError, match=f"mine, after {slow.name} of the base"):
        table(tmp_path, f"{form}, slow: true}}\n")


def test_a_machine_that_cannot_run_what_it_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'failed to map segment from shared object' >&2\nexit 1\n", encoding="ascii")
    program.chmod(0o700)
    monkeypatch.setattr("tcpx.verification.vector_rows.process.sys.executable", str(program))
    with pytest.raises(tcpx.CompileError, match="the compiled rows cannot be run") as caught:
        _run(tmp_path / "job")
    assert caught.value.diagnostic.found == "failed to map segment from shared object"
