"""Random graphs around windows, as text: convolutions, pools and what stands between them in models."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from random import Random

Shape = tuple[int, ...]
MOST_WRITTEN = 4096
"""The most elements of a constant that is written in the text."""
SUM = """({ (%e0: f32, %e1: f32, %acc: f32):
    %v = tcp.multiply_add(%e0, %e1, %acc) : f32
    tcp.yield(%v)
  })"""

BETWEEN = {
    "elementwise": "  %r = tcp.relu(%y) : tensor<32x7x7xf32>\n",
    "two operands": "  %r = tcp.add(%y, %y) : tensor<32x7x7xf32>\n",
    "reverse": "  %r = tcp.reverse(%y) {dims = [1]} : tensor<32x7x7xf32>\n",
    "concat and slice": """  %c = tcp.concat(%y, %y) {dim = 0} : tensor<64x7x7xf32>
  %r = tcp.slice(%c) {offsets = [16, 0, 0]} : tensor<32x7x7xf32>
""",
    "subset": """  %c = tcp.concat(%y, %y) {dim = 0} : tensor<64x7x7xf32>
  %r = gml_st.materialize(%c) tile [16, 0, 0] [32, 7, 7] : tensor<32x7x7xf32>
""",
    "reshape": """  %c = tcp.reshape(%y) : tensor<1x32x49xf32>
  %e = tcp.relu(%c) : tensor<1x32x49xf32>
  %r = tcp.reshape(%e) : tensor<32x7x7xf32>
""",
    "transposes of the payload": """  %c = tcp.transpose(%y) {permutation = [1, 2, 0]} : tensor<7x7x32xf32>
  %e = tcp.relu(%c) : tensor<7x7x32xf32>
  %r = tcp.transpose(%e) {permutation = [2, 0, 1]} : tensor<32x7x7xf32>
""",
    "softmax": "  %r = tcp.softmax(%y) {dim = 0} : tensor<32x7x7xf32>\n",
    "norm": "  %r = tcp.layer_norm(%y) {dims = [0, 1, 2], epsilon = 1.0} : tensor<32x7x7xf32>\n",
    "norm of groups": "  %r = tcp.layer_norm(%y) {dims = [0, 1, 2], parts = [4, 1, 1]} : tensor<32x7x7xf32>\n",
    "mean": """  %c = tcp.reduce_mean(%y) {dims = [1, 2]} : tensor<32xf32>
  %e = tcp.broadcast(%c) {dims = [0]} : tensor<32x7x7xf32>
  %r = tcp.sub(%y, %e) : tensor<32x7x7xf32>
""",
    "loop": """  %r = gml_st.for %t in 0 to 2 step 1 (%d = %y) {
    %e = tcp.relu(%d) : tensor<32x7x7xf32>
    gml_st.yield(%e, %d) full
  } : tensor<32x7x7xf32>
""",
    "loop of parts": """  %r = gml_st.for %t in 0 to 7 step 1 (%d = %y) {
    %e = gml_st.materialize(%d) tile [0, %t, 0] [32, 1, 7] drop [1] : tensor<32x7xf32>
    %g = tcp.relu(%e) : tensor<32x7xf32>
    gml_st.yield(%g, %d) tile [0, %t, 0] [32, 1, 7] drop [1]
  } : tensor<32x7x7xf32>
""",
    "branch": """  %s = tcp.reduce_sum(%y) {dims = [0, 1, 2]} : tensor<f32>
  %o = tcp.fill {value = 0.0} : tensor<f32>
  %l = tcp.less(%o, %s) : tensor<i1>
  %i = gml_st.materialize(%l) point [] : i1
  %r = gml_st.if %i {
    %e = tcp.relu(%y) : tensor<32x7x7xf32>
    tcp.yield(%e)
  } else {
    %e2 = tcp.neg(%y) : tensor<32x7x7xf32>
    tcp.yield(%e2)
  } : tensor<32x7x7xf32>
""",
    "group": """  %r = tcp.group ({
    %e = tcp.relu(%y) : tensor<32x7x7xf32>
    tcp.yield(%e)
  }) : tensor<32x7x7xf32>
""",
    "call": "  %r = tcp.call @g(%y) : tensor<32x7x7xf32>\n",
}
"""By what stands between: `%r`, computed of `%y`."""
CALLED = """
func @g(%x: tensor<32x7x7xf32>) -> tensor<32x7x7xf32> {
  %r = tcp.relu(%x) : tensor<32x7x7xf32>
  tcp.return(%r)
}
"""


def iterators(parallel: str, reduced: str = "", extent: str = "") -> str:
    """`[["n", "parallel"], ..]`; `extent` of the reduced dims, where no operand has it."""
    found = [f'["{name}", "parallel"]' for name in parallel.split()]
    found += [f'["{name}", "reduction"{extent}]' for name in reduced.split()]
    return f"[{', '.join(found)}]"


def type_of(shape: Shape) -> str:
    """`tensor<1x4x6x6xf32>`."""
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


@dataclass
class Graph:
    """The statements of a function, and its values of batch, channels, height and width."""

    random: Random
    lines: list[str] = field(default_factory=list[str])
    args: list[tuple[str, Shape]] = field(default_factory=list[tuple[str, Shape]])
    values: dict[str, Shape] = field(default_factory=dict[str, Shape])
    functions: list[str] = field(default_factory=list[str])
    count: int = 0

    def name(self) -> str:
        """A name that is free."""
        self.count += 1
        return f"v{self.count}"

    def arg(self, shape: Shape) -> str:
        """A new argument."""
        name = f"a{len(self.args)}"
        self.args.append((name, shape))
        return name

    def weight(self, shape: Shape) -> str:
        """A weight: an argument, or a constant that is short enough for the text."""
        count = prod(shape)
        if self.random.random() < 0.3 or count > MOST_WRITTEN:
            return self.arg(shape)
        name = self.name()
        numbers = ", ".join(f"{self.random.randint(-2, 2)}.0" for _ in range(count))
        self.lines.append(f"%{name}.flat = tcp.const {{value = [{numbers}]}} : {type_of((count,))}")
        self.lines.append(f"%{name} = tcp.reshape(%{name}.flat) : {type_of(shape)}")
        return name

    def put(self, text: str, shape: Shape) -> str:
        """A statement, and its result."""
        name = self.name()
        self.lines.append(f"%{name} = {text} : {type_of(shape)}")
        return name

    def padded(self, x: str, by: int) -> tuple[str, Shape]:
        """A value with a border."""
        n, c, h, w = self.values[x]
        if by == 0:
            return x, self.values[x]
        shape = (n, c, h + 2 * by, w + 2 * by)
        return self.put(f"tcp.pad(%{x}) {{value = 0.0, low = [0, 0, {by}, {by}]}}", shape), shape

    def convolution(self, x: str) -> None:
        """A dense one."""
        k, step, f = self.random.choice([1, 3]), self.random.choice([1, 1, 2]), self.random.choice([3, 8, 16])
        p, (n, c, *places) = self.padded(x, k // 2)
        o0, o1 = ((s - k) // step + 1 for s in places)
        read = [f"k{i} + {step}*o{i}" if step > 1 else f"k{i} + o{i}" for i in (0, 1)]
        its = iterators("n f o0 o1", "c k0 k1")
        maps = f"[[n, c, {read[0]}, {read[1]}], [f, c, k0, k1], [n, f, o0, o1]]"
        w = self.weight((f, c, k, k))
        text = f'tcp.generic(%{p}, %{w}) {{iterators = {its}, maps = {maps}, combiner = "tcp.add"}} {SUM}'
        made = self.put(text, (n, f, o0, o1))
        self.values[made] = (n, f, o0, o1)

    def groups(self, x: str) -> None:
        """A grouped or depthwise one, of operands with a dim for the groups."""
        p, (n, c, h, w) = self.padded(x, 1)
        g = self.random.choice([g for g in (1, 2, 4, c) if c % g == 0])
        own = c // g
        wide = self.put(f"tcp.reshape(%{p})", (n, g, own, h, w))
        f = self.random.choice([1, 2])
        its = iterators("n g f o0 o1", "c k0 k1")
        maps = "[[n, g, c, k0 + o0, k1 + o1], [g, f, c, k0, k1], [n, g, f, o0, o1]]"
        weight = self.weight((g, f, own, 3, 3))
        text = f'tcp.generic(%{wide}, %{weight}) {{iterators = {its}, maps = {maps}, combiner = "tcp.add"}} {SUM}'
        made = self.put(text, (n, g, f, h - 2, w - 2))
        shape = (n, g * f, h - 2, w - 2)
        self.values[self.put(f"tcp.reshape(%{made})", shape)] = shape

    def pool(self, x: str) -> None:
        """The greatest of each window of two by two."""
        n, c, h, w = self.values[x]
        shape = (n, c, h // 2, w // 2)
        maps = "[[n, c, k0 + 2*o0, k1 + 2*o1], [n, c, o0, o1]]"
        its = iterators("n c o0 o1", "k0 k1", ", 2")
        made = self.put(
            f'tcp.generic(%{x}) {{iterators = {its}, maps = {maps}, combiner = "tcp.max"}}'
            " ({ (%e0: f32, %acc: f32):\n    %v = tcp.max(%acc, %e0) : f32\n    tcp.yield(%v)\n  })",
            shape,
        )
        self.values[made] = shape

    def elementwise(self, x: str) -> None:
        """Of one value, or of two of one shape."""
        shape = self.values[x]
        same = [v for v, other in self.values.items() if other == shape]
        text = self.random.choice([f"tcp.relu(%{x})", f"tcp.add(%{x}, %{self.random.choice(same)})", f"tcp.neg(%{x})"])
        self.values[self.put(text, shape)] = shape

    def bias(self, x: str) -> None:
        """A number of each channel."""
        shape = self.values[x]
        b = self.put(f"tcp.broadcast(%{self.weight(shape[1:2])}) {{dims = [1]}}", shape)
        self.values[self.put(f"tcp.add(%{x}, %{b})", shape)] = shape

    def view(self, x: str) -> None:
        """A concat, a slice, a reverse, a subset, or the same under another shape and back."""
        n, c, h, w = shape = self.values[x]
        match self.random.randrange(5):
            case 0:
                others = [v for v, s in self.values.items() if (s[0], *s[2:]) == (n, h, w) and s[1] + c <= 32] or [x]
                y = self.random.choice(others)
                wide = (n, c + self.values[y][1], h, w)
                self.values[self.put(f"tcp.concat(%{x}, %{y}) {{dim = 1}}", wide)] = wide
            case 1:
                cut = (n, max(1, c // 2), h, w)
                text = f"tcp.slice(%{x}) {{offsets = [0, {c - cut[1]}, 0, 0]}}"
                self.values[self.put(text, cut)] = cut
            case 2:
                self.values[self.put(f"tcp.reverse(%{x}) {{dims = [2]}}", shape)] = shape
            case 3:
                part = (n, c, max(1, h - 1), w)
                text = f"gml_st.materialize(%{x}) tile [0, 0, {h - part[2]}, 0] [{n}, {c}, {part[2]}, {w}]"
                self.values[self.put(text, part)] = part
            case _:
                flat = self.put(f"tcp.reshape(%{x})", (n, c, h * w))
                self.values[self.put(f"tcp.reshape(%{flat})", shape)] = shape

    def scaled(self, x: str) -> None:
        """Each channel times its sum; or a norm along channels, or along all but the batch."""
        shape = self.values[x]
        match self.random.randrange(3):
            case 0:
                total = self.put(f"tcp.reduce_max(%{x}) {{dims = [2, 3]}}", shape[:2])
                wide = self.put(f"tcp.broadcast(%{total}) {{dims = [0, 1]}}", shape)
                self.values[self.put(f"tcp.sub(%{x}, %{wide})", shape)] = shape
            case 1:
                self.values[self.put(f"tcp.softmax(%{x}) {{dim = 1}}", shape)] = shape
            case _:
                self.values[self.put(f"tcp.layer_norm(%{x}) {{dims = [1, 2, 3], epsilon = 1.0}}", shape)] = shape

    def resized(self, x: str) -> None:
        """The nearest neighbours of twice as many places."""
        n, c, h, w = self.values[x]
        shape = (n, c, min(2 * h, 12), w)
        index = self.name()
        places = ", ".join(str(k * h // shape[2]) for k in range(shape[2]))
        self.lines.append(f"%{index} = tcp.const {{value = [{places}]}} : tensor<{shape[2]}xsi64>")
        text = (
            f"tcp.generic(%{x}, %{index}) {{iterators = {iterators('n c h w')},"
            ' maps = [[n, c, in1, w], [h], [n, c, h, w]], out_of_range = "clamp"}'
            " ({ (%e0: f32, %e1: si64):\n    tcp.yield(%e0)\n  })"
        )
        self.values[self.put(text, shape)] = shape

    def turned(self, x: str) -> None:
        """Channels last, something of it, and back."""
        n, c, h, w = shape = self.values[x]
        last = self.put(f"tcp.transpose(%{x}) {{permutation = [0, 2, 3, 1]}}", (n, h, w, c))
        done = self.put(f"tcp.relu(%{last})", (n, h, w, c))
        self.values[self.put(f"tcp.transpose(%{done}) {{permutation = [0, 3, 1, 2]}}", shape)] = shape

    def branch(self, x: str) -> None:
        """One of two functions of a value."""
        shape = self.values[x]
        type_ = type_of(shape)
        number, holds = self.put(f"tcp.reduce_sum(%{x}) {{dims = [0, 1, 2, 3]}}", ()), self.name()
        self.lines[-1] = self.lines[-1].replace("tensor<xf32>", "tensor<f32>")
        self.lines.append(f"%{holds}.zero = tcp.fill {{value = 0.0}} : tensor<f32>")
        self.lines.append(f"%{holds}.any = tcp.less(%{holds}.zero, %{number}) : tensor<i1>")
        self.lines.append(f"%{holds} = gml_st.materialize(%{holds}.any) point [] : i1")
        a, b = self.name(), self.name()
        self.values[
            self.put(
                f"gml_st.if %{holds} {{\n    %{a} = tcp.relu(%{x}) : {type_}\n    tcp.yield(%{a})\n  }} else {{\n"
                f"    %{b} = tcp.neg(%{x}) : {type_}\n    tcp.yield(%{b})\n  }}",
                shape,
            )
        ] = shape

    def loop(self, x: str) -> None:
        """A value that a loop changes as a whole."""
        shape = self.values[x]
        var, dest, body = self.name(), self.name(), self.name()
        text = (
            f"gml_st.for %{var} in 0 to 2 step 1 (%{dest} = %{x}) {{\n"
            f"    %{body} = tcp.relu(%{dest}) : {type_of(shape)}\n    gml_st.yield(%{body}, %{dest}) full\n  }}"
        )
        self.values[self.put(text, shape)] = shape

    def call(self, x: str) -> None:
        """What a function makes of a value: one that is called before, where it takes that shape."""
        shape = self.values[x]
        type_ = type_of(shape)
        known = [k for k, text in enumerate(self.functions) if f"(%x: {type_})" in text]
        name = f"g{self.random.choice(known) if known else len(self.functions)}"
        if not known:
            inner = self.random.choice(["tcp.relu(%x)", "tcp.neg(%x)", "tcp.reverse(%x) {dims = [2]}"])
            self.functions.append(
                f"func @{name}(%x: {type_}) -> {type_} {{\n  %r = {inner} : {type_}\n  tcp.return(%r)\n}}\n"
            )
        self.values[self.put(f"tcp.call @{name}(%{x})", shape)] = shape

    def text(self) -> str:
        """The payload: the last value and another one are returned."""
        names = [*self.values]
        results = list(dict.fromkeys([names[-1], self.random.choice(names[1:])]))
        types = ", ".join(type_of(self.values[v]) for v in results)
        args = ", ".join(f"%{a}: {type_of(shape)}" for a, shape in self.args)
        body = "\n".join(f"  {line}" for line in [*self.lines, f"tcp.return({', '.join(f'%{v}' for v in results)})"])
        return f"func @f({args}) -> ({types}) {{\n{body}\n}}\n" + "".join(self.functions)


def random_graph(seed: int, calls: int = 1) -> str:
    """A payload of 4 to 14 parts, of which the first is a convolution; the more `calls`, the likelier is each."""
    random = Random(seed)
    graph = Graph(random)
    shape = (random.choice([1, 2]), random.choice([1, 3, 4, 8]), random.choice([5, 6, 8]), 6)
    graph.values[graph.arg(shape)] = shape
    graph.convolution("a0")
    kinds = [
        *[graph.convolution] * 4, graph.groups, graph.pool, *[graph.elementwise] * 3, graph.bias, *[graph.view] * 3,
        graph.scaled, graph.resized, graph.turned, graph.branch, graph.loop, *[graph.call] * calls,
    ]  # fmt: skip
    for _ in range(random.randint(3, 13)):
        usable = [v for v, s in graph.values.items() if min(s[2:]) >= 2 and s[1] <= 32]
        random.choice(kinds)(random.choice(usable[-3:]))
    return graph.text()
