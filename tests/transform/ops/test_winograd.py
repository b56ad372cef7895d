"""winograd: sums over windows by fewer multiplications."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.api import program_or_default
from tcpx.interp import run_schedule
from tcpx.payload.contraction import roundings
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse
from tcpx.target import load_target
from tcpx.transform.cook_toom import MOST_PRODUCTS, filtering
from tests.transform.payloads import Sizes, check, check_same, refusal, run

Array = npt.NDArray[Any]
ROUNDING = {"f32": 2.0**-24, "f64": 2.0**-53}
"""Half the distance of 1 and the next number."""
MOST_ERROR = {2: 8, 4: 96, 6: 192}
"""The errors that the page of the transform states for sums of `m`, in roundings of the largest sum of |x||w|."""
Y = 'let y = match one "y" in root\n'


def payload(x: str, w: str, result: str, names: tuple[str, str, str], more: str = "", rest: str = "") -> str:
    """One convolution %y of %x with %w; each list of names is separated by blanks."""
    listed = zip(("input", "filter", "out"), names, strict=True)
    given = ", ".join(f"{key} = {json.dumps(each.split())}" for key, each in listed)
    arguments = f"%x: tensor<{x}>, %w: tensor<{w}>{rest and f', %z: tensor<{result}>'}"
    known = [f"{name}: {least}.." for name, least in (("H", 4), ("W", 2)) if f"[{name}" in x + w]
    symbols = f" symbols [{', '.join(known)}]" if known else ""
    return (
        f"func @f({arguments}) -> tensor<{result}>{symbols} {{\n"
        f"  %y = tcp.convolution(%x, %w{rest}) {{{given}{more}}} : tensor<{result}>\n  tcp.return(%y)\n}}\n"
    )


NHWC = ("n h+p w+q c", "p q c f", "n h w f")
NCHW = ("n c h+p w+q", "f c p q", "n f h w")
ROWS = payload("[H]x3xf32", "3x3x4xf32", "[H - 2]x4xf32", ("h+p c", "p c f", "h f"))
PLANES = payload("2x[H]x[W]x3xf32", "3x3x3x4xf32", "2x[H - 2]x[W - 2]x4xf32", NHWC)
SIZES: tuple[Sizes, ...] = tuple({"H": h, "W": w} for h, w in ((4, 2), (4, 3), (6, 2), (7, 5), (9, 11)))
EXACT = {
    "1-d": (ROWS, 2),
    "2-d": (PLANES, 2),
    "channels before places": (payload("1x3x[H]x[W]xf32", "4x3x3x3xf32", "1x4x[H - 2]x[W - 2]xf32", NCHW), 2),
    "places transposed": (
        payload("[W]x3x[H]xf32", "4x3x3x3xf32", "[H - 2]x[W - 2]x4xf32", ("w+q c h+p", "f p c q", "h w f")),
        2,
    ),
    "3-d": (
        payload(
            "4x[H]x[W]x2xf32", "3x3x3x2x3xf32", "2x[H - 2]x[W - 2]x3xf32", ("d+o h+p w+q c", "o p q c f", "d h w f")
        ),
        2,
    ),
    "f64": (PLANES.replace("f32", "f64"), 2),
    "f16": (PLANES.replace("f32", "f16"), 2),
    "bf16": (ROWS.replace("f32", "bf16"), 2),
    "bf16 to f32": (ROWS.replace("x3xf32", "x3xbf16").replace("3x3x4xf32", "3x3x4xbf16"), 2),
    "two taps": (payload("[H]x3xf32", "2x3x4xf32", "[H - 1]x4xf32", ("h+p c", "p c f", "h f")), 2),
    "one tap along a dim": (
        payload("[H]x[W]x3xf32", "3x1x3x4xf32", "[H - 2]x[W]x4xf32", ("h+p w+q c", "p q c f", "h w f")),
        2,
    ),
    "groups": (
        payload("[H]x2x3xf32", "2x3x3x4xf32", "[H - 2]x2x4xf32", ("h+p g c", "g p c f", "h g f")),
        2,
    ),
    "several channels": (payload("[H]x2x3xf32", "3x2x3x4xf32", "[H - 2]x4xf32", ("h+p b c", "p b c f", "h f")), 2),
    "init": (payload("[H]x3xf32", "3x3x4xf32", "[H - 2]x4xf32", ("h+p c", "p c f", "h f"), rest=", init = %z"), 2),
}
"""Whole numbers, of which the sums are exact."""


@pytest.mark.parametrize(("text", "m"), list(EXACT.values()), ids=list(EXACT))
def test_sums_of_whole_numbers(text: str, m: int) -> None:
    found = check(text, f"{Y}winograd(y, m: {m})", SIZES).module.text()
    assert "tcp.convolution" not in found
    assert found.count("tcp.contract") == 1


@pytest.mark.parametrize("form", ["class", "generic", "multiply_add"])
def test_structure_counts(form: str) -> None:
    """A generic is rewritten like the class that it is, whichever way its body rounds, and whichever operand is read by
    windows."""
    maps = "[[p, c, f], [h + p, c], [h, f]]"
    its = '[["h", "parallel"], ["f", "parallel"], ["p", "reduction"], ["c", "reduction"]]'
    body = "    %s = tcp.multiply_add(%a, %b, %acc) : f32\n"
    if form == "generic":
        body = "    %m = tcp.mul(%a, %b) : f32\n    %s = tcp.add(%acc, %m) : f32\n"
    generic = (
        f'tcp.generic(%w, %x) {{iterators = {its}, maps = {maps}, combiner = "tcp.add"}} '
        f"({{ (%a: f32, %b: f32, %acc: f32):\n{body}    tcp.yield(%s)\n  }}) : tensor<[H - 2]x4xf32>"
    )
    line = next(line for line in ROWS.splitlines() if "%y =" in line)
    text = ROWS if form == "class" else ROWS.replace(line, f"  %y = {generic}")
    check(text, f"{Y}winograd(y, m: 2)", SIZES)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_narrow_floats_are_transformed_in_f32(dtype: str) -> None:
    """They are rounded once, at the end."""
    found = run(ROWS.replace("f32", dtype), f"{Y}winograd(y, m: 4)").module.text()
    assert f"x4x{dtype}> = tcp.contract" not in found
    assert [line for line in found.splitlines() if "tcp.contract" in line and line.endswith('xf32> name "y"')]


def test_handles() -> None:
    """The first and the last transform of elements, the product, which continues the convolution, and the sums; of
    windows along one dim, the first and the last are one."""
    body = f"{Y}let a, b, mm, c, d = winograd(y, m: 2)\n"
    run(PLANES, f"{body}require y == mm and a != b and c != d\nrequire mm.is_a(contract)\n")
    run(ROWS, f"{body}require a == b and c == d\n")


@pytest.mark.parametrize(
    ("m", "r"), [(m, r) for m in range(1, MOST_PRODUCTS + 1) for r in range(1, MOST_PRODUCTS + 2 - m)]
)
def test_matrices(m: int, r: int) -> None:
    """The construction computes the sums exactly, in rationals."""
    found, rng = filtering(m, r), random.Random(m * 10 + r)
    x, w = [rng.randint(-9, 9) for _ in range(m + r - 1)], [rng.randint(-9, 9) for _ in range(r)]
    elements = [sum(a * b for a, b in zip(row, x, strict=True)) for row in found.element]
    weights = [sum(a * b for a, b in zip(row, w, strict=True)) for row in found.weight]
    products = [a * b for a, b in zip(elements, weights, strict=True)]
    sums = [sum(a * b for a, b in zip(row, products, strict=True)) for row in found.sums]
    assert sums == [sum(x[k + p] * w[p] for p in range(r)) for k in range(m)]
    assert all(np.float32(entry) == entry for row in (*found.element, *found.sums) for entry in map(float, row))


# -- refusals --------------------------------------------------------------------------------------------------------

STRIDED = payload(
    "[H]x3xf32", "3x3x4xf32", "[floordiv(H - 3, 2) + 1]x4xf32", ("h+p c", "p c f", "h f"), ", strides = [2]"
)
DILATED = payload("[H]x3xf32", "3x3x4xf32", "[H - 4]x4xf32", ("h+p c", "p c f", "h f"), ", dilations = [2]")
DEPTHWISE = payload("[H]x4xf32", "3x4xf32", "[H - 2]x4xf32", ("h+p c", "p c", "h c"))
WHOLE = ROWS.replace("f32", "si32")
PRODUCT = """\
func @f(%x: tensor<9x4xf32>, %w: tensor<4x5xf32>) -> tensor<9x5xf32> {
  %y = tcp.matmul(%x, %w) : tensor<9x5xf32>
  tcp.return(%y)
}
"""
ANY_TAPS = ROWS.replace("[H - 2]", "[H - W + 1]").replace("3x3x4", "[W]x3x4").replace("H: 4..", "H: 9.., W: 1..9")


@pytest.mark.parametrize(
    ("text", "m", "message", "required", "found"),
    [
        (
            STRIDED,
            2,
            "windows of %y have other distances than 1",
            "windows `h + p` of stride 1 and dilation 1, with `h` in the result and `p` in the filter alone",
            "2*h + p",
        ),
        (
            DILATED,
            2,
            "windows of %y have other distances than 1",
            "windows `h + p` of stride 1 and dilation 1, with `h` in the result and `p` in the filter alone",
            "h + 2*p",
        ),
        (
            DEPTHWISE,
            2,
            "%y sums no channels, or not of both operands",
            "a dim beside the taps that is summed, of the elements and of the filter",
            "none",
        ),
        (
            WHOLE,
            2,
            "%y has no floats to transform",
            "a float dtype of both operands and of the result",
            "si32",
        ),
        (
            PRODUCT,
            2,
            "%y does not sum products over windows",
            "a sum of products of two operands, one of which is read by windows, and the other by single dims",
            "no windows",
        ),
        (
            ROWS,
            7,
            "there are no matrices for 7 sums of 3 taps of `p`",
            "taps of known number, and at most 8 elements, m + taps - 1",
            "m = 7, p = 3",
        ),
        (
            ANY_TAPS,
            2,
            "there are no matrices for 2 sums of W taps of `p`",
            "taps of known number, and at most 8 elements, m + taps - 1",
            "m = 2, p = W",
        ),
        (
            ROWS,
            1,
            "one sum at a time saves no multiplications",
            "m: 2 or more",
            "m: 1",
        ),
    ],
)
def test_refused(text: str, m: int, message: str, required: str, found: str) -> None:
    error = refusal(text, f"{Y}winograd(y, m: {m})")
    assert (error.message, error.required, error.found) == (message, required, found)
    assert error.schedule is not None
    assert error.payload is not None


def test_a_fix_works() -> None:
    error = refusal(ROWS, f"{Y}winograd(y, m: 7)")
    assert error.fix == "m: 6"
    run(ROWS, f"{Y}winograd(y, m: 6)")


# -- values that are not whole ---------------------------------------------------------------------------------------


def values(module: Module, x: Array, w: Array) -> Array:
    """The result of a payload by the evaluator."""
    (found,) = evaluate_func(module, module.main, [x, w])
    return np.asarray(found)


def test_where_an_infinity_spreads() -> None:
    """A sum that reads an infinity is not finite; sums of other tiles are those of finite elements, bit for bit."""
    text = ROWS.replace("[H - 2]", "12").replace("[H]", "14").replace(" symbols [H: 4..]", "")
    module = run(text, f"{Y}winograd(y, m: 4)").module
    draw = np.random.default_rng(0)
    x, w = draw.standard_normal((14, 3)).astype(np.float32), draw.standard_normal((3, 3, 4)).astype(np.float32)
    finite = values(module, x, w)
    for at in range(14):
        for value in (np.inf, np.nan):
            changed = x.copy()
            changed[at, 1] = value
            found = values(module, changed, w)
            for place in range(12):
                if place <= at <= place + 2:
                    assert not np.isfinite(found[place]).any(), (at, place)
                elif not place // 4 * 4 <= at <= place // 4 * 4 + 5:
                    assert np.array_equal(found[place], finite[place]), (at, place)


def direct(x: Array, w: Array) -> Array:
    """The sums over windows of [h, w, c], in f64."""
    h, v = x.shape[0] - w.shape[0] + 1, x.shape[1] - w.shape[1] + 1
    places = [(p, q) for p in range(w.shape[0]) for q in range(w.shape[1])]
    parts = [x[p : p + h, q : q + v].astype(np.float64) @ w[p, q].astype(np.float64) for p, q in places]
    return np.sum(parts, axis=0)


CASES, FLOOR = 150, 120
"""Random convolutions, and how many of them at least are rewritten."""


def test_random_convolutions() -> None:
    """Orders of dims, sizes, numbers of taps and channels, dtypes and m: the evaluator is within the stated bound."""
    rng, rewritten = random.Random(7), 0
    for case in range(CASES):
        dtype, m = rng.choice(("f32", "f32", "f64")), rng.choice((2, 2, 4, 4, 6))
        p, q = (rng.choice((3, 3, 3, 3, 1, 2, 5)) for _ in range(2))
        h, v, c, f = (rng.randint(1, most) for most in (17, 17, 9, 9))
        read, own, out = (
            rng.sample(dims, len(dims)) for dims in (["h", "w", "c"], ["p", "q", "c", "f"], ["h", "w", "f"])
        )
        extents = {"h": h, "w": v, "c": c, "f": f, "p": p, "q": q}
        shapes = [
            [extents[n] + {"h": p - 1, "w": q - 1}.get(n, 0) for n in read],
            *([extents[n] for n in d] for d in (own, out)),
        ]
        types = ["x".join(map(str, shape)) + f"x{dtype}" for shape in shapes]
        named = " ".join({"h": "h+p", "w": "w+q"}.get(n, n) for n in read)
        text = payload(types[0], types[1], types[2], (named, " ".join(own), " ".join(out)))
        if max(p, q) == 1 or max(m + r - 1 for r in (p, q) if r > 1) > MOST_PRODUCTS:
            refusal(text, f"{Y}winograd(y, m: {m})")
            continue
        module = run(text, f"{Y}winograd(y, m: {m})").module
        rewritten += 1
        draw = np.random.default_rng(case)
        x = draw.standard_normal((h + p - 1, v + q - 1, c)).astype(dtype.replace("f", "float"))
        w = draw.standard_normal((p, q, c, f)).astype(x.dtype)
        given = x.transpose(["hwc".index(n) for n in read]), w.transpose(["pqcf".index(n) for n in own])
        found = values(module, *map(np.ascontiguousarray, given)).transpose([out.index(n) for n in "hwf"])
        error = np.max(np.abs(found - direct(x, w)))
        if 5 in (p, q):
            continue  # the bounds are those of up to 3 taps
        assert error <= MOST_ERROR[m] * ROUNDING[dtype] * direct(abs(x), abs(w)).max(), text
    assert rewritten >= FLOOR


def kernel_text(h: str, v: str, c: int, f: int) -> str:
    """A convolution of channels innermost with padding, a bias and a ReLU, its weights constant."""
    shape = f"{h}x{v}x{f}xf32"
    symbols = ", ".join(s.strip("[]") for s in (h, v) if s.startswith("["))
    return (
        f"func @f(%x: tensor<{h}x{v}x{c}xf32>) -> tensor<{shape}>{symbols and f' symbols [{symbols}]'} {{\n"
        f'  %w = tcp.const {{constant = "w"}} : tensor<3x3x{c}x{f}xf32>\n'
        f'  %b = tcp.const {{constant = "b"}} : tensor<{f}xf32>\n'
        '  %y = tcp.convolution(%x, %w) {input = ["h+p", "w+q", "c"], filter = ["p", "q", "c", "f"], '
        f'out = ["h", "w", "f"], low = [1, 1], high = [1, 1]}} : tensor<{shape}>\n'
        f"  %z = tcp.add(%y, broadcast(%b, [2])) : tensor<{shape}>\n"
        f"  %r = tcp.relu(%z) : tensor<{shape}>\n  tcp.return(%r)\n}}\n"
    )


@pytest.mark.parametrize(
    ("h", "v", "c", "f", "m"),
    [("13", "19", 32, 32, 4), ("14", "14", 64, 48, 2), ("[H]", "[W]", 32, 40, 4), ("9", "33", 35, 33, 6)],
)
def test_kernels(h: str, v: str, c: int, f: int, m: int) -> None:
    """`numerics="winograd"` of the default schedule: odd and symbolic sizes, channels that do not fill vectors."""
    draw = np.random.default_rng(3)
    w, b = draw.standard_normal((3, 3, c, f)).astype(np.float32), draw.standard_normal(f).astype(np.float32)
    module = tcpx.parse(kernel_text(h, v, c, f), constants={"w": w, "b": b})
    kernel = tcpx.compile(module, params={"filtered.m": m}, numerics="winograd", threads=2)
    assert "winograd" in kernel.c_source
    for rows, columns in ((7, 5), (12, 17)) if h == "[H]" else ((int(h), int(v)),):
        x = draw.standard_normal((rows, columns, c)).astype(np.float32)
        padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
        wanted = np.maximum(direct(padded, w) + b, 0)
        most = direct(abs(padded), abs(w)).max()
        assert np.max(np.abs(np.asarray(kernel(x)) - wanted)) <= MOST_ERROR[m] * ROUNDING["f32"] * most


def test_a_channel_of_its_own_is_no_dense_convolution() -> None:
    """Nor are the sums over its window one over three dims, of which the group's only channel is one."""
    text = (
        "func @f(%x: tensor<1x32x28x28xf32>) -> tensor<1x32x28x28xf32> {\n"
        '  %w = tcp.const {constant = "w"} : tensor<32x1x3x3xf32>\n'
        "  %y = tcp.convolution(%x, %w) {low = [1, 1], high = [1, 1], groups = 32} : tensor<1x32x28x28xf32>\n"
        "  tcp.return(%y)\n}\n"
    )
    module = tcpx.parse(text, constants={"w": np.ones((32, 1, 3, 3), np.float32)})
    exact, other = (tcpx.emit(module, target="x86_avx2", numerics=numerics) for numerics in ("exact", "winograd"))
    assert other.c_source == exact.c_source


@pytest.mark.parametrize("name", ["c", "e", "acc"])
def test_arguments_of_the_names_of_its_bodies(name: str) -> None:
    w, b = np.ones((3, 3, 32, 32), np.float32), np.zeros(32, np.float32)
    module = tcpx.parse(kernel_text("8", "8", 32, 32).replace("%x", f"%{name}"), constants={"w": w, "b": b})
    assert "winograd" in tcpx.emit(module, target="x86_avx2", numerics="winograd").c_source


def test_numerics() -> None:
    """`numerics` is a param of the default schedule, and another value of it another kernel."""
    w, b = np.ones((3, 3, 32, 32), np.float32), np.zeros(32, np.float32)
    module = tcpx.parse(kernel_text("8", "8", 32, 32), constants={"w": w, "b": b})
    exact = tcpx.compile(module, target="x86_avx2")
    other = tcpx.compile(module, target="x86_avx2", numerics="winograd")
    assert "winograd" not in exact.c_source
    assert "winograd" in other.c_source
    assert (exact.signature.numerics, other.signature.numerics) == ((), ("winograd(m: 4)",))
    assert tcpx.emit(module, target="x86_avx2", numerics="winograd").c_source == other.c_source
    with pytest.raises(tcpx.ArgumentError) as caught:
        tcpx.compile(module, numerics="fast")
    found = caught.value.diagnostic
    assert (found.message, found.required, found.found) == (
        "there are no such numerics",
        "'exact' or 'winograd'",
        "'fast'",
    )


def test_a_saved_kernel_says_that_it_rounds_otherwise(tmp_path: Path) -> None:
    """Whichever schedule asked for it."""
    program = tcpx.parse_schedule(f"language 2\nschedule s(root: func) {{\n{Y}winograd(y, m: 2)\n}}")
    module = tcpx.parse(ROWS.replace("[H - 2]", "8").replace("[H]", "10").replace(" symbols [H: 4..]", ""))
    again = tcpx.load_kernel(tcpx.compile(module, program, target="x86_avx2", contract=False).save(tmp_path / "k"))
    assert again.signature.numerics == ("contraction = false", "winograd(m: 2)")
    (header,) = (tmp_path / "k").glob("*.h")
    assert "Rounded otherwise than by default: winograd(m: 2)." in header.read_text()


@pytest.mark.parametrize(
    ("channels", "places", "is_constant", "rounding"),
    [(512, "7", True, ()), (64, "14", True, ("winograd(m: 4)",)), (64, "14", False, ())],
)
def test_what_would_be_slower_stays_direct(
    channels: int, places: str, is_constant: bool, rounding: tuple[str, ...]
) -> None:
    """A filter of 37 MB that comes from memory for 49 places, and one that is transformed in each call."""
    text = kernel_text(places, places, channels, channels)
    w, b = np.ones((3, 3, channels, channels), np.float32), np.zeros(channels, np.float32)
    if not is_constant:
        line = next(line for line in text.splitlines(keepends=True) if "%w = " in line)
        text = text.replace(line, "").replace(") ->", f", %w: tensor<3x3x{channels}x{channels}xf32>) ->", 1)
    module = tcpx.parse(text, constants={"w": w, "b": b} if is_constant else {"b": b})
    done = run_schedule(module, program_or_default(None), load_target("x86_avx512"), params={"numerics": "winograd"})
    assert roundings(done.module.main) == rounding


def test_printed_payload() -> None:
    """What is printed parses, with the matrices as constants."""
    module = run(PLANES, f"{Y}winograd(y, m: 2)").module
    check_same(PLANES, module, ({"H": 5, "W": 6},), exact=False)
    assert parse(module.text(), constants=module.constants).text() == module.text()
