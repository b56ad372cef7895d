"""docs/from-onnx-to-c.md: every command, in order, on a small encoder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import onnx

from tests.frontends.onnx.transformer import VOCABULARY, encoder
from tests.optional_tools import CMAKE
from tests.page_commands import run_commands

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "from-onnx-to-c.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@CMAKE.needed
def test_every_command(tmp_path: Path) -> None:
    onnx.save(encoder(2), str(tmp_path / "model.onnx"))
    mask = np.ones((2, 9), np.int64)
    mask[1, 6:] = 0
    np.save(tmp_path / "ids.npy", np.random.default_rng(2).integers(0, VOCABULARY, mask.shape))
    np.save(tmp_path / "mask.npy", mask)
    commands: list[list[str]] = []
    for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if language == "tcps":
            (tmp_path / "model.tcps").write_text(text, encoding="utf-8")
        commands += [shlex.split(line) for line in text.splitlines()] if language == "sh" else []
    run_commands(commands, tmp_path)
    shown = [words[0] if words[0] != "tcpx" else words[1] for words in commands]
    assert shown == "run import explain profile check run tune emit cmake cmake library/build/main".split()
    results = np.load(tmp_path / "results.npz")
    assert len(results.files) == 2
    for name in results.files:
        found = np.load(tmp_path / f"{name}.npy")
        np.testing.assert_allclose(found, results[name], rtol=1e-5, atol=1e-6)
    assert (tmp_path / "profile.html").stat().st_size > 1000
