"""The examples of docs/payload.md: every one parses, is printed and parsed again, and is computed by a kernel."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tcpx

PAGE = (Path(__file__).parents[1] / "docs" / "payload.md").read_text(encoding="utf-8")
EXAMPLES = [text for _, text in re.findall(r"^```tcp( constants)?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
SCHEDULE = tcpx.parse_schedule("language 1\nschedule s(root: func) { print(root) }")
SIZES = {"B": 3, "N": 16, "T": 5, "M": 3, "K": 7, "C": 6, "V": 9, "D": 5, "R": 4, "A": 1, "S": 1}


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.partition("@")[2].partition("(")[0])
def test_example(text: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "weights.npz", w=np.arange(4, dtype=np.float32))
    path = tmp_path / "example.tcp"
    path.write_text(text, encoding="utf-8")
    module = tcpx.load(path)
    path.write_text(module.text(), encoding="utf-8")
    assert tcpx.load(path).text() == module.text()
    sizes = {symbol.name: SIZES[symbol.name] for symbol in module.main.symbols}
    arrays = tcpx.random_inputs(module, 1, sizes=sizes)
    wanted = tcpx.evaluate(module, *arrays)
    found = tcpx.compile(module, SCHEDULE, target="generic")(*arrays)
    pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    for a, b in pairs:
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=1e-5, atol=1e-5)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


def test_names_of_dims_are_quoted() -> None:
    text = (
        "func @f(%x: tensor<4x5xf32>, %w: tensor<5x6xf32>) -> tensor<4x6xf32> SYMBOLS {\n"
        "  %y = tcp.contract(%x, %w) {lhs = [m, k], rhs = [k, n], out = [m, n]} : tensor<4x6xf32>\n"
        "  tcp.return(%y)\n}\n"
    )
    with pytest.raises(tcpx.ParseError) as caught:
        tcpx.parse(text.replace("SYMBOLS ", ""))
    assert caught.value.diagnostic.render() == (
        "definite error: unknown word `m` in an attribute\n"
        "  --> <text>:2:37 (payload)\n"
        "    2 |   %y = tcp.contract(%x, %w) {lhs = [m, k], rhs = [k, n], out = [m, n]} : tensor<4x6xf32>\n"
        "      |                                     ^\n"
        "  required: a number, a quoted name, a size of the function, a dtype, true, false, inf or nan\n"
        "  found: `m`\n"
        '  hint: quote a name: "m"; declare a size: symbols [m]'
    )
    with pytest.raises(tcpx.TcpxError) as wrong:
        tcpx.parse(text.replace("SYMBOLS", "symbols [m, k, n]"))
    found = wrong.value.diagnostic
    assert found.message == "%y (tcp.contract): the attribute `lhs` is of another kind"
    assert (found.required, found.found) == ("a list of the names of dims, quoted", "lhs = [m, k]")
    assert found.fix == '{lhs = ["m", "k"], rhs = ["k", "n"], out = ["m", "n"]}'
