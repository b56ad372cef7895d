"""What has no contraction in it, by the default schedule: random graphs of elementwise operations, broadcasts and
reductions, and the chains of them that people write, in vectors, beside the evaluator."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isqrt, prod

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.types import dtype_of, shape_of
from tests.optional_tools import require_cpu_of

Array = npt.NDArray[np.generic]
TARGETS = ("generic", "x86_avx2", "x86_avx512")
SIZES = (
    {"M": 5, "N": 37},
    {"M": 1, "N": 1},
    {"M": 33, "N": 130},
    {"M": 0, "N": 3},
    {"M": 4, "N": 0},
    {"M": 2, "N": 64},
)
SEEDS, MANY_SEEDS = 6, 200
MOST_LEFT = 0.05
"""So large a share of graphs may have a remark: something in them stays scalar."""


@dataclass
class Graph:
    """A random payload. Floats hold small integers, so that sums in any order are exact."""

    seed: int
    lines: list[str] = field(default_factory=list[str])
    values: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Names and shapes: `MN`, `M`, `N` or none."""

    def text(self) -> str:
        draw = random.Random(self.seed)
        self.dtype = draw.choice(("f32", "f32", "f64", "si32", "si8"))
        arguments = [("x", "MN"), ("y", "MN"), ("p", "M"), ("q", "N")]
        self.values = list(arguments)
        for _ in range(draw.randrange(4, 14)):
            self._draw(draw)
        read = "".join(line.split(" = ")[1] for line in self.lines)
        made = [v for v in self.values[len(arguments) :] if f"%{v[0]})" not in read and f"%{v[0]}," not in read]
        made += [v for v in self.values[len(arguments) :] if v not in made and draw.random() < 0.15]
        given = ", ".join(f"%{name}: {self._type(shape)}" for name, shape in arguments)
        results = ", ".join(self._type(shape) for _, shape in made)
        body = "\n".join([*self.lines, f"  tcp.return({', '.join('%' + name for name, _ in made)})"])
        return f"func @g{self.seed}({given}) -> ({results}) symbols [M, N] {{\n{body}\n}}\n"

    def _type(self, shape: str) -> str:
        return f"tensor<{''.join(f'[{d}]x' for d in shape)}{self.dtype}>"

    def _add(self, shape: str, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"  %{name} = {text} : {self._type(shape)}")
        return name

    def _draw(self, draw: random.Random) -> None:
        """An operation on what is there, broadcast to one shape."""
        name, shape = draw.choice(self.values[-6:])
        kind = draw.random()
        if kind < 0.3 and shape:
            kept = draw.choice(("", *shape) if len(shape) > 1 else ("",))
            dims = [k for k, d in enumerate(shape) if d not in kept]
            op = draw.choice(("sum", "max", "min"))
            self.values.append((self._add(kept, f"tcp.reduce_{op}(%{name}) {{dims = {dims}}}"), kept))
        elif kind < 0.4:
            self.values.append((self._add(shape, f"tcp.neg(%{name})"), shape))
        else:
            fits = [v for v in self.values if set(v[1]) <= set(shape)]
            other, narrow = draw.choice(fits)
            if narrow != shape:
                places = [shape.index(d) for d in narrow]
                other = self._add(shape, f"tcp.broadcast(%{other}) {{dims = {places}}}")
            elif draw.random() < 0.2:
                other = self._add(shape, "tcp.fill {value = %s}" % ("2.0" if self.dtype[0] == "f" else "2"))
            op = draw.choice(("add", "sub", "max", "min"))
            self.values.append((self._add(shape, f"tcp.{op}(%{name}, %{other})"), shape))


SOFTMAX = """\
func @softmax(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %y = tcp.softmax(%x) {dim = 1} : tensor<[M]x[N]xf32>
  tcp.return(%y)
}
"""
NORM = """\
func @norm(%x: tensor<[M]x[N]xf32>, %g: tensor<[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]xf32>, tensor<[M]x[N]xf32>)
    symbols [M, N] {
  %hundredth = tcp.fill {value = 0.01} : tensor<[M]xf32>
  %s = tcp.reduce_sum(%x) {dims = [1]} : tensor<[M]xf32>
  %mean = tcp.mul(%s, %hundredth) : tensor<[M]xf32>
  %means = tcp.broadcast(%mean) {dims = [0]} : tensor<[M]x[N]xf32>
  %c = tcp.sub(%x, %means) : tensor<[M]x[N]xf32>
  %squares = tcp.mul(%c, %c) : tensor<[M]x[N]xf32>
  %q = tcp.reduce_sum(%squares) {dims = [1]} : tensor<[M]xf32>
  %v = tcp.add(%q, %hundredth) : tensor<[M]xf32>
  %r = tcp.rsqrt(%v) : tensor<[M]xf32>
  %rs = tcp.broadcast(%r) {dims = [0]} : tensor<[M]x[N]xf32>
  %y = tcp.mul(%c, %rs) : tensor<[M]x[N]xf32>
  %gs = tcp.broadcast(%g) {dims = [1]} : tensor<[M]x[N]xf32>
  %z = tcp.mul(%y, %gs) : tensor<[M]x[N]xf32>
  tcp.return(%z, %mean, %c)
}
"""
LARGEST = """\
func @largest(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xsi64>) symbols [M, N: 1..] {
  %v, %i = tcp.reduce_argmax(%x) {dims = [1]} : tensor<[M]xf32>, tensor<[M]xsi64>
  tcp.return(%v, %i)
}
"""
CHAINS = (
    SOFTMAX,
    SOFTMAX.replace("dim = 1", "dim = 0"),
    NORM,
    LARGEST,
    LARGEST.replace("[1]", "[0]")
    .replace("<[M]xf32>, tensor<[M]x", "<[N]xf32>, tensor<[N]x")
    .replace("M, N: 1..", "M: 1.., N"),
)


def arrays(module: tcpx.Module, sizes: dict[str, int], seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-4, 5, [sizes[str(d)] for d in shape_of(v.type)]).astype(dtype_of(v.type).numpy)
        for v in module.main.inputs
    ]


def compare(modules: Sequence[tcpx.Module], target: str, threads: int, exact: bool = True) -> int:
    """Run all in one library; in how many of them something is left that vectors do not compute."""
    requests = [tcpx.CompileRequest(m, name=f"k{k}") for k, m in enumerate(modules)]
    kernels = tcpx.compile_many(requests, target=target, threads=threads)
    for kernel, module in zip(kernels, modules, strict=True):
        for seed, sizes in enumerate(SIZES):
            if any(sizes[symbol.name] < symbol.lower for symbol in module.main.symbols):
                continue
            given = arrays(module, sizes, seed)
            found, wanted = kernel(*given), tcpx.evaluate(module, *given)
            for a, b in zip(*(r if isinstance(r, tuple | list) else (r,) for r in (found, wanted)), strict=True):
                if exact:
                    np.testing.assert_array_equal(a, b, f"{target}, {sizes}\n{module.text()}")
                else:
                    np.testing.assert_allclose(a, b, 2e-5, 2e-5, err_msg=f"{target}, {sizes}\n{module.text()}")
    return sum(any(not remark.factor or remark.cause == "scalar" for remark in kernel.remarks) for kernel in kernels)


@pytest.mark.parametrize("target", TARGETS)
def test_random_graphs(target: str) -> None:
    first = TARGETS.index(target) * SEEDS
    modules = [tcpx.parse(Graph(seed).text()) for seed in range(first, first + SEEDS)]
    assert compare(modules, target, 1 + TARGETS.index(target) % 2) <= MOST_LEFT * SEEDS


LAYER = """\
func @layer(%x: tensor<[M]x[N]xf32>, %w: tensor<[N]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  %s = tcp.softmax(%mm) {dim = 1} : tensor<[M]x[N]xf32>
  %r = tcp.add(%s, %x) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""
OWN = """\
language 1
import "default.tcps" as usual
schedule own(root: func) {
  let mm = match one matmul in root
  tile(mm, [m: 3, n: 7])
  usual.rest(root)
}
"""


def test_the_rest_of_what_a_schedule_does() -> None:
    module = tcpx.parse(LAYER)
    source = tcpx.emit(module, tcpx.parse_schedule(OWN), target="x86_avx512")
    assert all(remark.message.startswith("%mm:") for remark in source.remarks if not remark.factor)
    assert "/* mm/m1 (" in source.c_source
    assert "_mm512_sll" in source.c_source  # exp, in vectors
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 37), (37, 37)))
    found = np.asarray(tcpx.compile(module, tcpx.parse_schedule(OWN))(x, w), np.float32)
    np.testing.assert_allclose(found, np.asarray(tcpx.evaluate(module, x, w), np.float32), 2e-5, 2e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_chains_that_people_write(target: str) -> None:
    left = compare([tcpx.parse(text) for text in CHAINS], target, 2 - TARGETS.index(target) % 2, exact=False)
    assert left == (target == "generic"), "of an argmax: no two f32 beside two places of 64 bits are computed at once"


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("threads", [1, 2])
def test_many_random_graphs(target: str, threads: int) -> None:
    left = 0
    for first in range(1000, 1000 + MANY_SEEDS, 20):
        left += compare([tcpx.parse(Graph(s).text()) for s in range(first, first + 20)], target, threads)
    assert left <= MOST_LEFT * MANY_SEEDS


@pytest.mark.parametrize("threads", [1, 2])
def test_large_results_are_written_past_the_caches(threads: int) -> None:
    """Rows whose length is no multiple of a cache line begin anywhere in one."""
    target = tcpx.load_target("x86_avx2")
    shape = f"{target.l3 // 4000 + 1}x1003"
    wide, head = f"tensor<{shape}xf32>", f"(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{\n"
    chain = f"func @chain{head}  %a = tcp.mul(%x, 1.5) : {wide}\n  %r = tcp.abs(%a) : {wide}\n  tcp.return(%r)\n}}\n"
    rows = f"func @rows{head}  %r = tcp.softmax(%x) {{dim = 1}} : {wide}\n  tcp.return(%r)\n}}\n"
    symbolic = chain.replace(shape, "[M]x[N]").replace("@chain", "@any").replace(" {\n", " symbols [M, N] {\n", 1)
    requests = [tcpx.CompileRequest(tcpx.parse(text)) for text in (chain, rows, symbolic)]
    made = tcpx.compile_many(requests, target=target, threads=threads)
    for kernel in made:
        assert "_stream_ps(" in kernel.c_source
    x = np.random.default_rng(3).standard_normal([int(n) for n in shape.split("x")], dtype=np.float32)
    np.testing.assert_array_equal(made[0](x), np.abs(x * np.float32(1.5)))
    for part in (x, x[:3], x[:0]):
        np.testing.assert_array_equal(made[2](part), np.abs(part * np.float32(1.5)))
    powers = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(np.asarray(made[1](x), np.float32), powers / powers.sum(1, keepdims=True), rtol=2e-6)


ONE_NORM = """\
func @f(%x: tensor<SHAPExf32>, %g: tensor<6xf32>) -> tensor<SHAPExf32> {
  %n = tcp.layer_norm(%x) {dims = DIMS} : tensor<SHAPExf32>
  %m = tcp.mul(%n, broadcast(%g, [CHANNEL])) : tensor<SHAPExf32>
  %s = tcp.sigmoid(%m) : tensor<SHAPExf32>
  %y = tcp.mul(%m, %s) : tensor<SHAPExf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize("batch", [(), (1,), (2,)], ids=str)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("places", [(45,), (3, 5, 3)], ids=str)
def test_a_norm_of_each_channel_and_its_activation_are_one_nest(
    batch: tuple[int, ...], channels_last: bool, places: tuple[int, ...]
) -> None:
    """Images of any rank, with or without a batch, which may be one."""
    shape = (*batch, *places, 6) if channels_last else (*batch, 6, *places)
    channel = len(shape) - 1 if channels_last else len(batch)
    dims = [d for d in range(len(batch), len(shape)) if d != channel]
    text = ONE_NORM.replace("SHAPE", "x".join(map(str, shape))).replace("DIMS", str(dims))
    module = tcpx.parse(text.replace("CHANNEL", str(channel)))
    kernel = tcpx.compile(module, target="generic")
    assert len(re.findall(r"^  /\* .*tcps:\d+\) \*/$", kernel.c_source or "", re.MULTILINE)) == 1
    random = np.random.default_rng(0)
    x, g = random.standard_normal(shape, np.float32), np.arange(6, dtype=np.float32)
    wanted = np.asarray(tcpx.evaluate(module, x, g), np.float32)
    np.testing.assert_allclose(np.asarray(kernel(x, g), np.float32), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch", ["2", "[N]"])
def test_a_norm_of_an_image_and_what_follows_are_one_nest(batch: str) -> None:
    """Exporters reshape images to rows, norm these, and reshape them back."""
    whole, rows = f"tensor<{batch}x6x5x9xf32>", f"tensor<{batch}x6x45xf32>"
    text = f"""func @f(%x: {whole}, %a: tensor<6xf32>) -> {whole}{" symbols [N]" if batch == "[N]" else ""} {{
  %r = tcp.reshape(%x) : {rows}
  %n = tcp.layer_norm(%r) {{dims = [2]}} : {rows}
  %s = tcp.reshape(%n) : {whole}
  %m = tcp.mul(%s, broadcast(%a, [1])) : {whole}
  %y = tcp.relu(%m) : {whole}
  tcp.return(%y)
}}
"""
    kernel = tcpx.compile(tcpx.parse(text), target="generic")
    assert len(re.findall(r"^  /\* .*tcps:\d+\) \*/$", kernel.c_source or "", re.MULTILINE)) == 1
    random = np.random.default_rng(0)
    x, a = random.standard_normal((2, 6, 5, 9), np.float32), np.arange(6, dtype=np.float32)
    x[0, 3, 2, 1] = np.inf
    with np.errstate(invalid="ignore"):
        centred = x - x.mean((2, 3), keepdims=True)
        wanted = centred / np.sqrt((centred**2).mean((2, 3), keepdims=True) + 1e-5) * a[:, None, None]
    np.testing.assert_allclose(np.asarray(kernel(x, a), np.float32), np.maximum(wanted, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_columns_are_read_in_the_order_in_which_they_lie(threads: int) -> None:
    """Sums of a few rows at a time, for more columns than the block that the first level cache holds."""
    requests: list[tcpx.CompileRequest] = []
    for shape, kept, symbols in (("19x3x6211", "3x6211", ""), ("[M]x[K]x[N]", "[K]x[N]", " symbols [M: 1.., K, N]")):
        wide, short = f"tensor<{shape}xf32>", f"tensor<{kept}xf32>"
        text = f"""func @columns(%x: {wide}) -> ({short}, {short}, tensor<{kept}xsi64>){symbols} {{
  %s = tcp.reduce_sum(%x) {{dims = [0]}} : {short}
  %v = tcp.reduce_variance(%x) {{dims = [0]}} : {short}
  %m, %i = tcp.reduce_argmax(%x) {{dims = [0]}} : {short}, tensor<{kept}xsi64>
  tcp.return(%s, %v, %i)
}}
"""
        requests.append(tcpx.CompileRequest(tcpx.parse(text), name=f"columns_{len(requests)}"))
    static, symbolic = tcpx.compile_many(requests, threads=threads)
    random = np.random.default_rng(4)
    for kernel, shape in (
        (static, (19, 3, 6211)),
        (symbolic, (19, 3, 6211)),
        (symbolic, (5, 1, 7)),
        (symbolic, (1, 2, 3073)),
    ):
        x = random.integers(-9, 9, shape).astype(np.float32)
        total, variance, largest = kernel(x)
        np.testing.assert_array_equal(total, x.sum(0))
        np.testing.assert_allclose(np.asarray(variance, np.float32), x.astype(np.float64).var(0), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(largest, x.argmax(0))


@pytest.mark.parametrize(("parts", "masked"), [((64, 64, 64), False), ((48, 48), False), ((100, 60, 40), True)])
def test_rows_joined_from_arrays_of_one_length_are_read_where_they_lie(parts: tuple[int, ...], masked: bool) -> None:
    given = ", ".join(f"%a{k}: tensor<5x{n}xf32>" for k, n in enumerate(parts))
    wide = f"tensor<5x{sum(parts)}xf32>"
    text = f"""func @joined({given}, %y: {wide}) -> {wide} {{
  %c = tcp.concat({", ".join(f"%a{k}" for k in range(len(parts)))}) {{dim = 1}} : {wide}
  %p = tcp.mul(%c, 2.0) : {wide}
  %r = tcp.add(%p, %y) : {wide}
  tcp.return(%r)
}}
"""
    target = tcpx.load_target("x86_avx512")
    require_cpu_of(target)
    kernel = tcpx.compile(tcpx.parse(text), target=target)
    assert ("_mask_blend_ps" in kernel.c_source) is masked
    random = np.random.default_rng(6)
    arrays = [random.integers(-9, 9, (5, n)).astype(np.float32) for n in (*parts, sum(parts))]
    np.testing.assert_array_equal(kernel(*arrays), np.concatenate(arrays[:-1], 1) * 2 + arrays[-1])


SHORT_LAST = {
    "four": ("1048576x4", "0, 1"),
    "one": ("1048576x1x1", "0, 1, 2"),
    "one that is kept": ("1048576x1", "0"),
    "names": ("1048576x4", '0, 1], dim_names = ["row", "column"'),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", SHORT_LAST)
def test_all_elements_in_lanes_whatever_the_last_dim_is(name: str, threads: int) -> None:
    """Integers whose sums are exact in four lanes or more; in one accumulator they are beyond 2**24, and rounded."""
    shape, dims = SHORT_LAST[name]
    kept = "1xf32" if name == "one that is kept" else "f32"
    module = tcpx.parse(
        f"func @f(%x: tensor<{shape}xf32>) -> (tensor<{kept}>, tensor<{kept}>) {{\n"
        f"  %s = tcp.reduce_sum(%x) {{dims = [{dims}]}} : tensor<{kept}>\n"
        f"  %v = tcp.reduce_variance(%x) {{dims = [{dims}]}} : tensor<{kept}>\n"
        "  tcp.return(%s, %v)\n}\n"
    )
    kernel = tcpx.compile(module, threads=threads)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    extents = [int(n) for n in shape.split("x")]
    count = prod(extents)
    odd = 2**25 // count + 1
    total, variance = kernel(np.full(extents, odd, np.float32))
    assert (np.asarray(total).item(), np.asarray(variance).item()) == (odd * count, 0)
    signs = np.where(np.arange(count) // 64 % 2, 1, -1).reshape(extents)
    _, variance = kernel((odd - 1 + signs * isqrt(odd)).astype(np.float32))
    assert np.asarray(variance).item() == isqrt(odd) ** 2
