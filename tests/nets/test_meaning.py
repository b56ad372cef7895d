"""The net of meaning: one computation, written in several ways, gets one recipe, and the same C but for names."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import onnx
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.payload.interfaces import Structured
from tcpx.payload.ops.generic import Generic
from tcpx.target import Target, load_target
from tests.frontends.onnx.models import model_of
from tests.nets.spellings import (
    ALL_AT_ONCE,
    SPELLINGS,
    Change,
    meaning,
    normal_form,
    payload_of,
    random_generic,
    written,
)
from tests.nets.structures import Use, payload_classes, uses_of

OTHERS = dict.fromkeys(
    ("tcp.reduce_all", "tcp.reduce_any", "tcp.reduce_max", "tcp.reduce_min", "tcp.reduce_prod", "tcp.reduce_sum"),
    "without dims, it has no accumulator as a generic, and is copied at once",
)
"""Reductions of no dims of a tensor that has some, of which some spelling gets other C, with the reason. One that gets
the same fails."""
SOME = 12
"""The C of one use in so many is compared, also where spellings have one normal form."""

PAYLOADS = {
    "linear": """\
func @f(%x: tensor<[M]x40xf32>, %w: tensor<40x24xf32>, %c: tensor<24xf32>) -> tensor<[M]x24xf32> symbols [M: 0..] {
  %m = tcp.matmul(%x, %w) : tensor<[M]x24xf32>
  %s = tcp.add(%m, broadcast(%c, [1])) : tensor<[M]x24xf32>
  %y = tcp.tanh(%s) : tensor<[M]x24xf32>
  tcp.return(%y)
}
""",
    "softmax by its parts": """\
func @f(%x: tensor<37x400xf32>) -> tensor<37x400xf32> {
  %m = tcp.reduce_max(%x) {dims = [1]} : tensor<37xf32>
  %s = tcp.sub(%x, broadcast(%m, [0])) : tensor<37x400xf32>
  %e = tcp.exp(%s) : tensor<37x400xf32>
  %t = tcp.reduce_sum(%e) {dims = [1]} : tensor<37xf32>
  %y = tcp.div(%e, broadcast(%t, [0])) : tensor<37x400xf32>
  tcp.return(%y)
}
""",
    "rows of squares": """\
func @f(%x: tensor<37x400xf32>) -> tensor<37x400xf32> {
  %q = tcp.generic(%x) {iterators = [["row", "parallel"], ["k", "reduction"]], maps = [[row, k], [row]],
      combiner = "tcp.add"} ({ (%e: f32, %acc: f32):
    %p = tcp.mul(%e, %e) : f32
    %s = tcp.add(%acc, %p) : f32
    tcp.yield(%s)
  }) : tensor<37xf32>
  %y = tcp.div(%x, broadcast(%q, [0])) : tensor<37x400xf32>
  tcp.return(%y)
}
""",
    "bytes": """\
func @f(%x: tensor<37x40xui8>, %w: tensor<40x24xsi8>) -> tensor<37x24xsi32> {
  %y = tcp.matmul(%x, %w) : tensor<37x24xsi32>
  tcp.return(%y)
}
""",
    "running sums": """\
func @f(%x: tensor<7x400xsi32>) -> tensor<7x400xsi32> {
  %y, %t = tcp.cumsum(%x) {dim = 1} : tensor<7x400xsi32>, tensor<7xsi32>
  tcp.return(%y)
}
""",
    "transposed": """\
func @f(%x: tensor<7x37x40xf32>) -> tensor<7x40x37xf32> {
  %t = tcp.transpose(%x) {permutation = [0, 2, 1]} : tensor<7x40x37xf32>
  %y = tcp.exp(%t) : tensor<7x40x37xf32>
  tcp.return(%y)
}
""",
}
WINDOWS = {
    # operands, their maps, the result's, the dims that are reduced
    "NCHW": ("1x16x14x14 24x16x3x3", "[n, c, h + p, v + q], [f, c, p, q]", "nfhv", "1x24x12x12", "cpq"),
    "NHWC": ("1x14x14x16 3x3x16x24", "[n, h + p, v + q, c], [p, q, c, f]", "nhvf", "1x12x12x24", "pqc"),
    "depthwise": ("14x14x16 3x3x16", "[h + p, v + q, c], [p, q, c]", "hvc", "12x12x16", "pq"),
    "one row": ("200 5", "[i + p], [p]", "i", "196", "p"),
    "pool": ("16x14x14", "[c, h + p, v + q]", "chv", "16x12x12", "pq"),
}


_PRODUCT = re.compile(r"%(\w+) = tcp.mul\((.*)\) : f32\n *%(\w+) = tcp.add\(%(\w+), %\1\) : f32")
"""A product and the sum that it is added to, in a scalar body."""


def of_windows(name: str) -> str:
    """A sum of windows as a payload."""
    shapes, maps, kept, shape, reduced = WINDOWS[name]
    given = [f"%x{k}: tensor<{held}xf32>" for k, held in enumerate(shapes.split())]
    three = {d: ", 3" if d in "pq" and kept != "i" else "" for d in reduced}
    dims = [f'["{d}", "parallel"]' for d in kept] + [f'["{d}", "reduction"{three[d]}]' for d in reduced]
    body = "%a = tcp.mul(%e0, %e1) : f32\n    %s = tcp.add(%acc, %a) : f32"
    return (
        f"func @f({', '.join(given)}) -> tensor<{shape}xf32> {{\n"
        f"  %y = tcp.generic({', '.join(g.split(':')[0] for g in given)}) {{iterators = [{', '.join(dims)}], "
        f'maps = [{maps}, [{", ".join(kept)}]], combiner = "tcp.add"}} '
        f"({{ ({', '.join(f'%e{k}: f32' for k in range(len(given)))}, %acc: f32):\n"
        f"    {body if len(given) > 1 else '%s = tcp.add(%acc, %e0) : f32'}\n    tcp.yield(%s)\n  }})"
        f" : tensor<{shape}xf32>\n  tcp.return(%y)\n}}\n"
    )


LAYERS = {
    # attributes of the node, shapes of x and w, attributes of the class
    "Conv": ("", "1x6x9x10 8x6x3x3", ""),
    "Conv of one dim": ("strides = [2], pads = [1, 2]", "1x6x19 8x6x3", "strides = [2], low = [1], high = [2]"),
    "Conv of three dims": ("dilations = [1, 1, 2]", "1x4x5x6x7 8x4x2x3x2", "dilations = [1, 1, 2]"),
    "Conv padded": ("pads = [1, 1, 1, 1]", "1x6x9x10 8x6x3x3", "low = [1, 1], high = [1, 1]"),
    "Conv of one tap": ("strides = [2, 2]", "1x6x9x10 8x6x1x1", "strides = [2, 2]"),
    "Conv in groups": ("group = 2", "1x6x9x10 8x3x3x3", "groups = 2"),
    "Conv depthwise": ("group = 6, pads = [1, 1, 1, 1]", "1x6x9x10 6x1x3x3", "groups = 6, low = [1, 1], high = [1, 1]"),
    "ConvTranspose": (
        "strides = [2, 2], pads = [1, 1, 1, 1]",
        "1x6x9x10 6x8x3x3",
        "strides = [2, 2], low = [1, 1], high = [1, 1]",
    ),
    "MaxPool": ("kernel_shape = [2, 3], strides = [2, 1]", "1x6x9x10", "window = [2, 3], strides = [2, 1]"),
    "MaxPool with ceil_mode": (
        "kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1",
        "1x6x9x10",
        "window = [2, 2], strides = [2, 2], high = [1, 0]",
    ),
    "AveragePool": ("kernel_shape = [2, 3]", "1x6x9x10", 'window = [2, 3], kind = "average"'),
    "AveragePool padded": (
        "kernel_shape = [3, 3], pads = [1, 1, 1, 1]",
        "1x6x9x10",
        'window = [3, 3], low = [1, 1], high = [1, 1], kind = "average"',
    ),
    "LpPool": ("kernel_shape = [2, 3]", "1x6x9x10", 'window = [2, 3], kind = "lp"'),
}


def layer(name: str) -> tuple[tcpx.Module, tcpx.Module]:
    """A layer over windows as ONNX has it, and as the class; weights are constants."""
    numbers, shapes, attributes = LAYERS[name]
    x, *weights = shapes.split()
    operator, has = name.split(maxsplit=1)[0], f" <{numbers}>" if numbers else ""
    stored = {f"w{k}": np.ones([int(n) for n in w.split("x")], np.float32) for k, w in enumerate(weights)}
    given = f"float[{x.replace('x', ',')}] x"
    model = model_of(f"f ({given}) => (float y) {{ y = {operator}{has} ({', '.join(['x', *stored])}) }}")
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, key) for key, array in stored.items())
    imported = tcpx.onnx.load(model).module
    y, held = imported.main.returned[0].type, f" {{{attributes}}}" if attributes else ""
    constants = [f'  %w{k} = tcp.const {{constant = "w{k}"}} : tensor<{w}xf32>\n' for k, w in enumerate(weights)]
    opcode = f"tcp.{'convolution' if stored else 'pooling'}{'_transpose' if operator == 'ConvTranspose' else ''}"
    return imported, tcpx.parse(
        f"func @f(%x: tensor<{x}xf32>) -> {y} {{\n{''.join(constants)}"
        f"  %y = {opcode}({', '.join(f'%{key}' for key in ('x', *stored))}){held} : {y}\n  tcp.return(%y)\n}}\n",
        constants=Constants(stored),
    )


def structured_classes() -> list[str]:
    """The opcodes of classes that have other spellings."""
    classes = payload_classes()
    return [opcode for opcode, cls in classes.items() if issubclass(cls, Structured) and cls is not Generic]


def is_other(use: Use) -> bool:
    """Whether a spelling is expected to get other C."""
    return use.cls.opcode in OTHERS and dict(use.attributes).get("dims") == () and use.structure.operands != ((),)


def differing(module: tcpx.Module, target: Target, spellings: Mapping[str, Change], threads: int = 1) -> list[str]:
    """The spellings whose C is another."""
    others = {name: written(module, change) for name, change in spellings.items()}
    wanted = meaning(module, target, threads)
    return [name for name, other in others.items() if other is not None and meaning(other, target, threads) != wanted]


@pytest.fixture(scope="module")
def wide() -> Target:
    return load_target("x86_avx512")


def of_other_form(module: tcpx.Module) -> dict[str, Change]:
    """The spellings that `normalize` does not make the same payload but for names: their C may still be the same."""
    others = {name: written(module, change) for name, change in SPELLINGS.items()}
    wanted = normal_form(module)
    return {
        name: SPELLINGS[name] for name, other in others.items() if other is not None and normal_form(other) != wanted
    }


@pytest.mark.parametrize(("place", "opcode"), list(enumerate(structured_classes())))
def test_classes(place: int, opcode: str, wide: Target) -> None:
    """Of each class one use: it has one normal form, or else the same C."""
    use = uses_of(payload_classes()[opcode])[0][-1]
    module = payload_of(use)
    assert module is not None
    found = differing(module, wide, SPELLINGS if place % SOME == 0 else of_other_form(module))
    assert bool(found) == is_other(use), found


@pytest.mark.parametrize("name", [*PAYLOADS, *WINDOWS])
def test_payloads(name: str, wide: Target) -> None:
    text = PAYLOADS[name] if name in PAYLOADS else of_windows(name)
    found = differing(tcpx.parse(text), wide, {**ALL_AT_ONCE, "reordered": SPELLINGS["reordered"]})
    assert found == []


@pytest.mark.parametrize("name", ["rows of squares", *(name for name in WINDOWS if " " in WINDOWS[name][0])])
def test_a_product_and_a_sum_may_be_one_operation(name: str, wide: Target) -> None:
    """A body with `multiply_add` beside one with `mul` and `add`: both may round once or twice."""
    text = PAYLOADS[name] if name in PAYLOADS else of_windows(name)
    once, count = _PRODUCT.subn(r"%\3 = tcp.multiply_add(\2, %\4) : f32", text)
    assert count == 1
    assert meaning(tcpx.parse(once), wide) == meaning(tcpx.parse(text), wide)


def test_windows_of_another_package(wide: Target) -> None:
    """A class with operands and dims of its own names, declared outside, beside the generic of the same structure."""
    text = """\
func @f(%x: tensor<14x14x16xf32>, %w: tensor<3x3x16x24xf32>) -> tensor<12x12x24xf32> {
  %y = outside.correlation(%x, %w) : tensor<12x12x24xf32>
  tcp.return(%y)
}
"""
    assert differing(tcpx.parse(text), wide, SPELLINGS) == []


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, wide: Target) -> None:
    """As ONNX has it, as the class, and as a generic of what the class is short for."""
    imported, written_as_class = layer(name)
    assert meaning(imported, wide) == meaning(written_as_class, wide)
    shown = tcpx.parse_schedule("language 2\nschedule shown(root: func) { print(root) }\n")
    assert differing(tcpx.apply_schedule(written_as_class, shown).module, wide, ALL_AT_ONCE) == []


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_random_generics(first: int, wide: Target) -> None:
    for seed in range(first, first + 8):
        assert differing(tcpx.parse(random_generic(seed)), wide, ALL_AT_ONCE) == [], f"seed {seed}"


def test_factors_that_differ_in_length_alone(wide: Target) -> None:
    """Of two factors with a reduced dim of their own, the longer one comes first, whichever is written first."""
    assert differing(tcpx.parse(random_generic(266)), wide, {"swapped": SPELLINGS["swapped"]}) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x86_avx2", "x86_avx512"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("is_symbolic", [False, True], ids=["fixed", "symbolic"])
def test_all_uses_of_all_classes(name: str, threads: int, is_symbolic: bool) -> None:
    target, count, wrong = load_target(name), 0, list[object]()
    uses = [use for opcode in structured_classes() for use in uses_of(payload_classes()[opcode])[0]]
    for use in uses:
        module = payload_of(use, is_symbolic)
        if module is not None:
            found = differing(module, target, of_other_form(module) if count % SOME else SPELLINGS, threads)
            wrong += [(use.name, found)] if bool(found) != is_other(use) else []
            count += 1
    assert not wrong
    assert count > 450


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x86_avx2", "x86_avx512"])
def test_more_random_generics(name: str) -> None:
    target = load_target(name)
    for seed in range(40, 400):
        assert differing(tcpx.parse(random_generic(seed)), target, SPELLINGS, 1 + seed % 2) == [], f"seed {seed}"
