"""recognize: norms take in scales and biases; what reduces in f32 takes in the casts around it, where nothing else is
rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.payload.types import SCALARS
from tests.transform.ops.test_recognize import FORMULAS, OPTIONAL, opcodes, special, written

SMALL = {"f16": 2.0**-10, "bf16": 2.0**-7}
"""Dtypes with the greatest relative difference of two numbers that round differently."""
REDUCING = [formula for formula, operation in FORMULAS.items() if "dim" in operation]


def recognized(module: tcpx.Module) -> tcpx.Module:
    return tcpx.apply_schedule(module, tcpx.parse_schedule(OPTIONAL)).module


def between_casts(formula: str, dtype: str) -> tcpx.Module:
    """A formula in f32 of small floats, rounded to one."""
    text = written(formula, 1).text().replace("%x: tensor<[M]x7xf32>", f"%small: tensor<[M]x7x{dtype}>")
    head, _, rest = text.partition("{\n")
    *lines, last = rest.rstrip("}\n").splitlines()
    result = last.strip().removeprefix("tcp.return(").removesuffix(")")
    small = f"tensor<[M]x7x{dtype}>"
    head = head.replace("-> tensor<[M]x7xf32>", f"-> {small}")
    body = "\n".join(["  %x = tcp.cast(%small) : tensor<[M]x7xf32>", *lines])
    return tcpx.parse(f"{head}{{\n{body}\n  %y = tcp.cast({result}) : {small}\n  tcp.return(%y)\n}}\n")


@pytest.mark.parametrize("formula", REDUCING)
@pytest.mark.parametrize("dtype", SMALL)
def test_small_floats_computed_in_f32(formula: str, dtype: str) -> None:
    module = between_casts(formula, dtype)
    made = recognized(module)
    _, opcode, _ = opcodes(made)
    assert opcode == f"tcp.{FORMULAS[formula].partition('(')[0]}"
    x = special().astype(SCALARS[dtype].numpy)
    with np.errstate(all="ignore"):
        wanted, found = (np.asarray(tcpx.evaluate(each, x), np.float64) for each in (module, made))
    np.testing.assert_allclose(found, wanted, rtol=SMALL[dtype], atol=1e-6)  # NaN and infinities where they were


NORM = """\
func @f(%x: tensor<[M]x7xDTYPE>, %g: tensor<7xDTYPE>, %b: tensor<7xDTYPE>) -> tensor<[M]x7xDTYPE> symbols [M: 0..] {
  %n = tcp.KIND(%x) {dims = [1]} : tensor<[M]x7xDTYPE>
  BODY
  tcp.return(%y)
}
"""


def norm(kind: str, body: str, dtype: str = "f32") -> tcpx.Module:
    return tcpx.parse(NORM.replace("BODY", body.replace("; ", "\n  ")).replace("DTYPE", dtype).replace("KIND", kind))


ROW = "tensor<[M]x7xDTYPE>"
SCALED = f"%s = tcp.mul(broadcast(%g, [1]), %n) : {ROW}"
SHIFTED = f"%y = tcp.add(%s, broadcast(%b, [1])) : {ROW}"

ADDED = f"%s = tcp.add(%n, broadcast(%b, [1])) : {ROW}"
SCALED_AFTER = f"%y = tcp.mul(%s, broadcast(%g, [1])) : {ROW}"


def test_a_scale_and_a_bias() -> None:
    module = norm("layer_norm", f"{SCALED}; {SHIFTED}")
    made = recognized(module)
    assert "tcp.layer_norm(%x, scale = %g, bias = %b)" in made.text()
    assert len(opcodes(made)) == 3
    draw = np.random.default_rng(0)
    g, b = (draw.normal(size=7).astype(np.float32) for _ in range(2))
    g[1], b[2] = np.inf, -np.inf
    with np.errstate(all="ignore"):
        wanted, found = (np.asarray(tcpx.evaluate(each, special(), g, b), np.float64) for each in (module, made))
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(
    ("kind", "body", "dtype", "kept"),
    [
        ("layer_norm", SCALED.replace("%s", "%y"), "f16", "tcp.mul"),  # rounded in between
        ("rms_norm", f"{SCALED}; {SHIFTED}", "f32", "tcp.add"),  # it has no bias
        ("layer_norm", f"{ADDED}; {SCALED_AFTER}", "f32", "tcp.mul"),  # a bias comes after the scale
        ("layer_norm", f"%y = tcp.mul(%n, %n) : {ROW}", "f32", "tcp.mul"),
        ("layer_norm", f"{SCALED}; %y = tcp.add(%s, %n) : {ROW}", "f32", "tcp.mul"),  # used twice
        ("layer_norm", f"%y = tcp.sub(%n, broadcast(%b, [1])) : {ROW}", "f32", "tcp.sub"),
    ],
)  # fmt: skip
def test_what_stays_outside(kind: str, body: str, dtype: str, kept: str) -> None:
    assert kept in opcodes(recognized(norm(kind, body, dtype)))


def test_a_scale_along_rows_stays() -> None:
    """In a square, what repeats along the normalized dim is no scale."""
    text = NORM.replace("[M]", "7").replace(" symbols [7: 0..]", "").replace("DTYPE", "f32").replace("KIND", "rms_norm")
    module = tcpx.parse(text.replace("BODY", "%y = tcp.mul(%n, broadcast(%g, [0])) : tensor<7x7xf32>"))
    assert "tcp.mul" in opcodes(recognized(module))


CAST = """\
func @f(%x: tensor<5x7xf16>) -> RESULTS {
  %g = tcp.const {value = [1.0, 2.0, WEIGHT, 4.0, 5.0, 6.0, 7.0]} : tensor<7xf32>
  %w = tcp.cast(%x) : tensor<5x7xf32>
  %n = tcp.rms_norm(%w, scale = %g) {dims = [1]} : tensor<5x7xf32>
  %y = tcp.cast(%n) : tensor<5x7xf16>
  tcp.return(%y MORE)
}
"""


@pytest.mark.parametrize(
    ("weight", "more", "is_small"),
    [("3.5", "", True), ("0.1", "", False), ("1e6", "", False), ("3.5", ", %n", False)],
)
def test_constants_that_small_floats_represent(weight: str, more: str, is_small: bool) -> None:
    """A weight that would be rounded, or a result that is returned wide, leaves the operation as it is."""
    results = "(tensor<5x7xf16>, tensor<5x7xf32>)" if more else "tensor<5x7xf16>"
    module = tcpx.parse(CAST.replace("RESULTS", results).replace("WEIGHT", weight).replace(" MORE", more))
    made = recognized(module)
    (found,) = (op for op in made.main.walk() if op.opcode == "tcp.rms_norm")
    assert str(found.results[0].type) == ("tensor<5x7xf16>" if is_small else "tensor<5x7xf32>")
    x = special().astype(np.float16)
    with np.errstate(all="ignore"):
        results = (tcpx.evaluate(each, x) for each in (module, made))
        wanted, after = (np.asarray(each[0] if more else each, np.float64) for each in results)
    np.testing.assert_allclose(after, wanted, rtol=SMALL["f16"])


GROUPS = """\
func @f(%x: tensor<[N]xCHANNELSx[H]x7xf32>, %a: tensor<GROUPSxf32>) -> tensor<[N]xCHANNELSx[H]x7xf32>
    symbols [N: 1.., H: 1..] {
  %r = tcp.reshape(%x) : tensor<INNERxf32>
  %n = tcp.layer_norm(%r) {dims = DIMS} : tensor<INNERxf32>
  %s = tcp.mul(%n, broadcast(%a, [AT])) : tensor<INNERxf32>
  %d = tcp.add(%s, 0.5) : tensor<INNERxf32>
  %y = tcp.reshape(%d) : tensor<[N]xCHANNELSx[H]x7xf32>
  tcp.return(%y)
}
"""
INNER = {
    "joined": ("[N]xGROUPSx[EACH*H*7]", "[2]", "1"),
    "separate": ("[N]xGROUPSxEACHx[H]x7", "[2, 3, 4]", "1"),
}


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize(
    ("groups", "norm"),
    [
        (1, "tcp.layer_norm(%x) {dims = [1, 2, 3]}"),
        (3, "tcp.layer_norm(%x) {dims = [1, 2, 3], parts = [1, 3, 1, 1]}"),
        (12, "tcp.layer_norm(%x) {dims = [2, 3]}"),
    ],
)
def test_a_norm_of_groups(inner: str, groups: int, norm: str) -> None:
    shape, along, at = INNER[inner]
    text = GROUPS.replace("INNER", shape).replace("DIMS", along).replace("AT", at)
    for word, number in (("GROUPS", groups), ("CHANNELS", 12), ("EACH", 12 // groups)):
        text = text.replace(word, str(number))
    module = tcpx.parse(text)
    made = recognized(module)
    assert norm in made.text()
    assert "[N]xGROUPS" not in made.text()
    assert tcpx.parse(made.text()).text() == made.text()
    rng = np.random.default_rng(0)
    for n, h in ((1, 1), (3, 5)):
        x, a = rng.standard_normal((n, 12, h, 7), np.float32), rng.standard_normal(groups, np.float32)
        wanted, found = (np.asarray(tcpx.evaluate(each, x, a), np.float64) for each in (module, made))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_a_group_of_what_is_not_finite_is_alone(number: float) -> None:
    text = GROUPS.replace("INNER", INNER["joined"][0]).replace("DIMS", "[2]").replace("AT", "1")
    text = text.replace("GROUPS", "3").replace("CHANNELS", "12").replace("EACH", "4")
    rng = np.random.default_rng(0)
    x, a = rng.standard_normal((2, 12, 5, 7), np.float32), np.ones(3, np.float32)
    x[1, 6, 2, 3] = number
    kernel: Any = tcpx.compile(tcpx.parse(text), target="x86_avx2")
    found = np.isnan(kernel(x, a))
    wanted = np.zeros(x.shape, bool)
    wanted[1, 4:8] = True
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.isnan(np.asarray(tcpx.evaluate(recognized(tcpx.parse(text)), x, a))), wanted)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tcp.return(%y)", "tcp.return(%n)"),  # rows are wanted as they are
        ("dims = [2]", "dims = [1]"),  # across the groups
    ],
)
def test_rows_that_are_no_parts(before: str, after: str) -> None:
    text = GROUPS.replace("INNER", INNER["joined"][0]).replace("DIMS", "[2]").replace("AT", "1")
    text = text.replace("GROUPS", "3").replace("CHANNELS", "12").replace("EACH", "4").replace(before, after)
    if "%n)" in after:
        text = text.replace("-> tensor<[N]x12x[H]x7xf32>", "-> tensor<[N]x3x[4*H*7]xf32>")
    assert "parts" not in recognized(tcpx.parse(text)).text()
